/*
 * backup.h - atoll-backup: a process of the daemon's user that does one job and ends.
 *
 *	atoll-backup store [--room=BYTES] [--below=BYTES] [--most=BYTES] ID
 *	                             stdin: a stream of btrfs; fd 3: the description, a JSON object on one line;
 *	                             a stream that does not fit into so many bytes of disk is PAYLOAD_TOO_LARGE
 *	atoll-backup load ID...      a chain, oldest first; fd 4: the warden's socket for streams
 *	atoll-backup list            every manifest; --sweep first deletes what interrupted jobs left
 *	atoll-backup hide ID...      no longer shown, but still needed by others
 *	atoll-backup drop ID...      deletes them
 *
 * It answers on stdout, one JSON object a line: {"stream":N} while it works (a load: {"checked":N} before),
 * {"manifest":…} for each of a list, and as the last line {"done":true} or {"error":{"code","message"}}. It ends with
 * the daemon.
 *
 * A backup is two objects: ID.zst, the compressed stream, and ID.json, its manifest, written last. A backup without a
 * manifest does not exist. ID.hidden beside them hides it.
 */
#pragma once

#include "backup/limits.h"
#include "base/buf.h"
#include "base/json.h"
#include "proto/errc.h"

enum { BACKUP_ID_MAX = 63, BACKUP_NAME_MAX = BACKUP_ID_MAX + 8, BACKUP_HASH = 64 /* hexadecimal digits */ };

/* "bak-" and 16 hexadecimal digits. */
bool backup_id_ok(struct str id);

/* ---- manifest.c ----
 * "atoll-backup 1 HMAC\n", then one line of JSON: {"backup": description, "object": {"size", "sha256", "bytes"},
 * "parentSeal": "…"}. The HMAC (SHA-256) is over the JSON. The seal of the parent ties a chain together. */

struct manifest {
	char id[BACKUP_ID_MAX + 1], parent[BACKUP_ID_MAX + 1]; /* "": none */
	char seal[BACKUP_HASH + 1], parent_seal[BACKUP_HASH + 1];
	uint64_t size, bytes; /* of the object; of the stream in it */
	char sha256[BACKUP_HASH + 1];
	struct buf json;
};

struct backup_key {
	unsigned char bytes[32];
};
/* Makes the file, 0600, if it is not there. */
int backup_key_load(const char *path, struct backup_key *ret, struct err *e);

/* Checks form, HMAC and that it is of this id. */
int manifest_parse(const struct backup_key *k, const char *id, struct str text, struct manifest *ret, struct err *e);
/* The text of the object. `m` has the numbers and the parent's seal. */
void manifest_write(const struct backup_key *k, struct str description, const struct manifest *m, struct buf *ret);
void manifest_free(struct manifest *m);

/* ---- frame.c: follows the commands of a stream without looking into them ---- */

struct frame {
	char head[17];
	size_t have;   /* of a head */
	uint64_t skip; /* bytes of a command's body */
	bool begun, ended, bad;
};
/* False: this is no stream, or bytes follow its end. */
bool frame_feed(struct frame *f, const char *p, size_t n);

/* ---- the jobs; `t` is open ---- */

struct target;
struct backup_run {
	struct target *t;
	struct backup_key key;
	const char *dir; /* for copies of objects that are elsewhere */
	char **ids;
	size_t ids_n;
	uint64_t room;	/* of the sandbox; 0: as large as it may be */
	uint64_t below; /* bytes of the streams that it builds on */
	uint64_t most;	/* bytes of the object; 0: any */
	bool sweep;
};
int run_store(struct backup_run *r, struct err *e);
int run_load(struct backup_run *r, struct err *e);
int run_list(struct backup_run *r, struct err *e);
int run_hide(struct backup_run *r, struct err *e);
int run_drop(struct backup_run *r, struct err *e);

/* One line of the answer. */
void tell(struct buf *line);
void tell_progress(const char *what, uint64_t bytes);
/* Reads and checks one manifest. */
int manifest_fetch(struct backup_run *r, const char *id, struct manifest *ret, struct err *e);
