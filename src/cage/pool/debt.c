/*
 * The debt of a layer, counted: the bytes of extents and of metadata that it refers to and that its own group is not
 * charged for (note.h). A file that was changed in its middle refers to one extent several times, and so does a copy
 * that shares its blocks: an extent counts once.
 */
#include <dirent.h>
#include <fcntl.h>
#include <linux/btrfs.h>
#include <linux/btrfs_tree.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/fd.h"
#include "cage/limits.h"
#include "cage/pool/full.h"

enum { SEARCH_ROOM = 1 << 18, ITEM_HEAD = 25 /* of an item in a leaf */ };

/* btrfs_file_extent_item as it lies on the disk: read by offset, because it is packed. */
enum { EXTENT_GENERATION = 0, EXTENT_TYPE = 20, EXTENT_DISK = 21, EXTENT_BYTES = 29, EXTENT_SIZE = 53 };

struct extent {
	uint64_t at, bytes;
};

struct tally {
	const struct note_ranges *foreign;
	uint64_t bytes;
	struct extent *extents; /* not counted yet; DEBT_EXTENTS_MAX */
	size_t n, room;
};

static int by_place(const void *a, const void *b)
{
	const struct extent *x = a, *y = b;
	return (x->at > y->at) - (x->at < y->at);
}

/* Counts the extents that were gathered, each once. */
static void fold(struct tally *t)
{
	if (t->n)
		qsort(t->extents, t->n, sizeof t->extents[0], by_place);
	for (size_t i = 0; i < t->n; i++)
		if (i == 0 || t->extents[i].at != t->extents[i - 1].at)
			t->bytes += t->extents[i].bytes;
	t->n = 0;
}

static void gather(struct tally *t, uint64_t at, uint64_t bytes)
{
	if (t->n == DEBT_EXTENTS_MAX)
		fold(t);
	if (t->n == t->room) {
		t->room = t->room ? t->room * 2 : 1024;
		t->extents = xrealloc(t->extents, t->room * sizeof t->extents[0]);
	}
	t->extents[t->n++] = (struct extent){at, bytes};
}

static uint64_t le64(const char *p)
{
	uint64_t v;
	memcpy(&v, p, sizeof v);
	return le64toh(v);
}

static void take_item(struct tally *t, const struct btrfs_ioctl_search_header *h, const char *item)
{
	if (note_ranges_have(t->foreign, h->transid))
		t->bytes += h->len + ITEM_HEAD;
	if (h->type != BTRFS_EXTENT_DATA_KEY || h->len < EXTENT_SIZE || item[EXTENT_TYPE] == BTRFS_FILE_EXTENT_INLINE)
		return;
	if (le64(item + EXTENT_DISK) && note_ranges_have(t->foreign, le64(item + EXTENT_GENERATION)))
		gather(t, le64(item + EXTENT_DISK), le64(item + EXTENT_BYTES));
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

static int walk(int layer, struct tally *t)
{
	auto_free struct btrfs_ioctl_search_args_v2 *s = xcalloc(1, sizeof *s + SEARCH_ROOM);
	s->key = (struct btrfs_ioctl_search_key){
		.max_objectid = UINT64_MAX, .max_type = UINT8_MAX, .max_offset = UINT64_MAX, .max_transid = UINT64_MAX};
	for (;;) {
		s->buf_size = SEARCH_ROOM;
		s->key.nr_items = UINT32_MAX;
		if (ioctl(layer, BTRFS_IOC_TREE_SEARCH_V2, s) < 0)
			return -errno;
		if (s->key.nr_items == 0)
			return 0;
		const char *at = (const char *)s->buf;
		struct btrfs_ioctl_search_header h = {0};
		for (uint32_t i = 0; i < s->key.nr_items; i++) {
			memcpy(&h, at, sizeof h);
			take_item(t, &h, at + sizeof h);
			at += sizeof h + h.len;
		}
		step_over(&s->key, &h);
	}
}

static int count(int layer, const struct layer_note *n, uint64_t *ret)
{
	struct tally t = {.foreign = &n->foreign};
	int r = walk(layer, &t);
	fold(&t);
	free(t.extents);
	*ret = t.bytes;
	return r;
}

/* The warden may change the limit meanwhile; it writes the note before it acts. */
static int apply(const struct pool *p, int layer, struct layer_note *n, const struct layer_debt *d)
{
	for (;;) {
		uint64_t limit = n->limit;
		int r = pool_limit_apply(p, layer, n, d);
		if (r == 0)
			r = pool_note_read(layer, n);
		if (r < 0 || n->limit == limit)
			return r;
	}
}

int pool_recount_slow(const struct pool *p, int layer)
{
	struct layer_note n;
	struct layer_debt d = {0};
	int r = pool_note_read(layer, &n);
	if (r < 0 || n.foreign.n == 0)
		return r;
	r = btrfs_generation(layer, &d.counted);
	if (r == 0)
		r = count(layer, &n, &d.bytes);
	if (r == 0)
		r = pool_debt_write(p, n.group, &d);
	return r < 0 ? r : apply(p, layer, &n, &d);
}

static void recount_if_changed(const struct pool *p, const char *name)
{
	struct layer_note n;
	struct layer_debt d;
	uint64_t now = 0;
	auto_fd int layer = openat(p->boxes, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (layer < 0 || pool_note_read(layer, &n) < 0 || n.foreign.n == 0 || pool_debt_read(p, n.group, &d) < 0)
		return;
	if (d.counted && (d.bytes == 0 || btrfs_generation(layer, &now) < 0 || now == d.counted))
		return;
	pool_recount_slow(p, layer);
}

int pool_recount_all_slow(const struct pool *p)
{
	if (p->quota == BTRFS_QUOTA_FULL)
		return full_watch_slow(p);
	int fd = openat(p->boxes, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	if (!d) {
		fd_close(&fd);
		return 0;
	}
	for (struct dirent *entry; (entry = readdir(d));)
		if (entry->d_name[0] != '.')
			recount_if_changed(p, entry->d_name);
	closedir(d);
	return 0;
}
