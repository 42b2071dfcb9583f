/*
 * dev.h - a box's /dev and /dev/shm: one small tmpfs a box, made by the warden because a box cannot make device nodes.
 *
 * The nodes are not shared between boxes: a watch or a lock on a shared /dev/null would be seen next door. /dev is
 * read-only; /dev/shm is the same tmpfs seen through a writable mount of its shm directory, which saves a superblock
 * (kernel memory grows with the square of their number). Files of a box there are charged to its own memory limit.
 */
#pragma once

#include "proto/errc.h"

/* Both mounts detached; everything in them belongs to `root`, the user that is the box's root. */
int dev_make(uint32_t root, int *ret_dev, int *ret_shm, struct err *e);
