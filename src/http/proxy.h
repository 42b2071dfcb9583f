/*
 * proxy.h - joins a server exchange to a client call: bytes stream both ways in bounded memory.
 *
 * The request goes on with its method, its rewritten target, its end-to-end headers and its body; the response comes
 * back the same way. Removed on both sides: Connection and what it names, Keep-Alive, Proxy-*, TE (but for
 * "trailers"), Transfer-Encoding, Upgrade (but for upgrades). Trailers pass, but for fields that may not stand there.
 * Expect: 100-continue goes end to end. HEAD and 1xx are right. An upgrade that the other side accepts with 101 becomes
 * a raw tunnel with half-close and backpressure in both directions; one that it declines is an ordinary response.
 *
 * Memory: at most HTTP_OUT_HIGH and one read of HTTP_READ_CHUNK wait in each direction, whichever side stalls.
 *
 * Client gone → the call is cancelled. Upstream breaks before its head → on_fail answers (default: the failure's own
 * error envelope); breaks inside the body → the client's connection is aborted, never ended cleanly. on_done comes
 * exactly once, last. Thread: the loop's.
 */
#pragma once

#include "http/client/client.h"
#include "http/limits.h"
#include "http/server/server.h"

struct http_proxy;

/* For each header about to be passed on. Return false to drop it; *value may be replaced by bytes that live until the
 * proxy call returns. */
typedef bool (*http_proxy_filter)(void *arg, struct str name, struct str *value);

/* For each text of the response that reaches the client outside of its body: names and values of headers and trailers,
 * the reason. Return false to leave it out, with its header; *text may be replaced by bytes that live until the next
 * call. */
typedef bool (*http_proxy_clean)(void *arg, struct str *text, bool name);

/* For each piece of the request's body: appends what goes on in its place. A piece with p == NULL says that the body
 * has ended. Return false to cut the exchange off. */
typedef bool (*http_proxy_body)(void *arg, struct str piece, struct buf *out);

/* Bytes of the bodies, as they flow; of a tunnel, all of them. */
struct http_proxy_counts {
	uint64_t in, out; /* from the client, to the client */
};

struct http_proxy_options {
	struct str target;	       /* default: the exchange's own */
	struct str host;	       /* default: the exchange's own */
	const struct http_header *add; /* to the request, after filtering */
	size_t add_n;
	http_proxy_filter filter_request; /* NULL: pass all */
	http_proxy_filter filter_response;
	http_proxy_clean clean_response; /* after filter_response; NULL: nothing is looked at */
	http_proxy_body filter_body;	 /* NULL: the body passes as it is */
	int64_t body_length;		 /* with filter_body: what comes out of it */
	struct str body;		 /* p != NULL: the whole body, which was collected; lives until the end */
	bool wipe;			 /* the head holds secrets (client.h) */
	uint32_t connect_ms, head_ms, stall_ms; /* as in client.h */
	/* Upstream failed before its head: must answer the exchange. The proxy has let go of it already. When
	 * failure->untouched it may also be proxied again, now or later. */
	void (*on_fail)(void *arg, struct http_exchange *x, const struct http_failure *failure);
	/* The end; `complete` as in on_close. `status` of the response that went out, 0 when none did. Not called
	 * after on_fail. */
	void (*on_done)(void *arg, int status, bool complete);
	/* Bytes of a body or a tunnel move; they are passed on whatever it does. NULL: nobody wants to know. */
	void (*on_bytes)(void *arg);
	void *arg;
	struct http_proxy_counts *counts; /* or NULL; must live until on_done or on_fail */
};

/* Takes over the exchange (its ops are replaced). The request's body must not have been touched: call it from
 * on_request, or later with the exchange paused since then. Options are copied, spans in them too. What it returns is
 * good until on_done or on_fail, neither of which comes from inside. */
struct http_proxy *http_proxy(struct http_exchange *x, struct http_client *cl, const struct http_endpoint *ep,
	const struct http_proxy_options *o);
/* The same through a connection that is already there; owns it. */
struct http_proxy *http_proxy_fd(
	struct http_exchange *x, struct http_client *cl, int fd, const struct http_proxy_options *o);
/* The exchange while it is the proxy's, else NULL. */
struct http_exchange *http_proxy_client(const struct http_proxy *p);
/* Sets the window of the connection to the server. Returns its socket, or -1 while there is none. */
int http_proxy_window(const struct http_proxy *p, uint32_t window);
/* Cuts the client off, as http_abort: on_done follows. */
void http_proxy_abort(struct http_proxy *p);
