/*
 * watch_tree.h - which directories below a root have an inotify watch, and which path each watch stands for.
 *
 * Paths are relative to the root: "" is the root itself, "a/b" lies below. The kernel's watches follow the directory
 * itself, whatever its name becomes. What is kept here for each is the watch of the directory that it lies in, and its
 * name there: whatever moves takes everything below it along.
 *
 * Events are read later than they happen. The name in one may be another directory's by now, or nobody's; so which
 * directory has a name is never concluded from events but asked of the kernel, which answers a second watch of the same
 * directory with the first one's number. Every change of names is followed by an event that asks again: what is wrong
 * for a moment does not stay so. Symbolic links are never followed. Part of watch.c. Thread: the loop's.
 */
#pragma once

#include "base/map.h"

struct watch_tree {
	int fd;	    /* inotify; owned */
	char *root; /* absolute */
	struct map dirs;
	unsigned generation;
	bool missed; /* something was made where its directory could not be found by then … */
	bool deep;   /* … so directories that are known are looked through too; one that is skipped now has to go */
	/* Directories that are not wanted, and what is found in new ones (NULL: nobody is told). Neither may change the
	 * tree. */
	bool (*skip)(void *arg, const char *rel);
	bool skip_by_path; /* whether one is depends on more than names: on what it lies in */
	void (*found)(void *arg, const char *rel, bool directory);
	void *arg;
};

/* A name in a directory, by the watch of that. */
struct watch_place {
	int dir;
	const char *name;
};

/* Owns `fd` from now on. */
void watch_tree_init(struct watch_tree *t, int fd, const char *root);
void watch_tree_free(struct watch_tree *t);

/* Watches the root itself, and what it lies in: when that moves away, the root has another name. 0 or -errno. */
int watch_tree_start(struct watch_tree *t);
/* Looks through everything for directories without a watch: at the start, and after events were lost. 0, or -errno of
 * one that cannot be watched, ENOSPC first: the kernel allows no more. What vanishes meanwhile is no mistake. */
int watch_tree_recurse(struct watch_tree *t);

/* On the heap; NULL when the watch is not (or no longer) known. */
char *watch_tree_path(const struct watch_tree *t, int wd);
/* What the path of a watch above the root is said to be. */
#define WATCH_TREE_ABOVE "/"

/* A directory has come to have this name, made or moved; `from` is where it was, or NULL when that is not known. If it
 * had no watch, `found` is told of everything in it. As watch_tree_recurse. */
int watch_tree_came(struct watch_tree *t, struct watch_place at, const struct watch_place *from);
/* A directory was moved from here, and not to any place in the tree. */
void watch_tree_left(struct watch_tree *t, struct watch_place from);
/* All events that there were have been told: nothing is missed any more. */
void watch_tree_settled(struct watch_tree *t);
/* The watch has ended by itself. */
void watch_tree_forget(struct watch_tree *t, int wd);
