#include "daemon/network/hooks_impl.h"

#include <stdio.h>

#include "base/log.h"
#include "daemon/core/sandbox.h"
#include "daemon/core/settings.h"
#include "daemon/limits.h"
#include "daemon/route/handlers.h"
#include "daemon/route/request.h"

enum { HEAD = 5 };

struct hook {
	struct daemon *daemon;
	struct sandbox *sandbox;	/* NULL: gone */
	struct ws *ws;			/* NULL: nobody holds it */
	char token[TOKEN_NAME_MAX + 1]; /* the named token of its holder, or "" */
	struct list streams;
	size_t streams_n;
	size_t sockets; /* that point to us; the last that connected is `ws` */
	uint32_t last;
};

/* ---- the setting ---- */

static bool list_ok(const struct json *list)
{
	if (json_is_null(list))
		return true;
	bool ok = list->type == JSON_T_ARRAY && list->count <= GATE_HOOKS_MAX;
	json_each(it, ok ? list : NULL)
	{
		ok = ok && it->type == JSON_T_STRING && it->text.n && it->text.n <= NET_NAME_MAX + 8;
		for (size_t i = 0; ok && i < it->text.n; i++)
			ok = it->text.p[i] > ' ' && it->text.p[i] < 0x7f && it->text.p[i] != '/';
	}
	return ok;
}

int hooks_check_setting(const struct json *value, struct err *e)
{
	bool ok = value->type == JSON_T_OBJECT && list_ok(json_get(value, "http")) && list_ok(json_get(value, "https"));
	json_each(it, ok ? value : NULL) ok = ok && (str_eq_c(it->key, "http") || str_eq_c(it->key, "https"));
	return ok ? 0
		  : err_field(e, "outbound",
			    "field 'outbound' must be an object with lists of at most %d hosts as http and https",
			    GATE_HOOKS_MAX);
}

bool hooks_have_https(const char *settings)
{
	const struct json *value;
	auto_json struct json_doc *doc = settings_get(settings, "outbound", &value);
	const struct json *https = json_get(value, "https");
	return https && https->count > 0;
}

void hooks_write(const struct sandbox *s, struct json_writer *w)
{
	static const char *const names[] = {"http", "https"};
	const struct json *value;
	auto_json struct json_doc *doc = settings_get(s->spec.settings, "outbound", &value);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		json_key(w, names[i]);
		json_array_begin(w);
		json_each(it, json_get(value, names[i])) json_str(w, it->text);
		json_array_end(w);
	}
}

/* ---- messages ---- */

static void put_head(char *p, int kind, uint32_t id)
{
	p[0] = (char)kind;
	for (int i = 0; i < 4; i++)
		p[1 + i] = (char)(id >> (24 - 8 * i));
}

uint32_t hook_number(const char *p)
{
	uint32_t n = 0;
	for (int i = 0; i < 4; i++)
		n = n << 8 | (unsigned char)p[i];
	return n;
}

void hook_send(struct hook *h, int kind, uint32_t id, struct str text)
{
	auto_buf struct buf b = {.max = HEAD + HOOK_FRAME_MAX};
	char head[HEAD];
	if (!h || !h->ws)
		return;
	put_head(head, kind, id);
	buf_add(&b, head, HEAD);
	buf_add_str(&b, text);
	ws_send(h->ws, buf_str(&b), false);
}

void hook_grant(struct hook_stream *s)
{
	char text[4];
	if (!s->owed)
		return;
	for (int i = 0; i < 4; i++)
		text[i] = (char)(s->owed >> (24 - 8 * i));
	s->granted += (int64_t)s->owed;
	s->owed = 0;
	hook_send(s->hook, HOOK_CREDIT, s->id, str_n(text, 4));
}

/* ---- one request ---- */

void hook_leave(struct hook_stream *s)
{
	if (!s->hook)
		return;
	s->hook->streams_n--;
	s->hook = NULL;
	list_del(&s->node);
	loop_timer_stop(&s->timer);
}

/* No answer has begun: 520; else the box's connection is cut. */
static void fail_stream(struct hook_stream *s, const char *why)
{
	struct http_exchange *x = s->x;
	if (s->socket)
		return hook_socket_fail(s, why);
	hook_leave(s);
	if (!x)
		return;
	if (http_respond_begun(x))
		return http_abort(x);
	auto_buf struct buf text = {0};
	buf_printf(&text, "520 %s\n", why);
	http_respond(x, 520, "text/plain; charset=utf-8", buf_str(&text));
}

static void on_late(struct loop_timer *t)
{
	fail_stream(container_of(t, struct hook_stream, timer), "the outbound handler of this sandbox is away");
}

/* Headers between the gate and here; and Expect, which is answered here: a handler that sends it on gets 100 for an
 * answer. */
static bool is_dropped(struct str name)
{
	return (name.n > 13 && str_eq_nocase(str_n(name.p, 13), STR("x-atoll-hook-"))) ||
	       str_eq_nocase(name, STR("Expect"));
}

static void write_request(struct hook_stream *s, struct json_writer *w)
{
	const struct http_request *rq = http_request(s->x);
	struct str base = http_header_value(&rq->headers, STR("x-atoll-hook-url"));
	auto_buf struct buf url = {0};
	buf_add_str(&url, base);
	buf_add_str(&url, rq->target);
	json_object_begin(w);
	json_member_str(w, "method", rq->method_text);
	json_member_str(w, "url", buf_str(&url));
	json_key(w, "headers");
	json_array_begin(w);
	for (size_t i = 0; i < rq->headers.n; i++) {
		const struct http_header *h = &rq->headers.v[i];
		if (is_dropped(h->name))
			continue;
		json_array_begin(w);
		json_str(w, h->name);
		json_str(w, h->value);
		json_array_end(w);
	}
	json_array_end(w);
	json_member_bool(w, "body", rq->content_length != 0);
	json_object_end(w);
}

static void begin(struct hook_stream *s)
{
	auto_buf struct buf text = {0};
	struct json_writer w = json_writer(&text);
	loop_timer_stop(&s->timer);
	s->told = true;
	s->may_send = HOOK_WINDOW;
	s->granted = HOOK_WINDOW;
	write_request(s, &w);
	hook_send(s->hook, HOOK_REQUEST, s->id, buf_str(&text));
	http_resume(s->x);
}

static void on_body(struct http_exchange *x, struct str chunk)
{
	struct hook_stream *s = http_exchange_arg(x);
	s->may_send -= (int64_t)chunk.n;
	hook_send(s->hook, HOOK_BODY, s->id, chunk);
	if (s->may_send <= 0)
		http_pause(x);
}

static void on_body_end(struct http_exchange *x)
{
	struct hook_stream *s = http_exchange_arg(x);
	s->ended = true;
	hook_send(s->hook, HOOK_END, s->id, STR(""));
}

static void on_writable(struct http_exchange *x)
{
	struct hook_stream *s = http_exchange_arg(x);
	s->full = false;
	hook_grant(s);
}

static void on_close(struct http_exchange *x, bool complete)
{
	struct hook_stream *s = http_exchange_arg(x);
	if (!complete && s->told)
		hook_send(s->hook, HOOK_GIVE_UP, s->id, STR(""));
	s->x = NULL;
	hook_leave(s);
	free(s);
}

static struct hook *hook_of(struct sandbox *s)
{
	if (s->hook)
		return s->hook;
	struct hook *h = xcalloc(1, sizeof *h);
	h->daemon = s->daemon;
	h->sandbox = s;
	list_init(&h->streams);
	s->hook = h;
	return h;
}

void hooks_request(struct daemon *d, struct http_exchange *x)
{
	static const struct http_exchange_ops ops = {
		.on_body = on_body, .on_body_end = on_body_end, .on_writable = on_writable, .on_close = on_close};
	auto_free char *id = str_dup(http_header_value(&http_request(x)->headers, STR("x-atoll-hook-sandbox")));
	struct sandbox *box = sandbox_find(d, id);
	struct hook *h = box ? hook_of(box) : NULL;
	if (!h || h->streams_n >= HOOK_STREAMS_MAX) {
		http_respond(x, 520, "text/plain; charset=utf-8",
			STR("520 too many requests wait for the outbound handler\n"));
		return;
	}
	http_exchange_join(x, box->party);
	struct hook_stream *s = xcalloc(1, sizeof *s);
	s->hook = h;
	s->x = x;
	s->id = ++h->last;
	h->streams_n++;
	list_push(&h->streams, &s->node);
	http_exchange_set(x, &ops, s);
	http_pause(x);
	if (h->ws)
		begin(s);
	else
		loop_timer_set(d->loop, &s->timer, HOOK_WAIT, on_late);
}

/* ---- the client ---- */

static struct hook_stream *stream_of(struct hook *h, uint32_t id)
{
	list_each(it, &h->streams)
	{
		struct hook_stream *s = list_entry(it, struct hook_stream, node);
		if (s->id == id && s->told)
			return s;
	}
	return NULL;
}

static bool begin_answer(struct hook_stream *s, struct str text)
{
	uint64_t status = 0;
	auto_json struct json_doc *d = json_parse(text, NULL);
	const struct json *o = d ? json_root(d) : NULL;
	if (!o || http_respond_begun(s->x) || json_read_u64(o, "status", 101, 599, &status, NULL) < 0)
		return false;
	if (status == 101)
		return hook_socket_begin(s, json_get(o, "headers"));
	if (status < 200)
		return false;
	int64_t length = HTTP_CHUNKED;
	json_each(it, json_get(o, "headers"))
	{
		uint64_t n;
		const struct json *name = it->first, *value = name ? name->next : NULL;
		if (!value || name->type != JSON_T_STRING || value->type != JSON_T_STRING)
			return false;
		if (str_eq_nocase(name->text, STR("Content-Length")) && str_to_u64(value->text, INT64_MAX, &n))
			length = (int64_t)n;
		else
			http_respond_header(s->x, name->text, value->text);
	}
	http_respond_begin(s->x, (int)status, length);
	return true;
}

static bool take_body(struct hook_stream *s, struct str bytes)
{
	if (!http_respond_begun(s->x) || (int64_t)bytes.n > s->granted)
		return false;
	s->granted -= (int64_t)bytes.n;
	s->full |= !http_respond_write(s->x, bytes);
	s->owed += bytes.n;
	if (!s->full && s->owed >= HOOK_WINDOW / 4)
		hook_grant(s);
	return true;
}

/* False: the client speaks another language. */
static bool on_stream_message(struct hook_stream *s, int kind, struct str rest)
{
	if (s->socket)
		return hook_socket_message(s, kind, rest);
	switch (kind) {
	case HOOK_ANSWER:
		return begin_answer(s, rest);
	case HOOK_ANSWER_BODY:
		return take_body(s, rest);
	case HOOK_ANSWER_END:
		if (!http_respond_begun(s->x))
			return false;
		http_respond_end(s->x);
		hook_leave(s);
		return true;
	case HOOK_CREDIT:
		if (rest.n != 4)
			return false;
		s->may_send += hook_number(rest.p);
		if (!s->ended && s->may_send > 0)
			http_resume(s->x);
		return true;
	case HOOK_FAILED:
		fail_stream(s, "the outbound handler failed");
		return true;
	default:
		return false;
	}
}

static void on_message(struct ws *ws, struct str message, bool text)
{
	struct hook *h = ws_arg(ws);
	if (h->ws != ws)
		return;
	if (text || message.n < HEAD) {
		ws_close(ws, WS_CLOSE_UNSUPPORTED, STR("a message of the hook is binary, and has a head"));
		return;
	}
	/* One that was given up meanwhile may still be answered. */
	struct hook_stream *s = stream_of(h, hook_number(message.p + 1));
	if (s && (s->x || s->socket) && !on_stream_message(s, message.p[0], str_skip(message, HEAD)))
		fail_stream(s, "the outbound handler sent something else than an answer");
}

static void drop_told(struct hook *h)
{
	list_each(it, &h->streams)
	{
		struct hook_stream *s = list_entry(it, struct hook_stream, node);
		if (s->told)
			fail_stream(s, "the outbound handler went away");
	}
}

static void free_unused(struct hook *h)
{
	if (!h->sandbox && !h->sockets)
		free(h);
}

static void on_ws_close(struct ws *ws, int code, struct str reason)
{
	struct hook *h = ws_arg(ws);
	(void)code;
	(void)reason;
	h->sockets--;
	if (h->ws == ws) {
		h->ws = NULL;
		drop_told(h);
	}
	free_unused(h);
}

void handle_hook(struct daemon_request *r)
{
	static const struct ws_ops ops = {.on_message = on_message, .on_close = on_ws_close};
	static const struct ws_options options = {.message_max = HEAD + HOOK_FRAME_MAX, .ping_ms = HOOK_PING};
	struct sandbox *s = daemon_request_find(r);
	struct ws *ws = NULL;
	struct err e;
	if (!s)
		return;
	struct hook *h = hook_of(s);
	if (ws_accept(r->x, &options, &ops, h, &ws, &e) < 0)
		return daemon_request_error(r, &e);
	struct ws *before = h->ws;
	h->sockets++;
	h->ws = ws;
	snprintf(h->token, sizeof h->token, "%s", r->caller.token);
	daemon_request_answered(r, 101);
	r->x = NULL;
	daemon_request_release(r);
	if (before) {
		drop_told(h);
		ws_close(before, WS_CLOSE_GOING_AWAY, STR("another client holds the hook"));
	}
	list_each(it, &h->streams)
	{
		struct hook_stream *one = list_entry(it, struct hook_stream, node);
		if (!one->told)
			begin(one);
	}
}

void hooks_forget_token(struct daemon *d, const char *name)
{
	void *v;
	for (size_t it = 0; map_next(&d->boxes, &it, &(struct str){0}, &v);) {
		struct hook *h = ((struct sandbox *)v)->hook;
		if (h && h->ws && strcmp(h->token, name) == 0)
			ws_abort(h->ws);
	}
}

void hooks_free(struct hook *h)
{
	if (!h)
		return;
	h->sandbox = NULL;
	list_each(it, &h->streams) fail_stream(list_entry(it, struct hook_stream, node), "the sandbox is gone");
	if (h->ws)
		ws_abort(h->ws);
	free_unused(h);
}
