/*
 * follow.h - clients that follow something as an event stream: the log of a sandbox, approvals.
 *
 * Each gets the events from its beginning on. A follower that does not read loses events rather than holding others
 * up; every 15 s a comment keeps the connection alive. Embedded in the object that is followed, whose end ends them.
 */
#pragma once

#include "base/list.h"
#include "http/server/server.h"

struct followers {
	struct list list;
	size_t n, max;
};

/* Whose exchange it is. `on_close` comes once, when the exchange has closed. */
struct follow {
	struct loop *loop;
	struct http_exchange *x;
	void (*on_close)(void *arg, bool complete);
	void *arg;
};

struct follower;

void followers_init(struct followers *fs, size_t max);
/* Begins the event stream. NULL: LIMIT_REACHED. */
struct follower *followers_add(struct followers *fs, const struct follow *f, struct err *e);
void follower_send(struct follower *f, struct str data);
void followers_send(struct followers *fs, struct str data);
/* The followed object goes. */
void followers_end(struct followers *fs);
