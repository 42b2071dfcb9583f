/* GET and DELETE of one sandbox. */
#include "base/json.h"
#include "daemon/route/request.h"
#include "daemon/route/view.h"

enum { INSPECT_WAIT_MS = 2000 };

static void unknown(struct request *r)
{
	struct err e;
	err_set(&e, ERRC_SANDBOX_NOT_FOUND, "there is no sandbox '%s'", r->match.id);
	request_error(r, &e);
}

void request_view(struct request *r, int status, const struct box_info *info)
{
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	view_sandbox(&w, r->sandbox, info);
	request_json(r, status, buf_str(&out));
}

static void on_inspected(void *arg, const struct warden_answer *a)
{
	struct request *r = arg;
	loop_timer_stop(&r->timer);
	if (r->x && !r->status)
		request_view(r, 200, a->err ? NULL : a->info);
	request_release(r);
}

/* A warden that does not answer costs the usage, not the rest. */
static void on_inspect_late(struct loop_timer *t)
{
	struct request *r = container_of(t, struct request, timer);
	if (r->x && !r->status)
		request_view(r, 200, NULL);
}

void handle_get(struct request *r)
{
	struct daemon *d = r->daemon;
	struct sandbox *s = sandbox_find(d, r->match.id);
	if (!s)
		return unknown(r);
	sandbox_ref(s);
	r->sandbox = s;
	bool alive = s->state == SB_RUNNING || s->state == SB_ASLEEP;
	if (!alive || !warden_is_up(d->warden))
		return request_view(r, 200, NULL);
	struct warden_request q = {.op = WARDEN_INSPECT};
	memcpy(q.id, s->id, sizeof q.id);
	request_hold(r);
	loop_timer_set(d->loop, &r->timer, INSPECT_WAIT_MS, on_inspect_late);
	warden_call(d->warden, &q, on_inspected, r);
}

static void on_gone(struct waiter *w, struct sandbox *s, const struct err *e)
{
	(void)s;
	struct request *r = container_of(w, struct request, waiter);
	if (e)
		return request_error(r, e);
	http_respond(r->x, 204, NULL, STR(""));
	request_answered(r, 204);
}

void handle_delete(struct request *r)
{
	struct err e;
	struct sandbox *s = sandbox_find(r->daemon, r->match.id);
	if (!s)
		return unknown(r);
	r->waiter = (struct waiter){.goal = WAIT_GONE, .on_done = on_gone};
	if (sandbox_wait(s, &r->waiter, &e) < 0)
		request_error(r, &e);
}
