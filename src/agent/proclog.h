/*
 * proclog.h - what a background process printed, in order, with times: complete up to PROCESS_LOG_MAX, then the oldest
 * part is dropped and what was dropped is told.
 *
 * A record is one piece of one stream. It is named by the offset behind it, which only grows: that is the event id a
 * follower resumes from. The bytes lie in two spools (memory while short, an unnamed file of the box once long); when
 * the newer one has half of the cap, the older one is thrown away. Pieces never cut a UTF-8 character.
 */
#pragma once

#include "agent/spool.h"
#include "base/limits.h"

struct proclog_part {
	struct spool spool;
	uint64_t base; /* offset of its first byte */
};

struct proclog {
	struct proclog_part old, new;
	char carry[2][4]; /* the beginning of a character that is not complete yet, per stream */
	size_t carry_n[2];
	uint64_t dropped; /* bytes of output that are gone */
	bool broken;	  /* the disk is full: said once */
};

void proclog_init(struct proclog *l);
void proclog_free(struct proclog *l);

/* `stream` is CMD_STDOUT or CMD_STDERR. */
void proclog_add(struct proclog *l, int stream, struct str bytes);
/* No more will come: what was kept back as half a character comes out as it is. */
void proclog_end(struct proclog *l);
uint64_t proclog_size(const struct proclog *l); /* the offset behind the newest record */

struct proclog_record {
	int stream;
	int64_t wall_ms;
	char bytes[PROCLOG_PIECE];
	size_t n;
	uint64_t skipped; /* bytes that were dropped between what was asked for and this */
};

/* The record at *at, which moves behind it. False at the end. An offset that is no longer there goes on with the oldest
 * that is, and `skipped` tells. */
bool proclog_read(const struct proclog *l, uint64_t *at, struct proclog_record *ret);
/* Where to go on for a follower that knows everything up to event `id`. One that never was an id starts at the oldest.
 */
uint64_t proclog_resume(const struct proclog *l, uint64_t id);
