/*
 * request.h - one request in the daemon: the exchange, its route, when it began.
 *
 * It is made when the head has arrived and has no owner: it is freed when its exchange has closed and nothing holds it
 * any more (`held`). Handlers answer through daemon_request_*, so that every request is counted and logged once.
 */
#pragma once

#include "daemon/route/paths.h"
#include "daemon/sandbox/sandbox.h"
#include "store/limits.h"

/* What a client asks of a port to be exposed. */
struct port_wish {
	char token[PORT_TOKEN_MAX + 1]; /* "": any */
	char name[PORT_NAME_MAX + 1];	/* "": none */
};

struct daemon_request {
	struct daemon *daemon;
	struct http_exchange *x; /* NULL once it has closed */
	struct api_match match;
	bool trusted; /* came by the unix socket, or with the right token */
	uint64_t start_us;
	int status; /* of the answer, 0 before */
	unsigned held;
	bool tried; /* it was sent to a box that had just ended */

	struct sandbox_waiter waiter;
	struct loop_timer timer;
	struct sandbox *sandbox;      /* referenced while set */
	struct port_forward *forward; /* on its way to an app in a box (port_forward.h) */
	struct api_change change;
	struct api_spec before, after; /* PUT on an existing sandbox */
	struct port_wish *wish;	       /* POST …/ports/{port} */
	struct {
		struct sandbox **v; /* referenced */
		size_t n, at;
		bool more, comma;
	} list;
};

/* Keeps the object while a question is under way, or a waiter queued. */
void daemon_request_hold(struct daemon_request *r);
void daemon_request_release(struct daemon_request *r);
/* Counts, logs. Called by the functions below, and by forward.c for answers that came from an agent. */
void daemon_request_answered(struct daemon_request *r, int status);

void daemon_request_json(struct daemon_request *r, int status, struct str body);
/* With {"validationErrors":[…]} when the error is about a field. */
void daemon_request_error(struct daemon_request *r, const struct err *e);
/* With a context of the caller's: a complete JSON object or empty. */
void daemon_request_error_with(struct daemon_request *r, const struct err *e, struct str context);

/* The sandbox of r->sandbox. */
void daemon_request_view(struct daemon_request *r, int status, const struct box_info *info); /* get.c */

/* on_close of every set of ops that a handler puts on the exchange (with the request as its arg). */
void daemon_request_closed(struct http_exchange *x, bool complete);
/* The proxy has given the exchange back. */
void daemon_request_retake(struct daemon_request *r);

/* A WebSocket that a box will answer. */
bool daemon_request_is_socket(const struct daemon_request *r); /* forward.c */
bool daemon_request_is_relayed(
	const struct daemon_request *r); /* on /proxy/, with the token where it leaves Authorization to the app */

/* ---- the handlers, one file each ---- */

void handle_health(struct daemon_request *r);  /* info.c */
void handle_root(struct daemon_request *r);    /* info.c */
void handle_openapi(struct daemon_request *r); /* info.c */
void handle_metrics(struct daemon_request *r); /* info.c */
void handle_list(struct daemon_request *r);    /* list.c */
void handle_get(struct daemon_request *r);     /* get.c */
void handle_put(struct daemon_request *r);     /* put.c */
void handle_delete(struct daemon_request *r);  /* get.c */
void handle_agent(struct daemon_request *r);   /* forward.c */
void handle_network(struct daemon_request *r); /* network_api.c */
void handle_network_log(struct daemon_request *r);
void daemon_request_network(struct daemon_request *r, const struct sandbox *s);
/* Writes, makes and answers the change r->change of an existing sandbox. */
void daemon_request_change(struct daemon_request *r, struct sandbox *s); /* sandbox_put.c */
void handle_ports(struct daemon_request *r);				 /* ports_api.c */
void handle_port(struct daemon_request *r);
void handle_port_validate(struct daemon_request *r);
void handle_port_requests(struct daemon_request *r);
void handle_proxy(struct daemon_request *r); /* proxy.c */

/* The server's on_request; arg: the daemon. */
void daemon_request_begin(struct http_exchange *x, void *arg);
