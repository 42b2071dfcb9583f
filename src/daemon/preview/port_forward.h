/*
 * port_forward.h - sends a request on to a server inside a sandbox: HTTP as it is, streams, WebSockets and any upgrade.
 *
 * What the app gets is the client's request with these changes only:
 *   - the target and Host that the caller says;
 *   - Authorization goes if it holds the daemon's token, and so do cookies of the console (atoll_*, also behind __Host-
 *     and __Secure-) and X-Atoll-*; everybody else's pass;
 *   - X-Forwarded-For, -Proto, -Host and Forwarded say who asked and how; what the client said in their place, and
 *     X-Forwarded-*, X-Real-IP of any kind, goes unless the peer is a trusted proxy (then For is continued, the rest
 *     kept);
 *   - hop-by-hop headers as in http/proxy.h.
 * The client gets the app's response as it is, but for cookies named like the console's, which are not set, the Domain
 * of all others, which is taken out so that a cookie stays with its preview, and X-Atoll-*: by X-Atoll-Error a client
 * of the API tells our errors from an app's.
 *
 * The sandbox (r->match.id) is woken when it sleeps. 127.0.0.1 is tried first, ::1 when that is
 * refused; which one answered is remembered. The request counts as activity of the sandbox while it lasts.
 *
 * The request is answered, counted and logged here, but for what the callbacks answer. Thread: the loop's.
 */
#pragma once

#include "daemon/route/request.h"

struct port_forward_result {
	int status;		      /* of the answer; 0: the client left before there was one */
	bool complete;		      /* all of it went out */
	bool answered;		      /* by the app, and not by us in its place */
	uint64_t us;		      /* from the request's head to the end of the answer */
	uint64_t bytes_in, bytes_out; /* of the bodies; of a tunnel, all of it */
};

struct port_forward_opts {
	struct str target; /* path and query, begins with '/'; default: the request's own */
	struct str host;   /* default: the request's own */
	const char *proto; /* how the client came: "http" or "https" */
	bool trusted_peer; /* the connection comes from a configured proxy */
	bool create;	   /* makes a sandbox that does not exist, starts a stopped one; else on_gone's */
	/* Each must answer r (request_error, or http_respond* on r->x and request_answered) before it returns. NULL:
	 * the API's error envelope. */
	void (*on_gone)(struct daemon_request *r, const struct err *e);	  /* no such sandbox, or destroyed meanwhile */
	void (*on_silent)(struct daemon_request *r, const struct err *e); /* nothing listens on the port */
	void (*on_failed)(struct daemon_request *r, const struct err *e); /* no acceptable answer: 502, 503, 504 */
	/* Exactly once, last, whatever happened: for counters. The request is about to be freed, r->x is NULL. */
	void (*on_done)(struct daemon_request *r, const struct port_forward_result *result);
	void *arg; /* for the callbacks: port_forward_arg(r) */
};

/* Call it from a handler, with the request's body untouched. Texts in the options are copied. */
void port_forward(struct daemon_request *r, uint16_t port, const struct port_forward_opts *o);
void *port_forward_arg(const struct daemon_request *r);
/* Cuts off a client that may not be there any more, in the middle of whatever it gets; on_done follows. */
void port_forward_abort(struct daemon_request *r);

/* For request.c: the exchange has closed while it waited; the request is freed. */
void port_forward_cancel(struct daemon_request *r);
void port_forward_free(struct daemon_request *r);
