/*
 * kept.h - a stream of events that outlives its connection.
 *
 * A client that names its stream when it opens it may lose the connection and come back. Events have ids. The client
 * says which id it saw last; the events after it are sent again, byte for byte, then new events follow. While no client
 * is connected the owner is told to stop, so that memory stays bounded. A client that stays away longer than KEPT_GRACE
 * is gone. The end of a stream is kept as long, because its last events may have been lost on the way.
 *
 * The last KEPT_MAX_BYTES that were sent are held (spool.h): more than all sockets between agent and client can hold.
 * An id is the offset behind its event, in 16 hex digits.
 *
 * Ownership: a kept stream lives until on_gone, which comes once: after the grace time or kept_cancel. Then the owner
 * frees its own data; the stream frees itself. Thread: the loop's.
 */
#pragma once

#include "agent/limits.h"
#include "http/server/server.h"

struct kept;

struct kept_ops {
	void (*on_drained)(void *arg); /* go on, after kept_send returned false */
	void (*on_gone)(void *arg);    /* end the work, free the owner */
};

bool kept_id_ok(struct str id); /* 1..KEPT_ID_MAX of [A-Za-z0-9_-] */
/* Takes the exchange over. NULL, and nothing has changed, when the id is in use or too many streams are kept. */
struct kept *kept_open(struct str id, struct http_exchange *x, const struct kept_ops *ops, void *arg);
struct kept *kept_find(struct str id);

/* Sends status 200 and the head of an event stream. */
void kept_begin(struct kept *k);
/* Sends one event, one line of JSON. False: the event was taken, but send no more until on_drained. */
bool kept_send(struct kept *k, struct str data);
/* No event follows. */
void kept_end(struct kept *k);
/* Only before kept_begin: frees k without on_gone and gives the exchange back for another answer. NULL, and k stays,
 * when the client is gone or has come back: it can then be reached by events only. */
struct http_exchange *kept_take_back(struct kept *k);

/* A client comes back that knows all events up to `id` ("": none). A connection that is still there is cut. -1, and
 * nothing has changed, when this is no id or the events after it are not held any more. */
int kept_attach(struct kept *k, struct http_exchange *x, struct str id, struct err *e);
/* Ends the stream for a client that wants no more; calls on_gone. */
void kept_cancel(struct kept *k);
