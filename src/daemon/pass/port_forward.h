/*
 * port_forward.h - sends a request on to a server inside a sandbox: HTTP as it is, streams, WebSockets and any upgrade.
 *
 * The app gets the client's request with these changes only:
 *   - target and Host are those that the caller gives;
 *   - Authorization is removed if it holds the daemon's token; cookies of the console (atoll_*, also behind __Host- and
 *     __Secure-) and X-Atoll-* are removed; all other credentials pass;
 *   - X-Forwarded-For, -Proto, -Host and Forwarded name the client and its scheme. The client's own values, and all
 *     other X-Forwarded-* and X-Real-IP, are removed unless the peer is a trusted proxy. Then X-Forwarded-For is
 *     continued and the other headers pass;
 *   - hop-by-hop headers as in http/proxy.h.
 * The client gets the app's response with these changes only:
 *   - cookies with a name of the console are removed;
 *   - Domain is removed from all other cookies, so that a cookie stays with its preview;
 *   - X-Atoll-* is removed: by X-Atoll-Error a client of the API tells the daemon's errors from an app's.
 *
 * A sleeping sandbox (r->match.id) is woken. 127.0.0.1 is tried first, then ::1 if the first refuses; the address that
 * answered is remembered. The request counts as activity of the sandbox while it lasts.
 *
 * This module answers, counts and logs the request, except where a callback answers. Thread: the loop's.
 */
#pragma once

#include "daemon/pass/port_heads.h"
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
	/* Exactly once, as the last callback, whatever happened: for counters. r->x is NULL by then. */
	void (*on_done)(struct daemon_request *r, const struct port_forward_result *result);
	void *arg;		  /* for the callbacks: port_forward_arg(r) */
	struct port_heads *heads; /* filled, if not NULL; lives until on_done */
};

/* Call it from a handler, with the request's body untouched. Texts in the options are copied. */
void port_forward(struct daemon_request *r, uint16_t port, const struct port_forward_opts *o);
void *port_forward_arg(const struct daemon_request *r);
/* While the exchange is the proxy's, else NULL. */
struct http_proxy *port_forward_proxy(const struct daemon_request *r);
/* Cuts off a client that has lost access, also in the middle of a response; on_done follows. */
void port_forward_abort(struct daemon_request *r);

/* For request.c. All three are safe when the request was not forwarded. */
struct port_forward;
/* The exchange has closed while the request waited for its sandbox or for a socket. */
void port_forward_cancel(struct daemon_request *r);
/* The request has ended and nothing is under way for it: fills in the result and calls on_done. */
void port_forward_finish(struct daemon_request *r);
void port_forward_free(struct port_forward *f);
