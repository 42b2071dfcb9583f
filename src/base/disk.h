/*
 * disk.h - the reserve of a file system: what is written for clients and boxes stops before the disk is full, because
 * databases and logs are on it too.
 */
#pragma once

#include "base/base.h"

/* Bytes that may still be written to the file system of `fd` before its reserve (DISK_RESERVE_*). */
uint64_t disk_room(int fd);

/* One file, or several on one file system, that grow. Zeroed: nothing has been written. */
struct disk_guard {
	uint64_t written, look_at;
};
/* Whether n more bytes may be written. Looks at the disk once for each DISK_LOOK bytes. */
bool disk_takes(struct disk_guard *g, int fd, uint64_t n);
