/*
 * base64.h - RFC 4648 base64 with padding, in pieces: file contents pass through in constant memory.
 */
#pragma once

#include "base/buf.h"
#include "base/str.h"

/* Length of n bytes encoded, with padding. */
static inline size_t base64_len(size_t n)
{
	return (n + 2) / 3 * 4;
}

/* Writes base64_len(n) characters, no NUL. A piece that is not the last must be a multiple of 3 bytes long. */
void base64_encode(const void *p, size_t n, char *ret);
bool base64_append(struct buf *b, struct str bytes);

/* Strict decoder for text that comes in pieces: only the alphabet and the right padding at the end, nothing else
 * (no line breaks). Zeroed is the start. */
struct base64_decoder {
	uint32_t bits;
	unsigned char have;   /* characters of an unfinished group */
	unsigned char padded; /* '=' seen in it */
	bool ended;	      /* a padded group has closed the text */
};

/* Appends the decoded bytes to `out`, which grows by at most 3/4 of the piece and 3. False: not base64. */
bool base64_decode(struct base64_decoder *d, struct str piece, struct buf *out);
/* True when the text may end here. */
bool base64_finish(const struct base64_decoder *d);
