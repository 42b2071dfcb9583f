/*
 * locks_look.h - the process that reads /proc/locks, and what it tells the warden.
 *
 * Each read(2) gives some 75 locks, and the kernel walks to them from the beginning of its list, with a lock that every
 * taker of a file lock of the machine waits for. So a look costs the square of what it reads: it ends with the first
 * box that is above its limit, or where all boxes are, and rests nine times as long as it has run, every few
 * milliseconds.
 */
#pragma once

#include "base/base.h"

/* A box to be ended. */
struct locks_report {
	uint32_t slot, locks;
	bool all; /* it is below LOCKS_MAX, but has most of too many */
};

/* Looks until the other end of `sock` is closed. `name`: of the instance's cgroups. */
_Noreturn void locks_look_life(int sock, const char *name);
