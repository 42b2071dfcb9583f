/*
 * conn.h - a server connection and the exchange inside it. Internal to src/http.
 *
 * Theory of operation. Bytes come from the socket when epoll reports them, or from `in`, which keeps the bytes that a
 * pause or a running exchange could not use. conn_feed consumes them according to the state. The rest happens in
 * conn_step. It runs after each event, after each timer, and at the end of a turn in which a handler wrote, until there
 * is nothing left to do: it flushes, calls on_writable, finishes exchanges, feeds `in`, and last sets epoll events and
 * the timer. The functions that handlers call only change state and kick the wire: they never call a handler.
 *
 *	HEAD → OPEN → (HEAD | DRAIN → HEAD | CLOSING → LINGER) → DEAD
 *
 * Each event, and each request or run of chunks out of `in`, is a unit of work that needs the consent of base/turn.h: a
 * connection whose party has had its part of the turn waits in `seat`. Answers to requests that came together leave
 * together, when the connection's part of the turn ends.
 *
 * A deferred task frees the connection, so that code that still uses it in this turn may finish.
 */
#pragma once

#include "base/map.h"
#include "base/tcp_owner.h"
#include "base/turn.h"
#include "http/parse/chunk.h"
#include "http/parse/head.h"
#include "http/server/places.h"
#include "http/server/server.h"
#include "http/wire.h"

/* How every response begins. */
#define HTTP_PREFIX "HTTP/1.1 "

enum conn_state {
	CONN_HEAD,    /* waits for a head, or for the rest of one */
	CONN_OPEN,    /* the exchange lives */
	CONN_DRAIN,   /* the exchange is over; the rest of its body is read and dropped to keep the connection */
	CONN_CLOSING, /* output goes out, then our side is shut down */
	CONN_LINGER,  /* our side is shut down; input is dropped until the client has had time to read */
	CONN_DEAD,
};

enum body_mode { BODY_NONE, BODY_LENGTH, BODY_CHUNKED, BODY_RAW };
enum out_mode { OUT_NONE, OUT_LENGTH, OUT_CHUNKED, OUT_UNTIL_CLOSE, OUT_RAW };

/* How far the request's body is. */
enum input_state {
	INPUT_OPEN,  /* bytes are still to come */
	INPUT_ENDED, /* the last byte has been seen, but the handler does not know yet */
	INPUT_TOLD,  /* the handler knows; also when there is no body */
	INPUT_STATES,
};

/* http_collect: gathering the whole body for the handler. */
enum collect_state {
	COLLECT_OFF,
	COLLECT_ON,
	COLLECT_DUE, /* on_whole_body is to be called */
	COLLECT_TOLD,
	COLLECT_TOO_LARGE, /* to be refused with 413 */
	COLLECT_STATES,
};

/* How far the response is. */
enum respond_state {
	RESPOND_NOT,
	RESPOND_BEGUN,
	RESPOND_MORE, /* begun, and on_writable is due: http_respond_more */
	RESPOND_ENDED,
	RESPOND_SHUT, /* raw: our side is shut down */
	RESPOND_STATES,
};

/* What becomes of the connection after this exchange. Only grows. */
enum exchange_end { END_KEEP, END_CLOSE, END_ABORT };

struct http_exchange {
	struct http_request req;
	struct head_mem mem;
	const struct http_exchange_ops *ops;
	void *arg;

	enum body_mode body;
	struct chunk chunk;
	struct buf trailers; /* of the request */
	int64_t body_left;
	struct buf collected;
	size_t collect_max;
	enum input_state input;
	enum collect_state collect;
	bool paused;
	bool continue_due; /* the client waits for 100 Continue */

	enum out_mode out;
	int64_t out_left;
	struct buf headers; /* rendered lines added by the handler */
	struct buf extra;   /* a member for the JSON object that http_respond sends */
	enum respond_state respond;
	enum exchange_end end;
	int status;	   /* 0 until the response begins */
	struct str reason; /* NULL: the usual one */
	bool has_date;
	bool vouched; /* http_exchange_vouch was called */
	bool joined;  /* http_exchange_join was */
};

struct http_conn {
	struct wire w;
	struct http_server *s;
	struct list node, idle;
	struct list place, same_address; /* places.h */
	struct place_address *address;	 /* NULL: not counted */
	enum http_rank rank;
	struct turn_seat seat;
	struct turn_party own, *joined; /* joined: a reference, or NULL */
	struct turn_chunks chunks;
	struct tcp_conn memory; /* guests.c */
	uint32_t answers;	/* since somebody vouched for it */
	uint32_t waits;		/* how often it has waited without one */
	bool proxied;		/* comes from a trusted proxy */
	bool adopted;		/* joined for good */
	struct loop_task free_task;
	struct http_exchange x;
	struct buf in; /* bytes that could not be used yet */
	struct head_scan scan;
	enum conn_state state;
	int tag;
	bool tcp;
	bool lingers;	  /* in s->lingering */
	bool greeting;	  /* the layer's handshake is not done */
	bool eof;	  /* read to the end */
	bool half;	  /* the client has shut down its side (unread bytes may still be there) */
	bool input_waits; /* epoll reported input that is not wanted now */
	uint32_t drain_left;
	struct loop_timer timer;
	uint64_t in_due, out_due, probe_due; /* 0: not running */
	uint64_t sent_seen;
	uint32_t probe_gap;
	uint8_t prefix; /* bytes of "HTTP/1.1 " that have been sent ahead */
	uint8_t zeros;	/* leading zeros of the next chunk's size that have */
	char peer[46];	/* address as text, once somebody has asked */
};

struct http_server {
	struct loop *loop;
	http_on_request on_request;
	void *arg;
	struct http_server_config config;
	http_layer_open layer_open; /* NULL: none */
	void *layer_arg;
	int layer_tag;
	http_on_refusal on_refusal; /* NULL: the error envelope */
	void *refusal_arg;
	http_exempt exempt; /* of the public tag; may be NULL */
	void *exempt_arg;
	int public_tag;
	bool has_public;
	struct list listeners, conns;
	struct list idle[HTTP_RANKS];		   /* least recently used first */
	struct list strangers, lingering, senders; /* slowest first: places.h */
	size_t lingering_n;
	struct turn_party strangers_party;
	struct map addresses; /* → struct place_address */
	struct http_server_stats stats;
	struct loop_timer retry; /* listeners rest: no descriptors left */
	struct loop_timer grace;
	struct loop_task drained_task, free_task;
	void (*on_drained)(void *arg);
	void *drained_arg;
	bool draining, resting, freed;
};

/* Owns fd, also on failure. `joined` may be NULL. */
int conn_new(struct http_server *s, int fd, int tag, struct turn_party *joined, struct err *e);
/* Ends the connection at once; a living exchange gets on_close(false). */
void conn_gone(struct http_conn *c);
void conn_step(struct http_conn *c);
/* Answers with an error envelope, then closes lingering. A response that has begun is cut off instead. */
void conn_refuse(struct http_conn *c, const struct err *e);

/* conn_feed.c: consumes from `in`; returns how many bytes were used. */
size_t conn_feed(struct http_conn *c, struct str in);
bool conn_wants_body(const struct http_conn *c);
/* Ready for the next request. */
void conn_to_head(struct http_conn *c);
void conn_leave_idle(struct http_conn *c);
/* Tells the handler that the body has ended. */
void conn_body_end(struct http_conn *c);

/* conn_turn.c: for whom it works. The party follows from the rank: all strangers are one; other connections
 * belong to the party that they were adopted for or whose request joined it, or are parties themselves. */
void conn_turn_begin(struct http_conn *c, struct turn_party *joined, void (*run)(struct turn_seat *, uint32_t));
void conn_turn_choose(struct http_conn *c);
void conn_turn_end(struct http_conn *c);
/* For its callback: may it go on? A stranger that has had no answer waits before those that have. */
bool conn_turn_admit(struct http_conn *c, uint32_t events);
/* The handler has been called: a request that joined no party leaves the one of the request before. */
void conn_turn_asked(struct http_conn *c);
/* A response begins: a stranger's connection is closed after a 401, and after HTTP_STRANGER_REQUESTS. */
void conn_count_answer(struct http_conn *c, int status);

/* conn_timer.c */
void conn_arm(struct http_conn *c);
void conn_due_in(struct http_conn *c, uint32_t ms); /* 0: stop */

/* server.c: a connection has ended or become idle; listeners that rest may go on. */
void server_room_made(struct http_server *s);

/* No handler has vouched for the running request: do not wait for the rest of its body. */
static inline bool conn_is_strange(const struct http_conn *c)
{
	return c->rank != HTTP_LOCAL && !c->x.vouched;
}

static inline struct http_conn *conn_of(const struct http_exchange *x)
{
	return container_of(x, struct http_conn, x);
}

/* "HTTP/1.1 200 OK\r\n" into the output, less what has been sent ahead. `reason` may be NULL. */
void conn_put_status(struct http_conn *c, int status, struct str reason);

/* exchange_state.c: the moves of an exchange, each checked against a table and followed by a check of the invariants.
 */
void exchange_input(struct http_exchange *x, enum input_state to);
void exchange_collect(struct http_exchange *x, enum collect_state to);
void exchange_respond(struct http_exchange *x, enum respond_state to);
/* Keeps what is worse already. */
void exchange_end_at_least(struct http_exchange *x, enum exchange_end end);

static inline bool exchange_body_ended(const struct http_exchange *x)
{
	return x->input != INPUT_OPEN;
}

static inline bool exchange_begun(const struct http_exchange *x)
{
	return x->respond >= RESPOND_BEGUN;
}

static inline bool exchange_ended(const struct http_exchange *x)
{
	return x->respond >= RESPOND_ENDED;
}

/* exchange.c: makes x ready for the request in x->req, and frees what it held. */
void exchange_open(struct http_exchange *x);
void exchange_free(struct http_exchange *x);
