/*
 * volumes.h - named volumes: directories with a limit of their own that outlive sandboxes and that several share.
 *
 * A volume has a name and a size. The warden makes its directory in the pool, then its row is written; a delete goes
 * the same way. A kill in between leaves an empty directory without a row, which the next request of this name adopts,
 * or a row whose directory is gone, which a second delete removes.
 *
 * A sandbox names its volumes in its setting `volumes`. The setting changes only while the sandbox has no box, so it
 * always says which volumes a box has. A volume that a sandbox names is not deleted. Thread: the loop's.
 */
#pragma once

#include "base/json.h"
#include "proto/errc.h"
#include "proto/limits.h"

struct daemon;
struct warden_request;

struct volume {
	struct daemon *daemon;
	char name[VOLUME_NAME_MAX + 1];
	uint64_t size; /* bytes that it may have */
	int64_t created_ms;
	bool ready; /* it has a row */
	bool busy;  /* being made, resized or deleted */
	bool dropping;
};

/* Reads the rows. Before store_start. */
int volumes_load(struct daemon *d, struct err *e);
/* NULL: none. */
struct volume *volume_find(const struct daemon *d, const char *name);

/* e is NULL on success; `used` are the bytes in it, or VOLUME_USED_UNKNOWN. */
#define VOLUME_USED_UNKNOWN UINT64_MAX
typedef void (*volume_on_done)(void *arg, uint64_t used, const struct err *e);
/* Makes one, or gives it another size. 1: it is new, 0: it was there, -1 with *e: on_done is not called. */
int volume_put(struct daemon *d, const char *name, uint64_t size, volume_on_done on_done, void *arg, struct err *e);
/* -1 with *e: RESOURCE_BUSY while a sandbox names it. */
int volume_delete(struct volume *v, volume_on_done on_done, void *arg, struct err *e);
/* How much is in it. It may be gone when on_done is called. */
void volume_measure(struct volume *v, volume_on_done on_done, void *arg);

/* Its members, into an object that is being written. */
void volume_write(struct json_writer *w, const struct volume *v);
/* "volumes": [ … ], sorted by name. */
void volumes_list(struct daemon *d, struct json_writer *w);
/* "usedBy": [ … ]: the ids of at most VOLUME_USERS_SHOWN sandboxes; boxes of builds only if `own`. */
void volume_write_users(struct json_writer *w, const struct volume *v, bool own);

/* ---- of a sandbox ---- */

/* The setting `volumes` (settings.c). */
int volumes_check_setting(const struct json *value, struct err *e);
/* The first volume of the setting that there is none of: NOT_FOUND. */
int volumes_check_known(const struct daemon *d, const char *settings, struct err *e);
/* Whether two settings name the same volumes. */
bool volumes_same(const char *a, const char *b);
/* Whether `settings` name a volume of builds that `had` do not. */
bool volumes_add_builds(const char *had, const char *settings);
/* The volumes of a WARDEN_CREATE. */
void volumes_ask(const struct daemon *d, const char *settings, struct warden_request *r);
/* The size of the largest one; 0: there is none. */
uint64_t volumes_largest(const struct daemon *d, const char *settings);
