/*
 * fuzz.h - what the HTTP fuzz targets share: an assertion that libFuzzer sees, and ways to cut an input in pieces.
 */
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

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
