/*
 * locks.h - ends boxes that hold too many file locks.
 *
 * The kernel charges a range that fcntl() locks to nobody and has no limit for them: one box could fill the host's
 * memory. /proc/locks names the device of each lock and the process that took it. Locks that belong to an open file instead of a process
 * (F_OFD_SETLK) name nobody; the system call filter refuses them.
 *
 * A process of its own reads that list (locks_look.h), because the kernel lets nobody take or give back a lock while it
 * is read. It reports boxes that are above LOCKS_MAX, and the box with most locks while all of them hold more than
 * LOCKS_ALL. The warden ends these.
 */
#pragma once

#include "base/err.h"
#include "base/loop.h"

struct locks_table;
struct slot;
struct warden;

struct lock_watch {
	struct warden *w;
	int sock, pidfd; /* -1: it does not run */
	struct locks_table *table;
	struct loop_io sock_io, exit_io;
	struct loop_timer timer;
};

/* Starts the process, with the boxes that run already; when it ends it is started again. */
int locks_watch(struct warden *w, struct err *e);

/* A box has started in this slot; the first process of a slot has ended. Nothing happens without the process. */
void locks_box_started(struct warden *w, const struct slot *s);
void locks_box_ended(struct warden *w, const struct slot *s);
