/*
 * kept.h - a stream of events that outlives its connection.
 *
 * A client that names its stream when it opens it may lose the connection and come back: events have ids, and what
 * follows the last id that it knows is sent again, byte for byte, then what comes new. In between the owner is told to
 * stop, so nothing piles up; who does not come back within KEPT_GRACE is taken for gone. The end is kept as long, for
 * the last events may have been lost on the way.
 *
 * What was sent is held back up to KEPT_MAX_BYTES (spool.h): more than all sockets between here and a client can hold.
 * An id is the offset behind its event, in 16 hex digits.
 *
 * Ownership: a kept stream lives until on_gone, which comes once: after the grace time or kept_cancel. Then the owner
 * frees what is its own; the stream frees itself. Thread: the loop's.
 */
#pragma once

#include "agent/limits.h"
#include "http/server/server.h"

struct kept;

struct kept_ops {
	void (*on_drained)(void *arg); /* after kept_send answered false: go on */
	void (*on_gone)(void *arg);    /* end the work, free the owner */
};

bool kept_id_ok(struct str id); /* 1..KEPT_ID_MAX of [A-Za-z0-9_-] */
/* Takes the exchange over. NULL when the id is taken or too many are kept: then nothing happened. */
struct kept *kept_open(struct str id, struct http_exchange *x, const struct kept_ops *ops, void *arg);
struct kept *kept_find(struct str id);

/* 200 and the head of an event stream. */
void kept_begin(struct kept *k);
/* One event, one line of JSON. False: it was taken, stop until on_drained. */
bool kept_send(struct kept *k, struct str data);
/* No event follows. */
void kept_end(struct kept *k);
/* Before kept_begin: frees k, without on_gone, and gives the exchange back for another answer; NULL when the client is
 * gone or has come back, which nothing but events can tell: then k stays. */
struct http_exchange *kept_take_back(struct kept *k);

/* A client comes back knowing everything up to `id` ("" is nothing). Who is still there is cut off. -1: not an id, or
 * what followed is not held any more; nothing happened. */
int kept_attach(struct kept *k, struct http_exchange *x, struct str id, struct err *e);
/* The client wants no more: on_gone comes from inside. */
void kept_cancel(struct kept *k);
