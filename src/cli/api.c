#include "cli/api.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "http/sse.h"

enum { SEND_CHUNK = 64 * 1024, ERROR_BODY_MAX = 64 * 1024 };

int api_need_box(struct client *cl, const char *id, struct err *e)
{
	auto_buf struct buf path = {0}, body = {0};
	client_box_path(&path, id, "");
	return client_call(cl, "GET", buf_cstr(&path), STR(""), &body, e) < 0 ? -1 : 0;
}

int api_open_box(struct cli *c, struct client *ret, const char *id, struct err *e)
{
	return client_open(c, ret, e) < 0 ? -1 : api_need_box(ret, id, e);
}

int api_call(struct client *cl, const struct api_request *rq, struct buf *ret, struct err *e)
{
	auto_buf struct buf path = {0};
	client_box_path(&path, rq->id, rq->rest);
	return client_call(cl, rq->method, buf_cstr(&path), rq->body, ret, e) < 0 ? -1 : 0;
}

struct json_doc *api_ask(
	struct client *cl, const char *id, const char *method, const char *rest, struct str body, struct err *e)
{
	auto_buf struct buf answer = {.max = CLIENT_BODY_MAX};
	if (api_call(cl, &(struct api_request){id, method, rest, body}, &answer, e) < 0)
		return NULL;
	struct json_doc *d = json_parse(buf_str(&answer), e);
	if (!d)
		err_wrap(e, "the answer of box '%s'", id);
	else if (cl->cli->json)
		cli_print(&answer);
	return d;
}

struct json_doc *api_once(struct cli *c, const char *method, const char *path, struct str body, struct err *e)
{
	auto_buf struct buf answer = {.max = CLIENT_BODY_MAX, .wipe = true};
	if (client_once(c, method, path, body, &answer, e) < 0)
		return NULL;
	struct json_doc *d = json_parse(buf_str(&answer), e);
	if (!d)
		err_wrap(e, "the answer of the daemon");
	else if (c->json)
		cli_print(&answer);
	return d;
}

struct str api_text(const struct json *object, const char *key)
{
	struct str s = STR("");
	json_read_str(object, key, &s, NULL);
	return s;
}

void api_query(struct buf *path, const char *name, const char *value)
{
	bool more = memchr(path->p + path->off, '?', buf_size(path)) != NULL;
	buf_printf(path, "%c%s=", more ? '&' : '?', name);
	client_percent_encode(path, value);
}

void api_write_env(struct json_writer *w, const char *key, const char *const *items, size_t n)
{
	if (!n)
		return;
	json_key(w, key);
	json_object_begin(w);
	for (size_t i = 0; i < n; i++) {
		struct str value, name = str_split(str_of(items[i]), '=', &value);
		auto_free char *text = str_dup(name);
		json_member_str(w, text, value);
	}
	json_object_end(w);
}

/* ---- answers that come in pieces ---- */

struct fetch {
	struct client *cl;
	api_on_piece on_piece;
	void *arg;
	struct err *e;
	struct http_call *call;
	int status;
	struct buf error; /* body of an error answer */
	bool failed, broken, done;
	int fd; /* of the request's body, or -1 */
	uint64_t left;
};

static void fetch_fail(struct fetch *f)
{
	f->failed = true;
	http_call_cancel(f->call);
}

static void on_head(struct http_call *c, const struct http_response *r)
{
	struct fetch *f = http_call_arg(c);
	f->status = r->status;
}

static void on_body(struct http_call *c, struct str piece)
{
	struct fetch *f = http_call_arg(c);
	if (f->failed)
		return;
	if (f->status / 100 != 2)
		buf_add_str(&f->error, piece);
	else if (f->on_piece(f->arg, piece, f->e) < 0)
		fetch_fail(f);
}

static void on_close(struct http_call *c, const struct http_failure *failure)
{
	(void)c;
	struct fetch *f = http_call_arg(c);
	f->done = true;
	if (f->failed)
		return;
	/* A daemon that refuses may stop reading the request's body; its answer still counts. */
	if (f->status / 100 != 2 && f->status) {
		f->failed = true;
		client_api_error(f->cl, f->status, buf_str(&f->error), f->e);
	} else if (failure) {
		f->failed = f->broken = true;
		client_failure(f->cl, failure, f->e);
	}
}

/* Reads the file as fast as the connection takes it. */
static void send_more(struct http_call *c)
{
	struct fetch *f = http_call_arg(c);
	char chunk[SEND_CHUNK];
	bool room = true;
	while (f->fd >= 0 && f->left && room && !f->failed) {
		ssize_t n = read(f->fd, chunk, f->left < sizeof chunk ? (size_t)f->left : sizeof chunk);
		if (n <= 0) {
			if (n < 0)
				err_os(f->e, ERRC_FILESYSTEM_ERROR, errno, "reading the file to send");
			else
				err_set(f->e, ERRC_FILESYSTEM_ERROR, "the file shrank while it was sent");
			return fetch_fail(f);
		}
		f->left -= (uint64_t)n;
		room = http_call_write(c, str_n(chunk, (size_t)n));
	}
	if (f->fd >= 0 && !f->left && !f->failed) {
		f->fd = -1;
		http_call_end(c);
	}
}

static int run_fetch(struct client *cl, struct fetch *f, const struct http_call_options *o, struct str body)
{
	static const struct http_call_ops ops = {.on_sent = send_more,
		.on_head = on_head,
		.on_body = on_body,
		.on_writable = send_more,
		.on_close = on_close};
	f->error.max = ERROR_BODY_MAX;
	f->call = http_call_start(cl->http, &cl->endpoint, o, &ops, f);
	if (f->fd < 0) {
		if (body.n)
			http_call_write(f->call, body);
		http_call_end(f->call);
	}
	while (!f->done)
		loop_turn(cl->loop, -1);
	buf_free(&f->error);
	return f->failed ? -1 : 0;
}

int api_fetch(struct client *cl, const struct api_request *rq, api_on_piece on_piece, void *arg, struct err *e)
{
	struct http_header room[2];
	auto_buf struct buf path = {0};
	client_box_path(&path, rq->id, rq->rest);
	struct http_call_options o = client_options(cl, rq->method, buf_str(&path), room);
	if (rq->body.n)
		room[o.headers_n++] = (struct http_header){STR("Content-Type"), STR("application/json")};
	o.content_length = (int64_t)rq->body.n;
	struct fetch f = {.cl = cl, .on_piece = on_piece, .arg = arg, .e = e, .fd = -1};
	return run_fetch(cl, &f, &o, rq->body);
}

static int keep_answer(void *arg, struct str piece, struct err *e)
{
	(void)e;
	buf_add_str(arg, piece);
	return 0;
}

int api_send(struct client *cl, const char *id, const char *rest, int fd, struct buf *ret, struct err *e)
{
	struct http_header room[2];
	struct stat st;
	auto_buf struct buf path = {0};
	off_t at = lseek(fd, 0, SEEK_CUR);
	if (at < 0 || fstat(fd, &st) < 0)
		return err_os(e, ERRC_FILESYSTEM_ERROR, errno, "the file to send");
	client_box_path(&path, id, rest);
	struct http_call_options o = client_options(cl, "PUT", buf_str(&path), room);
	struct fetch f = {.cl = cl, .on_piece = keep_answer, .arg = ret, .e = e, .fd = fd};
	f.left = st.st_size > at ? (uint64_t)(st.st_size - at) : 0;
	o.content_length = (int64_t)f.left;
	return run_fetch(cl, &f, &o, STR(""));
}

/* ---- events ---- */

struct following {
	struct client *cl;
	struct api_follow *f;
	struct err *e;
	struct sse_reader reader;
	struct buf error;
	bool failed, over, done;
};

static void on_event(void *arg, const struct sse_event *ev)
{
	struct following *s = arg;
	struct api_follow *f = s->f;
	if (s->failed || s->over)
		return;
	auto_json struct json_doc *d = json_parse(ev->data, s->e);
	int r = d ? f->on_event(f->arg, json_root(d), ev->data, s->e) : -1;
	if (ev->id.n)
		snprintf(f->last_id, sizeof f->last_id, "%.*s", STR_ARG(ev->id));
	s->failed = r < 0;
	s->over = r > 0;
	if (r)
		http_call_cancel(f->call);
}

static void on_follow_head(struct http_call *c, const struct http_response *r)
{
	((struct following *)http_call_arg(c))->f->status = r->status;
}

static void on_follow_body(struct http_call *c, struct str piece)
{
	struct following *s = http_call_arg(c);
	if (s->f->status / 100 != 2)
		buf_add_str(&s->error, piece);
	else if (!s->failed && !s->over && sse_feed(&s->reader, piece, s->e) < 0) {
		s->failed = true;
		http_call_cancel(c);
	}
}

static void on_follow_close(struct http_call *c, const struct http_failure *failure)
{
	struct following *s = http_call_arg(c);
	s->done = true;
	s->f->call = NULL;
	if (s->failed || s->over)
		return;
	s->failed = true;
	if (s->f->status && s->f->status / 100 != 2) {
		client_api_error(s->cl, s->f->status, buf_str(&s->error), s->e);
		return;
	}
	s->f->broken = true;
	if (failure)
		client_failure(s->cl, failure, s->e);
	else
		err_set(s->e, ERRC_CONTAINER_LOST, "the stream ended before its last event");
}

int api_follow(struct client *cl, struct api_follow *f, struct err *e)
{
	static const struct http_call_ops ops = {
		.on_head = on_follow_head, .on_body = on_follow_body, .on_close = on_follow_close};
	struct http_header room[3];
	auto_buf struct buf path = {0};
	if (f->id)
		client_box_path(&path, f->id, f->rest);
	else
		buf_add_c(&path, f->rest);
	struct http_call_options o = client_options(cl, f->method, buf_str(&path), room);
	if (f->body.n)
		room[o.headers_n++] = (struct http_header){STR("Content-Type"), STR("application/json")};
	if (*f->last_id)
		room[o.headers_n++] = (struct http_header){STR("Last-Event-ID"), str_of(f->last_id)};
	o.content_length = (int64_t)f->body.n;
	struct following s = {.cl = cl, .f = f, .e = e, .error = {.max = ERROR_BODY_MAX}};
	sse_reader_init(&s.reader, on_event, &s);
	s.reader.max = CLIENT_BODY_MAX;
	f->status = 0;
	f->broken = false;
	f->call = http_call_start(cl->http, &cl->endpoint, &o, &ops, &s);
	if (f->body.n)
		http_call_write(f->call, f->body);
	http_call_end(f->call);
	while (!s.done)
		loop_turn(cl->loop, -1);
	sse_reader_free(&s.reader);
	buf_free(&s.error);
	return s.failed ? -1 : 0;
}
