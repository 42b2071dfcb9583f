/*
 * request.h - one request in the daemon: the exchange, its route, when it began.
 *
 * It is made when the head is complete, and owns itself: it is freed when its exchange has closed and none of its
 * questions is under way (`held`). Handlers answer through daemon_request_*, so every request is counted and logged
 * once.
 */
#pragma once

#include "daemon/admit/caller.h"
#include "daemon/core/sandbox.h"
#include "daemon/network/approvals.h"
#include "daemon/network/gate_client.h"
#include "daemon/route/paths.h"
#include "store/limits.h"

/* The token and name that a client wants for an exposed port. */
struct port_wish {
	char token[PORT_TOKEN_MAX + 1]; /* "": any */
	char name[PORT_NAME_MAX + 1];	/* "": none */
};

struct tunnel_wish;
struct bucket_mount;

struct daemon_request {
	struct daemon *daemon;
	struct http_exchange *x; /* NULL once it has closed */
	struct api_match match;
	const struct route_method *method; /* of match.row; NULL before it is known */
	struct str body;		   /* of BODY_WHOLE and BODY_SECRET, while the handler runs */
	struct caller caller;
	struct list of_token; /* daemon.token_requests */
	const char *changes;  /* op/audit.h: the method; NULL: it changes nothing */
	uint64_t start_us;
	int status; /* of the answer, 0 before */
	unsigned held;
	bool tried; /* it was sent to a box that had just ended */

	struct sandbox_waiter waiter;
	struct loop_timer timer;
	struct sandbox *sandbox;      /* referenced while set */
	struct port_forward *forward; /* on its way to an app in a box (port_forward.h) */
	struct docker_wait *docker_wait;
	struct docker_exec *docker_exec;
	struct archive_run *docker_archive;
	struct buf docker_body;	    /* of POST /exec/{id}/start, while it comes */
	struct bridge_call *bridge; /* a request of the bridge (bridge/bridge.h) */
	struct api_change change;
	struct api_spec before, after;	  /* PUT on an existing sandbox */
	struct port_wish *wish;		  /* POST …/ports/{port} */
	struct tunnel_wish *tunnel;	  /* POST …/tunnels */
	struct bucket_mount *mount;	  /* …/mounts */
	struct approval_answer *approval; /* POST /v1/approvals/{id} */
	struct gate_ack ack;		  /* of the gate, for a policy or an answer */
	unsigned tries;
	struct {
		struct sandbox **v; /* referenced */
		size_t n, at;
		bool more, comma;
	} list;
};

/* Keeps the object while a question is under way, or a waiter queued. */
void daemon_request_hold(struct daemon_request *r);
void daemon_request_release(struct daemon_request *r);
/* Counts, logs. Called by the functions below, and by agent_forward.c for the answers of agents. */
void daemon_request_answered(struct daemon_request *r, int status);

void daemon_request_json(struct daemon_request *r, int status, struct str body);
/* 204. */
void daemon_request_empty(struct daemon_request *r);
/* With {"validationErrors":[…]} when the error is about a field. */
void daemon_request_error(struct daemon_request *r, const struct err *e);
/* With a context of the caller's: a complete JSON object or empty. */
void daemon_request_error_with(struct daemon_request *r, const struct err *e, struct str context);

/* The warden is not running: the request has been answered. */
bool daemon_request_warden_is_away(struct daemon_request *r);
/* The sandbox that the path names. NULL: there is none, and the request has been answered. */
struct sandbox *daemon_request_find(struct daemon_request *r);
/* Answers with r->sandbox as JSON; `info` is its live usage, or NULL. */
void daemon_request_view(struct daemon_request *r, int status, const struct box_info *info); /* sandbox_get.c */

/* on_close of every set of ops that a handler puts on the exchange (with the request as its arg). */
void daemon_request_closed(struct http_exchange *x, bool complete);
/* The proxy has given the exchange back. */
void daemon_request_retake(struct daemon_request *r);

/* A WebSocket that a box will answer. */
bool daemon_request_is_socket(const struct daemon_request *r); /* agent_forward.c */
/* A request on /proxy/ whose token is in X-Atoll-Token: Authorization then belongs to the app. */
bool daemon_request_is_relayed(const struct daemon_request *r);

/* Revokes the tokens whose time is over, now and later. */
void tokens_api_watch(struct daemon *d);
void daemon_request_network(struct daemon_request *r, const struct sandbox *s);
/* ?follow=1, and what an event stream needs to know of the request. */
bool daemon_request_follows(struct daemon_request *r);
struct follow daemon_request_follow(struct daemon_request *r);
/* The rule of the sandbox that the answer asks for is kept, or could not be. */
void daemon_request_approved(struct daemon_request *r);
void daemon_request_not_approved(struct daemon_request *r);
/* Writes, makes and answers the change r->change of an existing sandbox. */
void daemon_request_change(struct daemon_request *r, struct sandbox *s); /* sandbox_put.c */
/* The snapshot of the sandbox with this id or name. NULL: there is none, and the request has been answered. */
struct snapshot *daemon_request_snapshot(struct daemon_request *r, struct str text);
/* Makes r->mount in the box of r->sandbox, whose settings have it, and answers. */
void daemon_request_mount(struct daemon_request *r);
/* Makes the sandbox of the path from r->change.from, and answers. */
void daemon_request_make_from(struct daemon_request *r); /* fork_api.c */

/* The server's on_request; arg: the daemon. */
void daemon_request_begin(struct http_exchange *x, void *arg);
