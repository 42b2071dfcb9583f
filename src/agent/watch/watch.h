/*
 * watch.h - changes below a directory, from inotify: recursive, filtered, coalesced.
 *
 * A watcher has one inotify instance and one watch per directory below its root that no pattern excludes. Directories
 * that are made later get a watch too, and files made in them before that watch began are reported as well. A directory
 * that moves inside the tree keeps its watches under its new name. The same change of the same path is reported once
 * per WATCH_COALESCE ms. Files that the agent's own writes put in place (file/replace.h) appear as created or modified,
 * not as renames of temporary files.
 *
 * Events wait while the owner can take no more. When the kernel's queue or this one (WATCH_PENDING_MAX) overflows, or
 * when a directory cannot be watched, on_lost says so. After an overflow the tree is searched again for directories
 * without a watch. No event is lost silently.
 *
 * Ownership: the caller owns a watcher until watcher_free. Callbacks come from the loop or from inside watcher_flush.
 * When the root itself goes away, on_gone is the last callback.
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
	/* Returns false when the owner can take no more events until watcher_resume; this event counts as taken. */
	bool (*on_event)(void *arg, const struct watch_event *ev);
	void (*on_lost)(void *arg, const char *why);
	void (*on_gone)(void *arg); /* the root was deleted, unmounted, or moved (itself or a directory above it) */
};

/* Either list may be empty; with `include` a path counts only when a pattern matches. The lists are borrowed for the
 * watcher's life; the texts are copied. */
struct watch_options {
	const char *root;  /* the directory, absolute and free of links */
	const char *shown; /* name of the root in events */
	const char *only;  /* NULL, or the only name in the root that counts: how a single file is watched */
	bool recursive;
	unsigned kinds; /* 1 << enum watch_kind, for each wanted kind */
	const struct str *include, *exclude;
	size_t include_n, exclude_n;
};

/* NULL with *e on failure. At most WATCHERS_MAX watchers exist at once (WATCH_START_ERROR). */
struct watcher *watcher_new(
	struct loop *l, const struct watch_options *o, const struct watch_ops *ops, void *arg, struct err *e);
void watcher_free(struct watcher *w);
/* The number of watchers that exist. */
int watchers_running(void);
/* The owner can take events again. */
void watcher_resume(struct watcher *w);
/* Reports every change that has happened until now, at once. */
void watcher_flush(struct watcher *w);
