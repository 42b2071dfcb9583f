/*
 * buckets.h - buckets that sandboxes have mounted: s3fs in the box, with keys that the daemon holds as a secret.
 *
 * The box has a placeholder; the gate signs each request on its way out (docs/design/022-secrets.md). The mounts of a
 * sandbox are a note in its settings (`.mounts`), so they come along with snapshots and forks. A box that starts gets
 * them before its variables, so before anything else runs in it; if one fails, the start fails with s3fs's words: no
 * program ever writes into an empty directory in a bucket's place. Thread: the loop's.
 */
#pragma once

#include "base/json.h"
#include "proto/errc.h"
#include "proto/limits.h"

struct sandbox;

enum { BUCKET_NAME_MAX = 63, BUCKET_ENDPOINT_MAX = 270, BUCKET_PREFIX_MAX = 255 };

struct bucket_mount {
	char bucket[BUCKET_NAME_MAX + 1];
	char path[VOLUME_PATH_MAX + 1];
	char endpoint[BUCKET_ENDPOINT_MAX + 1]; /* "https://host" or "https://host:port" */
	char prefix[BUCKET_PREFIX_MAX + 1];	/* "": none; else "/a/b" */
	char secret[SECRET_NAME_MAX + 1];
	bool read_only;
};

/* The body of a request. VALIDATION_FAILED about the field. */
int bucket_parse(const struct json *body, struct bucket_mount *ret, struct err *e);
void bucket_write(struct json_writer *w, const struct bucket_mount *m);

/* Whether settings have mounts; the members of `mounts`, as an array. */
bool buckets_any(const char *settings);
void buckets_write(struct json_writer *w, const char *settings);

/* The settings that change when the mount is added (the secret is given to the sandbox as well), or taken away. The
 * caller frees. NULL with *e: the place is taken, too many, no such secret; not mounted there. */
char *buckets_add(const struct sandbox *s, const struct bucket_mount *m, struct err *e);
char *buckets_remove(const char *settings, const char *path, struct err *e);

/* e is NULL on success. The sandbox is referenced meanwhile. */
typedef void (*buckets_on_done)(void *arg, const struct err *e);
void bucket_mount(struct sandbox *s, const struct bucket_mount *m, buckets_on_done on_done, void *arg);
void bucket_unmount(struct sandbox *s, const char *path, buckets_on_done on_done, void *arg);
/* Adds the shell function `one`: bucket, path, endpoint, key id, key, further options of s3fs, "1" when a mount that is
 * there is fine. It says on stderr why it failed. */
void buckets_put_script(struct buf *script);
/* Those of its settings. One that is there already is left alone. */
void buckets_mount_all(struct sandbox *s, buckets_on_done on_done, void *arg);
