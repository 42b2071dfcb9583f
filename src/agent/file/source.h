/*
 * source.h - the content of a file that is being read: what it is and how long, then its bytes.
 *
 * What is read is what was there when it was opened: a file that grows meanwhile is read up to its old end, one that
 * shrinks ends earlier (source_read answers 0). Files whose length the kernel does not tell (/proc) are taken in whole
 * at once, at most READ_MAX. FIFOs, sockets and devices are refused without being touched.
 */
#pragma once

#include "agent/limits.h"
#include "agent/proc/spool.h"

struct source {
	struct spool content;
	const char *mime;
	bool text; /* its kind is one that is text by nature */
};

/* Failures name `path` as `shown`. */
int source_open(struct source *s, const char *path, const char *shown, struct err *e);
void source_free(struct source *s);
static inline uint64_t source_size(const struct source *s)
{
	return s->content.size;
}
/* Bytes at an offset: how many, 0 at the end, -errno. */
static inline ssize_t source_read(const struct source *s, uint64_t at, char *p, size_t n)
{
	return spool_read(&s->content, at, p, n);
}
