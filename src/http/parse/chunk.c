#include "http/parse/chunk.h"
#include "http/limits.h"

enum state {
	K_SIZE,
	K_EXT_NAME,
	K_EXT_VALUE,
	K_SIZE_LF,
	K_DATA,
	K_DATA_CR,
	K_DATA_LF,
	K_LINE, /* first byte of a trailer line, or of the empty line that ends the message */
	K_NAME,
	K_VALUE,
	K_VALUE_LF,
	K_END_LF,
	K_ENDED,
};

enum { SIZE_DIGITS = 15 };

static int hex_digit(unsigned char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool is_token_byte(unsigned char b)
{
	return http_name_ok(str_n(&(char){(char)b}, 1));
}

static bool value_byte(unsigned char c)
{
	return c == '\t' || (c >= 0x20 && c != 0x7f);
}

static bool step_size(struct chunk *c, unsigned char b)
{
	if (c->state == K_SIZE) {
		int digit = hex_digit(b);
		if (digit >= 0) {
			c->left = c->left << 4 | (unsigned)digit;
			return ++c->digits <= SIZE_DIGITS;
		}
		if (!c->digits)
			return false;
		c->state = b == ';' ? K_EXT_NAME : K_SIZE_LF;
		c->ext = c->word = 0;
		return b == ';' || b == '\r';
	}
	c->state = c->left ? K_DATA : K_LINE;
	return b == '\n';
}

/* Tokens only: clients do not send quoted values, and a parser is safer without them. */
static bool step_ext(struct chunk *c, unsigned char b)
{
	if (++c->ext > HTTP_CHUNK_EXT_MAX + 1 || ++c->ext_all > HTTP_HEAD_MAX)
		return false;
	if (b == '\r' || b == ';' || (b == '=' && c->state == K_EXT_NAME)) {
		bool empty = c->word == 0;
		c->state = b == '\r' ? K_SIZE_LF : b == ';' ? K_EXT_NAME : K_EXT_VALUE;
		c->word = 0;
		return !empty;
	}
	c->word++;
	return is_token_byte(b);
}

static void note_name(struct chunk *c, unsigned char b)
{
	if (c->word < sizeof c->name)
		c->name[c->word++] = (char)b;
}

/* A length behind the body can only be an attempt to confuse a parser. */
static bool is_framing(struct str name)
{
	return str_eq_nocase(name, STR("Content-Length")) || str_eq_nocase(name, STR("Transfer-Encoding"));
}

static bool step_trailer(struct chunk *c, unsigned char b)
{
	if (++c->trailer > HTTP_HEAD_MAX)
		return false;
	if (c->trailers && c->state != K_END_LF && !(c->state == K_LINE && b == '\r'))
		buf_add_byte(c->trailers, (char)b);
	switch (c->state) {
	case K_LINE:
		c->state = b == '\r' ? K_END_LF : K_NAME;
		c->word = 0;
		note_name(c, b);
		return b == '\r' || (++c->lines <= HTTP_HEADERS_MAX && is_token_byte(b));
	case K_NAME:
		if (b == ':') {
			c->state = K_VALUE;
			return !is_framing(str_n(c->name, c->word));
		}
		note_name(c, b);
		return is_token_byte(b);
	case K_VALUE:
		if (b == '\r') {
			c->state = K_VALUE_LF;
			return true;
		}
		return value_byte(b);
	default: /* K_VALUE_LF, K_END_LF */
		c->state = c->state == K_END_LF ? K_ENDED : K_LINE;
		return b == '\n';
	}
}

static bool step(struct chunk *c, unsigned char b)
{
	switch (c->state) {
	case K_SIZE:
	case K_SIZE_LF:
		return step_size(c, b);
	case K_EXT_NAME:
	case K_EXT_VALUE:
		return step_ext(c, b);
	case K_DATA_CR:
		c->state = K_DATA_LF;
		return b == '\r';
	case K_DATA_LF:
		c->state = K_SIZE;
		c->digits = 0;
		return b == '\n';
	case K_LINE:
	case K_NAME:
	case K_VALUE:
	case K_VALUE_LF:
	case K_END_LF:
		return step_trailer(c, b);
	case K_DATA:
	case K_ENDED:
		break;
	}
	return false;
}

enum chunk_result chunk_next(struct chunk *c, struct str *in, struct str *ret_data)
{
	while (in->n && c->state != K_ENDED) {
		if (c->state == K_DATA) {
			size_t n = in->n < c->left ? in->n : (size_t)c->left;
			*ret_data = str_n(in->p, n);
			*in = str_skip(*in, n);
			c->left -= n;
			if (!c->left)
				c->state = K_DATA_CR;
			return CHUNK_DATA;
		}
		unsigned char b = (unsigned char)in->p[0];
		*in = str_skip(*in, 1);
		if (!step(c, b))
			return CHUNK_BAD;
	}
	return c->state == K_ENDED ? CHUNK_END : CHUNK_MORE;
}

static _Thread_local char room[HTTP_CHUNK_GATHER];

void chunk_forget(void)
{
	explicit_bzero(room, sizeof room);
}

enum chunk_result chunk_gather(struct chunk *c, struct str *in, unsigned *heads, struct str *ret_data)
{
	size_t n = 0;
	while (*heads && n + HTTP_CHUNK_SMALL <= sizeof room) {
		struct chunk was = *c;
		struct str before = *in, piece = {in->p, 0};
		size_t trailers = c->trailers ? buf_size(c->trailers) : 0;
		enum chunk_result r = chunk_next(c, in, &piece);
		bool small = r == CHUNK_DATA && piece.n < HTTP_CHUNK_SMALL;
		*heads -= r == CHUNK_DATA && (small || !n);
		if (!small && !n) {
			*ret_data = piece;
			return r;
		}
		if (!small && r != CHUNK_MORE) {
			/* What has been gathered goes first; this comes again. */
			*c = was;
			*in = before;
			if (c->trailers)
				buf_truncate(c->trailers, trailers);
		}
		if (!small)
			break;
		memcpy(room + n, piece.p, piece.n);
		n += piece.n;
	}
	*ret_data = str_n(room, n);
	return CHUNK_DATA;
}

unsigned *turn_chunks(struct turn_chunks *t, const struct turn_seat *s)
{
	uint64_t now = s->party->turns->number;
	if (t->number != now)
		*t = (struct turn_chunks){.number = now, .left = HTTP_TURN_CHUNKS};
	return &t->left;
}
