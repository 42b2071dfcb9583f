/*
 * tree.h - copies and measures layers. A copy lies on another file system: a tree with the kernel's whiteouts, owners,
 * modes, times, holes, hard links and extended attributes. Root does it; no link of the tree is followed.
 */
#pragma once

#include <stdint.h>

/* Copies the directory `from` to a new directory `name` in `dir`. 0 or -errno; a failed copy may leave a part. Nested
 * deeper than TREE_DEPTH_MAX: -ELOOP. */
int tree_copy(int from, int dir, const char *name);
/* The bytes that a tree takes on the disk, hard links once. -errno; nested deeper than TREE_DEPTH_MAX: -ELOOP. */
int64_t tree_size(int dir);
