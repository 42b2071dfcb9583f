/*
 * locks.h - ends boxes that hold too many file locks.
 *
 * The kernel charges a range that fcntl() locks to nobody and has no limit for them: one box could fill the host's
 * memory. /proc/locks names the process that holds each lock, so the warden looks at that list now and then. Locks that
 * belong to an open file instead of a process (F_OFD_SETLK) name nobody; the system call filter refuses them.
 */
#pragma once

#include "base/loop.h"

struct warden;

struct lock_watch {
	struct warden *w;
	struct loop_timer timer;
};

/* Starts looking, every LOCKS_LOOK. */
void locks_watch(struct warden *w);
