/*
 * btrfs_rig.h - a small btrfs on a loop device, mounted in a directory of its own; both go with the test.
 *
 * Tests that need root, a loop device or btrfs-progs skip here when they are not there.
 */
#pragma once

#include <stddef.h>

/* Mounts it and returns a descriptor of its root directory. Once in a test. */
int btrfs_rig(void);
/* Where it is mounted, and a directory beside the mount for other files. */
const char *btrfs_rig_path(void);
const char *btrfs_rig_beside(void);

int btrfs_rig_open(int dir, const char *name); /* a directory */
/* Writes `want` bytes into dir/name and syncs them, so that the kernel has counted them; how many fitted. */
size_t btrfs_rig_fill(int dir, const char *name, size_t want);
