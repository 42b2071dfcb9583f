/*
 * reaper.h - two helper processes for slow clean-up, so that the loop never waits for a box's remains.
 *
 * The closer closes descriptors of mounts and mount namespaces. The reaper deletes files in the trash. Both are
 * started again when they end.
 */
#pragma once

#include "base/err.h"
#include "base/list.h"
#include "base/loop.h"

struct warden;

struct helper {
	struct warden *w;
	bool is_closer;
	int trash;	 /* of a reaper */
	int sock, pidfd; /* -1: it does not run */
	struct loop_io sock_io, exit_io;
	struct loop_timer timer;
	struct list queue; /* descriptors that its socket cannot take yet */
	size_t queued;
	bool unconfirmed;   /* the closer waits for the word that our copy of its descriptor is closed */
	uint64_t sent_upto; /* ticket */
};

void reaper_init(struct warden *w);
int reaper_start(struct warden *w, struct err *e);
/* Takes `fd` (or -1); the closer closes it, because it may be the last one of mounts that a box has filled. A ticket
 * other than 0 comes back in closing_done. */
void reaper_close(struct warden *w, int fd, uint64_t ticket);
/* Tells the reaper that the trash holds something. */
void reaper_wake(struct warden *w);
/* So many descriptors wait for the closer that no more slots should be made. */
bool reaper_behind(const struct warden *w);
