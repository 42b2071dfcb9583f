/*
 * replace.h - replaces the content of a file, whole or not at all.
 *
 * The content goes into a temporary file beside the target and is renamed over it, so that a reader sees the old
 * content or the new, and a failure (disk full, client gone) leaves the old. An existing target keeps its mode, owner,
 * access list and user attributes. A symbolic link is written through, even if its target does not exist yet; other
 * hard links keep the old content. Missing parent directories are made. FIFOs, sockets and devices are refused: a write
 * to a FIFO could block for ever.
 *
 * Some targets cannot be renamed over: a mount point, a file of /proc, a file in a directory that the agent may not
 * write to. Their content is gathered in an unnamed file and copied into the target at the end, which is not atomic.
 *
 *	file_replace_open → file_replace_write … → file_replace_finish or file_replace_abort
 */
#pragma once

#include "base/str.h"
#include "proto/errc.h"

/* Names of temporary files begin with this. Watches do not report such files; they report the rename that puts one in
 * place as a create or a modify. The next character says which: 'n' for a new file, 'm' for a replaced one. Sixteen
 * hexadecimal digits follow. */
#define FILE_REPLACE_TEMP_PREFIX ".atoll-tmp-"
/* ".atoll-tmp-n0123456789abcdef". On the heap. */
char *file_replace_temp_name(bool replaces);
/* True when `name` is the name of a temporary file; then *ret_kind is 'n' or 'm'. */
bool file_replace_is_temp(const char *name, char *ret_kind);

struct file_replace {
	int fd;	      /* the new content, for reading and writing; -1: not open */
	int dir;      /* the target's directory, also if that is renamed meanwhile; -1: not open */
	char *target; /* path of the target, links resolved */
	char *temp;   /* name of the temporary file in `dir`; NULL: it is unnamed */
	mode_t mode;  /* mode that the target gets */
	uint64_t size;
};
#define FILE_REPLACE_INIT ((struct file_replace){.fd = -1, .dir = -1})

int file_replace_open(struct file_replace *s, const char *path, struct err *e);
/* Appends to the new content. */
int file_replace_write(struct file_replace *s, struct str bytes, struct err *e);
/* Puts the new content in place and closes, also on failure. */
int file_replace_finish(struct file_replace *s, struct err *e);
/* Drops the new content and closes. Safe when already closed. */
void file_replace_abort(struct file_replace *s);
