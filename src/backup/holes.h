/*
 * holes.h - holes of files in a stream on its way to an object.
 *
 * The kernel's format has no holes. Where a file got one since the backup before, the kernel writes zeros, also for
 * 4 EiB. Such a run of zeros becomes one command (proto/stream.h: STREAM_C_PUNCH), so that it costs nothing in the
 * object and no disk when it is restored. In whole streams, and for files that are new, the kernel leaves holes out by
 * itself: zeros in them were written, have blocks of their own, and stay.
 *
 * Only whole writes are looked at: the kernel never mixes a hole and data in one. Zeros that were written into a file
 * of the backup before, or that only have their space (fallocate), look the same as a hole and come back as one.
 *
 * A stream has the same meaning before and after. A command that is not well-formed is handed on: the receiver judges
 * it.
 */
#pragma once

#include "backup/limits.h"
#include "base/str.h"
#include "proto/errc.h"

typedef int (*holes_on_bytes)(void *arg, const char *p, size_t n, struct err *e);

struct holes {
	holes_on_bytes on_bytes; /* 0, or -1 with *e, which ends the feed */
	void *arg;
	uint64_t zeros; /* bytes that were left out */

	bool begun, incremental;
	size_t have; /* of the head or command in `room` */
	char room[BACKUP_COMMAND_MAX];
	/* The file that this stream has made last, and the hole that is not written yet. */
	char fresh[BACKUP_PATH_MAX], path[BACKUP_PATH_MAX];
	size_t fresh_n, path_n;
	uint64_t at, size; /* size 0: there is none */
};

/* Bytes of a stream, in any pieces. -1: a command is longer than BACKUP_COMMAND_MAX, or what on_bytes says. */
int holes_feed(struct holes *h, const char *p, size_t n, struct err *e);
