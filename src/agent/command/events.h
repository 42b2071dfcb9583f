/*
 * events.h - output of commands as events of a stream: text that is never cut inside a character.
 *
 * Pieces of output end anywhere, also inside a UTF-8 sequence. The first bytes of one are held back (at most three per
 * stream) and come with the next piece, so that each event is well-formed by itself.
 */
#pragma once

#include "base/buf.h"
#include "base/json.h"
#include "base/str.h"

struct events_tail {
	char bytes[4];
	uint8_t n;
};

/* How much of the end of `s` may be the beginning of a character that is not complete yet (0..3). */
size_t events_incomplete(struct str s);

/* The next piece of a stream: what was held back, then `bytes`, without what must be held back now. Points into `bytes`
 * or into `mem`. With `last` nothing is held back. */
struct str events_next(struct events_tail *tail, struct str bytes, bool last, struct buf *mem);

/* An empty buffer for one event, the same for all: allocating as much as a pipe holds for each piece of output costs
 * more than the piece. Whoever takes it must be done with it before anyone else can. */
struct buf *events_buffer(void);

/* {"type":"stdout","data":"…" and an open end: more members may follow, then json_object_end. */
struct json_writer events_output(struct buf *b, int stream, struct str bytes, bool base64);
