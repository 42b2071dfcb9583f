/*
 * dockerfile_impl.h - what the parts of the replacement of variables share: dockerfile_words.c, dockerfile_pattern.c.
 */
#pragma once

#include "images/dockerfile.h"

struct expansion {
	char escape;
	bool words; /* quotes and escape characters are taken off */
	df_lookup lookup;
	void *arg;
	struct buf *out;
	int depth;
};

int expansion_bad(struct err *e);

/* Patterns have '*', '?' and '\'. `longest`: of all matches, the longest one. */
struct str pattern_cut_begin(struct str value, struct str pattern, bool longest);
struct str pattern_cut_end(struct str value, struct str pattern, bool longest);
void pattern_replace(struct str value, struct str pattern, struct str by, bool all, struct buf *ret);
