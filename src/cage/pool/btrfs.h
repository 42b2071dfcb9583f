/*
 * btrfs.h - subvolumes, snapshots and quotas of a btrfs file system, through its ioctls.
 *
 * A subvolume is named by a directory descriptor and one name in it; no path is ever walked. A quota group is a number:
 * every subvolume has the group of its own id, and groups of GROUP_SHARED() gather several of them under one limit. A
 * limit counts data and metadata, so it bounds the number of files as well.
 *
 * There are two kinds of quota. Simple quotas (Linux 6.7) charge an extent to the subvolume that first wrote it, for as
 * long as any subvolume uses it; they cost nothing on a write. Full quotas (older kernels) know which subvolumes share
 * an extent and cost 1.2 ms on the first write. Because of the first kind, everything that can share extents (a box,
 * its snapshots, its predecessors) belongs to one shared group, and the limit is set there. With full quotas a copy of
 * a subvolume must be made in no group (0): the kernel cannot tell what a shared group then refers to, marks all quotas
 * of the file system inconsistent and counts nothing any more.
 *
 * All functions return 0 or -errno. They need CAP_SYS_ADMIN. Nothing here allocates.
 */
#pragma once

#include "base/base.h"

enum btrfs_quota { BTRFS_QUOTA_NONE, BTRFS_QUOTA_FULL, BTRFS_QUOTA_SIMPLE };

/* The group with this number that has no subvolume of its own. */
#define BTRFS_GROUP_SHARED(number) ((uint64_t)1 << 48 | (number))

bool btrfs_is(int fd);

/* Switches quotas on, simple ones where the kernel has them. `ret` is the kind that is on, also when it was before. */
int btrfs_quota_enable(int fs, enum btrfs_quota *ret);

/* An empty subvolume dir/name, mode 0755, in `group` as well as in its own (0: none). -EEXIST. */
int btrfs_subvolume_make(int dir, const char *name, uint64_t group);
/* The same with the content of the subvolume that `source` is open on, at this moment. Shares every extent. */
int btrfs_snapshot_make(int dir, const char *name, int source, bool read_only, uint64_t group);
/* Gone at once; its space comes back in the background. -ENOTDIR or -EINVAL when it is no subvolume. */
int btrfs_subvolume_delete(int dir, const char *name);
/* Asks the kernel to take back the space of deleted subvolumes now, without waiting for it. */
void btrfs_reclaim(int fs);
/* Waits for a commit, and lets the kernel go on with deleted subvolumes. */
void btrfs_commit(int fs);
/* Whether the space of deleted subvolumes has yet to come back; true when it cannot be known (before Linux 6.13). */
bool btrfs_is_reclaiming(int fs);
/* Of the subvolume that `fd` lies in. */
int btrfs_subvolume_id(int fd, uint64_t *ret);
/* 1: there is a subvolume with this id, maybe deleted and not taken apart yet; 0: there is none. One that is being made
 * is there after the next commit. */
int btrfs_subvolume_exists(int fs, uint64_t id);
/* No more changes to the subvolume that `fd` is open on. */
int btrfs_subvolume_freeze(int fd);
/* Writes the read-only subvolume to `out` as a stream; against `parent`, read-only too, if that is not -1. No other
 * subvolume is referred to. -EPIPE or a signal when the reader goes away. */
int btrfs_send(int subvolume, int parent, int out);
/* The generation of the file system in which the subvolume was made, and the one in which it was last changed. */
int btrfs_made_in(int fd, uint64_t *ret);
int btrfs_generation(int fd, uint64_t *ret);
/* Whether `fd` is the root directory of a subvolume. */
bool btrfs_is_subvolume(int fd);

/* `fs` is any descriptor of the file system. */
int btrfs_group_make(int fs, uint64_t group);
/* -EBUSY while a subvolume belongs to it. */
int btrfs_group_delete(int fs, uint64_t group);
/* At most so many referenced bytes; 0: no limit. A limit below the present use lets nothing more be written. */
int btrfs_group_limit(int fs, uint64_t group, uint64_t bytes);

/* Makes the group a part of a higher one, which counts what it counts. -EEXIST. */
int btrfs_group_join(int fs, uint64_t group, uint64_t above);
int btrfs_group_leave(int fs, uint64_t group, uint64_t above);

/* The kernel's live numbers of all groups, a directory of sysfs: open it while /sys can be reached, keep it. A
 * descriptor or -errno. */
int btrfs_groups_open(int fs);
int btrfs_group_used(int groups, uint64_t group, uint64_t *ret);
bool btrfs_group_is_limited(int groups, uint64_t group);
/* Whether the kernel has given up counting, so that no limit holds: only full quotas do that. */
bool btrfs_groups_are_inconsistent(int groups);
/* Counts everything anew and waits for the end. */
int btrfs_groups_rescan(int fs);
/* Full quotas count a deleted subvolume, however large, instead of giving up. */
void btrfs_groups_keep_counting(int groups);
/* Bytes of the disk that are set apart for metadata; 0 when it cannot be known. */
uint64_t btrfs_metadata_size(int groups);
/* Bytes that metadata may still take, on the disk that is set apart for it and that is set apart for nothing, less the
 * kernel's own reserve. UINT64_MAX when it cannot be known. */
uint64_t btrfs_metadata_room(int fs, int groups);
/* Moves all metadata into new block groups, as large as the kernel makes them. */
int btrfs_metadata_move(int fs);
/* Bytes of written data that have no place on the disk yet; 0 when it cannot be known. */
uint64_t btrfs_promised(int groups);
