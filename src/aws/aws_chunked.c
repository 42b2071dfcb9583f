#include "aws/aws_chunked.h"

enum { SIZE_LINE, DATA, DATA_END, TRAILER_LINE, ENDED, BROKEN };

static bool fail(struct aws_chunked *c)
{
	c->state = BROKEN;
	return false;
}

/* Takes one byte of a line. True when the line is complete: its text is line[0 … line_n). */
static bool take_line(struct aws_chunked *c, char byte)
{
	if (c->line_n == AWS_LINE_MAX) {
		c->state = BROKEN;
		return false;
	}
	c->line[c->line_n++] = byte;
	if (byte != '\n')
		return false;
	if (c->line_n < 2 || c->line[c->line_n - 2] != '\r' || memchr(c->line, '\r', c->line_n - 2)) {
		c->state = BROKEN;
		return false;
	}
	c->line_n -= 2;
	return true;
}

static bool read_size(struct str text, uint64_t *ret)
{
	uint64_t v = 0;
	if (!text.n || text.n > 12)
		return false;
	for (size_t i = 0; i < text.n; i++) {
		char c = text.p[i], low = (char)(c | 32);
		if (c >= '0' && c <= '9')
			v = v << 4 | (uint64_t)(c - '0');
		else if (low >= 'a' && low <= 'f')
			v = v << 4 | (uint64_t)(low - 'a' + 10);
		else
			return false;
	}
	*ret = v;
	return true;
}

static void on_line(struct aws_chunked *c)
{
	struct str rest, line = str_n(c->line, c->line_n);
	bool empty = c->line_n == 0;
	c->line_n = 0;
	if (c->state == SIZE_LINE) {
		bool ok = read_size(str_split(line, ';', &rest), &c->left);
		c->state = !ok ? BROKEN : c->left ? DATA : TRAILER_LINE;
	} else if (c->state == DATA_END) {
		c->state = empty ? SIZE_LINE : BROKEN;
	} else {
		c->trailers_n += line.n;
		c->state = empty ? ENDED : c->trailers_n > AWS_TRAILERS_MAX ? BROKEN : TRAILER_LINE;
	}
}

bool aws_chunked_feed(struct aws_chunked *c, struct str in, struct buf *out)
{
	while (in.n && c->state != BROKEN) {
		if (c->state == ENDED)
			return fail(c);
		if (c->state == DATA) {
			size_t n = c->left < in.n ? (size_t)c->left : in.n;
			if (!buf_add(out, in.p, n))
				return fail(c);
			c->left -= n;
			c->total += n;
			in = str_skip(in, n);
			c->state = c->left ? DATA : DATA_END;
			continue;
		}
		if (take_line(c, in.p[0]))
			on_line(c);
		in = str_skip(in, 1);
	}
	return c->state != BROKEN;
}

bool aws_chunked_ended(const struct aws_chunked *c)
{
	return c->state == ENDED;
}
