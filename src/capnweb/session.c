#include <stdio.h>
#include <stdlib.h>

#include "capnweb/impl.h"

/* The two tables of a session, and what goes out. frame.c reads what comes in. */

static struct str id_key(const int64_t *id)
{
	return str_n(id, sizeof *id);
}

struct capnweb *capnweb_new(const struct capnweb_ops *ops, void *arg)
{
	struct capnweb *s = xcalloc(1, sizeof *s);
	*s = (struct capnweb){.ops = ops, .arg = arg, .main.refs = 1};
	list_init(&s->ready);
	list_init(&s->calls);
	list_init(&s->lates);
	list_init(&s->streams);
	list_init(&s->pipes);
	struct cw_hook *h = hook_new(s, HOOK_OBJECT);
	h->object = &s->main;
	struct exported *e = xcalloc(1, sizeof *e);
	*e = (struct exported){.hook = h, .refs = 1, .s = s};
	map_put(&s->exports, id_key(&e->id), e);
	return s;
}

void *capnweb_arg(const struct capnweb *s)
{
	return s->arg;
}

size_t capnweb_calls(const struct capnweb *s)
{
	return s->calls_n;
}

size_t capnweb_live(const struct capnweb *s)
{
	return s->exports.count + s->imports.count - (map_get(&s->exports, STR("\0\0\0\0\0\0\0\0")) != NULL);
}

/* ---- out ---- */

void cw_send(struct capnweb *s, struct buf *frame)
{
	if (s->ended)
		return;
	if (frame->failed)
		return cw_end(s, "an answer is too long", true);
	if (!s->ops->send(s->arg, buf_str(frame)))
		s->full = true;
}

void capnweb_writable(struct capnweb *s)
{
	s->full = false;
	cw_run(s);
}

void cw_end(struct capnweb *s, const char *reason, bool tell)
{
	if (s->ended)
		return;
	if (tell) {
		auto_buf struct buf b = {0};
		buf_add_c(&b, "[\"abort\",[\"error\",\"Error\",");
		json_put_cstr(&b, reason);
		buf_add_c(&b, "]]");
		s->ops->send(s->arg, buf_str(&b));
	}
	s->ended = true;
	s->ops->on_end(s->arg, reason);
}

void capnweb_abort(struct capnweb *s, const char *reason)
{
	cw_end(s, reason, true);
}

/* Writes a path of names with dots as an array. */
static void put_path(struct json_writer *w, const char *path)
{
	struct str rest = str_of(path);
	json_array_begin(w);
	while (rest.n)
		json_str(w, str_split(rest, '.', &rest));
	json_array_end(w);
}

struct buf *cw_call_begin(struct capnweb *s, const char *verb, int64_t id, const char *path)
{
	struct buf *b = &s->call;
	buf_truncate(b, 0);
	b->failed = false;
	struct json_writer w = json_writer(b);
	json_array_begin(&w);
	json_cstr(&w, verb);
	json_array_begin(&w);
	json_cstr(&w, "pipeline");
	json_i64(&w, id);
	put_path(&w, path);
	buf_add_c(b, ",[");
	return b;
}

struct imported *cw_call_send(struct capnweb *s)
{
	buf_add_c(&s->call, "]]]");
	struct imported *i = cw_import_new(s, ++s->next_import);
	cw_send(s, &s->call);
	if (list_empty(&s->streams))
		buf_free(&s->call);
	return i;
}

void capnweb_call_peer(
	struct capnweb *s, int64_t id, const char *path, struct str args, capnweb_on_reply on_reply, void *arg)
{
	if (s->ended)
		return on_reply(arg, false, NULL);
	buf_add_str(cw_call_begin(s, "push", id, path), args);
	struct imported *i = cw_call_send(s);
	i->on_reply = on_reply;
	i->arg = arg;
	i->remote = 1;
	auto_buf struct buf pull = {0};
	buf_printf(&pull, "[\"pull\",%lld]", (long long)i->id);
	cw_send(s, &pull);
}

/* ---- imports ---- */

struct imported *cw_import(struct capnweb *s, int64_t id)
{
	return map_get(&s->imports, id_key(&id));
}

struct imported *cw_import_new(struct capnweb *s, int64_t id)
{
	struct imported *i = xcalloc(1, sizeof *i);
	i->id = id;
	map_put(&s->imports, id_key(&id), i);
	return i;
}

void cw_import_gone(struct capnweb *s, struct imported *i)
{
	if (i->hook || i->on_reply || i->stream)
		return;
	if (i->remote && !s->ended) {
		auto_buf struct buf b = {0};
		buf_printf(&b, "[\"release\",%lld,%llu]", (long long)i->id, (unsigned long long)i->remote);
		cw_send(s, &b);
	}
	map_del(&s->imports, id_key(&i->id));
	free(i);
}

struct cw_hook *cw_import_stub(struct capnweb *s, int64_t id)
{
	struct imported *i = cw_import(s, id);
	if (!i)
		i = cw_import_new(s, id);
	i->remote++;
	if (i->hook)
		return hook_ref(i->hook);
	i->hook = hook_new(s, HOOK_IMPORT);
	i->hook->import = i;
	return i->hook;
}

struct cw_hook *cw_import_promise(struct capnweb *s, int64_t id)
{
	if (cw_import(s, id))
		return hook_error(
			s, "Error", "Bug in RPC system: The peer sent a promise reusing an existing export ID.");
	struct cw_hook *h = cw_import_stub(s, id);
	h->kind = HOOK_PENDING;
	return h;
}

void capnweb_release_stub(struct capnweb *s, int64_t id)
{
	struct imported *i = cw_import(s, id);
	if (i && i->hook)
		hook_unref(i->hook);
}

/* ---- exports ---- */

struct exported *cw_export(struct capnweb *s, int64_t id)
{
	return map_get(&s->exports, id_key(&id));
}

static struct exported *export_new(struct capnweb *s, int64_t id, struct cw_hook *h)
{
	struct exported *e = xcalloc(1, sizeof *e);
	*e = (struct exported){.id = id, .hook = h, .refs = 1, .s = s};
	map_put(&s->exports, id_key(&id), e);
	return e;
}

int64_t cw_export_hook(struct capnweb *s, struct cw_hook *h)
{
	return export_new(s, --s->next_negative, hook_ref(h))->id;
}

struct exported *cw_export_next(struct capnweb *s, struct cw_hook *h)
{
	return export_new(s, ++s->next_export, h);
}

void cw_export_free(struct exported *e)
{
	list_del(&e->w.node);
	map_del(&e->s->exports, id_key(&e->id));
	hook_unref(e->hook);
	free(e);
}

static void put_settled(struct capnweb *s, struct buf *out, struct cw_hook *h)
{
	if (h->kind == HOOK_OBJECT)
		buf_printf(out, "[\"export\",%lld]", (long long)cw_export_hook(s, h));
	else if (h->kind == HOOK_IMPORT)
		buf_printf(out, "[\"import\",%lld]", (long long)h->import->id);
	else if (h->kind == HOOK_PIPE)
		buf_add_c(out, "[\"error\",\"Error\",\"Cannot pull a WritableStream stub\"]");
	else
		cw_put_value(s, out, h);
}

static void export_send(struct exported *e, struct cw_hook *h)
{
	struct capnweb *s = e->s;
	bool bad = h->kind == HOOK_ERROR || h->kind == HOOK_PIPE;
	buf_clear(&s->out);
	s->out.failed = false;
	buf_printf(&s->out, "[\"%s\",%lld,", bad ? "reject" : "resolve", (long long)e->id);
	put_settled(s, &s->out, h);
	buf_add_byte(&s->out, ']');
	if (s->out.failed) {
		buf_clear(&s->out);
		s->out.failed = false;
		buf_printf(&s->out, "[\"reject\",%lld,[\"error\",\"RangeError\",\"the answer is too long\"]]",
			(long long)e->id);
	}
	cw_send(s, &s->out);
	buf_clear(&s->out);
	if (e->auto_release)
		cw_export_free(e);
}

static void export_settle(struct waiter *w)
{
	struct exported *e = container_of(w, struct exported, w);
	struct cw_hook *h = hook_settle(e->hook, &e->w);
	if (h)
		export_send(e, h);
}

void cw_pull(struct exported *e)
{
	if (e->pulled)
		return;
	e->pulled = true;
	e->w.run = export_settle;
	list_push(&e->s->ready, &e->w.node);
}

/* ---- running ---- */

static void check_limits(struct capnweb *s)
{
	/* One object can have any number of ids. */
	if (s->hooks > CAPNWEB_HOOKS_MAX || s->exports.count > CAPNWEB_HOOKS_MAX)
		cw_end(s, "too many results and objects are held; release those that are not needed", true);
	else if (s->held > CAPNWEB_HELD_MAX || s->answers > CAPNWEB_ANSWERS_MAX)
		cw_end(s, "too many bytes are held; release results that are not needed", true);
	else if (s->too_large > CAPNWEB_TOO_LARGE_MAX)
		cw_end(s, "too many values are too large", true);
}

/* While the transport is full nothing runs: one result that many pulls wait for would be written to it for each. */
static bool can_run(const struct capnweb *s)
{
	return !s->ended && !s->full && !list_empty(&s->ready);
}

void cw_run(struct capnweb *s)
{
	if (s->running)
		return;
	s->running = true;
	while (can_run(s)) {
		struct waiter *w = list_entry(list_pop(&s->ready), struct waiter, node);
		w->run(w);
		check_limits(s);
	}
	check_limits(s);
	if (!s->ended)
		stream_wake_all(s);
	s->running = false;
	/* What was woken meanwhile. */
	if (can_run(s))
		cw_run(s);
}

void capnweb_free(struct capnweb *s)
{
	struct str key = STR_NULL;
	void *value = NULL;
	s->ended = true;
	s->running = true;
	stream_cancel_all(s);
	for (size_t it = 0; map_next(&s->imports, &it, &key, &value);) {
		struct imported *i = value;
		capnweb_on_reply on_reply = i->on_reply;
		i->on_reply = NULL;
		i->stream = NULL;
		if (on_reply)
			on_reply(i->arg, false, NULL);
	}
	late_free_all(s);
	while (!list_empty(&s->calls))
		call_free(list_entry(s->calls.next, struct capnweb_call, node));
	for (size_t it = 0; map_next(&s->exports, &it, &key, &value); it = 0)
		cw_export_free(value);
	pipe_end_all(s);
	stream_free_all(s);
	for (size_t it = 0; map_next(&s->imports, &it, &key, &value); it = 0) {
		struct imported *i = value;
		if (i->hook)
			i->hook->import = NULL;
		map_del(&s->imports, key);
		free(i);
	}
	map_free(&s->exports);
	map_free(&s->imports);
	buf_free(&s->out);
	buf_free(&s->call);
	free(s);
}
