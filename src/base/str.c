#include "base/str.h"

static unsigned char lower(char c)
{
	unsigned char u = (unsigned char)c;
	return u >= 'A' && u <= 'Z' ? (unsigned char)(u + 32) : u;
}

bool str_eq_nocase(struct str a, struct str b)
{
	if (a.n != b.n)
		return false;
	for (size_t i = 0; i < a.n; i++)
		if (lower(a.p[i]) != lower(b.p[i]))
			return false;
	return true;
}

ssize_t str_index(struct str s, char c)
{
	const char *hit = s.n ? memchr(s.p, c, s.n) : NULL;
	return hit ? hit - s.p : -1;
}

struct str str_split(struct str s, char sep, struct str *rest)
{
	ssize_t at = str_index(s, sep);
	if (at < 0) {
		*rest = str_skip(s, s.n);
		return s;
	}
	*rest = str_skip(s, (size_t)at + 1);
	return str_n(s.p, (size_t)at);
}

struct str str_trim(struct str s)
{
	while (s.n && (s.p[0] == ' ' || s.p[0] == '\t'))
		s = str_skip(s, 1);
	while (s.n && (s.p[s.n - 1] == ' ' || s.p[s.n - 1] == '\t'))
		s.n--;
	return s;
}

bool str_to_u64(struct str s, uint64_t max, uint64_t *ret)
{
	if (s.n == 0)
		return false;
	uint64_t v = 0;
	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] < '0' || s.p[i] > '9')
			return false;
		uint64_t digit = (uint64_t)(s.p[i] - '0');
		if (v > (UINT64_MAX - digit) / 10)
			return false;
		v = v * 10 + digit;
		if (v > max)
			return false;
	}
	*ret = v;
	return true;
}

char *str_dup(struct str s)
{
	char *c = xmalloc(s.n + 1);
	if (s.n)
		memcpy(c, s.p, s.n);
	c[s.n] = 0;
	return c;
}

bool str_eq_secret(struct str a, struct str b)
{
	if (a.n != b.n)
		return false;
	volatile unsigned char diff = 0;
	for (size_t i = 0; i < a.n; i++)
		diff |= (unsigned char)(a.p[i] ^ b.p[i]);
	return diff == 0;
}

int str_utf8_len(struct str s)
{
	if (s.n == 0)
		return -1;
	const unsigned char *u = (const unsigned char *)s.p;
	if (u[0] < 0x80)
		return 1;
	int len = u[0] >= 0xC2 && u[0] <= 0xDF ? 2 : (u[0] & 0xF0) == 0xE0 ? 3 : u[0] >= 0xF0 && u[0] <= 0xF4 ? 4 : 0;
	if (!len)
		return 0;
	/* The second byte carries the checks for overlongs, surrogates and the end of Unicode. */
	unsigned char lo = u[0] == 0xE0 ? 0xA0 : u[0] == 0xF0 ? 0x90 : 0x80;
	unsigned char hi = u[0] == 0xED ? 0x9F : u[0] == 0xF4 ? 0x8F : 0xBF;
	for (int i = 1; i < len; i++) {
		if ((size_t)i >= s.n)
			return -1;
		if (u[i] < lo || u[i] > hi)
			return 0;
		lo = 0x80;
		hi = 0xBF;
	}
	return len;
}

bool str_is_utf8(struct str s)
{
	while (s.n) {
		int len = str_utf8_len(s);
		if (len <= 0)
			return false;
		s = str_skip(s, (size_t)len);
	}
	return true;
}
