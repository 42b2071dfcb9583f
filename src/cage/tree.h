/*
 * tree.h - copies a layer to another file system: a tree with the kernel's whiteouts, owners, modes, times, hard links
 * and extended attributes. Root does it; no link of the tree is followed.
 */
#pragma once

/* Copies the directory `from` to a new directory `name` in `dir`. 0 or -errno; a failed copy may leave a part. Nested
 * deeper than TREE_DEPTH_MAX: -ELOOP. */
int tree_copy(int from, int dir, const char *name);
