/*
 * ls.h - reads the entries of a directory in a box while they arrive.
 *
 * An answer may name a million files. It is parsed piece by piece, and only the members that a listing shows are kept.
 */
#pragma once

#include "cli/api.h"

enum { LS_ENTRIES_MAX = 2000000 };

struct ls_entry {
	char *path; /* relative to the listed directory; it may have any bytes, also '\n' */
	char type;  /* f d l o */
	char mode[10];
	char modified[20]; /* "2026-11-15T07:57:41" */
	uint64_t size;
};

struct ls_list {
	struct ls_entry *v;
	size_t n;
};

struct ls_query {
	const char *path;
	bool recursive, hidden;
};

/* Reads a directory of the box. NOT_DIRECTORY when the path is not a directory. */
int ls_read(struct client *cl, const char *id, const struct ls_query *q, struct ls_list *ret, struct err *e);
void ls_free(struct ls_list *l);
/* Appends the body of the request that ls_read sends. */
void ls_request(struct buf *to, const struct ls_query *q);
