/*
 * note.h - the note of a layer: its quota group, its limit, and which of its files other boxes' groups pay for.
 *
 * The kernel charges an extent to the subvolume that wrote it first. A layer that was made from another box's files
 * (a fork, a replacement) refers to extents that its own group is not charged for: the foreign ones. Extents carry the
 * generation of the file system in which they were written, so the foreign ones are those of some ranges of
 * generations. Their bytes are the debt of the layer (pool.h).
 *
 * When a box takes back the files of its own fork, only the extents that the fork wrote become foreign. For that the
 * note of a fork says when it was made, and what was foreign to its parent then.
 *
 * A note has at most NOTE_RANGES_MAX ranges; a further one makes the two with the smallest gap into one. That counts
 * the gap too: rather too much than too little.
 *
 * The note is an extended attribute of the layer's root directory; snapshots inherit it.
 */
#pragma once

#include "base/base.h"

enum { NOTE_RANGES_MAX = 8, NOTE_BYTES_MAX = 512 };

struct note_range {
	uint64_t low, high; /* generations (low, high] */
};

struct note_ranges {
	uint64_t n;
	struct note_range v[NOTE_RANGES_MAX]; /* ascending; they do not touch */
};

struct layer_note {
	uint64_t group;
	uint64_t limit;	 /* of the box */
	uint64_t parent; /* the group of the box that it was forked from; 0: none, or nobody knows */
	uint64_t forked; /* the generation of that moment */
	struct note_ranges foreign, parent_foreign;
};

/* Adds (low, high], which begins at or after the end of the last range. */
void note_ranges_add(struct note_ranges *r, uint64_t low, uint64_t high);
bool note_ranges_have(const struct note_ranges *r, uint64_t generation);
bool note_ranges_equal(const struct note_ranges *a, const struct note_ranges *b);

/* The note of a layer of group `group` that has the files of a layer with the note `from` and was made in `generation`.
 * `old` is the note of the layer that it replaces, or NULL. */
struct layer_note note_inherit(
	const struct layer_note *from, const struct layer_note *old, uint64_t group, uint64_t generation);

/* The form on the disk. note_decode also reads notes of earlier versions. 0, -EBADMSG. */
size_t note_encode(const struct layer_note *n, char ret[NOTE_BYTES_MAX]);
int note_decode(const char *bytes, size_t size, struct layer_note *ret);

/* Of an open layer: its root directory. 0 or -errno; -ENODATA: it has none. */
int pool_note_read(int layer, struct layer_note *ret);
int pool_note_write(int layer, const struct layer_note *n);
