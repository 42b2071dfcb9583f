/*
 * watch.h - changes below a directory, from inotify: recursive, filtered, coalesced.
 *
 * A watcher has one inotify instance and one watch per directory below its root that no pattern excludes. Directories
 * that come later are picked up, and what was made in them before the watch was there is reported too; one that moves
 * inside the tree keeps its watches under its new name. The same change of the same path is reported once per
 * WATCH_COALESCE ms. Files that the agent's own writes put in place (file/replace.h) appear as created or modified, not
 * as renames of temporary files.
 *
 * Events wait for an owner that can take no more. When the kernel's queue or ours (WATCH_PENDING_MAX) overflows, or a
 * directory can get no watch, on_lost says so; the tree is then looked through again for directories without a
 * watch. Nothing is lost silently.
 *
 * Ownership: the caller's, until watcher_free; callbacks come from the loop, or from inside watcher_flush. When the
 * root itself goes away, on_gone is the last callback.
 */
#pragma once

#include "agent/limits.h"
#include "base/loop.h"
#include "base/str.h"
#include "proto/errc.h"

struct watcher;

enum watch_kind {
	WATCH_CREATE,
	WATCH_MODIFY,
	WATCH_DELETE,
	WATCH_MOVE_FROM,
	WATCH_MOVE_TO,
	WATCH_ATTRIB,
	WATCH_KINDS,
};
/* "create", "modify", "delete", "move_from", "move_to", "attrib" */
const char *watch_kind_name(enum watch_kind kind);

struct watch_event {
	enum watch_kind kind;
	const char *path; /* below the root as it was named */
	bool directory;
	int64_t wall_ms;
};

struct watch_ops {
	/* False: it was taken, and no more can be until watcher_resume. */
	bool (*on_event)(void *arg, const struct watch_event *ev);
	void (*on_lost)(void *arg, const char *why);
	void (*on_gone)(void *arg); /* the root was deleted or unmounted, or moved: it or what it lies in */
};

/* Either list may be empty; with `include` a path counts only when a pattern matches. Lists are borrowed for the
 * watcher's life. */
struct watch_options {
	bool recursive;
	unsigned kinds; /* 1 << enum watch_kind, for each that is wanted */
	const struct str *include, *exclude;
	size_t include_n, exclude_n;
	const char *only; /* NULL, or the one name in the root that counts: how a single file is watched */
};

/* `root` is the directory, absolute and free of links; `shown` is what events call it. At most WATCHERS_MAX at once
 * (WATCH_START_ERROR). */
struct watcher *watcher_new(struct loop *l, const char *root, const char *shown, const struct watch_options *o,
	const struct watch_ops *ops, void *arg, struct err *e);
void watcher_free(struct watcher *w);
/* How many there are. */
int watchers_running(void);
/* The owner can take events again. */
void watcher_resume(struct watcher *w);
/* Reports what has happened until now, at once. */
void watcher_flush(struct watcher *w);
