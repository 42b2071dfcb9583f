/*
 * route.h - the table of the agent's routes, and the request that a handler gets.
 *
 * Each API area has one file that exports its handlers; routes.c has them all, and every fact of a route in its row. A
 * pattern is a path whose segments are compared byte by byte; one segment may be {id}, which matches any non-empty one.
 * 404 and 405 (with Allow) come from the table. HEAD is answered like GET.
 *
 * The body is read before the handler runs, in the way that the route says; a handler gets it parsed. A handler answers
 * at once (reply.h), or takes the exchange over with http_exchange_set and answers later. The request and all that it
 * points to live until the handler returns.
 */
#pragma once

#include "agent/limits.h"
#include "base/json.h"
#include "http/server/server.h"

enum route_body {
	ROUTE_NO_BODY, /* a body is thrown away */
	ROUTE_JSON,    /* one JSON object, at most AGENT_BODY_MAX */
	ROUTE_LENIENT, /* the same, but a missing or bad one reads as {} (upstream's session/create) */
	ROUTE_STREAM,  /* the handler reads it itself: called when the head is there */
};

struct agent_request;
struct rpc_method;
typedef void (*route_handler)(struct agent_request *r);

/* How a request waits for a FUSE server (aside.h). */
struct route_aside {
	/* The path of the request that may wait, on the heap; NULL: none, or it is in a body that has not been read. A
	 * route without this function never waits. */
	char *(*waits)(const struct agent_request *r, const char *fields);
	const char *fields; /* members of the body that name files, divided by blanks */
	uint32_t wait;	    /* ms until the client gets an error; 0: ASIDE_WAIT */
	/* Not 0: the member timeoutMs, at most so much, takes the place of `wait`; the error comes ASIDE_WAIT later. */
	uint32_t own_max;
	bool lasts; /* counts among ASIDE_WATCHES */
};

struct route {
	const char *method;
	const char *pattern;
	enum route_body body;
	route_handler handle;
	const char *operation; /* goes into error envelopes; NULL: none */
	const char *fields;    /* members that a JSON body may have, divided by blanks; NULL: they are not checked */
	struct route_aside aside;
	const struct rpc_method *rpc; /* the methods that call it (rpc/rpc.h), up to one without a name; NULL: none */
};

struct agent_request {
	struct http_exchange *x;
	const struct route *route;
	const struct json *body; /* an object; NULL with ROUTE_NO_BODY and ROUTE_STREAM */
	struct str id;		 /* decoded {id} segment */
};

extern const struct route routes[];
extern const size_t routes_n;

/* The server's http_on_request. */
void route_request(struct http_exchange *x, void *arg);

/* ---- what handlers share ---- */

/* The session that a request names: member "sessionId", else (alone, as upstream) bearer token, X-Session-Id, ?session=
 * or ?sessionId=, else "default". In a box the Authorization header is the daemon's business and never read. */
int agent_request_session(const struct agent_request *r, struct buf *mem, struct str *ret, struct err *e);
bool session_is_disabled(struct str id); /* "__DISABLE_SESSION__" */

/* A query parameter, decoded into mem; STR_NULL when missing or malformed. */
struct str agent_request_query(const struct agent_request *r, struct str name, struct buf *mem);

/* Error answer with the route's operation. `context` is a complete JSON object or empty. */
void agent_request_fail(const struct agent_request *r, const struct err *e, struct str context);
/* The same about a path, with upstream's context {path, operation}. `extra` is more JSON members or NULL. */
void agent_request_fail_file(const struct agent_request *r, const struct err *e, const char *path, const char *extra);
/* The same with one string in the context: {"sessionId": …}. */
void agent_request_fail_about(const struct agent_request *r, const struct err *e, const char *key, struct str value);
/* VALIDATION_FAILED with context.validationErrors [{field, message, code}]. */
void agent_request_invalid(const struct agent_request *r, const char *field, const char *message);
/* The same with a code of its own for the mistake. */
void agent_request_invalid_code(
	const struct agent_request *r, const char *field, const char *message, const char *code);
/* Error answer for a request that could not be read: VALIDATION_FAILED about a field lists it in validationErrors. */
void agent_request_refuse(const struct agent_request *r, const struct err *e);
/* 200 with a JSON text. */
void agent_request_json(const struct agent_request *r, struct str json);

/* ,"timestamp":"2026-…" */
void json_member_now(struct json_writer *w);
