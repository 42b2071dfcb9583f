#include "http/ws/sha1.h"

static uint32_t rotate(uint32_t v, int n)
{
	return v << n | v >> (32 - n);
}

static uint32_t word(const unsigned char *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void block(uint32_t h[5], const unsigned char p[64])
{
	uint32_t w[80], a = h[0], b = h[1], c = h[2], d = h[3], e = h[4];
	for (int i = 0; i < 16; i++)
		w[i] = word(p + 4 * i);
	for (int i = 16; i < 80; i++)
		w[i] = rotate(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
	for (int i = 0; i < 80; i++) {
		uint32_t f, k;
		if (i < 20)
			f = (b & c) | (~b & d), k = 0x5a827999;
		else if (i < 40)
			f = b ^ c ^ d, k = 0x6ed9eba1;
		else if (i < 60)
			f = (b & c) | (b & d) | (c & d), k = 0x8f1bbcdc;
		else
			f = b ^ c ^ d, k = 0xca62c1d6;
		uint32_t t = rotate(a, 5) + f + e + k + w[i];
		e = d;
		d = c;
		c = rotate(b, 30);
		b = a;
		a = t;
	}
	h[0] += a;
	h[1] += b;
	h[2] += c;
	h[3] += d;
	h[4] += e;
}

void sha1(struct str s, unsigned char ret[20])
{
	uint32_t h[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
	uint64_t bits = (uint64_t)s.n * 8;
	while (s.n >= 64) {
		block(h, (const unsigned char *)s.p);
		s = str_skip(s, 64);
	}
	unsigned char tail[128] = {0};
	if (s.n)
		memcpy(tail, s.p, s.n);
	tail[s.n] = 0x80;
	size_t len = s.n < 56 ? 64 : 128;
	for (int i = 0; i < 8; i++)
		tail[len - 1 - (size_t)i] = (unsigned char)(bits >> (8 * i));
	block(h, tail);
	if (len == 128)
		block(h, tail + 64);
	for (int i = 0; i < 20; i++)
		ret[i] = (unsigned char)(h[i / 4] >> (24 - 8 * (i % 4)));
}

void base64(struct str s, char *ret)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const unsigned char *p = (const unsigned char *)s.p;
	for (size_t i = 0; i < s.n; i += 3) {
		uint32_t v = (uint32_t)p[i] << 16;
		v |= i + 1 < s.n ? (uint32_t)p[i + 1] << 8 : 0;
		v |= i + 2 < s.n ? p[i + 2] : 0;
		*ret++ = digits[v >> 18];
		*ret++ = digits[v >> 12 & 63];
		*ret++ = i + 1 < s.n ? digits[v >> 6 & 63] : '=';
		*ret++ = i + 2 < s.n ? digits[v & 63] : '=';
	}
	*ret = 0;
}
