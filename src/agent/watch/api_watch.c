#include "agent/agent.h"
#include "agent/api.h"
#include "agent/file/path.h"
#include "agent/limits.h"
#include "agent/watch/watch_request.h"
#include "base/clock.h"
#include "http/limits.h"
#include "http/sse.h"

/* POST /api/watch: an event stream of changes. */

struct watch_stream {
	struct list node;
	struct http_exchange *x;
	struct watch_filter filter;
	struct watcher *watcher;
	struct loop_timer beat;
};

static struct list streams = {&streams, &streams};

static bool on_event(void *arg, const struct watch_event *ev)
{
	struct watch_stream *s = arg;
	auto_buf struct buf b = {0};
	char iso[CLOCK_ISO_LEN];
	struct json_writer w = json_writer(&b);
	json_object_begin(&w);
	json_member_cstr(&w, "type", "event");
	json_member_cstr(&w, "eventType", watch_kind_name(ev->kind));
	json_member_cstr(&w, "path", ev->path);
	json_member_bool(&w, "isDirectory", ev->directory);
	json_member_cstr(&w, "timestamp", clock_iso(ev->wall_ms, iso));
	json_object_end(&w);
	return sse_send(s->x, NULL, STR_NULL, buf_str(&b));
}

static void on_writable(struct http_exchange *x)
{
	watcher_resume(((struct watch_stream *)http_exchange_arg(x))->watcher);
}

static void on_lost(void *arg, const char *why)
{
	struct watch_stream *s = arg;
	auto_buf struct buf b = {0};
	struct json_writer w = json_writer(&b);
	json_object_begin(&w);
	json_member_cstr(&w, "type", "error");
	json_member_cstr(&w, "error", why);
	json_object_end(&w);
	sse_send(s->x, NULL, STR_NULL, buf_str(&b));
}

static void end(struct watch_stream *s, struct str last)
{
	sse_send(s->x, NULL, STR_NULL, last);
	http_respond_end(s->x);
}

static void on_gone(void *arg)
{
	end(arg, STR("{\"type\":\"stopped\",\"reason\":\"The watched directory is gone\"}"));
}

void watch_stop(void)
{
	list_each(it, &streams) end(list_entry(it, struct watch_stream, node),
		STR("{\"type\":\"stopped\",\"reason\":\"The sandbox stops\"}"));
}

/* Comments show the client that the connection is alive, and show the agent when it is not. */
static void on_beat(struct loop_timer *t)
{
	struct watch_stream *s = container_of(t, struct watch_stream, beat);
	if (http_respond_pending(s->x) < HTTP_OUT_LOW)
		sse_comment(s->x);
	loop_timer_set(agent.loop, t, SSE_BEAT, on_beat);
}

static void stream_free(struct watch_stream *s)
{
	loop_timer_stop(&s->beat);
	list_del(&s->node);
	if (s->watcher)
		watcher_free(s->watcher);
	watch_filter_free(&s->filter);
	free(s);
}

static void stream_close(struct http_exchange *x, bool complete)
{
	(void)complete;
	stream_free(http_exchange_arg(x));
}

static void stream_begin(struct agent_request *r, struct watch_stream *s, const char *named)
{
	static const struct http_exchange_ops ops = {.on_writable = on_writable, .on_close = stream_close};
	auto_buf struct buf b = {0};
	char id[WATCH_ID_LEN];
	watch_id_make(id);
	struct json_writer w = json_writer(&b);
	json_object_begin(&w);
	json_member_cstr(&w, "type", "watching");
	json_member_cstr(&w, "path", named);
	json_member_cstr(&w, "watchId", id);
	json_object_end(&w);
	http_exchange_set(r->x, &ops, s);
	list_push(&streams, &s->node);
	sse_begin(r->x);
	sse_send(r->x, NULL, STR_NULL, buf_str(&b));
	loop_timer_set(agent.loop, &s->beat, SSE_BEAT, on_beat);
}

void api_watch(struct agent_request *r)
{
	static const struct watch_ops ops = {on_event, on_lost, on_gone};
	struct watch_target t = {0};
	struct watch_stream *s = xcalloc(1, sizeof *s);
	struct err e;
	s->x = r->x;
	list_init(&s->node);
	if (watch_target_read(r, &t, &e) == 0 && watch_filter_read(r->body, &s->filter, &e) == 0) {
		struct watch_options o = watch_options_of(&s->filter, &t);
		watch_make_room();
		s->watcher = watcher_new(agent.loop, &o, &ops, s, &e);
	}
	if (s->watcher) {
		stream_begin(r, s, t.named);
	} else {
		watch_fail(r, &e);
		stream_free(s);
	}
	watch_target_free(&t);
}
