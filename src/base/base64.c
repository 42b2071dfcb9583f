#include "base/base64.h"

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void base64_encode(const void *p, size_t n, char *ret)
{
	const unsigned char *u = p;
	for (; n >= 3; n -= 3, u += 3, ret += 4) {
		uint32_t v = (uint32_t)u[0] << 16 | (uint32_t)u[1] << 8 | u[2];
		ret[0] = alphabet[v >> 18];
		ret[1] = alphabet[v >> 12 & 63];
		ret[2] = alphabet[v >> 6 & 63];
		ret[3] = alphabet[v & 63];
	}
	if (!n)
		return;
	uint32_t v = (uint32_t)u[0] << 16 | (n == 2 ? (uint32_t)u[1] << 8 : 0);
	ret[0] = alphabet[v >> 18];
	ret[1] = alphabet[v >> 12 & 63];
	ret[2] = n == 2 ? alphabet[v >> 6 & 63] : '=';
	ret[3] = '=';
}

bool base64_append(struct buf *b, struct str bytes)
{
	size_t n = base64_len(bytes.n);
	char *to = buf_room(b, n);
	if (!to)
		return false;
	base64_encode(bytes.p, bytes.n, to);
	buf_commit(b, n);
	return true;
}

/* Value of a character, 64 for '=', 255 for anything else: a table is four times faster than branches. It is filled
 * before main, so that threads find it whole. */
static unsigned char values[256];

__attribute__((constructor)) static void fill_values(void)
{
	memset(values, 255, sizeof values);
	for (unsigned i = 0; i < 64; i++)
		values[(unsigned char)alphabet[i]] = (unsigned char)i;
	values['='] = 64;
}

/* Whole groups of four plain characters, in bulk. Returns how many characters it took. */
static size_t decode_groups(struct str s, char *to)
{
	size_t i = 0;
	for (; i + 4 <= s.n; i += 4, to += 3) {
		const unsigned char *u = (const unsigned char *)s.p + i;
		unsigned char a = values[u[0]], b = values[u[1]], c = values[u[2]], d = values[u[3]];
		if ((a | b | c | d) & 0xC0)
			break;
		to[0] = (char)(a << 2 | b >> 4);
		to[1] = (char)(b << 4 | c >> 2);
		to[2] = (char)(c << 6 | d);
	}
	return i;
}

static bool close_group(struct base64_decoder *d, struct buf *out)
{
	/* Bits that the padding cuts off must be zero: one text for one value. */
	if (d->padded == 2 && d->bits & 0xFFFF)
		return false;
	if (d->padded == 1 && d->bits & 0xFF)
		return false;
	char bytes[3] = {(char)(d->bits >> 16), (char)(d->bits >> 8), (char)d->bits};
	bool ok = buf_add(out, bytes, 3u - d->padded);
	*d = (struct base64_decoder){.ended = d->padded > 0};
	return ok;
}

static bool decode_one(struct base64_decoder *d, unsigned char v, struct buf *out)
{
	if (d->ended || v == 255)
		return false;
	if (v == 64 && (d->have < 2 || ++d->padded > 2))
		return false;
	if (v != 64 && d->padded)
		return false;
	d->bits |= (uint32_t)(v & 63) << (18 - 6 * d->have);
	return ++d->have < 4 || close_group(d, out);
}

bool base64_decode(struct base64_decoder *d, struct str piece, struct buf *out)
{
	while (piece.n) {
		if (!d->have && !d->ended && piece.n >= 4) {
			char *to = buf_room(out, piece.n / 4 * 3);
			if (!to)
				return false;
			size_t took = decode_groups(piece, to);
			buf_commit(out, took / 4 * 3);
			piece = str_skip(piece, took);
			if (took)
				continue;
		}
		if (!decode_one(d, values[(unsigned char)piece.p[0]], out))
			return false;
		piece = str_skip(piece, 1);
	}
	return true;
}

bool base64_finish(const struct base64_decoder *d)
{
	return d->have == 0;
}
