/*
 * events.h - output of commands as events of a stream: text that is never cut inside a character.
 *
 * A piece of output may end inside a UTF-8 sequence. The first bytes of that sequence (at most three per stream) are
 * held back and come with the next piece, so that each event is well-formed by itself.
 */
#pragma once

#include "base/buf.h"
#include "base/json.h"
#include "base/str.h"

struct events_tail {
	char bytes[4];
	uint8_t n;
};

/* The number of bytes at the end of `s` that begin an incomplete character (0..3). */
size_t events_incomplete(struct str s);

/* The next piece of a stream: the bytes that were held back, then `bytes` without an incomplete character at the end.
 * Points into `bytes` or into `mem`. With `last` nothing is held back. */
struct str events_next(struct events_tail *tail, struct str bytes, bool last, struct buf *mem);

/* An empty buffer for one event. All callers share it, because an allocation for each piece of output costs more than
 * the piece. A caller must be done with it before it calls code that may take it too. */
struct buf *events_buffer(void);

/* {"type":"stdout","data":"…" and an open end: more members may follow, then json_object_end. */
struct json_writer events_output(struct buf *b, int stream, struct str bytes, bool base64);
