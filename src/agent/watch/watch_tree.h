/*
 * watch_tree.h - which directories below a root have an inotify watch, and which path each watch stands for.
 *
 * Paths are relative to the root: "" is the root itself, "a/b" is below it. A kernel watch follows its directory
 * through renames. This module keeps, for each watch, the watch of the parent directory and the name there, so a
 * directory that moves takes everything below it along.
 *
 * Events are read later than they happen. By then the name in an event may belong to another directory, or to none. So
 * this module never concludes from events which directory has a name. It asks the kernel, which answers a second watch
 * of the same directory with the number of the first. Every rename is followed by an event that makes it ask again, so
 * a wrong name is corrected soon. Symbolic links are never followed. Part of watch.c. Thread: the loop's.
 */
#pragma once

#include "base/map.h"

struct watch_tree {
	int fd;	    /* inotify; owned */
	char *root; /* absolute */
	struct map dirs;
	unsigned generation;
	bool missed; /* an event named a directory that could not be found by then … */
	bool deep;   /* … so the search also enters known directories, and drops those that are now skipped */
	/* `skip` says which directories are not watched; `found` is told the entries of new directories (NULL: nobody
	 * is told). Neither may change the tree. */
	bool (*skip)(void *arg, const char *rel);
	bool skip_by_path; /* `skip` depends on parent directories too, not only on the name */
	void (*found)(void *arg, const char *rel, bool directory);
	void *arg;
};

/* A name in the directory that has the watch `dir`. */
struct watch_place {
	int dir;
	const char *name;
};

/* Owns `fd` from now on. */
void watch_tree_init(struct watch_tree *t, int fd, const char *root);
void watch_tree_free(struct watch_tree *t);

/* Watches the root and the directories above it: when one of those moves, the root has another name. 0 or -errno. */
int watch_tree_start(struct watch_tree *t);
/* Searches the whole tree for directories without a watch: at the start, and after events were lost. 0, or -errno of a
 * directory that cannot be watched; ENOSPC (the kernel allows no more watches) wins over others. Directories that
 * vanish meanwhile are not errors. */
int watch_tree_recurse(struct watch_tree *t);

/* On the heap; NULL when the watch is not (or no longer) known. */
char *watch_tree_path(const struct watch_tree *t, int wd);
/* The path that a watch above the root has. */
#define WATCH_TREE_ABOVE "/"

/* A directory was made at or moved to `at`; `from` is its old place, or NULL when that is not known. If it had no
 * watch, `found` is told everything in it. Returns as watch_tree_recurse. */
int watch_tree_came(struct watch_tree *t, struct watch_place at, const struct watch_place *from);
/* A directory was moved out of the tree. */
void watch_tree_left(struct watch_tree *t, struct watch_place from);
/* No event waits: if a directory was missed, the whole tree is searched. Its event may still come: the kernel shows a
 * new name before it reports it, and a program can be stopped in between. Returns as watch_tree_recurse. */
int watch_tree_settled(struct watch_tree *t);
/* The kernel has ended the watch. */
void watch_tree_forget(struct watch_tree *t, int wd);
