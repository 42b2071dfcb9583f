#include "http/sse.h"
#include "http/limits.h"

/* ---- writer ---- */

void sse_begin(struct http_exchange *x)
{
	http_respond_header(x, STR("Content-Type"), STR("text/event-stream"));
	http_respond_header(x, STR("Cache-Control"), STR("no-cache"));
	/* Proxies that gather responses would hold events back. */
	http_respond_header(x, STR("X-Accel-Buffering"), STR("no"));
	http_respond_begin(x, 200, HTTP_CHUNKED);
}

static bool one_line(struct str s)
{
	return str_index(s, '\n') < 0 && str_index(s, '\r') < 0 && str_index(s, 0) < 0;
}

static void put_field(struct buf *out, const char *name, struct str value)
{
	buf_add_c(out, name);
	buf_add_c(out, ": ");
	buf_add_str(out, value);
	buf_add_byte(out, '\n');
}

/* The line that begins `s`; *rest is what follows its end. */
static struct str cut_line(struct str s, struct str *rest, bool *ret_last)
{
	const char *lf = s.n ? memchr(s.p, '\n', s.n) : NULL;
	size_t n = lf ? (size_t)(lf - s.p) : s.n;
	const char *cr = n ? memchr(s.p, '\r', n) : NULL;
	n = cr ? (size_t)(cr - s.p) : n;
	*ret_last = n == s.n;
	size_t end = n + (n + 1 < s.n && s.p[n] == '\r' && s.p[n + 1] == '\n' ? 2 : 1);
	*rest = str_skip(s, end);
	return str_n(s.p, n);
}

/* All but the data. False: a line break where none may be. */
static bool put_head(struct buf *out, const char *event, struct str id)
{
	if ((event && !one_line(str_of(event))) || !one_line(id))
		return false;
	if (event)
		put_field(out, "event", str_of(event));
	if (id.p)
		put_field(out, "id", id);
	return true;
}

bool sse_format(struct buf *out, const char *event, struct str id, struct str data)
{
	if (!put_head(out, event, id))
		return false;
	bool last = false;
	while (!last)
		put_field(out, "data", cut_line(data, &data, &last));
	return buf_add_byte(out, '\n');
}

bool sse_send(struct http_exchange *x, const char *event, struct str id, struct str data)
{
	auto_buf struct buf out = {0}, room = {0};
	bool one;
	struct str rest;
	data = http_respond_with_extra(x, data, &room);
	cut_line(data, &rest, &one);
	if (!one)
		return sse_format(&out, event, id, data) && http_respond_write(x, buf_str(&out));
	/* Long data is not copied. */
	if (!put_head(&out, event, id))
		return false;
	buf_add_c(&out, "data: ");
	return http_respond_write_framed(x, buf_str(&out), data, STR("\n\n"));
}

bool sse_comment(struct http_exchange *x)
{
	return http_respond_write(x, STR(": keep-alive\n\n"));
}

/* ---- reader ---- */

void sse_reader_init(struct sse_reader *r, void (*on_event)(void *arg, const struct sse_event *ev), void *arg)
{
	*r = (struct sse_reader){.on_event = on_event, .arg = arg, .max = SSE_EVENT_MAX};
}

void sse_reader_free(struct sse_reader *r)
{
	buf_free(&r->line);
	buf_free(&r->data);
	buf_free(&r->event);
	buf_free(&r->id);
}

static void dispatch(struct sse_reader *r)
{
	if (r->has_data) {
		struct str name = buf_str(&r->event);
		struct sse_event ev = {
			.event = name.n ? name : STR("message"),
			.data = str_n(r->data.p + r->data.off, buf_size(&r->data) - 1),
			.id = buf_str(&r->id),
		};
		r->on_event(r->arg, &ev);
	}
	buf_clear(&r->data);
	buf_clear(&r->event);
	r->has_data = false;
}

/* Everything held for the event together stays under the limit. */
static bool fits(const struct sse_reader *r, size_t more)
{
	size_t held = buf_size(&r->line) + buf_size(&r->data) + buf_size(&r->event) + buf_size(&r->id);
	return more <= r->max && held <= r->max - more;
}

static void set(struct buf *b, struct str value)
{
	buf_clear(b);
	buf_add_str(b, value);
}

static bool take_line(struct sse_reader *r, struct str line)
{
	if (!r->begun && str_starts(line, STR("\xef\xbb\xbf")))
		line = str_skip(line, 3);
	r->begun = true;
	if (!line.n) {
		dispatch(r);
		return true;
	}
	struct str value, name = str_split(line, ':', &value);
	if (value.n && value.p[0] == ' ')
		value = str_skip(value, 1);
	if (!fits(r, value.n + 1))
		return false;
	if (str_eq_c(name, "data")) {
		buf_add_str(&r->data, value);
		buf_add_byte(&r->data, '\n');
		r->has_data = true;
	} else if (str_eq_c(name, "event")) {
		set(&r->event, value);
	} else if (str_eq_c(name, "id") && str_index(value, 0) < 0) {
		set(&r->id, value);
	} else if (str_eq_c(name, "retry")) {
		str_to_u64(value, UINT32_MAX, &r->retry_ms);
	}
	return true;
}

/* A line is complete: `tail` is its last part, what came before waits in r->line. */
static bool end_line(struct sse_reader *r, struct str tail)
{
	if (!buf_size(&r->line))
		return take_line(r, tail);
	struct buf line = r->line;
	r->line = (struct buf){0};
	bool ok = buf_add_str(&line, tail) && take_line(r, buf_str(&line));
	buf_clear(&line);
	buf_free(&r->line);
	r->line = line;
	return ok;
}

static int too_long(struct sse_reader *r, struct err *e)
{
	r->failed = true;
	return err_set(e, ERRC_PAYLOAD_TOO_LARGE, "an event of the stream is longer than %zu bytes", r->max);
}

int sse_feed(struct sse_reader *r, struct str bytes, struct err *e)
{
	if (r->failed)
		return too_long(r, e);
	while (bytes.n) {
		if (r->skip_lf && bytes.p[0] == '\n')
			bytes = str_skip(bytes, 1);
		r->skip_lf = false;
		size_t n = 0;
		while (n < bytes.n && bytes.p[n] != '\n' && bytes.p[n] != '\r')
			n++;
		if (!fits(r, n))
			return too_long(r, e);
		if (n == bytes.n) {
			buf_add(&r->line, bytes.p, n);
			break;
		}
		r->skip_lf = bytes.p[n] == '\r';
		if (!end_line(r, str_n(bytes.p, n)))
			return too_long(r, e);
		bytes = str_skip(bytes, n + 1);
	}
	return 0;
}
