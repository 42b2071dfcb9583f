#include "base/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/json_scan.h"

static const char replacement[] = "\xef\xbf\xbd"; /* U+FFFD */

static void put_escape(struct buf *b, unsigned char c)
{
	static const char letters[128] = {
		['"'] = '"', ['\\'] = '\\', ['\b'] = 'b', ['\f'] = 'f', ['\n'] = 'n', ['\r'] = 'r', ['\t'] = 't'};
	static const char hex[] = "0123456789abcdef";
	if (letters[c])
		buf_add(b, (char[]){'\\', letters[c]}, 2);
	else
		buf_add(b, (char[]){'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]}, 6);
}

/* Length of the malformed piece at the start of s that one U+FFFD stands for: as far as it could have become a
 * sequence, at least one byte (Unicode's "maximal subpart"). */
static size_t malformed_len(struct str s)
{
	size_t n = 1;
	while (n < s.n && str_utf8_len(str_n(s.p, n + 1)) < 0)
		n++;
	return n;
}

size_t json_put_piece(struct buf *b, struct str s, bool final)
{
	for (;;) {
		size_t literal = json_literal_len(s);
		buf_add(b, s.p, literal);
		s = str_skip(s, literal);
		if (!s.n || b->failed)
			return 0;
		unsigned char c = (unsigned char)s.p[0];
		if (c < 0x80) {
			put_escape(b, c);
			s = str_skip(s, 1);
		} else if (!final && str_utf8_len(s) < 0) {
			return s.n;
		} else {
			buf_add_c(b, replacement);
			s = str_skip(s, malformed_len(s));
		}
	}
}

static uint32_t code_point(const unsigned char *p, int n)
{
	uint32_t c = n == 2 ? p[0] & 0x1fu : n == 3 ? p[0] & 0x0fu : p[0] & 0x07u;
	for (int i = 1; i < n; i++)
		c = c << 6 | (p[i] & 0x3fu);
	return c;
}

void json_put_ascii(struct buf *b, struct str text)
{
	while (text.n) {
		size_t plain = 0;
		while (plain < text.n && (unsigned char)text.p[plain] < 0x80)
			plain++;
		buf_add(b, text.p, plain);
		text = str_skip(text, plain);
		int n = text.n ? str_utf8_len(text) : 0;
		if (n <= 0)
			return;
		uint32_t c = code_point((const unsigned char *)text.p, n);
		if (c >= 0x10000)
			buf_printf(b, "\\u%04x\\u%04x", 0xd800 + ((c - 0x10000) >> 10), 0xdc00 + (c & 0x3ff));
		else
			buf_printf(b, "\\u%04x", c);
		text = str_skip(text, (size_t)n);
	}
}

void json_put_str(struct buf *b, struct str s)
{
	buf_add_byte(b, '"');
	json_put_piece(b, s, true);
	buf_add_byte(b, '"');
}

void json_put_cstr(struct buf *b, const char *c)
{
	json_put_str(b, str_of(c));
}

static struct buf *next_value(struct json_writer *w)
{
	if (w->comma)
		buf_add_byte(w->out, ',');
	w->comma = true;
	return w->out;
}

static void begin_level(struct json_writer *w, char bracket)
{
	buf_add_byte(next_value(w), bracket);
	w->comma = false;
}

static void end_level(struct json_writer *w, char bracket)
{
	buf_add_byte(w->out, bracket);
	w->comma = true;
}

void json_object_begin(struct json_writer *w)
{
	begin_level(w, '{');
}

void json_object_end(struct json_writer *w)
{
	end_level(w, '}');
}

void json_array_begin(struct json_writer *w)
{
	begin_level(w, '[');
}

void json_array_end(struct json_writer *w)
{
	end_level(w, ']');
}

void json_key(struct json_writer *w, const char *key)
{
	json_put_cstr(next_value(w), key);
	buf_add_byte(w->out, ':');
	w->comma = false;
}

void json_list_begin(struct json_writer *w, const char *key)
{
	json_object_begin(w);
	json_key(w, key);
	json_array_begin(w);
}

void json_list_end(struct json_writer *w)
{
	json_array_end(w);
	json_object_end(w);
}

void json_str(struct json_writer *w, struct str s)
{
	json_put_str(next_value(w), s);
}

void json_cstr(struct json_writer *w, const char *c)
{
	if (c)
		json_str(w, str_of(c));
	else
		json_null(w);
}

void json_u64(struct json_writer *w, uint64_t v)
{
	buf_printf(next_value(w), "%" PRIu64, v);
}

void json_i64(struct json_writer *w, int64_t v)
{
	buf_printf(next_value(w), "%" PRId64, v);
}

/* The shortest of the three that reads back as the same number. */
void json_double(struct json_writer *w, double v)
{
	char text[32];
	if (!isfinite(v)) {
		json_null(w);
		return;
	}
	for (int digits = 15; digits <= 17; digits++) {
		snprintf(text, sizeof text, "%.*g", digits, v);
		if (strtod(text, NULL) == v)
			break;
	}
	buf_add_c(next_value(w), text);
}

void json_bool(struct json_writer *w, bool v)
{
	buf_add_c(next_value(w), v ? "true" : "false");
}

void json_null(struct json_writer *w)
{
	buf_add_c(next_value(w), "null");
}

void json_raw(struct json_writer *w, struct str literal)
{
	buf_add_str(next_value(w), literal);
}

void json_member_str(struct json_writer *w, const char *key, struct str s)
{
	json_key(w, key);
	json_str(w, s);
}

void json_member_cstr(struct json_writer *w, const char *key, const char *c)
{
	json_key(w, key);
	json_cstr(w, c);
}

void json_member_u64(struct json_writer *w, const char *key, uint64_t v)
{
	json_key(w, key);
	json_u64(w, v);
}

void json_member_i64(struct json_writer *w, const char *key, int64_t v)
{
	json_key(w, key);
	json_i64(w, v);
}

void json_member_double(struct json_writer *w, const char *key, double v)
{
	json_key(w, key);
	json_double(w, v);
}

void json_member_bool(struct json_writer *w, const char *key, bool v)
{
	json_key(w, key);
	json_bool(w, v);
}
