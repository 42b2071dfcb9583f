/*
 * call.h - a client call, the connection it uses, and the pool behind. Internal to src/http.
 *
 * A link is a connection to an endpoint. It belongs to one call, or to the pool of idle links, never to both. A call
 * has a link from its start to its end, and gets another link at most once (client.h explains repeating).
 *
 * As on the server's side, the functions for callers only change state and kick. call_step runs after each event until
 * there is nothing left to do, and calls back. Each event, and each run of chunks out of `in`, is a unit of work that
 * needs the consent of base/turn.h: what a server sends cannot keep the loop.
 */
#pragma once

#include "base/map.h"
#include "base/turn.h"
#include "http/client/client.h"
#include "http/parse/chunk.h"
#include "http/parse/head.h"
#include "http/wire.h"

struct http_client {
	struct loop *loop;
	struct list calls;
	struct map pools; /* dialer and address bytes -> struct pool */
	uint64_t heard;	  /* when bytes last came */
	struct loop_task free_task;
};

/* Of one endpoint; exists while it has links. */
struct pool {
	struct list idle;    /* least recently used first */
	struct list waiting; /* links whose call has had no byte of an answer, longest first */
	size_t idle_n, links;
	struct http_endpoint ep;
};

struct link {
	struct wire w;
	struct http_client *cl;
	struct http_call *call; /* NULL while idle */
	struct pool *pool;	/* NULL: not to be kept */
	struct list node;	/* of pool->idle or pool->waiting, or of none */
	uint64_t since;		/* waiting */
	struct http_endpoint ep;
	bool connecting;
	bool reused;
	bool input_waits; /* epoll reported input that is not wanted now */
	struct loop_timer timer;
	uint64_t idle_due;
	struct loop_task free_task;
};

/* How the bytes that come next are to be read. */
enum reply_state { REPLY_HEAD, REPLY_LENGTH, REPLY_CHUNKED, REPLY_UNTIL_CLOSE, REPLY_RAW, REPLY_DONE };

/* How much of the response is there. Only grows. */
enum answer_state {
	ANSWER_NONE,   /* not a byte */
	ANSWER_BEGUN,  /* some byte: the request is not sent again */
	ANSWER_HEADED, /* the head of the final response */
	ANSWER_ENDED,  /* the last byte, but the caller does not know yet */
	ANSWER_TOLD,   /* the caller knows */
};

/* How much of the request the caller has given. */
enum request_state {
	REQUEST_OPEN,
	REQUEST_ENDED, /* all of it */
	REQUEST_SHUT,  /* raw: our side is shut down */
};

struct http_call {
	struct http_client *cl;
	struct list node;
	struct loop_task task, free_task;
	const struct http_call_ops *ops;
	void *arg;
	struct http_endpoint ep;
	struct link *link;
	struct turn_seat seat;		/* its io is the link's */
	struct turn_party own, *joined; /* joined: a reference, or NULL */
	struct turn_chunks chunks;
	struct http_failure fail; /* fail.fail != NONE: to be ended with it */

	struct buf head; /* the request's, kept until nothing can make us repeat it */
	struct str method;
	int64_t body_length, body_left;
	enum request_state request;
	bool upgrade, to_head; /* what was asked for; neither changes */
	bool repeated;	       /* it was sent again on a fresh connection */
	bool sent_told;	       /* on_sent was called */
	uint64_t sent_before;  /* link->w.sent when this call took it */
	uint64_t sent_seen;    /* of the link's bytes, when the time for the head last began */

	enum answer_state answer;
	enum reply_state reply;
	struct head_scan scan;
	struct head_mem mem;
	struct chunk chunk;
	struct buf trailers;
	int64_t reply_left;
	struct http_response response;
	struct buf in;
	int infos;
	bool paused;
	bool eof; /* read to the end */

	uint32_t connect_ms, head_ms, stall_ms;
	struct loop_timer timer;
	uint64_t due; /* 0: not running */
};

/* link.c */
/* Takes an idle link that has nothing to say (unless a fresh one is wanted), or makes a new one that connects. NULL:
 * *fail is set. */
struct link *link_get(struct http_client *cl, const struct http_endpoint *ep, bool fresh, struct http_failure *fail);
struct link *link_adopt(struct http_client *cl, int fd);
/* Tries to connect; true when there is nothing more to wait for (connected, or *fail is set). */
bool link_connect(struct link *k, struct http_failure *fail);
/* A call begins on it; the first byte of its answer has come. */
void link_waits(struct link *k, struct http_call *c);
static inline void link_answers(struct link *k)
{
	list_del(&k->node);
}
/* The call is over: back into the pool, or closed. */
void link_release(struct link *k, bool reusable);
void link_free_idle(struct http_client *cl);

/* call.c */
void call_step(struct http_call *c);
void call_on_ready(struct link *k, uint32_t events);
bool call_wants_input(const struct http_call *c);
void call_due_in(struct http_call *c, uint32_t ms);
int call_fail(struct http_call *c, enum http_fail fail, const char *what);
bool call_connected(const struct http_call *c);
/* Ends the call now: tells the caller and lets go of everything. */
void call_close(struct http_call *c);

/* call_state.c: the moves of a call, each checked and followed by a check of the invariants. */
void call_answer(struct http_call *c, enum answer_state to);
void call_request(struct http_call *c, enum request_state to);

static inline bool call_has_head(const struct http_call *c)
{
	return c->answer >= ANSWER_HEADED;
}

static inline bool call_request_ended(const struct http_call *c)
{
	return c->request >= REQUEST_ENDED;
}

/* call_feed.c: consumes from `in`; returns how many bytes were used. */
size_t call_feed(struct http_call *c, struct str in);
void call_eof(struct http_call *c);
void call_reply_end(struct http_call *c);

/* call_head.c: renders the request's head into c->head. */
int call_render(struct http_call *c, const struct http_call_options *o, struct err *e);

int failure_set(struct http_failure *f, enum http_fail fail, const char *what);
