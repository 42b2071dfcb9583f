/*
 * rpc.h - GET /rpc: the operations of the agent as methods of an object, as `@cloudflare/sandbox` speaks them with
 * `transport: 'rpc'` (docs/design/019-rpc.md). src/capnweb knows the protocol; this room knows the methods.
 *
 *	api_rpc.c	the socket and the session on it
 *	methods.c	finds a method in the table of routes; how its arguments become a request
 *	rpc_call.c	a call: the request to the agent's own server, plain answers, errors
 *	rpc_stream.c	answers that are streams, and streams among the arguments
 *	rpc_code.c	runCodeStream, which calls the client back
 *	rpc_tunnels.c	the tunnels domain, which atolld serves
 *	rpc_shape.c	answers that differ from those over HTTP
 *
 * A call is one HTTP call to the agent's own server (request/local.h). It belongs to its session's list and is freed in
 * its on_close. The session is freed when socket, protocol and the last call are gone. Thread: the loop's.
 */
#pragma once

#include "agent/request/route.h"
#include "base/list.h"
#include "base/loop.h"
#include "capnweb/capnweb.h"
#include "http/client/client.h"
#include "http/sse.h"
#include "http/ws/ws.h"

struct rpc {
	struct list node;	 /* of all sessions, while the socket is there */
	struct ws *ws;		 /* NULL: closed */
	struct capnweb *session; /* NULL: over */
	struct list calls;
	size_t n;
	size_t answers; /* bytes of answers that are being gathered */
	size_t bodies;	/* bytes of arguments that are on their way to their routes */
	bool full;	/* the client does not read */
	size_t exits;	/* ends of tunnels that it was told of and has not answered */
	struct loop_task end_task;
};

enum rpc_kind {
	RPC_JSON,   /* the answer of the route, gathered */
	RPC_STREAM, /* a stream of the bytes of the answer */
	RPC_FILE,   /* the same inside of an object that describes the file */
	RPC_UPLOAD, /* the body is a stream of the client */
	RPC_CODE,   /* events become callbacks */
};

/* A method in the row of its route (routes.c). {id} of the path is the first argument. Two routes may have a method of
 * one name: that of RPC_FILE takes the calls whose third argument asks for the encoding 'none'. */
struct rpc_method {
	const char *name; /* "commands.execute" */
	/* Members of the body: "0=command 1=sessionId 2=*", where * is all members of that argument. NULL: no body. */
	const char *body;
	enum rpc_kind kind;
	/* Writes the answer as an expression; NULL: as it is. */
	void (*shape)(struct buf *out, const struct json *answer);
	const char *query; /* {N} is the N-th argument; NULL: none */
};

struct rpc_code;

struct rpc_call {
	struct list node;
	struct rpc *rpc;
	const struct route *route;
	const struct rpc_method *method;
	struct capnweb_call *call; /* NULL: answered, or the session is over */
	struct http_call *http;
	int status;
	struct buf answer;
	size_t gathered; /* counts in rpc->answers */
	bool held;	 /* not read now: others come first, or the client does not read */
	size_t body;	 /* bytes that count in rpc->bodies */
	char *path;	 /* RPC_FILE: the path that was asked for */
	struct capnweb_stream *stream;
	struct capnweb_pipe *pipe;
	uint64_t piped; /* bytes of the pipe that were taken */
	bool started;	/* the pipe */
	bool failed;	/* `error` is why */
	struct err error;
	struct rpc_code *code;
};

/* methods.c */
/* Finds the method that takes the call, and its route; NULL: there is none. */
const struct rpc_method *rpc_method_find(
	const char *name, const struct capnweb_call *call, const struct route **ret_route);
bool rpc_has_object(void *arg, const char *path);
/* The target and the body of the request. -1: an argument is missing. */
int rpc_request(const struct rpc_call *c, struct buf *target, struct buf *body, struct err *e);

/* api_rpc.c */
/* Reads frames or not, as the socket and the bodies allow. */
void rpc_flow(struct rpc *r);
void rpc_free_if_done(struct rpc *r);
/* A tunnel has ended: {id, port, runId?, exitCode}. Every client is told. */
void rpc_tell_exit(const struct json *end);
/* The agent stops: sockets without a call are closed. */
void rpc_close_if_idle(struct rpc *r);

/* rpc_call.c */
void rpc_start(struct rpc *r, struct capnweb_call *call, const char *name);
/* Answers, unless that was done, and frees. */
void rpc_call_done(struct rpc_call *c);
/* `details` is an object as plain JSON, or empty. */
void rpc_reject_with(struct capnweb_call *call, struct str message, struct str code, struct str details);
/* Whether upstream's list of codes has not this one. tests/compat/test_client.py compares the answers with that list. */
bool rpc_is_own_code(struct str code);
void rpc_reject(struct capnweb_call *call, const struct err *e);
/* Which answers are read now. After rpc->full or rpc->answers has changed. */
void rpc_gather(struct rpc *r);
/* The session is over: the call has nobody to answer. */
void rpc_call_leave(struct rpc_call *c);

/* rpc_stream.c */
void rpc_stream_head(struct rpc_call *c, const struct http_response *r);
void rpc_stream_body(struct rpc_call *c, struct str chunk);
void rpc_stream_close(struct rpc_call *c, const struct http_failure *failure);
/* -1: the argument is no stream. */
int rpc_upload_start(struct rpc_call *c, struct err *e);
void rpc_upload_writable(struct rpc_call *c);
void rpc_upload_close(struct rpc_call *c);

/* rpc_code.c */
void rpc_code_start(struct rpc_call *c);
void rpc_code_body(struct rpc_call *c, struct str chunk);
/* True: the callbacks have all been answered. False: rpc_call_done will be called when they are. */
bool rpc_code_close(struct rpc_call *c);

/* rpc_tunnels.c */
/* False: no such method. */
bool rpc_tunnel_start(struct rpc *r, struct capnweb_call *call, const char *name);
void rpc_tunnels_leave(struct rpc *r);
/* Ends the stream of atolld: no client is left, or the agent stops. */
void rpc_tunnels_end(void);

/* rpc_shape.c */
void shape_ping(struct buf *out, const struct json *answer);
void shape_version(struct buf *out, const struct json *answer);
void shape_sessions(struct buf *out, const struct json *answer);
void shape_session(struct buf *out, const struct json *answer);
void shape_context(struct buf *out, const struct json *answer);
void shape_contexts(struct buf *out, const struct json *answer);
void shape_nothing(struct buf *out, const struct json *answer);
