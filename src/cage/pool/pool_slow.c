/*
 * What takes as long as the disk does: growing the pool's file, sweeping groups, copies of layers. Helper processes run
 * these.
 */
#include <dirent.h>
#include <fcntl.h>
#include <linux/btrfs.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <time.h>

#include "base/clock.h"
#include "base/fd.h"
#include "cage/limits.h"
#include "cage/pool/full.h"
#include "cage/pool/loopdev.h"

/* ---- growth ---- */

/* Bytes that stay free on the file system below: the daemon's database is there. */
uint64_t pool_reserve(const struct pool *p)
{
	struct statfs st = {0};
	if (fstatfs(p->file, &st) < 0)
		return POOL_RESERVE_MAX;
	uint64_t part = st.f_blocks * (uint64_t)st.f_bsize / POOL_RESERVE_SHARE;
	return part < POOL_RESERVE_MAX ? part : POOL_RESERVE_MAX;
}

/* The file's size after the next growth; its present size when it may not grow. */
static uint64_t next_size(const struct pool *p, uint64_t size)
{
	struct statfs st = {0};
	if (fstatfs(p->file, &st) < 0)
		return size;
	uint64_t room = st.f_bavail * (uint64_t)st.f_bsize, reserve = pool_reserve(p);
	uint64_t step = size / 4 > POOL_STEP_MIN ? size / 4 : POOL_STEP_MIN;
	step = step < POOL_STEP_MAX ? step : POOL_STEP_MAX;
	room = room > reserve ? room - reserve : 0;
	step = step < room ? step : room;
	if (p->max && size + step > p->max)
		step = p->max > size ? p->max - size : 0;
	return size + step / POOL_ALIGN * POOL_ALIGN;
}

uint64_t pool_free(const struct pool *p)
{
	struct statfs st = {0};
	if (fstatfs(p->root, &st) < 0)
		return UINT64_MAX;
	uint64_t room = st.f_bavail * (uint64_t)st.f_bsize, promised = btrfs_promised(p->groups);
	return room > promised ? room - promised : 0;
}

bool pool_wants_growth(const struct pool *p)
{
	struct stat file = {0};
	if (p->kind != POOL_FILE || fstat(p->file, &file) < 0)
		return false;
	return (pool_free(p) < POOL_AHEAD || pool_metadata_is_short(p)) &&
	       next_size(p, (uint64_t)file.st_size) > (uint64_t)file.st_size;
}

bool pool_is_full(const struct pool *p)
{
	return p->kind != POOL_PLAIN && (pool_free(p) < POOL_FULL || pool_brake_is_on(p)) && !pool_wants_growth(p);
}

/* mkfs sets 8 MiB apart for metadata, and the kernel's reserve takes most of it. If data took all the rest, renames and
 * starts of boxes would fail, and a full pool could hardly be emptied. The kernel's own block groups for metadata have
 * a tenth of the pool, 256 MiB at most. */
void pool_prepare_slow(const struct pool *p)
{
	uint64_t have = btrfs_metadata_size(p->groups);
	if (p->kind == POOL_FILE && have && have < POOL_METADATA_MIN)
		btrfs_metadata_move(p->root);
}

static bool has_trash(const struct pool *p)
{
	int fd = openat(p->trash, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	int n = 0;
	if (!d) {
		fd_close(&fd);
		return false;
	}
	while (n < 3 && readdir(d)) /* . and .. */
		n++;
	closedir(d);
	return n == 3;
}

/* A deleted file gives its space back with the next commit, a subvolume with the commits after its deletion. The kernel
 * counts no subvolume that it is taking apart just now, so the end is a while in which nothing was seen. */
void pool_await_room_slow(const struct pool *p)
{
	uint64_t now = clock_ms(), end = now + POOL_ROOM_WAIT, quiet = now + POOL_ROOM_QUIET;
	for (;;) {
		bool more = has_trash(p) || btrfs_is_reclaiming(p->root);
		btrfs_commit(p->root);
		now = clock_ms();
		if (more)
			quiet = now + POOL_ROOM_QUIET;
		if (!pool_is_full(p) || now >= quiet || now >= end)
			return;
		nanosleep(&(struct timespec){.tv_nsec = POOL_ROOM_PAUSE * 1000000L}, NULL);
	}
}

/* The device and the file system take the size of the file, also after a growth that was interrupted. */
static int take_size(const struct pool *p)
{
	struct btrfs_ioctl_vol_args a = {0};
	int r = loopdev_grown(p->device);
	snprintf(a.name, sizeof a.name, "1:max");
	if (r == 0 && ioctl(p->root, BTRFS_IOC_RESIZE, &a) < 0)
		r = -errno;
	return r;
}

int pool_grow_slow(const struct pool *p)
{
	struct stat st = {0};
	if (p->kind != POOL_FILE)
		return 0;
	if (!pool_wants_growth(p))
		return take_size(p);
	if (fstat(p->file, &st) < 0)
		return -errno;
	uint64_t to = next_size(p, (uint64_t)st.st_size);
	if (fallocate(p->file, 0, st.st_size, (off_t)to - st.st_size) < 0)
		return -errno;
	int r = take_size(p);
	return r < 0 ? r : 1;
}

/* ---- groups ---- */

static void sweep_group(const struct pool *p, uint64_t group)
{
	char name[24];
	snprintf(name, sizeof name, "%llu", (unsigned long long)group);
	if (btrfs_group_delete(p->root, group) == 0) /* refused while it has members */
		unlinkat(p->debts, name, 0);
}

void pool_sweep_groups_slow(const struct pool *p)
{
	int fd = p->groups < 0 ? -1 : openat(p->groups, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	unsigned long long number;
	if (!d) {
		fd_close(&fd);
		return;
	}
	for (struct dirent *entry; (entry = readdir(d));)
		if (sscanf(entry->d_name, "1_%llu", &number) == 1)
			sweep_group(p, BTRFS_GROUP_SHARED(number));
	closedir(d);
	full_sweep_slow(p);
}

/* ---- layers from snapshots ---- */

int pool_snapshot_slow(const struct pool *p, int source, int dir, const char *name)
{
	struct layer_note n;
	int r = pool_note_read(source, &n);
	if (r == 0)
		r = btrfs_snapshot_make(dir, name, source, true, pool_group_of_copies(p, &n));
	if (r < 0 || p->quota != BTRFS_QUOTA_FULL)
		return r;
	r = full_charge_snapshot(p, source, &n);
	if (r < 0)
		btrfs_subvolume_delete(dir, name);
	return r;
}

/* Enough for a while: the exact number comes soon, in the background. */
static bool is_roomy(const struct layer_note *n, const struct layer_debt *d)
{
	return n->limit / 2 > d->bytes;
}

/* What the layer refers to is at most what its source's group is charged for, and that one's debt. */
static void estimate(const struct pool *p, uint64_t group, struct layer_debt *d)
{
	uint64_t used = UINT64_MAX / 4;
	struct layer_debt before = {0};
	btrfs_group_used(p->groups, group, &used);
	pool_debt_read(p, group, &before);
	*d = (struct layer_debt){.bytes = used + before.bytes};
}

/* With full quotas: the kernel charges the layer for all its files. Its debt is that of its snapshots, which stay. */
static int inherit_full(const struct pool *p, int layer, struct layer_note *n)
{
	struct layer_debt d;
	uint64_t own;
	n->foreign = (struct note_ranges){0};
	int r = n->group ? 0 : pool_number_own(layer, &n->group);
	if (r == 0)
		r = pool_debt_read(p, n->group, &d);
	if (r == 0)
		r = pool_group_charged(p, layer, n, &own);
	if (r == 0) /* the limit of the snapshot's group came along and must not hinder the note */
		r = btrfs_group_limit(p->root, own, 0);
	if (r == 0)
		r = pool_note_write(layer, n);
	return r < 0 ? r : pool_limit_apply(p, layer, n, &d);
}

/* The note and the debt of a layer that was just made from a snapshot, whose own it still has. */
static int inherit(const struct pool *p, int layer, const struct pool_clone *c)
{
	struct layer_note from, n;
	struct layer_debt d = {0};
	uint64_t generation = 0;
	int r = pool_note_read(layer, &from);
	if (r == 0)
		r = btrfs_made_in(layer, &generation);
	if (r < 0)
		return r;
	n = note_inherit(&from, c->old, c->group, generation);
	n.limit = c->limit;
	if (p->quota == BTRFS_QUOTA_FULL)
		return inherit_full(p, layer, &n);
	if (n.foreign.n)
		estimate(p, from.group, &d);
	r = pool_debt_write(p, n.group, &d);
	if (r == 0) /* the group's limit must not hinder the note */
		r = btrfs_group_limit(p->root, n.group, 0);
	if (r == 0)
		r = pool_note_write(layer, &n);
	if (r == 0 && n.foreign.n && !is_roomy(&n, &d))
		return pool_recount_slow(p, layer);
	return r < 0 ? r : pool_limit_apply(p, layer, &n, &d);
}

int pool_clone_slow(const struct pool *p, int source, int dir, const char *name, const struct pool_clone *c)
{
	uint64_t group = p->quota == BTRFS_QUOTA_FULL ? 0 : c->group;
	int r = btrfs_snapshot_make(dir, name, source, false, group);
	if (r < 0)
		return r;
	auto_fd int layer = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	r = layer < 0 ? -errno : inherit(p, layer, c);
	if (r < 0)
		btrfs_subvolume_delete(dir, name);
	return r;
}
