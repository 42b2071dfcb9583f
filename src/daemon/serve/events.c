#include "daemon/serve/events.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/json.h"
#include "daemon/route/handlers.h"
#include "daemon/route/request.h"
#include "http/sse.h"

struct events {
	struct daemon *daemon;
	char *texts[EVENTS_MAX]; /* of event id at id % EVENTS_MAX */
	uint64_t last;		 /* id of the newest; 0: none */
	struct list followers;
	size_t followers_n;
};

struct follower {
	struct events *events;
	struct daemon_request *request; /* held */
	struct list node;
	struct loop_timer timer;
	bool full;     /* it takes no more now */
	uint64_t sent; /* id of the last event that it has */
};

struct events *events_new(struct daemon *d)
{
	struct events *e = xcalloc(1, sizeof *e);
	e->daemon = d;
	list_init(&e->followers);
	return e;
}

bool events_followed(const struct events *e)
{
	return e->followers_n > 0;
}

/* Sends what is kept and it does not have yet. One that falls behind by more than is kept misses events. */
static void catch_up(struct follower *f)
{
	struct events *e = f->events;
	uint64_t oldest = e->last > EVENTS_MAX ? e->last - EVENTS_MAX + 1 : 1;
	if (f->sent + 1 < oldest)
		f->sent = oldest - 1;
	while (!f->full && f->sent < e->last) {
		char id[24];
		f->sent++;
		snprintf(id, sizeof id, "%llu", (unsigned long long)f->sent);
		f->full = !sse_send(f->request->x, NULL, str_of(id), str_of(e->texts[f->sent % EVENTS_MAX]));
	}
}

static void add(struct events *e, const char *type, const char *sandbox, const char *reason)
{
	char iso[CLOCK_ISO_LEN];
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	json_object_begin(&w);
	json_member_u64(&w, "id", e->last + 1);
	json_member_cstr(&w, "type", type);
	json_member_cstr(&w, "sandbox", sandbox);
	if (reason && *reason)
		json_member_cstr(&w, "reason", reason);
	json_member_cstr(&w, "time", clock_iso(clock_wall_ms(), iso));
	json_object_end(&w);
	e->last++;
	free(e->texts[e->last % EVENTS_MAX]);
	e->texts[e->last % EVENTS_MAX] = str_dup(buf_str(&out));
	list_each(it, &e->followers) catch_up(list_entry(it, struct follower, node));
}

static const char *type_of(const struct sandbox *s, enum sandbox_state to)
{
	switch (to) {
	case SB_RUNNING:
		return s->state == SB_ASLEEP ? "woke" : s->has_files ? "started" : "created";
	case SB_ASLEEP:
		return "slept";
	case SB_STOPPED:
		return "stopped";
	case SB_DESTROYED:
		return "destroyed";
	case SB_FAILED:
		return "failed";
	case SB_CREATING:
	case SB_STATES:
		break;
	}
	return NULL;
}

void events_move(const struct sandbox *s, enum sandbox_state to, const char *reason)
{
	const char *type = type_of(s, to);
	if (type && s->daemon->events && !s->work)
		add(s->daemon->events, type, s->id, reason);
}

void events_oom(const struct sandbox *s)
{
	if (!s->work)
		add(s->daemon->events, "oom", s->id,
			"the sandbox ran out of memory, and the kernel ended a process in it");
}

void events_pass(struct events *e, struct str json)
{
	list_each(it, &e->followers)
	{
		struct follower *f = list_entry(it, struct follower, node);
		if (!f->full)
			f->full = !sse_send(f->request->x, NULL, STR_NULL, json);
	}
}

/* ---- following ---- */

static void on_writable(struct http_exchange *x)
{
	struct follower *f = http_exchange_arg(x);
	f->full = false;
	catch_up(f);
}

static void on_close(struct http_exchange *x, bool complete)
{
	struct follower *f = http_exchange_arg(x);
	(void)complete;
	f->events->followers_n--;
	list_del(&f->node);
	loop_timer_stop(&f->timer);
	f->request->x = NULL;
	daemon_request_release(f->request);
	free(f);
}

static void on_keep_alive(struct loop_timer *t)
{
	struct follower *f = container_of(t, struct follower, timer);
	if (!f->full)
		f->full = !sse_comment(f->request->x);
	loop_timer_set(f->events->daemon->loop, t, EVENTS_KEEP_ALIVE, on_keep_alive);
}

/* The event that the client has seen last, else the newest. */
static uint64_t begins_after(const struct events *e, const struct daemon_request *r)
{
	uint64_t id = e->last;
	struct str given = http_header_value(&http_request(r->x)->headers, STR("last-event-id"));
	if (given.p && str_to_u64(given, UINT64_MAX, &id) && id <= e->last)
		return id;
	return given.p && id > e->last ? 0 : e->last; /* past the newest: of an earlier daemon */
}

static void follow(struct daemon_request *r)
{
	static const struct http_exchange_ops ops = {.on_writable = on_writable, .on_close = on_close};
	struct events *e = r->daemon->events;
	struct err err;
	if (e->followers_n >= EVENTS_FOLLOWERS_MAX) {
		err_set(&err, ERRC_LIMIT_REACHED, "%d clients follow the events already", EVENTS_FOLLOWERS_MAX);
		return daemon_request_error(r, &err);
	}
	struct follower *f = xcalloc(1, sizeof *f);
	*f = (struct follower){.events = e, .request = r, .sent = begins_after(e, r)};
	e->followers_n++;
	list_push(&e->followers, &f->node);
	http_exchange_set(r->x, &ops, f);
	sse_begin(r->x);
	sse_comment(r->x);
	catch_up(f);
	loop_timer_set(r->daemon->loop, &f->timer, EVENTS_KEEP_ALIVE, on_keep_alive);
	daemon_request_answered(r, 200);
}

void handle_events(struct daemon_request *r)
{
	struct events *e = r->daemon->events;
	auto_buf struct buf given = {0}, out = {0};
	struct err err;
	if (http_query_get(http_request(r->x)->query, STR("follow"), &given, &err) == 1 &&
		str_eq_c(buf_str(&given), "1"))
		return follow(r);
	struct json_writer w = json_writer(&out);
	json_object_begin(&w);
	json_key(&w, "events");
	json_array_begin(&w);
	for (uint64_t id = e->last > EVENTS_MAX ? e->last - EVENTS_MAX + 1 : 1; id <= e->last; id++)
		json_raw(&w, str_of(e->texts[id % EVENTS_MAX]));
	json_array_end(&w);
	json_object_end(&w);
	daemon_request_json(r, 200, buf_str(&out));
}
