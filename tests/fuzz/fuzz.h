/*
 * fuzz.h - what the HTTP fuzz targets share: an assertion that libFuzzer sees, and ways to cut an input in pieces.
 */
#pragma once

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/str.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(cond)                                                                                                     \
	((cond) ? (void)0 : (fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #cond), abort()))

/* Both logs must be the same; prints them when not. */
static inline void must_agree(const char *who, struct str a, struct str b)
{
	if (str_eq(a, b))
		return;
	fprintf(stderr, "%s disagree:\n--- one\n%.*s\n--- other\n%.*s\n", who, STR_ARG(a), STR_ARG(b));
	abort();
}

/* The length of the next piece: pseudo-random from a seed, 1..17 bytes mostly, so that every border gets its turn. */
static inline size_t next_piece(uint32_t *seed, size_t left)
{
	*seed = *seed * 1664525u + 1013904223u;
	size_t n = 1 + (*seed >> 24) % 17;
	return n < left ? n : left;
}

/* llhttp 8.1 takes what follows the value of a chunk's extension for more digits of its size: "2;a=b;3" has 0x23 bytes
 * for it, and "2;a=b;c" is wrong. It is no oracle for such streams. */
static inline bool misleads_llhttp(struct str in)
{
	bool value = false;
	for (size_t i = 0; i < in.n; i++) {
		if (value && in.p[i] == ';')
			return true;
		value = in.p[i] != '\n' && (value || in.p[i] == '=');
	}
	return false;
}

/* Sends the next piece of *in, or all of it, as far as the socket takes it; ends the stream after the last byte. */
static inline void send_some(int fd, struct str *in, bool pieces, uint32_t *seed)
{
	if (in->n) {
		size_t want = pieces ? next_piece(seed, in->n) : in->n;
		ssize_t n = send(fd, in->p, want, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n > 0)
			*in = str_skip(*in, (size_t)n);
		else if (n < 0 && errno != EAGAIN)
			in->n = 0;
	}
	if (!in->n)
		shutdown(fd, SHUT_WR);
}
