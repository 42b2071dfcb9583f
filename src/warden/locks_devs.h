/*
 * locks_devs.h - which box a device belongs to: the superblocks that one box alone has mounted.
 *
 * Read from the mountinfo of the first process of a box, once for each box; no file of a box is touched. Part of the
 * process of locks_look.h.
 */
#pragma once

#include "base/buf.h"
#include "warden/locks_look.h"

struct locks_dev {
	uint64_t dev;
	uint32_t box; /* index in the table */
};

struct locks_devs {
	const struct locks_table *table;
	struct locks_dev *list; /* sorted by device */
	size_t n, room;
	uint64_t serials[WARDEN_BOXES_MAX]; /* of the boxes whose devices are known */
};

/* Devices as /proc/locks shows them ("fe:00", hexadecimal); UINT64_MAX: none. */
uint64_t locks_dev_parse(struct str text);

/* Learns the devices of boxes that have started and forgets those of boxes that have ended. `rest` is called now and
 * then. */
void locks_devs_refresh(struct locks_devs *d, void (*rest)(void *arg), void *arg);
/* Reads the devices of all boxes anew with the next refresh: FUSE mounts come later. */
void locks_devs_forget(struct locks_devs *d);

/* The index of the box; -1: none, or its devices are not known. */
int locks_devs_find(const struct locks_devs *d, uint64_t dev);
