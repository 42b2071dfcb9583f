/* GET and DELETE of one sandbox. */
#include "base/json.h"
#include "daemon/route/request.h"
#include "daemon/route/view.h"

enum { INSPECT_WAIT_MS = 2000 };

static void unknown(struct daemon_request *r)
{
	struct err e;
	err_set(&e, ERRC_SANDBOX_NOT_FOUND, "there is no sandbox '%s'", r->match.id);
	daemon_request_error(r, &e);
}

void daemon_request_view(struct daemon_request *r, int status, const struct box_info *info)
{
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	view_sandbox(&w, r->sandbox, info);
	daemon_request_json(r, status, buf_str(&out));
}

static void on_inspected(void *arg, const struct warden_answer *a)
{
	struct daemon_request *r = arg;
	loop_timer_stop(&r->timer);
	if (r->x && !r->status)
		daemon_request_view(r, 200, a->err ? NULL : a->info);
	daemon_request_release(r);
}

/* A warden that does not answer costs the usage, not the rest. */
static void on_inspect_late(struct loop_timer *t)
{
	struct daemon_request *r = container_of(t, struct daemon_request, timer);
	if (r->x && !r->status)
		daemon_request_view(r, 200, NULL);
}

void handle_get(struct daemon_request *r)
{
	struct daemon *d = r->daemon;
	struct sandbox *s = sandbox_find(d, r->match.id);
	if (!s)
		return unknown(r);
	sandbox_ref(s);
	r->sandbox = s;
	bool alive = s->state == SB_RUNNING || s->state == SB_ASLEEP;
	if (!alive || !warden_client_is_up(d->warden))
		return daemon_request_view(r, 200, NULL);
	struct warden_request q = {.op = WARDEN_INSPECT};
	memcpy(q.id, s->id, sizeof q.id);
	daemon_request_hold(r);
	loop_timer_set(d->loop, &r->timer, INSPECT_WAIT_MS, on_inspect_late);
	warden_client_call(d->warden, &q, on_inspected, r);
}

static void on_gone(struct sandbox_waiter *w, struct sandbox *s, const struct err *e)
{
	(void)s;
	struct daemon_request *r = container_of(w, struct daemon_request, waiter);
	if (e)
		return daemon_request_error(r, e);
	http_respond(r->x, 204, NULL, STR(""));
	daemon_request_answered(r, 204);
}

void handle_delete(struct daemon_request *r)
{
	struct err e;
	struct sandbox *s = sandbox_find(r->daemon, r->match.id);
	if (!s)
		return unknown(r);
	r->waiter = (struct sandbox_waiter){.goal = WAIT_GONE, .on_done = on_gone};
	if (sandbox_wait(s, &r->waiter, &e) < 0)
		daemon_request_error(r, &e);
}
