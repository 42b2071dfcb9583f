/*
 * json_scan.h - inside of the JSON module: how many bytes at the start of a span stand for themselves in a string.
 *
 * json_plain_len stops at '"', '\', control characters and anything past ASCII. Eight bytes a step: file contents of
 * 100 MB go through here.
 */
#pragma once

#include <assert.h>

#include "base/str.h"

static inline size_t json_plain_len(struct str s)
{
	static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the first byte must be the lowest");
	const uint64_t ones = 0x0101010101010101ull, high = ones << 7;
	size_t i = 0;
	for (; i + 8 <= s.n; i += 8) {
		uint64_t w;
		memcpy(&w, s.p + i, 8);
		/* The top bit of a byte is set when it was set before, or when the subtraction borrowed. Only bytes
		 * above the first hit can be wrong, and only the first is looked at. */
		uint64_t control = w - ones * 0x20, quote = (w ^ ones * '"') - ones, back = (w ^ ones * '\\') - ones;
		uint64_t hit = (w | control | quote | back) & high;
		if (hit)
			return i + (size_t)__builtin_ctzll(hit) / 8;
	}
	for (; i < s.n; i++) {
		unsigned char c = (unsigned char)s.p[i];
		if (c < 0x20 || c >= 0x80 || c == '"' || c == '\\')
			break;
	}
	return i;
}

/* The same, but passes over well-formed UTF-8 too. */
static inline size_t json_literal_len(struct str s)
{
	size_t i = 0;
	for (;;) {
		i += json_plain_len(str_n(s.p + i, s.n - i));
		if (i == s.n || (unsigned char)s.p[i] < 0x80)
			return i;
		while (i < s.n && (unsigned char)s.p[i] >= 0x80) {
			int len = str_utf8_len(str_n(s.p + i, s.n - i));
			if (len <= 0)
				return i;
			i += (size_t)len;
		}
	}
}
