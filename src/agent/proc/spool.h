/*
 * spool.h - the whole output of a command: in memory while it is short, in an unlinked file once it is long.
 *
 * A command may print gigabytes before its request can be answered, because the HTTP status depends on how it ends. The
 * first SPOOL_MEM bytes (or `mem_max`, where there may be many spools) stay in memory. Longer output goes to a file
 * without a name in the box's own file system. So the agent's memory stays constant, no output is cut, and the bytes
 * count against the box's disk.
 */
#pragma once

#include "agent/limits.h"
#include "base/buf.h"
#include "proto/errc.h"

struct spool {
	struct buf mem; /* all of it, while fd < 0 */
	size_t mem_max; /* how many bytes may stay in memory; 0: SPOOL_MEM */
	int fd;
	uint64_t size;
};

/* A zeroed struct is not valid: fd must be -1. */
#define SPOOL_INIT ((struct spool){.fd = -1})
void spool_free(struct spool *s);

/* -1 when the bytes cannot be stored (NO_SPACE …): the spool stays as it was. */
int spool_add(struct spool *s, struct str bytes, struct err *e);
/* Reads at most n bytes at an offset. Returns how many (0 at the end) or -errno. */
ssize_t spool_read(const struct spool *s, uint64_t at, char *p, size_t n);

/* Opens a file for reading and writing that has no name and vanishes when closed, in /var/tmp, /tmp or another
 * directory that works. Returns an fd or -errno. */
int spool_tmpfile(void);
