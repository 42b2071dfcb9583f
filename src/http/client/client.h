/*
 * client.h - HTTP/1.1 client: calls to AF_UNIX or TCP endpoints over pooled connections.
 *
 * A call is one request and its response. It is made by http_call_start and lives until its on_close has returned:
 * on_close comes exactly once, last, and never from inside a function of this header. Order:
 *
 *	on_sent? → on_info* → on_head → on_body* → on_body_end → on_close(c, NULL)
 *
 * or, at any point, on_close with the failure. Responses are hostile: heads and chunk framing are checked as
 * strictly as requests (docs/design/001-http.md), and end the call with HTTP_FAIL_PROTOCOL. A body that ends early is
 * HTTP_FAIL_CLOSED, never on_body_end.
 *
 * Connections are kept alive, at most HTTP_POOL_IDLE_MAX idle ones per endpoint for HTTP_POOL_IDLE_TIMEOUT. When a
 * reused connection turns out dead before the first byte of the response, the call is sent once more on a fresh one,
 * but only if no byte of it had been taken by the kernel, or if its method is idempotent and it has no body: a request
 * that may have been processed is never repeated.
 *
 * Backpressure as in server.h: http_call_write answers false above HTTP_OUT_HIGH and on_writable says when to go on;
 * http_call_pause stops on_body and with it the reading. Time limits are per call. Thread: the loop's.
 */
#pragma once

#include <netinet/in.h>
#include <sys/un.h>

#include "base/loop.h"
#include "http/http.h"
#include "http/layer.h"
#include "http/limits.h"

struct http_client;
struct http_call;
struct turn_party;

/*
 * A source of sockets in another network than the caller's. take() returns a fresh stream socket of that family,
 * unconnected, non-blocking and with TCP_NODELAY, or -errno (-EAGAIN: none now; the call then fails as
 * HTTP_FAIL_CONNECT with that errno, untouched). Endpoints through different dialers are different endpoints. A dialer
 * must outlive its calls; call http_client_forget_dialer before it is freed.
 */
struct http_dialer {
	int (*take)(struct http_dialer *d, int family);
	/* NULL, or makes the layer of a socket that take() gave: one whose handshake is done. NULL from it: none. */
	struct http_layer *(*layer)(struct http_dialer *d, int fd);
	bool connected;	 /* what take() returns is connected already */
	size_t idle_max; /* kept-alive connections to one endpoint */
	uint32_t idle_ms;
};

struct http_endpoint {
	struct http_dialer *dialer; /* or NULL; stands before the address: both together tell endpoints apart */
	union {
		struct sockaddr sa;
		struct sockaddr_un un;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
	};
	socklen_t len;
	/* For whom calls to it work (base/turn.h), which must outlive their start; NULL: each call is a party itself.
	 * Not part of the key. */
	struct turn_party *party;
};

int http_endpoint_unix(struct http_endpoint *ret, struct str path, struct err *e);
/* Numeric "127.0.0.1:8700" or "[::1]:8700"; "localhost:8700" stands for 127.0.0.1. */
int http_endpoint_tcp(struct http_endpoint *ret, struct str address, struct err *e);

/* Why a call ended. */
enum http_fail {
	HTTP_FAIL_NONE,
	HTTP_FAIL_CONNECT,  /* connect was refused or timed out: nothing was sent */
	HTTP_FAIL_CLOSED,   /* the connection broke, before or in the response */
	HTTP_FAIL_TIMEOUT,  /* no head, or no byte of the body, in time */
	HTTP_FAIL_PROTOCOL, /* the response is not acceptable */
	HTTP_FAIL_CANCELLED,
};

struct http_failure {
	enum http_fail fail;
	bool maybe_processed; /* some byte of the request had left: it is not safe to send a POST again */
	bool untouched;	      /* from proxy.h: the exchange is paused and nothing of its body was read */
	struct err err;	      /* CONTAINER_UNAVAILABLE, BAD_GATEWAY or GATEWAY_TIMEOUT, and a sentence */
};

struct http_call_ops {
	void (*on_sent)(struct http_call *c); /* connected and the head handed to the kernel: body may flow */
	void (*on_info)(
		struct http_call *c, const struct http_response *r); /* 1xx other than 101; r for the call only */
	void (*on_head)(struct http_call *c, const struct http_response *r); /* r lives until on_close */
	void (*on_body)(struct http_call *c, struct str chunk);
	void (*on_body_end)(struct http_call *c);
	void (*on_writable)(struct http_call *c);
	void (*on_close)(struct http_call *c, const struct http_failure *failure); /* NULL: complete */
};

struct http_call_options {
	struct str method; /* default GET */
	struct str target; /* path and query, percent-encoded; for a proxy a whole URL; default "/" */
	struct str host;   /* Host header; default "localhost" */
	const struct http_header *headers;
	size_t headers_n;
	int64_t content_length; /* of the body that will be written; 0: none, HTTP_CALL_CHUNKED: unknown */
	bool upgrade;		/* sends Connection: upgrade; the headers hold Upgrade */
	bool te_trailers;	/* sends TE: trailers, and says that it is for the next hop */
	bool fresh;		/* do not take a pooled connection */
	bool wipe;		/* the head holds secrets: its memory is overwritten when it is given back */
	uint32_t connect_ms;	/* 0: HTTP_CONNECT_TIMEOUT */
	uint32_t head_ms;	/* last byte that was sent to response head complete; 0: no limit */
	uint32_t stall_ms;	/* no byte of the response's body while we want it; 0: no limit */
};
enum { HTTP_CALL_CHUNKED = -1 };

struct http_client *http_client_new(struct loop *l);
/* Ends what runs (each call gets its on_close) and frees. Not from inside a callback. */
void http_client_free(struct http_client *cl);
/* Closes the idle connections to an endpoint that is going away. */
void http_client_forget(struct http_client *cl, const struct http_endpoint *ep);
/* … and to all endpoints through this dialer. */
void http_client_forget_dialer(struct http_client *cl, const struct http_dialer *d);

/* When bytes of an answer last came, in the loop's time; 0: never. */
uint64_t http_client_heard(const struct http_client *cl);
/* Ends all calls with HTTP_FAIL_TIMEOUT and this sentence, from the loop: the peer is known to answer nothing. */
void http_client_give_up(struct http_client *cl, const char *why);

/* Never NULL: every failure, also a header that cannot be sent (HTTP_FAIL_PROTOCOL), comes through on_close. What the
 * options point to is copied. */
struct http_call *http_call_start(struct http_client *cl, const struct http_endpoint *ep,
	const struct http_call_options *o, const struct http_call_ops *ops, void *arg);
/* For a connection that is already there (owned by the call from now on, never pooled). */
struct http_call *http_call_start_fd(
	struct http_client *cl, int fd, const struct http_call_options *o, const struct http_call_ops *ops, void *arg);

/* Sets the window of its connection (base/tcp_mem.h). Returns the socket, or -1 while there is none. */
int http_call_window(struct http_call *c, uint32_t window);
void *http_call_arg(const struct http_call *c);
const struct http_response *http_call_response(const struct http_call *c); /* NULL before on_head */

/* The request's body, at any time after start. All of content_length must come before end. */
bool http_call_write(struct http_call *c, struct str bytes);
void http_call_end(struct http_call *c);
/* With trailers behind a chunked body: complete lines, checked by the caller. */
void http_call_end_with(struct http_call *c, struct str trailers);
/* Those of the response, from on_body_end on: checked lines, each with its CRLF. */
struct str http_call_trailers(const struct http_call *c);
size_t http_call_pending(const struct http_call *c);

void http_call_pause(struct http_call *c);
void http_call_resume(struct http_call *c);

/* Closes the connection. on_close(HTTP_FAIL_CANCELLED) follows from the loop, and no other callback. */
void http_call_cancel(struct http_call *c);

/* After a 101 the call is a raw two-way stream: on_body gets raw bytes, on_body_end says that the peer has shut down
 * its side, http_call_write sends raw bytes, http_call_end shuts down ours; on_close comes when both have ended. */
bool http_call_is_raw(const struct http_call *c);

/* ---- whole calls, for small questions ---- */

struct http_reply {
	int status;
	struct http_headers headers;
	struct str body;
};
/* r is NULL on failure. */
typedef void (*http_on_reply)(void *arg, const struct http_reply *r, const struct http_failure *failure);
struct http_question {
	struct http_call_options options;
	struct str body; /* may be empty */
	size_t max;	 /* bytes of the answer; more is HTTP_FAIL_PROTOCOL */
	http_on_reply on_reply;
	void *arg;
};
/* Sends the question, gathers the answer, and calls back once from the loop unless cancelled with http_call_cancel. */
struct http_call *http_call_whole(
	struct http_client *cl, const struct http_endpoint *ep, const struct http_question *q);
