/*
 * build_mounts.h - RUN --mount: what is in a box during one command, and never in its layer.
 *
 *	cache    a volume of the pool that stays for later builds of this daemon, found by its id (build_caches.c)
 *	tmpfs    a volume that is made for the command and deleted after it
 *	bind     files of the context, of a stage or of an image: a directory is a volume as with tmpfs, filled before;
 *	         one file is put in its place by atoll-mover, which takes it away after the command
 *	secret   a file on a tmpfs of the box, or a variable; its bytes come with the request and are kept in memory
 *
 * A box gets its volumes when it starts, so each RUN has a box of its own for them (build_run.c). All names in a mount
 * are a client's: places are checked here, and again by daemon, warden and the half-made box.
 */
#pragma once

#include "images/build_impl.h"
#include "proto/id.h"

enum mount_type { MOUNT_BIND, MOUNT_CACHE, MOUNT_TMPFS, MOUNT_SECRET };
enum mount_sharing { MOUNT_SHARED, MOUNT_PRIVATE, MOUNT_LOCKED };

struct mount {
	enum mount_type type;
	enum mount_sharing sharing;
	char *target, *source, *from, *id, *env; /* target: absolute; NULL: not given */
	uint64_t uid, gid, mode, size;
	bool has_mode, read_only, writable, required;
	/* while the command runs */
	char volume[VOLUME_NAME_MAX + 1]; /* "": it is no directory, or there is no pool */
	char place[VOLUME_PATH_MAX + 1],
		top[VOLUME_PATH_MAX + 1]; /* of the volume; the topmost directory made for it */
	bool is_new;
	int lock;		  /* of a cache, or -1 */
	struct build_files files; /* of bind and of a cache with from */
	struct str secret;	  /* borrowed from the build */
};

struct mounts {
	struct mount v[SERVICE_MOUNTS_MAX];
	size_t n;
};

/* Reads the flags of the step; names its place in errors. */
int mounts_read(struct build *b, const struct df_step *s, struct mounts *ret, struct err *e);
void mounts_free(struct mounts *m);
#define auto_mounts __attribute__((cleanup(mounts_free)))

/* ---- build_caches.c ---- */

#define CACHE_VOLUMES "atoll.build.cache."
#define OTHER_VOLUMES "atoll.build.tmp."

/* The volume of a cache, locked as its sharing says; waits for it, and ends with the client. 1: there is no pool. */
int cache_take(struct build *b, struct mount *m, struct err *e);
/* A volume for one command. 1: there is no pool. */
int scratch_take(struct build *b, struct mount *m, size_t n, struct err *e);
/* Gives the volumes back that are not caches, and unlocks all; the box is gone. */
void mounts_release(struct build *b, struct mounts *m);
/* Deletes the volumes that the process `owner` has left; 0: all that are no jobs of our daemon. */
void caches_drop_of(struct work *w, pid_t owner);
/* Counts caches, and removes those that no build uses unless it is a dry run. */
int caches_prune(struct work *w, bool dry, uint64_t *ret_n, uint64_t *ret_bytes, struct err *e);
