/*
 * web.h - HTTP of a box, request by request. Internal to web.c, intercept.c and rewrite.c.
 *
 *	web.c        one connection: decides each request, dials, proxies
 *	intercept.c  TLS that we terminate, and the TLS of our own to the server behind
 *	rewrite.c    the head with the values of secrets in the place of placeholders
 *
 * A web belongs to its passage; it outlives it only until the proxy has ended.
 */
#pragma once

#include "aws/aws_chunked.h"
#include "gate/gate.h"
#include "http/proxy.h"

struct rewrite;

struct web {
	struct http_dialer dialer; /* first: what take() gets */
	struct gate *gate;
	struct passage *conn;	/* NULL: gone; freed when the proxy has ended */
	int inner;		/* descriptor of the server's end: only a name, it is not ours */
	int ready;		/* connected, to be taken by the next call */
	int server;		/* the last one that was: the client's now, which may have closed it … */
	uint64_t server_cookie; /* … and given its number to another one */
	bool has_leg;
	bool fresh;		    /* nothing of the leg has passed yet */
	char leg[NET_NAME_MAX + 1]; /* the name that connections of the pool lead to */
	char why[GATE_WHY_MAX];	    /* the rule that allowed it */
	uint64_t sent;		    /* by the client, when the last request was done */
	struct http_endpoint ep;
	struct reach *reach;
	struct http_exchange *x; /* waits for the dial, or for an approval */
	struct ask_wait asking;
	struct http_proxy *proxy;
	bool lost;		       /* the last request got our own 502 or 504 */
	bool tried;		       /* a connection was dialled for this request */
	struct worker_ask *worker_ask; /* workerd is asked for the leg */
	bool allowed;		       /* … and the policy allows the request */

	bool tls;		     /* intercepted: TLS to the client and to the server */
	SSL *ready_ssl;		     /* of `ready` */
	struct tls_dial *shake;	     /* the handshake with the server */
	struct str body;	     /* collected, because it has to be hashed */
	struct aws_chunked *chunked; /* a body whose framing is taken off */
	uint64_t decoded;	     /* … and how long it is then */
	struct rewrite *rewrite;     /* while http_proxy() runs */
};

/* Secrets of the box, or NULL. */
const struct secrets *web_secrets(const struct web *w);
/* The connection to the server is there, or cannot be made: goes on with w->x. */
void web_reached(struct web *w, int fd);
void web_unreachable(struct web *w, const char *why, bool late);
void web_answer(struct http_exchange *x, int status, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* A request was allowed and goes to this host, which may be another one than before. */
void web_begin_leg(struct web *w, const char *name, const char *why);
/* A request is done. */
void web_done(struct web *w);
/* The policy does not allow w->x after all. */
void web_refuse(struct web *w, const char *why);
void web_release(struct web *w);

/* ---- web_decide.c ---- */
/* Writes the name in Host, or "". */
struct verdict web_decide(struct web *w, const struct http_request *rq, char name[NET_NAME_MAX + 1]);
/* A request without a Host name: in list mode only somebody can allow the address, otherwise no name that the box was
 * told for it may be denied. */
struct verdict web_decide_address(struct passage *c);

/* ---- handover.c: requests that an outbound handler answers ---- */
bool handover_wants(const struct web *w, const char *name);
void handover(struct web *w, struct http_exchange *x, const char *name);

/* ---- intercept.c ---- */
/* Makes the client's side: for http_server_set_layer, arg: the gate. */
struct http_layer *intercept_accept(void *arg, int fd);
/* Begins TLS with the server on `fd`, which it owns; web_reached or web_unreachable follow. */
void intercept_dial(struct web *w, int fd);
void intercept_forget(struct web *w);
/* The layer of a connection that web_reached was told of. */
struct http_layer *intercept_layer(struct http_dialer *d, int fd);

/* ---- rewrite.c ---- */
struct rewrite {
	const struct http_request *rq;
	struct secret_writer writer;
	struct secret *signs; /* with this key the request is signed */
	/* A signed header takes two: its name and its value; each value that is sent one more. */
	struct buf target, values[3 * HTTP_HEADERS_MAX + SECRETS_BOX_MAX + 8];
	size_t values_n;
	bool used[SECRETS_BOX_MAX]; /* what has gone into the head, in the order of writer.secrets */
	bool trial, ready;	    /* only tried; rewrite_begin has succeeded */
	bool full;		    /* a value, or the number of headers, is more than a head can hold */
	struct http_header add[SECRETS_BOX_MAX + 8];
	size_t add_n;
	char date[20], hash[72];
	bool unwrap; /* aws-chunked: the framing is taken off */
};

/* What a request needs before it can go on. */
enum rewrite_need {
	REWRITE_NONE,	  /* nothing: goes on as it is */
	REWRITE_HEAD,	  /* its head */
	REWRITE_COLLECT,  /* its whole body first */
	REWRITE_TOO_LONG, /* a body that cannot be collected */
	REWRITE_NO_LENGTH,
};
enum rewrite_need rewrite_need(struct web *w, const struct http_request *rq);
/* Fills the options. False: the head has no room for its secrets (`full`), or the request cannot be signed.
 * rewrite_end() follows when http_proxy has returned, and tells the daemon which secrets went out. */
bool rewrite_begin(struct web *w, const struct http_request *rq, struct rewrite *r, struct http_proxy_options *o);
void rewrite_end(const struct web *w, struct rewrite *r);
