/*
 * request.h - one request on its way through the daemon: the exchange, its route, when it began.
 *
 * Made when the head is there, owned by itself: it is freed when its exchange has closed and no question of its own is
 * under way any more (`held`). Handlers answer through request_* so that every request is counted and logged once.
 */
#pragma once

#include "daemon/route/paths.h"
#include "daemon/sandbox/sandbox.h"

/* What a client asks of a port to be exposed. */
struct port_wish {
	char token[PORT_TOKEN_MAX + 1]; /* "": any */
	char name[PORT_NAME_MAX + 1];	/* "": none */
};

struct request {
	struct daemon *daemon;
	struct http_exchange *x; /* NULL once it has closed */
	struct api_match match;
	bool trusted; /* came by the unix socket, or with the right token */
	uint64_t start_us;
	int status; /* of the answer, 0 before */
	unsigned held;
	bool tried; /* it was sent to a box that had just ended */

	struct waiter waiter;
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
void request_hold(struct request *r);
void request_release(struct request *r);
/* Counts, logs. Called by the functions below, and by forward.c for answers that came from an agent. */
void request_answered(struct request *r, int status);

void request_json(struct request *r, int status, struct str body);
void request_error(struct request *r, const struct err *e);
/* With {"validationErrors":[…]} when a field is to blame. */
void request_error_field(struct request *r, const struct err *e, const char *field);

/* The sandbox of r->sandbox. */
void request_view(struct request *r, int status, const struct box_info *info); /* get.c */

/* on_close of every set of ops that a handler puts on the exchange (with the request as its arg). */
void request_closed(struct http_exchange *x, bool complete);
/* The proxy has given the exchange back. */
void request_retake(struct request *r);

/* A WebSocket that a box will answer. */
bool request_is_socket(const struct request *r); /* forward.c */
bool request_is_relayed(
	const struct request *r); /* on /proxy/, with the token where it leaves Authorization to the app */

/* ---- the handlers, one file each ---- */

void handle_health(struct request *r);	/* info.c */
void handle_root(struct request *r);	/* info.c */
void handle_openapi(struct request *r); /* info.c */
void handle_metrics(struct request *r); /* info.c */
void handle_list(struct request *r);	/* list.c */
void handle_get(struct request *r);	/* get.c */
void handle_put(struct request *r);	/* put.c */
void handle_delete(struct request *r);	/* get.c */
void handle_agent(struct request *r);	/* forward.c */
void handle_network(struct request *r); /* network_api.c */
void handle_network_log(struct request *r);
void request_network_view(struct request *r, const struct sandbox *s);
/* Writes, makes and answers what r->change asks of a sandbox that is there. */
void request_change(struct request *r, struct sandbox *s); /* sandbox_put.c */
void handle_ports(struct request *r);			   /* ports_api.c */
void handle_port(struct request *r);
void handle_port_validate(struct request *r);
void handle_port_requests(struct request *r);
void handle_proxy(struct request *r); /* proxy.c */

/* The server's on_request; arg: the daemon. */
void request_begin(struct http_exchange *x, void *arg);
