/*
 * watch_tree.h - which directories below a root have an inotify watch, and which path each watch stands for.
 *
 * Paths are relative to the root: "" is the root itself, "a/b" lies below. The kernel's watches follow the directory
 * itself, whatever its name becomes; what is kept here is moved along (watch_tree_move). Symbolic links are never
 * followed. Part of watch.c. Thread: the loop's.
 */
#pragma once

#include "base/map.h"

struct watch_tree {
	int fd;	    /* inotify; owned */
	char *root; /* absolute */
	struct map dirs;
	unsigned generation;
	bool recursive;
	/* Directories that are not wanted, and what is found in wanted ones. Neither may change the tree. */
	bool (*skip)(void *arg, const char *rel);
	void (*found)(void *arg, const char *rel, bool directory);
	void *arg;
};

/* Owns `fd` from now on. */
void watch_tree_init(struct watch_tree *t, int fd, const char *root, bool recursive);
void watch_tree_free(struct watch_tree *t);

/* NULL when the watch is not (or no longer) known. Borrowed until the tree changes. */
const char *watch_tree_path(const struct watch_tree *t, int wd);

/* Watches a directory and all below it. `report`: tells `found` of everything in it. 0, or -errno: of the directory
 * itself, or ENOSPC when the kernel allows no more watches. What vanishes meanwhile is no mistake. */
int watch_tree_add(struct watch_tree *t, const char *rel, bool report);
/* The watch has ended by itself. */
void watch_tree_forget(struct watch_tree *t, int wd);
/* Ends the watches of a directory and of all below it. */
void watch_tree_drop(struct watch_tree *t, const char *rel);
/* It has another name now. False when it had no watch. */
bool watch_tree_move(struct watch_tree *t, const char *from, const char *to);
/* Looks through everything again: after events were lost. As watch_tree_add of the root. */
int watch_tree_rescan(struct watch_tree *t);
