/*
 * id.h - what a sandbox id may be. Checked by atolld for its clients and again by the warden.
 *
 * Upstream's rules: 1 to 63 characters, no hyphen at either end, not a reserved word in any case. Two of ours:
 * printable ASCII without '/', so that an id can stand in a URL, a log line and a metric; not dots alone. Upper and
 * lower case are different ids. Nothing on disk is named by a raw id: see box_id_filename.
 */
#pragma once

#include "base/str.h"
#include "proto/errc.h"
#include "proto/limits.h"

/* 0, or -1 with INVALID_SANDBOX_ID_LENGTH, _HYPHENS, _CHARACTERS or RESERVED_SANDBOX_ID and a sentence naming the rule.
 */
int box_id_check(struct str id, struct err *e);

/* Ids that only Atoll's own programs give: image-…, docker-…, bridge-…, backup-…; clients use those that exist. But the
 * client libraries make backup- and a UUID. */
bool box_id_is_given(struct str id);

enum { BOX_FILENAME_MAX = 3 * BOX_ID_MAX + 1 };
/* The id as a file name: [A-Za-z0-9_-] stay, every other byte becomes %XX (upper-case hex). One to one. */
void box_id_filename(struct str id, char ret[BOX_FILENAME_MAX]);
/* The way back. False when `name` is not the file name of a valid id. */
bool box_id_from_filename(struct str name, char ret[BOX_ID_MAX + 1]);

/* The names of snapshots on disk: [a-z0-9][a-z0-9-]*, at most SNAPSHOT_NAME_MAX. */
bool snapshot_name_ok(struct str name);

/* The names of volumes: [a-z0-9][a-z0-9._-]*, at most VOLUME_NAME_MAX. */
bool volume_name_ok(struct str name);
/* Volumes of builds: clients make and mount none. */
bool volume_name_is_given(struct str name);
/* The place of a volume in a box: absolute, at most VOLUME_PATH_MAX bytes, no empty, "." or ".." part, no slash at the
 * end, no control characters; not /, and nothing in /proc, /dev and /sys. */
bool volume_path_ok(struct str path);
/* Whether one of two paths lies in the other, or both are the same. */
bool volume_paths_overlap(struct str a, struct str b);

/* Image names: [a-z0-9][a-z0-9._-]*, at most BOX_IMAGE_NAME_MAX. */
bool box_image_name_ok(struct str name);
