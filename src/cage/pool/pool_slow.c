/*
 * What takes as long as the disk does: growing the pool's file, counting, sweeping groups. Helper processes run these.
 */
#include <dirent.h>
#include <fcntl.h>
#include <linux/btrfs.h>
#include <linux/btrfs_tree.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include "base/fd.h"
#include "cage/limits.h"
#include "cage/pool/loopdev.h"
#include "cage/pool/pool.h"

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
	return pool_free(p) < POOL_AHEAD && next_size(p, (uint64_t)file.st_size) > (uint64_t)file.st_size;
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

/* ---- counting ---- */

enum { SEARCH_ROOM = 1 << 18, ITEM_HEAD = 25 /* of an item in a leaf */ };

/* btrfs_file_extent_item as it lies on the disk: read by offset, because it is packed. */
enum { EXTENT_GENERATION = 0, EXTENT_TYPE = 20, EXTENT_DISK = 21, EXTENT_BYTES = 45, EXTENT_SIZE = 53 };

static uint64_t le64(const char *p)
{
	uint64_t v;
	memcpy(&v, p, sizeof v);
	return le64toh(v);
}

static bool within(uint64_t generation, const struct layer_note *n)
{
	return generation > n->low && generation <= n->high;
}

static uint64_t item_bytes(const struct btrfs_ioctl_search_header *h, const char *item, const struct layer_note *n)
{
	uint64_t bytes = within(h->transid, n) ? h->len + ITEM_HEAD : 0;
	if (h->type != BTRFS_EXTENT_DATA_KEY || h->len < EXTENT_SIZE || item[EXTENT_TYPE] == BTRFS_FILE_EXTENT_INLINE)
		return bytes;
	if (le64(item + EXTENT_DISK) && within(le64(item + EXTENT_GENERATION), n))
		bytes += le64(item + EXTENT_BYTES);
	return bytes;
}

/* The key after this one. */
static void step_over(struct btrfs_ioctl_search_key *k, const struct btrfs_ioctl_search_header *last)
{
	k->min_objectid = last->objectid;
	k->min_type = last->type;
	k->min_offset = last->offset + 1;
	if (k->min_offset)
		return;
	k->min_type++;
	if (k->min_type > UINT8_MAX) {
		k->min_type = 0;
		k->min_objectid++;
	}
}

static int count(int layer, const struct layer_note *n, uint64_t *ret)
{
	auto_free struct btrfs_ioctl_search_args_v2 *s = xcalloc(1, sizeof *s + SEARCH_ROOM);
	uint64_t bytes = 0;
	s->key = (struct btrfs_ioctl_search_key){
		.max_objectid = UINT64_MAX, .max_type = UINT8_MAX, .max_offset = UINT64_MAX, .max_transid = UINT64_MAX};
	for (;;) {
		s->buf_size = SEARCH_ROOM;
		s->key.nr_items = UINT32_MAX;
		if (ioctl(layer, BTRFS_IOC_TREE_SEARCH_V2, s) < 0)
			return -errno;
		if (s->key.nr_items == 0)
			break;
		const char *at = (const char *)s->buf;
		struct btrfs_ioctl_search_header h = {0};
		for (uint32_t i = 0; i < s->key.nr_items; i++) {
			memcpy(&h, at, sizeof h);
			bytes += item_bytes(&h, at + sizeof h, n);
			at += sizeof h + h.len;
		}
		step_over(&s->key, &h);
	}
	*ret = bytes;
	return 0;
}

int pool_recount_slow(const struct pool *p, int layer)
{
	struct layer_note n;
	int r = pool_note_read(layer, &n);
	if (r < 0 || n.high == 0)
		return r;
	uint64_t before = n.debt;
	r = count(layer, &n, &n.debt);
	if (r < 0 || n.debt == before)
		return r;
	r = pool_note_write(layer, &n);
	return r < 0 ? r : pool_note_apply(p, &n);
}

/* ---- groups ---- */

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
			btrfs_group_delete(p->root, BTRFS_GROUP_SHARED(number)); /* refused while it has members */
	closedir(d);
}

/* ---- layers from snapshots ---- */

static int created_in(int layer, uint64_t *ret)
{
	struct btrfs_ioctl_get_subvol_info_args a = {0};
	if (ioctl(layer, BTRFS_IOC_GET_SUBVOL_INFO, &a) < 0)
		return -errno;
	*ret = a.otransid;
	return 0;
}

int pool_snapshot_slow(int source, int dir, const char *name)
{
	struct layer_note n;
	int r = pool_note_read(source, &n);
	return r < 0 ? r : btrfs_snapshot_make(dir, name, source, true, n.group);
}

/* The debt of a box that takes the files of a box that was made from it: what that one has written since. What came
 * from there before is counted too, and with it what this box has written since: rather too much than too little. */
static void take_back(struct layer_note *n, const struct layer_note *from, const struct layer_note *old, uint64_t used)
{
	n->parent = old->parent;
	n->low = old->high ? old->low : from->high;
	n->debt = used + old->debt;
}

/* The note of a layer that was just made from a snapshot, whose note it still has. */
static int inherit(const struct pool *p, int layer, const struct pool_clone *c)
{
	struct layer_note from, n;
	uint64_t used = 0;
	int r = pool_note_read(layer, &from);
	if (r < 0)
		return r;
	n = (struct layer_note){.group = c->group, .limit = c->limit, .parent = from.group};
	btrfs_group_used(p->groups, from.group, &used);
	if (from.group == c->group) { /* its own files: the group is charged for them */
		n = from;
		n.limit = c->limit;
	} else {
		r = created_in(layer, &n.high);
		if (c->old && from.parent == c->group)
			take_back(&n, &from, c->old, used);
		else
			n.debt = used + from.debt;
	}
	if (r == 0)
		r = pool_note_write(layer, &n);
	return r < 0 ? r : pool_note_apply(p, &n);
}

int pool_clone_slow(const struct pool *p, int source, int dir, const char *name, const struct pool_clone *c)
{
	int r = btrfs_snapshot_make(dir, name, source, false, c->group);
	if (r < 0)
		return r;
	auto_fd int layer = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	r = layer < 0 ? -errno : inherit(p, layer, c);
	if (r < 0)
		btrfs_subvolume_delete(dir, name);
	return r;
}
