#include "cli/text.h"

#include <stdio.h>
#include <sys/ioctl.h>
#include <wchar.h>

#include "cli/cli.h"

/* The character at the start of s, which is n bytes of good UTF-8. */
static uint32_t decode(struct str s, int n)
{
	static const unsigned char first[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
	uint32_t c = (unsigned char)s.p[0] & first[n];
	for (int i = 1; i < n; i++)
		c = c << 6 | ((unsigned char)s.p[i] & 0x3f);
	return c;
}

/* Controls, also the C1 ones; marks that change the direction or have no width; separators that break lines. */
static bool invisible(uint32_t c)
{
	return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0xad || c == 0x61c || (c >= 0x200b && c <= 0x200f) ||
	       (c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x206f) || c == 0xfeff ||
	       (c >= 0xfff9 && c <= 0xfffb) || (c >= 0xe0000 && c <= 0xe0fff);
}

static void put_escape(struct buf *to, uint32_t c)
{
	if (c == '\n')
		buf_add_c(to, "\\n");
	else if (c == '\t')
		buf_add_c(to, "\\t");
	else if (c == '\r')
		buf_add_c(to, "\\r");
	else if (c < 0x80)
		buf_printf(to, "\\x%02x", c);
	else
		buf_printf(to, "\\u%04x", c);
}

void text_put_safe(struct buf *to, struct str s)
{
	while (s.n) {
		int n = str_utf8_len(s);
		uint32_t c = n > 0 ? decode(s, n) : 0;
		if (n <= 0)
			buf_printf(to, "\\x%02x", (unsigned)(unsigned char)s.p[0]);
		else if (invisible(c))
			put_escape(to, c);
		else
			buf_add(to, s.p, (size_t)n);
		s = str_skip(s, n > 0 ? (size_t)n : 1);
	}
}

void text_print(struct str s)
{
	auto_buf struct buf line = {0};
	text_put_safe(&line, s);
	buf_add_byte(&line, '\n');
	cli_print(&line);
}

size_t text_width(struct str s)
{
	size_t width = 0;
	while (s.n) {
		int n = str_utf8_len(s);
		int w = n > 0 ? wcwidth((wchar_t)decode(s, n)) : 1;
		width += w > 0 ? (size_t)w : 0;
		s = str_skip(s, n > 0 ? (size_t)n : 1);
	}
	return width;
}

size_t text_terminal_width(int fd, size_t otherwise)
{
	struct winsize size;
	return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col : otherwise;
}

/* ---- tables ---- */

static void table_take(struct table *t, char *cell)
{
	if ((t->n & (t->n - 1)) == 0)
		t->cells = xrealloc(t->cells, (t->n ? t->n * 2 : 1) * sizeof *t->cells);
	t->cells[t->n++] = cell;
}

void table_add(struct table *t, struct str cell)
{
	auto_buf struct buf b = {0};
	text_put_safe(&b, cell);
	table_take(t, str_dup(buf_str(&b)));
}

void table_printf(struct table *t, const char *fmt, ...)
{
	auto_buf struct buf b = {0};
	va_list ap;
	va_start(ap, fmt);
	buf_vprintf(&b, fmt, ap);
	va_end(ap);
	table_add(t, buf_str(&b));
}

static bool is_right(const struct table *t, size_t column)
{
	return t->heads && t->heads[column][0] == '>';
}

static struct str head_text(const struct table *t, size_t column)
{
	return str_of(t->heads[column] + is_right(t, column));
}

static size_t column_width(const struct table *t, size_t column)
{
	size_t width = t->heads ? text_width(head_text(t, column)) : 0;
	for (size_t i = column; i < t->n; i += t->columns) {
		size_t w = text_width(str_of(t->cells[i]));
		width = w > width ? w : width;
	}
	return width;
}

/* The longest start of s that fits into `width` columns. */
static struct str cut(struct str s, size_t width)
{
	size_t used = 0, at = 0;
	while (at < s.n) {
		struct str rest = str_skip(s, at);
		int n = str_utf8_len(rest);
		size_t step = n > 0 ? (size_t)n : 1, w = text_width(str_n(rest.p, step));
		if (used + w > width)
			break;
		used += w;
		at += step;
	}
	return str_n(s.p, at);
}

/* The last column is not padded: lines have no blanks at their end. */
static void put_cell(const struct table *t, struct buf *line, size_t column, struct str text, size_t width)
{
	size_t fill = width - text_width(text);
	bool right = is_right(t, column), last = column + 1 == t->columns;
	if (right)
		buf_printf(line, "%*s", (int)fill, "");
	buf_add_str(line, text);
	if (!right && !last)
		buf_printf(line, "%*s", (int)fill, "");
	if (!last)
		buf_add_c(line, "  ");
}

static void put_line(const struct table *t, struct buf *to, struct buf *line)
{
	struct str text = buf_str(line);
	buf_add_str(to, t->max_width ? cut(text, t->max_width) : text);
	buf_clear(line);
}

void table_put(const struct table *t, struct buf *to)
{
	auto_buf struct buf line = {0};
	auto_free size_t *widths = xcalloc(t->columns, sizeof *widths);
	for (size_t c = 0; c < t->columns; c++)
		widths[c] = column_width(t, c);
	if (t->heads) {
		for (size_t c = 0; c < t->columns; c++)
			put_cell(t, &line, c, head_text(t, c), widths[c]);
		buf_add_c(to, cli_style(STDOUT_FILENO, STYLE_BOLD));
		put_line(t, to, &line);
		buf_add_c(to, cli_style(STDOUT_FILENO, STYLE_PLAIN));
		buf_add_byte(to, '\n');
	}
	for (size_t i = 0; i + t->columns <= t->n; i += t->columns) {
		for (size_t c = 0; c < t->columns; c++)
			put_cell(t, &line, c, str_of(t->cells[i + c]), widths[c]);
		put_line(t, to, &line);
		buf_add_byte(to, '\n');
	}
}

void table_print(const struct table *t, const char *empty)
{
	auto_buf struct buf b = {.max = SIZE_MAX / 2};
	if (t->n)
		table_put(t, &b);
	else if (empty)
		fprintf(stderr, "%s\n", empty);
	cli_print(&b);
}

void table_free(struct table *t)
{
	for (size_t i = 0; i < t->n; i++)
		free(t->cells[i]);
	free(t->cells);
	t->cells = NULL;
	t->n = 0;
}
