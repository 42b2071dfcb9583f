/*
 * pool.h - where the files of boxes live: a btrfs with limits and snapshots, or plain directories.
 *
 *	boxes/<id>/{upper,work}     a subvolume: the layer of a sandbox
 *	slots/<n>/{upper,work}      a subvolume: a layer made ahead
 *	snapshots/<name>/layer      a read-only subvolume: the layer of a sandbox at one moment
 *	volumes/<name>/{upper,work} a subvolume: a named volume, made like a layer; its files are in upper/
 *	making/                     half-made layers; emptied at every start
 *	debts/<group>               the debt of a box, if it has one
 *	trash/                      what has to go
 *
 * A pool is a directory `pool` of a data directory that is on btrfs itself, or the file `pool.img` in it, which
 * `atoll up` makes. A warden without either uses plain directories: no limits, no snapshots
 * (docs/design/017-storage.md).
 *
 * Every layer has a note (note.h). It names the quota group that the layer, its snapshots and its predecessors share.
 * The kernel charges an extent to the subvolume that wrote it. So a layer that was made from another box's files begins
 * with a debt: the bytes that it uses and that its own group is not charged for. The group's limit is the box's limit
 * less the debt. A debt begins as an estimate that is too high rather than too low, and only becomes smaller while the
 * box works; it is counted anew when the layer has changed.
 *
 * Full quotas (kernels before 6.7) charge every subvolume for all that it refers to, and cannot put a copy into a
 * shared group. There each layer's limit is on the group of its own subvolume, a fork has no debt for its parent's
 * files, and the debt of a box is what its snapshots refer to: files that a box and its snapshot share count twice, so
 * that what the box deletes or overwrites is paid for already. The note's group is then a number that snapshots and
 * successors of a layer have in common and no group of the kernel: that of the first layer's subvolume.
 *
 * pool_open runs before the warden leaves the host's mounts; all else after it. Calls that end in `_slow` write to the
 * disk and run in helper processes only.
 */
#pragma once

#include "cage/pool/btrfs.h"
#include "cage/pool/note.h"
#include "proto/errc.h"

enum pool_kind { POOL_PLAIN, POOL_DIRECTORY, POOL_FILE };

struct pool {
	enum pool_kind kind;
	char why[240]; /* PLAIN: why there is no other pool */
	int mount;     /* of FILE, until it has its place in the warden's root */
	enum btrfs_quota quota;
	int groups;	  /* the kernel's numbers; -1: none */
	int file, device; /* of FILE */
	bool direct;	  /* of FILE: around the page cache of the host */
	uint64_t max;	  /* of FILE: bytes that it may have; 0: as many as its file system */
	uint64_t last_group;
	int root, boxes, slots, snapshots, volumes, making, debts, trash; /* directories; -1 when PLAIN */
};

#define POOL_CLOSED                                                                                                    \
	((struct pool){.mount = -1,                                                                                    \
		.groups = -1,                                                                                          \
		.file = -1,                                                                                            \
		.device = -1,                                                                                          \
		.root = -1,                                                                                            \
		.boxes = -1,                                                                                           \
		.slots = -1,                                                                                           \
		.snapshots = -1,                                                                                       \
		.volumes = -1,                                                                                         \
		.making = -1,                                                                                          \
		.debts = -1,                                                                                           \
		.trash = -1})

/* Finds the pool of a data directory. `size` is ATOLL_POOL_SIZE or NULL, `kind` ATOLL_POOL or NULL. A host without a
 * pool becomes PLAIN with a reason; -1 for settings that make no sense, and for a pool that has been used and cannot be
 * opened: with plain directories its sandboxes would come up without their files. */
int pool_open(struct pool *ret, const char *data, const char *kind, const char *size, struct err *e);
/* Opens the directories below `path`, where the pool is now. */
int pool_enter(struct pool *p, const char *path, struct err *e);

/* In snapshots/<name> and making/<ticket>: the subvolume. */
#define POOL_PART "layer"

struct layer_debt {
	uint64_t bytes;
	uint64_t counted; /* the generation of the layer that was counted; 0: an estimate */
};

/* Makes dir/name with an empty upper/ and work/ in a group of its own. Leaves nothing behind when it fails. In a PLAIN
 * pool: directories. */
int pool_layer_make(struct pool *p, int dir, const char *name, uint64_t limit, struct err *e);
/* Makes dir/name, an empty subvolume in a group of its own with a limit, to be filled from outside. 0 or -errno. */
int pool_incoming_make(struct pool *p, int dir, const char *name, uint64_t limit, struct layer_note *ret);
/* A group of its own for a layer that is about to be made; 0 with full quotas, which need none. */
int pool_group_new(struct pool *p, uint64_t *ret);
/* The group that the subvolume open on `layer` is made a member of by a copy of it. */
uint64_t pool_group_of_copies(const struct pool *p, const struct layer_note *n);
/* With full quotas: the number that the note of a new layer has. */
int pool_number_own(int layer, uint64_t *ret);
/* The debt of a group; none is 0. */
int pool_debt_read(const struct pool *p, uint64_t group, struct layer_debt *ret);
int pool_debt_write(const struct pool *p, uint64_t group, const struct layer_debt *d);
/* The group that is charged for a layer: the note's, or with full quotas the subvolume's own. */
int pool_group_charged(const struct pool *p, int layer, const struct layer_note *n, uint64_t *ret);
/* Sets the limit of the group that is charged for the layer. */
int pool_limit_apply(const struct pool *p, int layer, const struct layer_note *n, const struct layer_debt *d);
/* Another limit for the layer dir/name. Does nothing if it has that limit. */
int pool_layer_limit(const struct pool *p, int dir, const char *name, uint64_t limit, struct err *e);
/* A layer at its limit has no room for the directories that an overlay makes at its mount: gives it LAYER_MOUNT_ROOM
 * above what it uses, and takes it away from the brake. True: pool_layer_tighten must follow. */
bool pool_layer_loosen(const struct pool *p, int dir, const char *name);
void pool_layer_tighten(const struct pool *p, int dir, const char *name);
/* The bytes that its box is charged for; false when nobody counts them. */
bool pool_layer_used(const struct pool *p, int dir, const char *name, uint64_t *ret);

/* ---- the brake on all boxes: brake.c ---- */

/* Above the groups of all layers; it has a limit while the brake is on. */
#define POOL_GROUP_ALL ((uint64_t)2 << 48 | 1)

/* Whether there is one: not without simple quotas. */
bool pool_brake_has(const struct pool *p);
int pool_brake_open(const struct pool *p);
/* Puts the group of a layer under the brake, or takes it away from there. */
int pool_brake_join(const struct pool *p, uint64_t group);
void pool_brake_leave(const struct pool *p, uint64_t group);
/* The same for all groups: those of a pool from before, and one that a killed warden took away. */
void pool_brake_join_all_slow(const struct pool *p);
/* Whether boxes may write nothing now. */
bool pool_brake_is_on(const struct pool *p);
/* Whether the room for metadata comes near to what is kept from boxes. */
bool pool_metadata_is_short(const struct pool *p);
/* Sets or releases the brake. True: look again soon. */
bool pool_brake_look(const struct pool *p);

/* Bytes of the pool: all that it may have, and those in use. */
void pool_space(const struct pool *p, uint64_t *ret_size, uint64_t *ret_used);

/* Bytes that a FILE leaves free on the file system below it. */
uint64_t pool_reserve(const struct pool *p);
/* Whether the free space has become small and the file may grow. */
bool pool_wants_growth(const struct pool *p);
/* Bytes that can still be written. Data that waits in memory for its place on the disk is taken off: statfs does not
 * know it. */
uint64_t pool_free(const struct pool *p);

/* No room for a new sandbox, and none to come. */
bool pool_is_full(const struct pool *p);

/* Sets room apart for metadata in a new file. */
void pool_prepare_slow(const struct pool *p);
/* Waits while the pool is full and deleted files may still give space back, POOL_ROOM_WAIT at most. */
void pool_await_room_slow(const struct pool *p);
/* Makes the file larger when the free space becomes small. 0: enough for now; 1: it has grown; -errno. */
int pool_grow_slow(const struct pool *p);
/* Deletes groups that nothing belongs to any more. */
void pool_sweep_groups_slow(const struct pool *p);
/* Counts the debt of a layer anew and sets its limit. */
int pool_recount_slow(const struct pool *p, int layer);
/* The same for all layers of boxes that have a debt and have changed since it was counted. With full quotas: 0, or why
 * the kernel does not count (full.h). */
int pool_recount_all_slow(const struct pool *p);

/* A read-only copy of the layer that `source` is open on, as dir/name, in the layer's group. 0 or -errno; -EDQUOT with
 * full quotas when the copy does not fit into the limit beside the layer. */
int pool_snapshot_slow(const struct pool *p, int source, int dir, const char *name);

struct pool_clone {
	uint64_t group, limit;	      /* of the box that gets the files */
	const struct layer_note *old; /* of its present layer; NULL: it is a new box */
};

/* A layer dir/name with the files of `source`, a snapshot. Leaves nothing behind when it fails. 0 or -errno. */
int pool_clone_slow(const struct pool *p, int source, int dir, const char *name, const struct pool_clone *c);
