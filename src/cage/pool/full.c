/*
 * The debts of boxes where the kernel has full quotas (pool.h): what the snapshots of a box refer to.
 *
 * A debt is the sum over the snapshots that are there, so it needs no history: it is counted anew after each snapshot,
 * after each deletion, and every few seconds. Whoever counts holds a lock on the directory of debts until the debt is
 * written, so that no older sum replaces a newer one.
 */
#include <dirent.h>
#include <fcntl.h>
#include <linux/btrfs_tree.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>

#include "base/fd.h"
#include "cage/pool/full.h"

/* Groups of deleted subvolumes that may gather. */
enum { STALE_GROUPS = 256 };

struct sum {
	uint64_t group, bytes;
};

struct sums {
	struct sum *v;
	size_t n, room;
	size_t names; /* boxes and snapshots that were looked at */
};

static const struct sum *find(const struct sums *s, uint64_t group)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->v[i].group == group)
			return &s->v[i];
	return NULL;
}

static uint64_t sum_of(const struct sums *s, uint64_t group)
{
	const struct sum *found = find(s, group);
	return found ? found->bytes : 0;
}

static void add(struct sums *s, uint64_t group, uint64_t bytes)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->v[i].group == group) {
			s->v[i].bytes += bytes;
			return;
		}
	if (s->n == s->room) {
		s->room = s->room ? 2 * s->room : 64;
		s->v = xrealloc(s->v, s->room * sizeof s->v[0]);
	}
	s->v[s->n++] = (struct sum){group, bytes};
}

static int open_at(int dir, const char *name)
{
	return openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* A snapshot is named by the directory that it is in, or has the name itself. */
static void add_snapshot(const struct pool *p, struct sums *s, const char *name)
{
	struct layer_note n;
	uint64_t own, used;
	auto_fd int at = open_at(p->snapshots, name);
	if (at >= 0 && !btrfs_is_subvolume(at)) {
		int inner = open_at(at, POOL_PART);
		fd_close(&at);
		at = inner;
	}
	if (at >= 0 && pool_note_read(at, &n) == 0 && btrfs_subvolume_id(at, &own) == 0 &&
		btrfs_group_used(p->groups, own, &used) == 0)
		add(s, n.group, used);
}

static void each_name(int dir, void (*one)(const struct pool *p, struct sums *s, const char *name),
	const struct pool *p, struct sums *s)
{
	int fd = open_at(dir, ".");
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	if (!d) {
		fd_close(&fd);
		return;
	}
	for (struct dirent *entry; (entry = readdir(d));)
		if (entry->d_name[0] != '.') {
			s->names++;
			one(p, s, entry->d_name);
		}
	closedir(d);
}

/* A descriptor: closing it unlocks. */
static int lock_debts(const struct pool *p)
{
	int fd = open_at(p->debts, ".");
	while (fd >= 0 && flock(fd, LOCK_EX) < 0 && errno == EINTR)
		;
	return fd;
}

/* Writes what has changed. A layer of an earlier version has its limit on the shared group. */
static int set_debt(const struct pool *p, int layer, const struct layer_note *n, uint64_t bytes)
{
	struct layer_debt d = {0};
	uint64_t own;
	int r = pool_group_charged(p, layer, n, &own);
	if (r == 0)
		r = pool_debt_read(p, n->group, &d);
	if (r < 0 || (d.bytes == bytes && btrfs_group_is_limited(p->groups, own)))
		return r;
	d = (struct layer_debt){.bytes = bytes};
	r = pool_debt_write(p, n->group, &d);
	return r < 0 ? r : pool_limit_apply(p, layer, n, &d);
}

static void set_debt_of(const struct pool *p, struct sums *s, const char *name)
{
	struct layer_note n;
	auto_fd int layer = open_at(p->boxes, name);
	if (layer >= 0 && pool_note_read(layer, &n) == 0)
		set_debt(p, layer, &n, sum_of(s, n.group));
}

/* ---- what subvolumes leave ---- */

static DIR *open_groups(const struct pool *p)
{
	int fd = open_at(p->groups, ".");
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	if (!d)
		fd_close(&fd);
	return d;
}

/* The id of the next subvolume that has, or had, a group; 0: no more. */
static uint64_t next_group(DIR *d)
{
	unsigned long long id;
	for (struct dirent *entry; (entry = readdir(d));)
		if (sscanf(entry->d_name, "0_%llu", &id) == 1 && id >= BTRFS_FIRST_FREE_OBJECTID)
			return id;
	return 0;
}

static size_t count_groups(const struct pool *p)
{
	DIR *d = open_groups(p);
	size_t n = 0;
	while (d && next_group(d))
		n++;
	if (d)
		closedir(d);
	return n;
}

/* A subvolume that is being made has its group a moment before it can be found: the second look comes after the commit
 * that it is part of. */
static void sweep_groups(const struct pool *p)
{
	struct sums gone = {0};
	uint64_t id;
	DIR *d = open_groups(p);
	while (d && (id = next_group(d)))
		if (btrfs_subvolume_exists(p->root, id) == 0)
			add(&gone, id, 0);
	if (d)
		closedir(d);
	if (gone.n)
		btrfs_commit(p->root);
	for (size_t i = 0; i < gone.n; i++)
		if (btrfs_subvolume_exists(p->root, gone.v[i].group) == 0)
			btrfs_group_delete(p->root, gone.v[i].group);
	free(gone.v);
}

static void add_box(const struct pool *p, struct sums *s, const char *name)
{
	struct layer_note n;
	auto_fd int layer = open_at(p->boxes, name);
	if (layer >= 0 && pool_note_read(layer, &n) == 0)
		add(s, n.group, 0);
}

static void drop_debt(const struct pool *p, struct sums *s, const char *name)
{
	if (!find(s, strtoull(name, NULL, 10)))
		unlinkat(p->debts, name, 0);
}

void full_sweep_slow(const struct pool *p)
{
	struct sums s = {0};
	if (p->quota != BTRFS_QUOTA_FULL || p->groups < 0)
		return;
	sweep_groups(p);
	auto_fd int lock = lock_debts(p);
	(void)lock; /* until the end of this function */
	each_name(p->snapshots, add_snapshot, p, &s);
	each_name(p->boxes, add_box, p, &s);
	each_name(p->debts, drop_debt, p, &s);
	free(s.v);
}

/* ---- counting ---- */

int full_watch_slow(const struct pool *p)
{
	struct sums s = {0};
	int r = 0;
	if (p->quota != BTRFS_QUOTA_FULL || p->groups < 0)
		return 0;
	if (btrfs_groups_are_inconsistent(p->groups))
		r = btrfs_groups_rescan(p->root);
	if (r == 0 && btrfs_groups_are_inconsistent(p->groups))
		r = -EUCLEAN;
	auto_fd int lock = lock_debts(p);
	(void)lock; /* until the end of this function */
	each_name(p->snapshots, add_snapshot, p, &s);
	each_name(p->boxes, set_debt_of, p, &s);
	free(s.v);
	if (count_groups(p) > 2 * s.names + STALE_GROUPS)
		sweep_groups(p);
	return r;
}

int full_charge_snapshot(const struct pool *p, int layer, const struct layer_note *n)
{
	struct sums s = {0};
	uint64_t own, used = 0;
	auto_fd int lock = lock_debts(p);
	(void)lock; /* until the end of this function */
	int r = pool_group_charged(p, layer, n, &own);
	if (r == 0)
		r = btrfs_group_used(p->groups, own, &used);
	each_name(p->snapshots, add_snapshot, p, &s);
	uint64_t debt = sum_of(&s, n->group);
	free(s.v);
	if (r == 0 && used + debt > n->limit)
		r = -EDQUOT;
	return r < 0 ? r : set_debt(p, layer, n, debt);
}
