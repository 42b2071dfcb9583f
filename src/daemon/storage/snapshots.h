/*
 * snapshots.h - the snapshots of all sandboxes: rows of the store, and the warden's copies behind them.
 *
 * A snapshot has an id ("snap-" and 16 hex digits), the sandbox that it belongs to, and the settings that the sandbox
 * had then, for sandboxes that are made from it. Its row is written before the copy is made, and says `making` until
 * the copy is there. Rows that say so after a restart are deleted together with their copies. A snapshot for one
 * operation (a fork) says `making` as long as it lives. The snapshot of a sandbox's last backup is its `base`: nobody
 * sees it, and the next backup holds what has changed since.
 *
 * The daemon owns snapshots; they leave with their sandbox. Sandboxes that were made from a snapshot do not need it.
 * Callbacks are never called from inside the function that got them. Thread: the loop's.
 */
#pragma once

#include "base/list.h"
#include "daemon/core/sandbox.h"

enum { SNAPSHOT_LABEL_MAX = 100 };

struct snapshot {
	struct daemon *daemon;
	char id[SNAPSHOT_NAME_MAX + 1];
	char sandbox[BOX_ID_MAX + 1];
	char name[SNAPSHOT_LABEL_MAX + 1]; /* "": none */
	int64_t created_ms;
	uint64_t size; /* bytes that the sandbox was charged for then */
	bool ready;    /* made, and to be kept */
	bool base;     /* of the next backup; `name` is the backup's id */
	bool active;   /* an operation uses it */
	bool dropping;
	struct api_spec spec;
};

/* Reads the rows; deletes those of sandboxes that are gone. Before store_start. */
int snapshots_load(struct daemon *d, struct err *e);
/* The warden is there (again): deletes what was left half-made. */
void snapshots_warden_up(struct daemon *d);
/* Now and then: deletions that failed are tried again. */
void snapshots_retry(struct daemon *d);
/* The sandbox is destroyed. */
void snapshots_drop_all(struct daemon *d, const char *sandbox);

/* By id; by name too if `sandbox` is not NULL, then only of that sandbox. NULL: none. */
struct snapshot *snapshot_find(struct daemon *d, const char *sandbox, struct str text);
/* Of one sandbox, oldest first; the array is the caller's to free. */
struct snapshot **snapshots_of(struct daemon *d, const char *sandbox, size_t *ret_n);

/* e is NULL on success. */
typedef void (*snapshot_on_done)(void *arg, struct snapshot *s, const struct err *e);
/* Makes one of the files of this moment. `name` NULL: for one operation, to be dropped by the caller. */
void snapshot_take(struct sandbox *s, const char *name, snapshot_on_done on_done, void *arg);
/* Forgets it and deletes its files. `on_done` gets no snapshot; with one, only while the warden is up. Without one a
 * drop that fails is tried again when the warden comes back. */
void snapshot_drop(struct snapshot *s, snapshot_on_done on_done, void *arg);

/* A row for files that come from outside, for one operation: the caller fills and drops it. */
void snapshot_reserve(
	struct daemon *d, const char *sandbox, const struct api_spec *spec, snapshot_on_done on_done, void *arg);
/* One that was taken for an operation becomes the base of its sandbox; earlier bases go. */
void snapshot_keep_base(struct snapshot *s, const char *backup);
/* NULL: none that is free. */
struct snapshot *snapshot_base(struct daemon *d, const char *sandbox);
/* The sandbox has other files now, or the backup is gone: the next backup is a whole one. */
void snapshot_drop_base(struct daemon *d, const char *sandbox);

void snapshot_write(struct json_writer *w, const struct snapshot *s);
