/*
 * store.h - a file's new content, put in place whole or not at all.
 *
 * The content goes into a temporary file beside the target and is renamed over it, so that a reader sees the old
 * content or the new, and a failure (disk full, client gone) leaves the old. Mode and owner of an existing target are
 * kept; a symbolic link is written through. Missing parent directories are made. What is no regular file is refused:
 * writing to a FIFO could block for ever.
 */
#pragma once

#include "base/err.h"
#include "base/str.h"

/* Names of temporary files begin with this: watches do not report them, but take the rename for what it is. The next
 * character tells: 'n' when it becomes a new file, 'm' when it replaces one. */
#define STORE_TEMP_PREFIX ".atoll-tmp-"

struct store {
	int fd; /* -1: not open */
	char *target, *temp;
};
#define STORE_INIT ((struct store){.fd = -1})

int store_open(struct store *s, const char *path, struct err *e);
int store_write(struct store *s, struct str bytes, struct err *e);
/* Puts it in place. The store is closed after, also on failure. */
int store_finish(struct store *s, struct err *e);
/* Takes it back. Safe on a closed store. */
void store_abort(struct store *s);
