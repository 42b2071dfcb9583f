#include "base/buf.h"

#include <stdio.h>

#include "base/limits.h"

static void drop_memory(struct buf *b)
{
	if (b->wipe && b->p)
		explicit_bzero(b->p, b->cap);
	free(b->p);
	b->p = NULL;
}

/* realloc may leave a copy behind. */
static void grow(struct buf *b, size_t cap)
{
	if (!b->wipe || !b->p) {
		b->p = xrealloc(b->p, cap);
		return;
	}
	char *p = xmalloc(cap);
	memcpy(p, b->p, b->len);
	drop_memory(b);
	b->p = p;
}

void buf_free(struct buf *b)
{
	int saved = errno;
	drop_memory(b);
	*b = (struct buf){.max = b->max, .wipe = b->wipe};
	errno = saved;
}

static bool buf_fail(struct buf *b)
{
	b->failed = true;
	return false;
}

/* Moves the content to the front when at least as many bytes were consumed before: they pay for the move. Otherwise the
 * buffer grows; at twice the maximum the content is always moved. */
char *buf_room(struct buf *b, size_t n)
{
	size_t max = b->max ? b->max : BUF_MAX_DEFAULT, size = buf_size(b);
	if (b->failed || n > max || size > max - n) {
		buf_fail(b);
		return NULL;
	}
	if (b->p && b->cap - b->len >= n)
		return b->p + b->len;
	if (!b->p || size + n > b->cap || b->off < size) {
		size_t cap = b->cap ? b->cap * 2 : 256;
		while (cap < size + n)
			cap *= 2;
		cap = cap < 2 * max ? cap : 2 * max;
		grow(b, cap);
		b->cap = cap;
	}
	if (b->off)
		memmove(b->p, b->p + b->off, size);
	b->off = 0;
	b->len = size;
	return b->p + b->len;
}

void buf_commit(struct buf *b, size_t n)
{
	INVARIANT(n <= b->cap - b->len);
	b->len += n;
}

bool buf_add(struct buf *b, const void *p, size_t n)
{
	if (n == 0)
		return !b->failed;
	char *to = buf_room(b, n);
	if (!to)
		return false;
	memcpy(to, p, n);
	b->len += n;
	return true;
}

bool buf_add_str(struct buf *b, struct str s)
{
	return buf_add(b, s.p, s.n);
}

bool buf_add_c(struct buf *b, const char *c)
{
	return buf_add(b, c, strlen(c));
}

bool buf_add_byte(struct buf *b, char c)
{
	return buf_add(b, &c, 1);
}

bool buf_vprintf(struct buf *b, const char *fmt, va_list ap)
{
	va_list again;
	va_copy(again, ap);
	char small[256];
	auto_free char *big = NULL;
	int n = vsnprintf(small, sizeof small, fmt, ap);
	if (n >= (int)sizeof small) {
		big = xmalloc((size_t)n + 1);
		n = vsnprintf(big, (size_t)n + 1, fmt, again);
	}
	va_end(again);
	return n < 0 ? buf_fail(b) : buf_add(b, big ? big : small, (size_t)n);
}

bool buf_printf(struct buf *b, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	bool ok = buf_vprintf(b, fmt, ap);
	va_end(ap);
	return ok;
}

void buf_consume(struct buf *b, size_t n)
{
	INVARIANT(n <= buf_size(b));
	b->off += n;
	if (b->off == b->len) {
		b->off = b->len = 0;
		if (b->cap > BUF_KEEP) {
			drop_memory(b);
			b->cap = 0;
		} else if (b->wipe && b->p) {
			explicit_bzero(b->p, b->cap);
		}
	}
}

void buf_clear(struct buf *b)
{
	b->failed = false;
	buf_consume(b, buf_size(b));
}

void buf_truncate(struct buf *b, size_t n)
{
	INVARIANT(n <= buf_size(b));
	b->len = b->off + n;
}

const char *buf_cstr(struct buf *b)
{
	if (b->cap == b->len) {
		grow(b, b->cap + 1);
		b->cap++;
	}
	b->p[b->len] = 0;
	return b->p + b->off;
}
