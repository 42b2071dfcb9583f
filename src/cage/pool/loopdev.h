/*
 * loopdev.h - a file as a block device.
 *
 * A file has at most one loop device: the device of an earlier process is found by the file's number and used again,
 * because two devices of one file would have two caches. The device clears itself (autoclear) when the last mount and
 * the last descriptor are gone, so a process that is killed leaves nothing. It goes around the page cache of the file
 * (direct I/O) where the file system below allows it.
 *
 * The functions need CAP_SYS_ADMIN and /dev.
 */
#pragma once

#include <stdint.h>

#include "proto/errc.h"

enum { LOOPDEV_PATH_MAX = 32 };

struct loopdev {
	int fd; /* of the device; keeps it from being cleared */
	char path[LOOPDEV_PATH_MAX];
	bool direct; /* I/O goes around the page cache */
};

/* The device of `file`, made if it has none. */
int loopdev_open(int file, struct loopdev *ret, struct err *e);

/* The file has grown: the device grows too. 0 or -errno. */
int loopdev_grown(int fd);
