/*
 * The brake: keeps room for the pool's metadata.
 *
 * Without free metadata a btrfs can hardly be used: no overlay is mounted, so no stopped sandbox starts, and nobody can
 * delete its files. Data cannot take that room, but many small files can. So all groups of layers belong to one group
 * above them. When the room for metadata has become small, this one gets a limit that stops every write of boxes, with
 * EDQUOT. Deleting works on, and so does what the warden writes outside of layers. A layer that is about to be mounted
 * leaves the group for that moment.
 *
 * Only with simple quotas: full ones would have to count everything anew when a group joins.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>

#include "base/fd.h"
#include "cage/limits.h"
#include "cage/pool/pool.h"

bool pool_brake_has(const struct pool *p)
{
	return p->kind != POOL_PLAIN && p->quota == BTRFS_QUOTA_SIMPLE;
}

int pool_brake_open(const struct pool *p)
{
	int r = pool_brake_has(p) ? btrfs_group_make(p->root, POOL_GROUP_ALL) : 0;
	return r == -EEXIST ? 0 : r;
}

int pool_brake_join(const struct pool *p, uint64_t group)
{
	int r = pool_brake_has(p) ? btrfs_group_join(p->root, group, POOL_GROUP_ALL) : 0;
	return r == -EEXIST ? 0 : r;
}

void pool_brake_leave(const struct pool *p, uint64_t group)
{
	if (pool_brake_has(p))
		btrfs_group_leave(p->root, group, POOL_GROUP_ALL);
}

void pool_brake_join_all_slow(const struct pool *p)
{
	int fd = !pool_brake_has(p) || p->groups < 0 ? -1 : openat(p->groups, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	unsigned long long number;
	if (!d) {
		fd_close(&fd);
		return;
	}
	for (struct dirent *entry; (entry = readdir(d));)
		if (sscanf(entry->d_name, "1_%llu", &number) == 1)
			pool_brake_join(p, BTRFS_GROUP_SHARED(number));
	closedir(d);
}

bool pool_brake_is_on(const struct pool *p)
{
	return pool_brake_has(p) && btrfs_group_is_limited(p->groups, POOL_GROUP_ALL);
}

/* What the room may not fall below. */
static uint64_t kept(const struct pool *p)
{
	uint64_t part = btrfs_metadata_size(p->groups) / POOL_METADATA_SHARE;
	return part < POOL_METADATA_KEPT ? part : POOL_METADATA_KEPT;
}

bool pool_metadata_is_short(const struct pool *p)
{
	return pool_brake_has(p) && btrfs_metadata_room(p->root, p->groups) < POOL_METADATA_NEAR * kept(p);
}

bool pool_brake_look(const struct pool *p)
{
	if (!pool_brake_has(p))
		return false;
	uint64_t room = btrfs_metadata_room(p->root, p->groups), least = kept(p);
	bool on = pool_brake_is_on(p);
	if (!on && room < least)
		btrfs_group_limit(p->root, POOL_GROUP_ALL, 1);
	else if (on && room >= least + least / 2)
		btrfs_group_limit(p->root, POOL_GROUP_ALL, 0);
	return room >= least && room < POOL_METADATA_NEAR * least;
}
