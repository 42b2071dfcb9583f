/*
 * record.h - notes of a warden for the next one: a small file for each slot in use, "<slot>", overwritten in place. A
 * record is written before the step that it announces, so the next warden can follow up a kill at any point.
 */
#pragma once

#include "proto/errc.h"
#include "proto/warden.h"

enum record_state {
	RECORD_POOL = 1, /* half-made, has no box: its process ends with the warden */
	RECORD_CREATING, /* has a name, but the create is not answered: undone after a restart */
	RECORD_RUNNING,
	RECORD_ENDING, /* being destroyed: finished after a restart */
	RECORD_DEAD,
};

struct record {
	uint32_t magic, state;
	uint64_t start_time;
	uint32_t fresh;	     /* of CREATING: the layer was made by this create; undoing deletes it */
	uint32_t keep_files; /* of ENDING */
	uint32_t held;	     /* of RUNNING: frozen for a snapshot; a restart lets it go on */
	uint32_t padding;
	struct box_info info;
	uint64_t volume_bytes; /* 0 in the records of earlier versions, which end before it */
};

/* All return 0 or -errno. */
int record_write(int dir, const struct record *r);
int record_read(int dir, uint32_t slot, struct record *ret);
int record_remove(int dir, uint32_t slot);
void record_each(int dir, void (*each)(void *arg, const char *name), void *arg);
