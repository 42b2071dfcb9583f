/*
 * watch.h - changes below a directory, from inotify: recursive, filtered, coalesced.
 *
 * A watcher has one inotify instance and one watch per directory below its root that no pattern excludes. Directories
 * that come later are picked up, and what was made in them before the watch was there is reported too. The same change
 * of the same path is reported once per WATCH_COALESCE ms. Files that the agent's own writes put in place (store.h)
 * appear as created or modified, not as renames.
 *
 * When the kernel's queue or ours (WATCH_PENDING_MAX) overflows, on_overflow says so and the tree is looked through
 * again for directories without a watch: nothing is lost silently.
 *
 * Ownership: the caller's, until watcher_free; callbacks come from the loop. When the root itself goes away, on_gone
 * is the last callback.
 */
#pragma once

#include "base/err.h"
#include "base/loop.h"
#include "base/str.h"

struct watcher;

struct watch_event {
	const char *type; /* create, modify, delete, move_from, move_to, attrib */
	const char *path; /* absolute */
	bool directory;
	int64_t wall_ms;
};

struct watch_ops {
	void (*on_event)(void *arg, const struct watch_event *ev);
	void (*on_overflow)(void *arg);
	void (*on_gone)(void *arg); /* the root was deleted, moved away or unmounted */
};

/* Either list may be empty; with `include` a file counts only when a pattern matches. Lists are borrowed for the
 * watcher's life. */
struct watch_options {
	bool recursive;
	const struct str *include, *exclude;
	size_t include_n, exclude_n;
};

/* `root` is absolute and a directory. At most WATCHERS_MAX at once (WATCH_START_ERROR). */
struct watcher *watcher_new(struct loop *l, const char *root, const struct watch_options *o,
	const struct watch_ops *ops, void *arg, struct err *e);
void watcher_free(struct watcher *w);
/* Reports what has happened until now, at once. */
void watcher_flush(struct watcher *w);
