/* The functions that handlers call: the exchange and its response. */
#include <stdio.h>

#include "http/limits.h"
#include "http/server/conn.h"

void exchange_open(struct http_exchange *x)
{
	struct http_request req = x->req;
	struct head_mem mem = x->mem;
	*x = (struct http_exchange){.req = req, .mem = mem, .body_left = req.content_length};
	x->body = req.content_length < 0 ? BODY_CHUNKED : req.content_length ? BODY_LENGTH : BODY_NONE;
	x->input = x->body == BODY_NONE ? INPUT_TOLD : INPUT_OPEN;
	x->continue_due = req.expect_continue;
	x->end = !req.keep_alive || conn_of(x)->s->draining ? END_CLOSE : END_KEEP;
	x->headers.max = 2 * HTTP_HEAD_MAX;
	x->chunk.trailers = &x->trailers;
}

void exchange_free(struct http_exchange *x)
{
	buf_free(&x->collected);
	buf_free(&x->headers);
	buf_free(&x->extra);
	buf_free(&x->trailers);
	x->chunk.trailers = NULL; /* the rest of a body may still be read away */
	x->ops = NULL;
}

void http_exchange_set(struct http_exchange *x, const struct http_exchange_ops *ops, void *arg)
{
	x->ops = ops;
	x->arg = arg;
}

void *http_exchange_arg(const struct http_exchange *x)
{
	return x->arg;
}

int http_exchange_tag(const struct http_exchange *x)
{
	return conn_of(x)->tag;
}

const struct http_request *http_request(const struct http_exchange *x)
{
	return &x->req;
}

bool http_exchange_secure(const struct http_exchange *x)
{
	return conn_of(x)->w.layer != NULL;
}

int http_exchange_fd(const struct http_exchange *x)
{
	return conn_of(x)->w.fd;
}

bool http_exchange_vouch(struct http_exchange *x, enum http_rank rank)
{
	bool fits = place_set_rank(conn_of(x), rank);
	x->vouched |= fits;
	if (fits)
		conn_of(x)->answers = 0;
	return fits;
}

void http_collect(struct http_exchange *x, size_t max)
{
	bool too_large = x->body == BODY_LENGTH && (uint64_t)x->req.content_length > max;
	x->collect_max = max;
	x->collected.max = max ? max : 1;
	exchange_collect(x, too_large ? COLLECT_TOO_LARGE : exchange_body_ended(x) ? COLLECT_DUE : COLLECT_ON);
	wire_kick(&conn_of(x)->w);
}

void http_collect_secret(struct http_exchange *x, size_t max)
{
	x->collected.wipe = conn_of(x)->in.wipe = true;
	http_collect(x, max);
}

void http_forget_body(struct http_exchange *x)
{
	buf_free(&x->collected);
	wire_forget();
	chunk_forget();
}

void http_pause(struct http_exchange *x)
{
	x->paused = true;
	conn_due_in(conn_of(x), 0);
}

void http_resume(struct http_exchange *x)
{
	struct http_conn *c = conn_of(x);
	if (!x->paused)
		return;
	x->paused = false;
	if (!exchange_body_ended(x) && x->body != BODY_RAW)
		conn_due_in(c, c->s->config.body_stall);
	wire_kick(&c->w);
}

bool http_body_ended(const struct http_exchange *x)
{
	return x->input == INPUT_TOLD;
}

/* ---- response ---- */

static bool is_own_header(struct str name)
{
	return str_eq_nocase(name, STR("Content-Length")) || str_eq_nocase(name, STR("Transfer-Encoding")) ||
	       str_eq_nocase(name, STR("Connection"));
}

bool http_respond_header(struct http_exchange *x, struct str name, struct str value)
{
	if (!http_name_ok(name) || !http_value_ok(value) || is_own_header(name) || exchange_begun(x))
		return false;
	if (x->headers.len + name.n + value.n + 4 > x->headers.max)
		return false;
	x->has_date |= str_eq_nocase(name, STR("Date"));
	http_put_header(&x->headers, name, value);
	return true;
}

static void add_u64(struct buf *b, uint64_t v)
{
	char digits[24];
	size_t i = sizeof digits;
	do
		digits[--i] = (char)('0' + v % 10);
	while (v /= 10);
	buf_add(b, digits + i, sizeof digits - i);
}

void http_respond_reason(struct http_exchange *x, struct str reason)
{
	if (reason.n && reason.n <= HTTP_REASON_MAX && http_value_ok(reason))
		x->reason = reason;
}

void conn_put_status(struct http_conn *c, int status, struct str reason)
{
	struct buf *b = &c->w.out;
	buf_add_str(b, str_skip(STR(HTTP_PREFIX), c->prefix));
	c->prefix = 0;
	add_u64(b, (uint64_t)status);
	buf_add_byte(b, ' ');
	buf_add_str(b, reason.n ? reason : str_of(http_status_text(status)));
	buf_add(b, "\r\n", 2);
}

/* How the end of the body will be known, and the header that says so. */
static void put_framing(struct http_exchange *x, struct buf *b, int64_t length)
{
	bool bodiless = x->status == 204 || x->status < 200 || (x->status == 304 && length <= 0);
	if (bodiless) {
		x->out = OUT_NONE;
	} else if (length >= 0) {
		x->out = OUT_LENGTH;
		buf_add_c(b, "Content-Length: ");
		add_u64(b, (uint64_t)length);
		buf_add(b, "\r\n", 2);
	} else if (x->req.minor >= 1) {
		x->out = OUT_CHUNKED;
		buf_add_c(b, "Transfer-Encoding: chunked\r\n");
	} else {
		x->out = OUT_UNTIL_CLOSE;
		exchange_end_at_least(x, END_CLOSE);
	}
	if (x->req.method == HTTP_M_HEAD || x->status == 304)
		x->out = OUT_NONE;
	x->out_left = length;
}

void http_respond_begin(struct http_exchange *x, int status, int64_t content_length)
{
	INVARIANT(status >= 200 && status <= 999);
	struct wire *w = &conn_of(x)->w;
	struct buf *b = &w->out;
	x->status = status;
	exchange_respond(x, RESPOND_BEGUN);
	conn_count_answer(conn_of(x), status);
	conn_put_status(conn_of(x), status, x->reason);
	if (!x->has_date)
		http_put_header(b, STR("Date"), http_date());
	buf_add_str(b, buf_str(&x->headers));
	put_framing(x, b, content_length);
	if (x->end != END_KEEP)
		buf_add_c(b, "Connection: close\r\n");
	else if (x->req.minor == 0)
		buf_add_c(b, "Connection: keep-alive\r\n");
	buf_add(b, "\r\n", 2);
	wire_kick(w);
}

static struct iovec iov_of(struct str s)
{
	return (struct iovec){(void *)(uintptr_t)s.p, s.n};
}

static bool write_chunk(struct http_conn *c, struct str bytes)
{
	char size[20];
	c->zeros = 0;
	int n = snprintf(size, sizeof size, "%zx\r\n", bytes.n);
	struct iovec v[] = {{size, (size_t)n}, iov_of(bytes), iov_of(STR("\r\n"))};
	return wire_write(&c->w, v, ARRAY_LEN(v));
}

bool http_respond_write_framed(struct http_exchange *x, struct str before, struct str bytes, struct str after)
{
	char size[20];
	if (x->out != OUT_CHUNKED || exchange_ended(x)) {
		http_respond_write(x, before);
		http_respond_write(x, bytes);
		return http_respond_write(x, after);
	}
	conn_of(x)->zeros = 0;
	int n = snprintf(size, sizeof size, "%zx\r\n", before.n + bytes.n + after.n);
	struct iovec v[] = {{size, (size_t)n}, iov_of(before), iov_of(bytes), iov_of(after), iov_of(STR("\r\n"))};
	return wire_write(&conn_of(x)->w, v, ARRAY_LEN(v));
}

bool http_respond_write(struct http_exchange *x, struct str bytes)
{
	INVARIANT(exchange_begun(x));
	struct wire *w = &conn_of(x)->w;
	if (!bytes.n || exchange_ended(x) || x->out == OUT_NONE)
		return !w->full;
	switch (x->out) {
	case OUT_LENGTH:
		if ((int64_t)bytes.n > x->out_left)
			bytes.n = (size_t)x->out_left;
		x->out_left -= (int64_t)bytes.n;
		return wire_put(w, bytes);
	case OUT_CHUNKED:
		return write_chunk(conn_of(x), bytes);
	case OUT_UNTIL_CLOSE:
	case OUT_RAW:
		return wire_put(w, bytes);
	case OUT_NONE:
		break;
	}
	return true;
}

void http_respond_more(struct http_exchange *x)
{
	if (x->respond == RESPOND_BEGUN)
		exchange_respond(x, RESPOND_MORE);
	wire_kick(&conn_of(x)->w);
}

void http_respond_end_with(struct http_exchange *x, struct str trailers)
{
	struct wire *w = &conn_of(x)->w;
	if (exchange_ended(x))
		return;
	exchange_respond(x, RESPOND_ENDED);
	if (x->out == OUT_LENGTH && x->out_left > 0)
		return http_abort(x);
	if (x->out == OUT_CHUNKED) {
		struct iovec v[] = {{(void *)"0\r\n", 3}, {(void *)trailers.p, trailers.n}, {(void *)"\r\n", 2}};
		wire_write(w, v, 3);
	}
	wire_kick(w);
}

void http_respond_end(struct http_exchange *x)
{
	http_respond_end_with(x, STR_NULL);
}

struct str http_request_trailers(const struct http_exchange *x)
{
	return buf_str(&x->trailers);
}

/* A request that went nowhere: its body is not worth reading to keep the connection. */
static bool went_nowhere(const struct http_exchange *x, int status)
{
	return conn_is_strange(conn_of(x)) || status == 401 || status == 404 || status == 405;
}

void http_respond_extra(struct http_exchange *x, struct str member)
{
	buf_free(&x->extra);
	buf_add_str(&x->extra, member);
}

void http_respond_put_extra(const struct http_exchange *x, struct buf *object)
{
	if (!buf_size(&x->extra) || !str_ends(buf_str(object), STR("}")))
		return;
	buf_truncate(object, buf_size(object) - 1);
	if (!str_ends(buf_str(object), STR("{")))
		buf_add_byte(object, ',');
	buf_add_str(object, buf_str(&x->extra));
	buf_add_byte(object, '}');
}

struct str http_respond_with_extra(struct http_exchange *x, struct str object, struct buf *room)
{
	if (!buf_size(&x->extra))
		return object;
	buf_add_str(room, object);
	http_respond_put_extra(x, room);
	buf_clear(&x->extra);
	return buf_str(room);
}

void http_respond(struct http_exchange *x, int status, const char *content_type, struct str body)
{
	auto_buf struct buf with = {0};
	if (buf_size(&x->extra) && content_type && strcmp(content_type, "application/json") == 0) {
		buf_add_str(&with, body);
		http_respond_put_extra(x, &with);
		body = buf_str(&with);
	}
	/* The client may still be sending a body that is not read: announce the close. */
	if (!exchange_body_ended(x) && (x->continue_due || x->body_left > HTTP_DRAIN_MAX || went_nowhere(x, status)))
		exchange_end_at_least(x, END_CLOSE);
	if (content_type)
		http_respond_header(x, STR("Content-Type"), str_of(content_type));
	http_respond_begin(x, status, (int64_t)body.n);
	http_respond_write(x, body);
	http_respond_end(x);
}

void http_respond_error_json(struct http_exchange *x, const struct error_json *j)
{
	auto_buf struct buf body = {0};
	error_json(&body, j);
	http_respond(x, error_json_status(j), "application/json", buf_str(&body));
}

void http_respond_error(struct http_exchange *x, const struct err *e)
{
	http_respond_error_json(x, &(struct error_json){.err = e});
}

void http_respond_not_allowed(struct http_exchange *x, const char *allow)
{
	struct err e;
	err_set(&e, ERRC_METHOD_NOT_ALLOWED, "%.*s is not allowed here, only %s", STR_ARG(x->req.method_text), allow);
	http_respond_header(x, STR("Allow"), str_of(allow));
	http_respond_error(x, &e);
}

void http_respond_info(struct http_exchange *x, int status, const struct http_headers *headers)
{
	INVARIANT(status >= 100 && status < 200 && status != 101);
	struct wire *w = &conn_of(x)->w;
	if (exchange_begun(x) || x->req.minor == 0 || wire_pending(w) > HTTP_OUT_LOW)
		return;
	x->continue_due &= status != 100;
	conn_put_status(conn_of(x), status, STR_NULL);
	for (size_t i = 0; headers && i < headers->n; i++) {
		const struct http_header *h = &headers->v[i];
		if (http_name_ok(h->name) && http_value_ok(h->value) && !is_own_header(h->name))
			http_put_header(&w->out, h->name, h->value);
	}
	wire_put(w, STR("\r\n"));
}

void http_abort(struct http_exchange *x)
{
	exchange_end_at_least(x, END_ABORT);
	wire_kick(&conn_of(x)->w);
}

size_t http_respond_pending(const struct http_exchange *x)
{
	return wire_pending(&conn_of(x)->w);
}

bool http_respond_begun(const struct http_exchange *x)
{
	return exchange_begun(x);
}

void http_upgrade(struct http_exchange *x)
{
	INVARIANT(!exchange_begun(x) && (x->req.upgrade || (x->req.upgrade_behind && exchange_body_ended(x))));
	struct wire *w = &conn_of(x)->w;
	x->status = 101;
	x->out = OUT_RAW;
	x->body = BODY_RAW;
	exchange_respond(x, RESPOND_BEGUN);
	exchange_input(x, INPUT_OPEN);
	conn_put_status(conn_of(x), 101, STR_NULL);
	buf_add_str(&w->out, buf_str(&x->headers));
	buf_free(&x->headers);
	wire_put(w, STR("Connection: upgrade\r\n\r\n"));
}
