/*
 * backups.h - the backups of all sandboxes: which there are, making, restoring and deleting them.
 *
 * The manifests are the truth (backup/backup.h); the table here is read from them at the start. A backup belongs to the
 * id of a sandbox, not to the sandbox: it stays when that is destroyed. Backups of one sandbox form chains: each holds
 * what has changed since its parent. One that others need is only hidden when it is deleted, and goes with the last of
 * them.
 *
 * Jobs that move files wait for a place (backup_jobs.h). Callbacks may come from inside the function that got them only
 * where it says so. Thread: the loop's.
 */
#pragma once

#include "daemon/storage/snapshots.h"

enum backup_state { BACKUP_MAKING, BACKUP_READY, BACKUP_FAILED };

struct backup {
	struct daemon *daemon;
	char id[SNAPSHOT_NAME_MAX + 1];
	char sandbox[BOX_ID_MAX + 1];
	char name[SNAPSHOT_LABEL_MAX + 1];   /* "": none */
	char parent[SNAPSHOT_NAME_MAX + 1];  /* "": it is whole */
	char digest[BOX_IMAGE_NAME_MAX + 1]; /* the key of its image */
	enum backup_state state;
	bool hidden;			/* deleted, but others need it */
	bool scheduled;			/* made by the sandbox's schedule */
	unsigned uses;			/* restores that read it now; its deletion */
	uint64_t chain;			/* backups before it that it needs */
	int64_t created_ms, expires_ms; /* wall clock; 0: never */
	uint64_t size, bytes;		/* of its object; of the stream in it, also while it is made */
	struct api_spec spec;
	struct err err;		      /* of BACKUP_FAILED … */
	uint64_t failed_ms;	      /* … and since when (loop_now) */
	struct backup_making *making; /* of BACKUP_MAKING */
};

struct backups *backups_new(struct daemon *d);

/* Calls `run` when the list is known, at once if it is; with an error if it cannot be had. */
void backups_when_known(struct daemon *d, void (*run)(void *arg, const struct err *e), void *arg);

/* NULL: none, or hidden. */
struct backup *backup_find(struct daemon *d, struct str id);
/* Of one sandbox, or all (NULL), oldest first, without the hidden ones; the array is the caller's to free. */
struct backup **backups_of(struct daemon *d, const char *sandbox, size_t *ret_n);
void backup_write(struct json_writer *w, const struct backup *b);

/* What the backups of one sandbox take, or all (NULL), those that are hidden and those that are being made included. */
struct backup_usage {
	uint64_t bytes, hidden_bytes, hidden;
};
struct backup_usage backups_usage(struct daemon *d, const char *sandbox);

/* e is NULL on success. */
typedef void (*backup_on_done)(void *arg, struct backup *b, const struct err *e);

struct backup_wish {
	char name[SNAPSHOT_LABEL_MAX + 1];
	uint64_t ttl_ms; /* 0: for ever */
	bool scheduled;
};
/* The list is known. NULL with *e: LIMIT_REACHED, also when ATOLL_BACKUP_BYTES are in use. `on_done` may be NULL. */
struct backup *backup_make(
	struct sandbox *s, const struct backup_wish *wish, backup_on_done on_done, void *arg, struct err *e);

/* Brings its files into the pool as a snapshot for one operation, which the caller drops. All objects are checked
 * first, then sent. */
struct backup_loading;
struct backup_load_task {
	uint64_t disk; /* at most so many bytes of files */
	/* May be NULL. `phase` is "checking" or "restoring"; bytes and total of that phase. */
	void (*on_progress)(void *arg, const char *phase, uint64_t bytes, uint64_t total);
	snapshot_on_done on_done;
	void *arg;
};
/* NULL with *e: on_done will not come. It never comes from inside. */
struct backup_loading *backup_load(struct backup *b, const struct backup_load_task *t, struct err *e);
/* on_done follows, with INVALID_STATE, maybe from inside. */
void backup_load_cancel(struct backup_loading *l);

/* Ends one that is being made, forgets one that failed, deletes or hides one that is ready. RESOURCE_BUSY while it is
 * being restored. `on_done` gets no backup and may be NULL. */
void backup_delete(struct backup *b, backup_on_done on_done, void *arg);

/* ---- backup_schedule.c ---- */

struct config;
/* Before any setting is checked. */
void backups_schedule_begin(const struct config *c);
/* The check of the setting "backup" (sandbox/settings.h). */
int backups_check_setting(const struct json *value, struct err *e);
/* Every BACKUP_LOOK: makes those that are due. The list is known. */
void backups_schedule(struct daemon *d);

/* ---- between backups.c and backup_make.c ---- */

struct backup *backup_new(struct daemon *d, const char *id, const char *sandbox);
void backup_forget(struct backup *b);
/* One that others may have waited for has failed or is in use no more: hidden ones are looked at soon. */
void backups_unneeded(struct daemon *d);
/* Also a hidden one. */
struct backup *backup_find_any(struct daemon *d, const char *id);
/* Deletes what a job that failed may have left. */
void backup_clean(struct daemon *d, const char *id);
/* The key of the image that a sandbox with these settings has. */
const char *backup_digest(struct daemon *d, const struct api_spec *spec);
void backup_cancel(struct backup *b, backup_on_done on_done, void *arg); /* backup_make.c */
