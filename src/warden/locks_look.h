/*
 * locks_look.h - the process that reads /proc/locks, and reports to the warden.
 *
 * Each read(2) gives some 75 locks, and the kernel walks to them from the beginning of its list, with a lock that every
 * taker of a file lock of the machine waits for. So a look costs the square of what it reads: it ends with the first
 * box that is above its limit, or where all boxes are, and rests nine times as long as it has run, every few
 * milliseconds.
 *
 * Whose a lock is: flock() stays with an open file when the process that called it has ended, and another box may get
 * the number of that process. So the device in the line decides: the root, /dev and /dev/shm of a box are superblocks
 * of its own (locks_devs.h). On other devices (volumes, files without a name) the process decides, once: a box keeps
 * the locks that it had when they were seen first, and no later process gets them.
 */
#pragma once

#include <stdatomic.h>
#include <sys/types.h>

#include "base/base.h"
#include "warden/limits.h"

/* A box to be ended. */
struct locks_report {
	uint32_t slot, locks;
	bool all; /* it is below LOCKS_MAX, but has most of too many */
};

/* A box that runs. The warden writes, this process reads; `serial` is written last, 0 before the rest changes. */
struct locks_box {
	_Atomic uint64_t serial; /* another one for each box; 0: no box */
	uint64_t start_time;	 /* of the first process */
	uint32_t slot;
	pid_t pid;
};

/* In memory that both share; it outlives this process. */
struct locks_table {
	uint64_t serials;
	struct locks_box boxes[WARDEN_BOXES_MAX];
};

/* Looks until the other end of `sock` is closed. `name`: of the instance's cgroups. */
_Noreturn void locks_look_life(int sock, const char *name, const struct locks_table *table);
