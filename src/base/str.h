/*
 * str.h - a borrowed span of bytes. It owns nothing, needs no terminator and may hold any byte.
 */
#pragma once

#include <string.h>
#include <sys/types.h>

#include "base/base.h"

struct str {
	const char *p;
	size_t n;
};

#define STR(lit) ((struct str){lit, sizeof(lit) - 1})
#define STR_NULL ((struct str){NULL, 0})
/* For printf's "%.*s". */
#define STR_ARG(s) (int)(s).n, (s).p

static inline struct str str_of(const char *c)
{
	return (struct str){c, c ? strlen(c) : 0};
}

static inline struct str str_n(const void *p, size_t n)
{
	return (struct str){p, n};
}

static inline bool str_eq(struct str a, struct str b)
{
	return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

static inline bool str_eq_c(struct str a, const char *c)
{
	return str_eq(a, str_of(c));
}

static inline bool str_starts(struct str s, struct str prefix)
{
	return s.n >= prefix.n && (prefix.n == 0 || memcmp(s.p, prefix.p, prefix.n) == 0);
}

static inline bool str_ends(struct str s, struct str suffix)
{
	return s.n >= suffix.n && (suffix.n == 0 || memcmp(s.p + s.n - suffix.n, suffix.p, suffix.n) == 0);
}

/* The rest after `n` bytes; empty when there are fewer. */
static inline struct str str_skip(struct str s, size_t n)
{
	size_t k = n < s.n ? n : s.n;
	return k ? (struct str){s.p + k, s.n - k} : s;
}

/* ASCII case-insensitive: header names, hex, tokens. */
bool str_eq_nocase(struct str a, struct str b);

/* Index of the first `c`, or -1. */
ssize_t str_index(struct str s, char c);

/* Splits at the first `sep`: returns the part before it; *rest is the part after it (empty when there is no `sep`). */
struct str str_split(struct str s, char sep, struct str *rest);

/* Without blanks and tabs at both ends. */
struct str str_trim(struct str s);

/* Digits only, no sign, no overflow past `max`. False leaves *ret alone. */
bool str_to_u64(struct str s, uint64_t max, uint64_t *ret);

/* A NUL-terminated copy on the heap. The span may hold NUL bytes: the caller checks where that matters. */
char *str_dup(struct str s);

/* Equal, in time that depends only on the lengths: for secrets. */
bool str_eq_secret(struct str a, struct str b);

/* True when the span is well-formed UTF-8 (no overlongs, surrogates or code points past U+10FFFF). */
bool str_is_utf8(struct str s);

/* Length of the well-formed UTF-8 sequence at the start of s (1..4), 0 when malformed, -1 when it is cut short. */
int str_utf8_len(struct str s);
