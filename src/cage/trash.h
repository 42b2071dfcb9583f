/*
 * trash.h - getting rid of a box's files. They may be a million, nested ten thousand deep, with any mode.
 *
 * Putting something into the trash is one rename. Emptying it needs constant memory and two descriptors whatever
 * lies there: a directory that is not empty is moved up into the trash itself under a fresh name, so nothing is ever
 * deeper than one level. It can be stopped at any moment and started again.
 */
#pragma once

#include "proto/errc.h"

/* Moves dir/name into the trash. 0 or -errno (-ENOENT: there was nothing). */
int trash_put(int dir, const char *name, int trash);

/* Deletes what lies in `trash` (a directory that only we change). Returns how many could not be deleted. */
unsigned trash_empty(int trash);
