/*
 * trash.h - deletes a box's files. They may be a million, nested ten thousand deep, with any mode.
 *
 * Putting a file into the trash is one rename. Emptying the trash needs constant memory and two descriptors for any
 * tree: a directory that is not empty is moved up into the trash itself under a fresh name, so nothing is ever
 * deeper than one level. A subvolume of btrfs goes at once. It can be stopped at any moment and started again.
 */
#pragma once

#include "proto/errc.h"

/* Moves dir/name into the trash; deletes it at once if it is a subvolume and the file system is full. 0 or -errno
 * (-ENOENT: there was nothing). */
int trash_put(int dir, const char *name, int trash);

/* Deletes all entries of `trash`, a directory that only we change. Returns the number of entries that could not be
 * deleted. */
unsigned trash_empty(int trash);
