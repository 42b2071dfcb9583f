/*
 * server.h - the warden's socket: one daemon at a time asks by fixed records (proto/warden.h) and gets replies.
 *
 * A request that cannot be answered at once leaves a warden_asker with the box. A reply to a connection that is gone
 * is dropped. The header boxes.h and its neighbours declare the handlers.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "proto/warden.h"

struct warden;
struct box;

/* The request that waits for an answer. `conn` tells one connection from the next. */
struct warden_asker {
	bool waiting;
	uint64_t conn, seq;
	uint32_t op;
};

/* Replies that the socket could not take yet: a ring of WARDEN_QUEUE_MAX. */
struct reply_queue {
	struct warden_reply *items;
	size_t head, count;
};

int server_start(struct warden *w, const char *path, gid_t group, struct err *e);
/* Answers and clears *who. `err` NULL: success. `b` NULL: the reply has no box. */
void server_reply(struct warden *w, struct warden_asker *who, const struct err *err, const struct box *b);
/* A success with descriptors, which stay the caller's. -EAGAIN: the reply would have to wait, and descriptors do not
 * wait. */
int server_reply_fds(struct warden *w, const struct warden_asker *who, const struct box *b, const int *fds, size_t n);
void server_reply_host(struct warden *w, struct warden_asker *who);
/* Tells the daemon that a box ended by itself. */
void server_event_died(struct warden *w, const struct box *b);
