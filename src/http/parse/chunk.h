/*
 * chunk.h - strict decoder for the chunked transfer coding. Internal to src/http.
 *
 * It pulls: each call consumes from the front of *in and hands out the next piece of data inside it, without copying,
 * so that the caller may stop between pieces. Line ends are CRLF, sizes 1..15 hexadecimal digits, extensions bounded
 * (HTTP_CHUNK_EXT_MAX each, HTTP_HEAD_MAX in all) and ignored, trailers checked like header lines and kept for those
 * who ask for them.
 */
#pragma once

#include "base/buf.h"
#include "base/turn.h"
#include "http/http.h"
#include "http/limits.h"

struct chunk {
	uint8_t state;
	uint8_t digits;
	uint16_t ext, ext_all;	 /* bytes of extension: of this chunk, of the message */
	uint16_t word;		 /* bytes of the current name or value in it */
	char name[18];		 /* of the trailer line, as far as it matters */
	uint16_t lines, trailer; /* lines and bytes of the trailer section */
	uint64_t left;
	struct buf *trailers; /* NULL: dropped; else their lines, each with its CRLF, are added here */
};

enum chunk_result {
	CHUNK_MORE, /* everything was consumed */
	CHUNK_DATA, /* *ret_data is the next piece, not empty */
	CHUNK_END,  /* the message has ended; what is left in *in comes after it */
	CHUNK_BAD,
};

/* A zeroed struct begins a message. */
enum chunk_result chunk_next(struct chunk *c, struct str *in, struct str *ret_data);

/* The same, but chunks shorter than HTTP_CHUNK_SMALL that follow each other come as one piece: chunks of one byte cost
 * those behind hardly more than long ones. The piece may lie in a room of the thread, which is good until the next
 * call. *heads says how many chunks may be read, at least 1, and is reduced by those that were. */
enum chunk_result chunk_gather(struct chunk *c, struct str *in, unsigned *heads, struct str *ret_data);
/* How many chunks one connection may still read in this turn of the loop. */
struct turn_chunks {
	uint64_t number; /* of the turn */
	unsigned left;
};
unsigned *turn_chunks(struct turn_chunks *t, const struct turn_seat *s);
/* Overwrites the room: it held secrets. */
void chunk_forget(void);
