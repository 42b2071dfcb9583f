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
#include "daemon/network/follow.h"
#include "daemon/op/op.h"
#include "daemon/route/paths.h"
#include "store/limits.h"

struct daemon_request {
	struct daemon *daemon;
	struct http_exchange *x; /* NULL once it has closed */
	struct api_match match;
	const struct route_method *method; /* of match.row; NULL before it is known */
	struct str body;		   /* of BODY_WHOLE and BODY_SECRET, while the handler runs */
	struct caller caller;
	struct list of_token; /* daemon.token_requests */
	enum http_method http_method;
	bool recorded; /* an operation writes the record of it (op/audit.h) */
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
	void *extra;		    /* of the handler; freed with the request */
	struct operation *op;	    /* under way; its on_done gets the request */
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
/* Answers with the sandbox as JSON; `info` is its live usage, or NULL. */
void daemon_request_view(struct daemon_request *r, int status, const struct sandbox *s, const struct box_info *info);

/* What an operation gets that the request asks for; the operation writes the record. on_done begins with
 * daemon_request_done(arg), which is the request; it does not come when the client has gone. */
struct op_call daemon_request_call(struct daemon_request *r, op_on_done on_done);
struct daemon_request *daemon_request_done(void *arg);
/* Writes the record of a request that has no operation with one (audit_api.c). */
void daemon_request_record(struct daemon_request *r, int status);

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
/* ?follow=1, and what an event stream needs to know of the request. */
bool daemon_request_follows(struct daemon_request *r);
struct follow daemon_request_follow(struct daemon_request *r);
/* The server's on_request; arg: the daemon. */
void daemon_request_begin(struct http_exchange *x, void *arg);
