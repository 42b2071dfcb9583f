/*
 * proclog.h - what a background process printed, in order, with times: complete up to PROCESS_LOG_MAX bytes of output,
 * then the oldest half is dropped and every reader is told how much it has missed.
 *
 * Output is kept in records, one piece of one stream each. A record is named by how many bytes of output there were up
 * to its end, which only grows: that is the event id a follower resumes from, and what makes a gap countable. Records
 * lie in two spools (memory while short, an unnamed file of the box once long); when the newer one has half of the
 * cap, the older one is thrown away. A record costs 8 bytes more than its output, so that also a log of single bytes is
 * bounded. Pieces never cut a UTF-8 character. Output that finds no room on the disk is counted as dropped, too.
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
	struct proclog_part old, new;
	char carry[2][4]; /* the beginning of a character that is not complete yet, per stream */
	size_t carry_n[2];
	uint64_t bytes; /* of output, all in all */
	bool gap;	/* the disk was full: what came since the last record is not there */
};

void proclog_init(struct proclog *l);
void proclog_free(struct proclog *l);

/* `stream` is CMD_STDOUT or CMD_STDERR. */
void proclog_add(struct proclog *l, int stream, struct str bytes);
/* No more will come: what was kept back as half a character comes out as it is. */
void proclog_end(struct proclog *l);

/* Where a reader is. Zeroed: at the beginning of everything. */
struct proclog_at {
	uint64_t record; /* position of the next one */
	uint64_t bytes;	 /* of output that it knows or knows to be dropped: the id of the last event */
};

struct proclog_record {
	int stream;
	int64_t wall_ms;
	char bytes[PROCLOG_PIECE];
	size_t n;	  /* 0: there is only `skipped` to tell */
	uint64_t skipped; /* bytes of output that are gone between what the reader knows and this */
};

/* What a reader of text is told in the place of `skipped` bytes. */
#define PROCLOG_NOTE "[%llu bytes of earlier output were dropped]\n"

/* The record at *at, which moves behind it. False at the end. */
bool proclog_read(const struct proclog *l, struct proclog_at *at, struct proclog_record *ret);
/* Where to go on for a follower that knows everything up to event `id`. One that never was an id starts at the
 * beginning. */
struct proclog_at proclog_resume(const struct proclog *l, uint64_t id);
