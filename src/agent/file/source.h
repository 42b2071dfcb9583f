/*
 * source.h - a file that is being read: its type and length, then its bytes.
 *
 * The length is that at the opening. A file that grows meanwhile is read up to its old end; a file that shrinks ends
 * earlier (source_read returns 0). Files of unknown length (/proc) are read whole at once, at most READ_MAX. FIFOs,
 * sockets and devices are refused and not touched.
 */
#pragma once

#include "agent/limits.h"
#include "agent/proc/spool.h"

struct source {
	struct spool content;
	const char *mime;
	bool text; /* mime_is_text(mime) */
};

/* Errors call the file `shown`. */
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
