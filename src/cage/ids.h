/*
 * ids.h - the user ids of a box on the host: every slot number has a range of its own, on the whole machine.
 *
 * Several wardens may run side by side. A fixed directory holds one file for each block of IDS_BLOCK slots; the warden
 * that owns a block keeps its file locked and has its cgroup's name in it. A warden that was killed loses the lock but
 * not its boxes: a block is free again only when the lock is free *and* no process lives in the owner's cgroup (or
 * when the owner itself comes back). Ranges lie above systemd's container range and skip its foreign-id range, so
 * nothing else on the machine hands them out.
 */
#pragma once

#include "proto/errc.h"
#include "proto/limits.h"

enum {
	IDS_FIRST = 0x70000000,
	IDS_BLOCK = 256,  /* slots in a block */
	IDS_BLOCKS = 143, /* up to 0xfeff0000 */
	IDS_FOREIGN = 15, /* the block that holds 0x7ffe0000 */
};

struct ids {
	int dir;
	int locks[IDS_BLOCKS]; /* -1: not ours */
	char owner[64];
	/* Does the owner named in a block's file still have processes? */
	bool (*owner_lives)(void *arg, const char *owner);
	void *arg;
};

static inline uint32_t ids_base(uint32_t slot)
{
	return IDS_FIRST + slot * BOX_UID_RANGE;
}

/* Locks a file for this process alone: a child that was just forked and has not closed its descriptors yet does not
 * hold it too, so the lock ends with the process. Closing any descriptor of the file ends it as well. */
bool ids_lock(int fd);

/* `dir` is the fixed directory's descriptor; it is taken over. */
void ids_init(struct ids *ids, int dir, const char *owner, bool (*owner_lives)(void *, const char *), void *arg);
void ids_close(struct ids *ids);

/* Takes back every block that carries our name already (after a restart). Returns how many. */
int ids_reclaim(struct ids *ids);
/* Claims one more block; *ret_block is its number: slots [b * IDS_BLOCK, (b + 1) * IDS_BLOCK). */
int ids_claim(struct ids *ids, uint32_t *ret_block, struct err *e);
/* Claims this one, or has it already. */
bool ids_take(struct ids *ids, uint32_t block);
static inline bool ids_owns(const struct ids *ids, uint32_t slot)
{
	return slot / IDS_BLOCK < IDS_BLOCKS && ids->locks[slot / IDS_BLOCK] >= 0;
}
/* Gives everything back: only when no box of ours lives. */
void ids_release(struct ids *ids);
