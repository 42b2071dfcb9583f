#include <stdio.h>

#include "base/clock.h"
#include "daemon/ports/tunnels.h"
#include "http/sse.h"

/*
 * The tunnels that clients of the rpc transport want. The agent's stream has one event for each wish:
 *
 *	{"want":7,"op":"ensure","port":8080,"id":"quick-1","runId":"r1"}	also "run"
 *	{"want":8,"op":"stop","id":"quick-1","runId":"r1"}	also "destroy"
 *	{"want":9,"op":"list"}
 *
 * and gets {"want":7,"body":…} or {"want":7,"code":…,"message":…}. {"exit":{…}} tells the end of a tunnel.
 */

struct tunnel_watch {
	struct sandbox *sandbox; /* referenced */
	struct http_call *call;
	struct sse_reader events;
};

struct want {
	struct sandbox *sandbox; /* referenced */
	uint64_t number;
	bool ensure;
};

static void on_told(void *arg, const struct http_reply *r, const struct http_failure *failure)
{
	(void)arg;
	(void)r;
	(void)failure; /* an agent that is gone wants nothing */
}

static void tell(struct sandbox *s, struct str body)
{
	struct http_header type = {STR("Content-Type"), STR("application/json")};
	struct http_question q = {.options = {.method = STR("POST"),
					  .target = STR("/internal/tunnels"),
					  .headers = &type,
					  .headers_n = 1,
					  .head_ms = AGENT_ENV_TIMEOUT,
					  .stall_ms = AGENT_ENV_TIMEOUT},
		.body = body,
		.max = AGENT_ENV_REPLY_MAX,
		.on_reply = on_told};
	if (s->state == SB_RUNNING || s->state == SB_ASLEEP)
		http_call_whole(s->daemon->client, &s->agent, &q);
}

static void tell_error(struct sandbox *s, uint64_t want, const struct err *e)
{
	auto_buf struct buf b = {0};
	struct json_writer w = json_writer(&b);
	json_object_begin(&w);
	json_member_u64(&w, "want", want);
	json_member_cstr(&w, "code", errc_info(e->code)->code);
	json_member_cstr(&w, "message", e->msg);
	json_object_end(&w);
	tell(s, buf_str(&b));
}

void tunnels_tell_end(struct sandbox *s, const struct tunnel *t)
{
	auto_buf struct buf b = {0};
	struct json_writer w = json_writer(&b);
	if (!s->tunnel_watch)
		return;
	json_object_begin(&w);
	json_key(&w, "exit");
	json_object_begin(&w);
	json_member_cstr(&w, "id", t->id);
	json_member_u64(&w, "port", t->port->number);
	if (*t->run)
		json_member_cstr(&w, "runId", t->run);
	json_member_i64(&w, "exitCode", t->exit_code);
	json_object_end(&w);
	json_object_end(&w);
	tell(s, buf_str(&b));
}

/* ---- what is wanted ---- */

static void put_run(struct json_writer *w, const struct tunnel *t, bool made)
{
	char iso[CLOCK_ISO_LEN];
	json_object_begin(w);
	json_key(w, "run");
	json_object_begin(w);
	json_member_cstr(w, "tunnelId", t->id);
	json_member_cstr(w, "runId", t->run);
	json_member_cstr(w, "mode", "quick");
	json_member_u64(w, "port", t->port->number);
	tunnel_address(w, t);
	json_member_cstr(w, "startedAt", clock_iso(t->created_ms, iso));
	json_object_end(w);
	json_member_bool(w, "started", made);
	json_object_end(w);
}

static void on_opened(void *arg, const struct tunnel *t, bool made, const struct err *e)
{
	struct want *want = arg;
	auto_buf struct buf b = {0};
	struct json_writer w = json_writer(&b);
	if (e) {
		tell_error(want->sandbox, want->number, e);
	} else {
		json_object_begin(&w);
		json_member_u64(&w, "want", want->number);
		json_key(&w, "body");
		if (want->ensure)
			put_run(&w, t, made);
		else
			tunnel_view(&w, t);
		json_object_end(&w);
		tell(want->sandbox, buf_str(&b));
	}
	sandbox_unref(want->sandbox);
	free(want);
}

static void open_one(struct sandbox *s, uint64_t number, const struct json *o, bool ensure)
{
	struct tunnel_wish wish = {0};
	struct err e;
	if (tunnel_wish_read(o, &wish, &e) < 0)
		return tell_error(s, number, &e);
	struct want *w = xcalloc(1, sizeof *w);
	*w = (struct want){.sandbox = s, .number = number, .ensure = ensure};
	sandbox_ref(s);
	tunnel_open(s, &wish, on_opened, w);
}

static void close_one(struct sandbox *s, uint64_t number, const struct json *o, bool stop)
{
	struct str id = STR_NULL, run = STR_NULL;
	auto_buf struct buf b = {0};
	struct err e;
	(void)json_read_str(o, "id", &id, NULL);
	(void)json_read_str(o, "runId", &run, NULL);
	struct tunnel *t = tunnel_find(s, id);
	if (t && stop && !str_eq_c(run, t->run))
		t = NULL;
	if (!t && !stop) {
		err_set(&e, ERRC_TUNNEL_NOT_FOUND, "Tunnel '%.*s' not found", (int)(id.n < 100 ? id.n : 100),
			id.p ? id.p : "");
		return tell_error(s, number, &e);
	}
	buf_printf(&b, "{\"want\":%llu,\"body\":", (unsigned long long)number);
	if (stop) {
		buf_printf(&b, "{\"stopped\":%s}}", t ? "true" : "false");
	} else {
		buf_add_c(&b, "{\"success\":true,\"id\":");
		json_put_str(&b, id);
		buf_add_c(&b, "}}");
	}
	if (t)
		tunnel_close(t);
	tell(s, buf_str(&b));
}

static void list_all(struct sandbox *s, uint64_t number)
{
	auto_buf struct buf b = {0};
	struct json_writer w = json_writer(&b);
	json_object_begin(&w);
	json_member_u64(&w, "want", number);
	json_key(&w, "body");
	(void)tunnels_view(&w, s);
	json_object_end(&w);
	tell(s, buf_str(&b));
}

static void on_event(void *arg, const struct sse_event *ev)
{
	struct tunnel_watch *watch = arg;
	struct sandbox *s = watch->sandbox;
	struct str op = STR_NULL;
	uint64_t number = 0;
	auto_json struct json_doc *doc = json_parse(ev->data, NULL);
	const struct json *o = doc ? json_root(doc) : NULL;
	if (!o || o->type != JSON_T_OBJECT || !sandbox_exists(s) ||
		json_read_u64(o, "want", 0, UINT32_MAX, &number, NULL) < 0 || json_read_str(o, "op", &op, NULL) < 0)
		return;
	if (str_eq_c(op, "ensure") || str_eq_c(op, "run"))
		open_one(s, number, o, str_eq_c(op, "ensure"));
	else if (str_eq_c(op, "stop") || str_eq_c(op, "destroy"))
		close_one(s, number, o, str_eq_c(op, "stop"));
	else if (str_eq_c(op, "list"))
		list_all(s, number);
}

/* ---- the stream ---- */

static void on_body(struct http_call *call, struct str chunk)
{
	struct tunnel_watch *watch = http_call_arg(call);
	if (sse_feed(&watch->events, chunk, NULL) < 0)
		http_call_cancel(call);
}

static void on_close(struct http_call *call, const struct http_failure *failure)
{
	struct tunnel_watch *watch = http_call_arg(call);
	(void)failure;
	if (watch->sandbox->tunnel_watch == watch)
		watch->sandbox->tunnel_watch = NULL;
	sandbox_unref(watch->sandbox);
	sse_reader_free(&watch->events);
	free(watch);
}

void tunnels_attend(struct sandbox *s)
{
	static const struct http_call_ops ops = {.on_body = on_body, .on_close = on_close};
	if (s->tunnel_watch)
		return;
	struct tunnel_watch *watch = xcalloc(1, sizeof *watch);
	*watch = (struct tunnel_watch){.sandbox = s};
	sandbox_ref(s);
	s->tunnel_watch = watch;
	sse_reader_init(&watch->events, on_event, watch);
	watch->events.max = TUNNEL_WANT_MAX;
	struct http_call_options o = {.target = STR("/internal/tunnels"), .fresh = true};
	watch->call = http_call_start(s->daemon->client, &s->agent, &o, &ops, watch);
}

void tunnels_ignore(struct sandbox *s)
{
	struct tunnel_watch *watch = s->tunnel_watch;
	s->tunnel_watch = NULL;
	if (watch)
		http_call_cancel(watch->call);
}
