/*
 * buf.h - a growable byte buffer with a hard maximum, consumed from the front.
 *
 * Invariants: off <= len <= cap, and the content [off, len) is at most `max` bytes (0 means BUF_MAX_DEFAULT) in at most
 * twice as much memory. A buffer whose maximum was hit is `failed` and stays so: writers may append without checking
 * and look once at the end. A zeroed struct is a valid empty buffer. Appending and consuming cost what the bytes
 * themselves cost, however full the buffer is.
 */
#pragma once

#include <stdarg.h>

#include "base/base.h"
#include "base/limits.h"
#include "base/str.h"

struct buf {
	char *p;
	size_t off, len, cap;
	size_t max;
	bool failed;
	bool wipe; /* memory that is given back is overwritten first: for secrets */
};

static inline size_t buf_size(const struct buf *b)
{
	return b->len - b->off;
}

static inline struct str buf_str(const struct buf *b)
{
	return b->p ? str_n(b->p + b->off, b->len - b->off) : STR("");
}

void buf_free(struct buf *b);
#define auto_buf __attribute__((cleanup(buf_free)))

/* All of these return false, and mark the buffer failed, when it would grow past its maximum. */
bool buf_add(struct buf *b, const void *p, size_t n);
bool buf_add_str(struct buf *b, struct str s);
bool buf_add_c(struct buf *b, const char *c);
bool buf_add_byte(struct buf *b, char c);
bool buf_printf(struct buf *b, const char *fmt, ...) PRINTF_LIKE(2, 3);
bool buf_vprintf(struct buf *b, const char *fmt, va_list ap) PRINTF_LIKE(2, 0);

/* Room for at least n bytes at the end, to be filled by the caller and confirmed with buf_commit. NULL past the max. */
char *buf_room(struct buf *b, size_t n);
void buf_commit(struct buf *b, size_t n);

/* Drops n bytes from the front. An empty buffer keeps at most BUF_KEEP bytes of memory. */
void buf_consume(struct buf *b, size_t n);
void buf_clear(struct buf *b);
/* Keeps the first n bytes of the content. */
void buf_truncate(struct buf *b, size_t n);

/* Content as a C string (adds a NUL behind it, not counted). */
const char *buf_cstr(struct buf *b);
