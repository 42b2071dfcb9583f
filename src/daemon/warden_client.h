/*
 * warden_client.h - the daemon's end of the connection to atoll-warden (records: proto/warden.h).
 *
 * The connection may break at any time: the warden may be killed and started again. After each connect the client sends
 * HELLO and LIST, and on_up gets the list of boxes. Only then is the warden `up` and takes calls. When the connection
 * breaks, every waiting call gets an answer with `lost` set, then on_down is called. The client reconnects by itself,
 * with growing pauses.
 *
 * Callbacks never come from inside a function of this header. Thread: the loop's.
 */
#pragma once

#include "base/loop.h"
#include "proto/warden.h"

struct warden_client;

/* The outcome of a call. */
struct warden_answer {
	const struct box_info *info; /* NULL when the reply had none */
	const struct err *err;	     /* NULL on success */
	bool lost;		     /* the connection broke: the outcome is unknown */
	int *fds;		     /* WARDEN_SOCKETS: set those that you keep to -1; the client closes the others */
	size_t fds_n;
};

typedef void (*warden_on_answer)(void *arg, const struct warden_answer *a);

struct warden_ops {
	void (*on_up)(void *arg, const struct box_info *boxes, size_t n);
	void (*on_down)(void *arg);
	void (*on_died)(void *arg, const struct box_info *info);
};

struct warden_client *warden_client_new(
	struct loop *l, const char *socket_path, const struct warden_ops *ops, void *arg);
/* Waiting calls get no answer. */
void warden_client_free(struct warden_client *w);

bool warden_client_is_up(const struct warden_client *w);
/* The resources of the host, from the last HELLO; NULL before the first. */
const struct warden_host *warden_host(const struct warden_client *w);

/* The request's magic and seq are set here. Only when up. `arg` must live until the answer. Calls have no
 * time limit: callers have their own. Only the handshake has one: a warden that does not answer it is disconnected. */
void warden_client_call(struct warden_client *w, const struct warden_request *r, warden_on_answer on_answer, void *arg);

struct warden_stats {
	uint64_t calls, lost, connects;
	uint64_t round_trip_us; /* sum over the answered calls, without creates: their time is the box's */
	uint64_t round_trips;
};
struct warden_stats warden_stats(const struct warden_client *w);
