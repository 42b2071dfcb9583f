#include "cage/pool/note.h"

#include <string.h>
#include <sys/xattr.h>

#define NOTE_NAME "trusted.atoll.layer"

enum { MAGIC_V1 = 0x31594c41 /* "ALY1" */, MAGIC_V2 = 0x32594c41 };

struct head {
	uint32_t magic, size; /* of all of it */
};

struct on_disk {
	struct head head;
	struct layer_note note;
};

struct on_disk_v1 {
	struct head head;
	uint64_t group, parent, low, high, debt, limit;
};

_Static_assert(sizeof(struct on_disk) <= NOTE_BYTES_MAX, "a note fits");

/* ---- ranges ---- */

static void merge_closest(struct note_ranges *r)
{
	size_t at = 0;
	for (size_t i = 1; i + 1 < r->n; i++)
		if (r->v[i + 1].low - r->v[i].high < r->v[at + 1].low - r->v[at].high)
			at = i;
	r->v[at].high = r->v[at + 1].high;
	memmove(&r->v[at + 1], &r->v[at + 2], (r->n - at - 2) * sizeof r->v[0]);
	r->n--;
}

void note_ranges_add(struct note_ranges *r, uint64_t low, uint64_t high)
{
	struct note_range *last = r->n ? &r->v[r->n - 1] : NULL;
	if (high <= low)
		return;
	if (last && low <= last->high) {
		last->high = high > last->high ? high : last->high;
		return;
	}
	if (r->n == NOTE_RANGES_MAX)
		merge_closest(r);
	r->v[r->n++] = (struct note_range){low, high};
}

bool note_ranges_have(const struct note_ranges *r, uint64_t generation)
{
	for (size_t i = 0; i < r->n; i++)
		if (generation > r->v[i].low && generation <= r->v[i].high)
			return true;
	return false;
}

bool note_ranges_equal(const struct note_ranges *a, const struct note_ranges *b)
{
	return a->n == b->n && memcmp(a->v, b->v, a->n * sizeof a->v[0]) == 0;
}

static bool ranges_ok(const struct note_ranges *r)
{
	if (r->n > NOTE_RANGES_MAX)
		return false;
	for (size_t i = 0; i < r->n; i++)
		if (r->v[i].low >= r->v[i].high || (i && r->v[i].low <= r->v[i - 1].high))
			return false;
	return true;
}

/* ---- inheritance ---- */

struct layer_note note_inherit(
	const struct layer_note *from, const struct layer_note *old, uint64_t group, uint64_t generation)
{
	struct layer_note n = {.group = group};
	if (from->group == group) /* its own files */
		return *from;
	if (from->parent == group) { /* its own files, and what the fork has written since */
		n.foreign = from->parent_foreign;
		note_ranges_add(&n.foreign, from->forked, generation);
		/* The box is still a fork of its parent if its files of that moment were. */
		if (old && note_ranges_equal(&old->foreign, &from->parent_foreign)) {
			n.parent = old->parent;
			n.forked = old->forked;
			n.parent_foreign = old->parent_foreign;
		}
		return n;
	}
	note_ranges_add(&n.foreign, 0, generation);
	n.parent = from->group;
	n.forked = generation;
	n.parent_foreign = from->foreign;
	return n;
}

/* ---- the disk ---- */

size_t note_encode(const struct layer_note *n, char ret[NOTE_BYTES_MAX])
{
	struct on_disk d = {.head = {MAGIC_V2, sizeof d}, .note = *n};
	memcpy(ret, &d, sizeof d);
	return sizeof d;
}

static int decode_v1(const char *bytes, size_t size, struct layer_note *ret)
{
	struct on_disk_v1 d;
	if (size != sizeof d)
		return -EBADMSG;
	memcpy(&d, bytes, sizeof d);
	*ret = (struct layer_note){.group = d.group, .limit = d.limit};
	note_ranges_add(&ret->foreign, d.low, d.high);
	return 0;
}

int note_decode(const char *bytes, size_t size, struct layer_note *ret)
{
	struct head h;
	struct on_disk d;
	if (size < sizeof h)
		return -EBADMSG;
	memcpy(&h, bytes, sizeof h);
	if (h.size != size)
		return -EBADMSG;
	if (h.magic == MAGIC_V1)
		return decode_v1(bytes, size, ret);
	if (h.magic != MAGIC_V2 || size != sizeof d)
		return -EBADMSG;
	memcpy(&d, bytes, sizeof d);
	if (!ranges_ok(&d.note.foreign) || !ranges_ok(&d.note.parent_foreign))
		return -EBADMSG;
	*ret = d.note;
	return 0;
}

int pool_note_read(int layer, struct layer_note *ret)
{
	char bytes[NOTE_BYTES_MAX];
	ssize_t n = fgetxattr(layer, NOTE_NAME, bytes, sizeof bytes);
	if (n < 0)
		return errno == ERANGE ? -EBADMSG : -errno;
	return note_decode(bytes, (size_t)n, ret);
}

int pool_note_write(int layer, const struct layer_note *n)
{
	char bytes[NOTE_BYTES_MAX];
	size_t size = note_encode(n, bytes);
	return fsetxattr(layer, NOTE_NAME, bytes, size, 0) < 0 ? -errno : 0;
}
