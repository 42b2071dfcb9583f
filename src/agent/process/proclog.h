/*
 * proclog.h - the output of a background process, in order, with times. The log is complete up to PROCESS_LOG_MAX
 * bytes; then the oldest half is dropped, and every reader is told how much it has missed.
 *
 * Output is kept in records, one piece of one stream each. The name of a record is the number of bytes of output up to
 * its end, which only grows. Followers resume from that number as their event id, and gaps are counted with it. Records
 * lie in two spools (memory while short, an unnamed file of the box once long). When the newer spool has half of the
 * cap, the older spool is dropped. A record costs 8 bytes more than its output, so that a log of single bytes is
 * bounded too. Pieces never cut a UTF-8 character. Output that finds no room on the disk counts as dropped.
 */
#pragma once

#include "agent/limits.h"
#include "agent/proc/spool.h"

struct proclog_part {
	struct spool spool;
	uint64_t base;	/* position of its first record */
	uint64_t bytes; /* of output before it */
};

struct proclog {
	struct proclog_part old, recent;
	char carry[2][4]; /* the beginning of a character that is not complete yet, per stream */
	size_t carry_n[2];
	uint64_t bytes; /* of output, all in all */
	bool gap;	/* the disk was full: output since the last record is missing */
};

void proclog_init(struct proclog *l);
void proclog_free(struct proclog *l);

/* `stream` is CMD_STDOUT or CMD_STDERR. */
void proclog_add(struct proclog *l, int stream, struct str bytes);
/* No more output will come: an incomplete character that was held back is added as it is. */
void proclog_end(struct proclog *l);

/* The position of a reader. Zeroed: the beginning of the log. */
struct proclog_at {
	uint64_t record; /* position of the next one */
	uint64_t bytes;	 /* of output that the reader got or was told to be dropped: the id of its last event */
};

struct proclog_record {
	int stream;
	int64_t wall_ms;
	char bytes[PROCLOG_PIECE];
	size_t n;	  /* 0: only `skipped` counts */
	uint64_t skipped; /* bytes of output that were dropped before this record */
};

/* A reader of text gets this line in the place of `skipped` bytes. */
#define PROCLOG_NOTE "[%llu bytes of earlier output were dropped]\n"

/* Reads the record at *at and moves *at behind it. False at the end. */
bool proclog_read(const struct proclog *l, struct proclog_at *at, struct proclog_record *ret);
/* The position of a follower that knows all events up to `id`. A number that is no id starts at the beginning. */
struct proclog_at proclog_resume(const struct proclog *l, uint64_t id);
