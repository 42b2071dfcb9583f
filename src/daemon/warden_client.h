/*
 * warden.h - the daemon's end of the connection to atoll-warden (records: proto/warden.h).
 *
 * The connection comes and goes: the warden may be killed and started again at any time. Each time it is there,
 * HELLO and LIST are asked first, and on_up gets what the host has and every box that lives; only then is the warden
 * `up` and takes calls. When it is lost, every call that waits gets its answer (`lost`), then on_down comes; the next
 * attempt follows by itself with growing pauses.
 *
 * Callbacks never come from inside a function of this header. Thread: the loop's.
 */
#pragma once

#include "base/loop.h"
#include "proto/warden.h"

struct warden_client;

/* What became of a call. */
struct warden_answer {
	const struct box_info *info; /* NULL when the reply had none */
	const struct err *err;	     /* NULL on success */
	bool lost;		     /* the connection broke: whether it was done is not known */
	int *fds;		     /* WARDEN_SOCKETS: take those you want by setting them to -1; the rest is closed */
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
/* Calls that wait are forgotten without an answer. */
void warden_client_free(struct warden_client *w);

bool warden_client_is_up(const struct warden_client *w);
/* What the host has, as last told; NULL before the first HELLO. */
const struct warden_host *warden_host(const struct warden_client *w);

/* The request's magic and seq are set here. Only when up. `arg` must live until the answer. There is no time limit:
 * those who wait have their own. (Only the handshake has one: a warden that accepts but does not answer is left.) */
void warden_client_call(struct warden_client *w, const struct warden_request *r, warden_on_answer on_answer, void *arg);

struct warden_stats {
	uint64_t calls, lost, connects;
	uint64_t round_trip_us; /* sum over the answered calls but creates, which take as long as a box takes */
	uint64_t round_trips;
};
struct warden_stats warden_stats(const struct warden_client *w);
