/*
 * replace.h - a file's new content, put in place whole or not at all.
 *
 * The content goes into a temporary file beside the target and is renamed over it, so that a reader sees the old
 * content or the new, and a failure (disk full, client gone) leaves the old. Mode, owner, access list and user's
 * attributes of an existing target are kept; a symbolic link is written through, also one whose target is not there
 * yet; other hard links keep the old content. Missing parent directories are made. What is no regular file is refused:
 * writing to a FIFO could block for ever.
 *
 * Where nothing can be renamed over an existing target (a mount point, a directory that is not ours, a file of /proc)
 * the content is gathered in an unnamed file and copied into the target at the end: not atomic, but only then.
 */
#pragma once

#include "base/str.h"
#include "proto/errc.h"

/* Names of temporary files begin with this: watches do not report them, but take the rename for what it is. The next
 * character tells: 'n' when it becomes a new file, 'm' when it replaces one. Sixteen hexadecimal digits follow. */
#define STORE_TEMP_PREFIX ".atoll-tmp-"
/* ".atoll-tmp-n0123456789abcdef". On the heap. */
char *store_temp_name(bool replaces);
/* Whether it is such a name; then *ret_kind is 'n' or 'm'. */
bool store_is_temp(const char *name, char *ret_kind);

struct store {
	int fd;	      /* for reading and writing; -1: not open */
	int dir;      /* what the target lies in, whatever that is called by now; -1: not open */
	char *target; /* where it goes, links resolved */
	char *temp;   /* its name in `dir` until then; NULL: it has none */
	mode_t mode;  /* what it will have */
	uint64_t size;
};
#define STORE_INIT ((struct store){.fd = -1, .dir = -1})

int store_open(struct store *s, const char *path, struct err *e);
/* Appends. */
int store_write(struct store *s, struct str bytes, struct err *e);
/* Puts it in place. The store is closed after, also on failure. */
int store_finish(struct store *s, struct err *e);
/* Takes it back. Safe on a closed store. */
void store_abort(struct store *s);
