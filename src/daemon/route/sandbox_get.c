/* GET /v1/sandboxes/{id}: a sandbox with its live usage, if the warden tells it in time. */
#include "base/json.h"
#include "daemon/route/handlers.h"
#include "daemon/route/request.h"
#include "daemon/route/view.h"

enum { INSPECT_WAIT_MS = 2000 };

void daemon_request_view(struct daemon_request *r, int status, const struct sandbox *s, const struct box_info *info)
{
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	view_sandbox(&w, s, info);
	daemon_request_json(r, status, buf_str(&out));
}

static void on_inspected(struct sandbox *s, const struct warden_answer *a, void *arg)
{
	struct daemon_request *r = arg;
	loop_timer_stop(&r->timer);
	if (r->x && !r->status)
		daemon_request_view(r, 200, s, a->err ? NULL : a->info);
	daemon_request_release(r);
}

/* The warden is late: answer without the usage. */
static void on_inspect_late(struct loop_timer *t)
{
	struct daemon_request *r = container_of(t, struct daemon_request, timer);
	if (r->x && !r->status)
		daemon_request_view(r, 200, r->sandbox, NULL);
}

void handle_get(struct daemon_request *r)
{
	struct daemon *d = r->daemon;
	struct sandbox *s = daemon_request_find(r);
	if (!s)
		return;
	sandbox_ref(s);
	r->sandbox = s;
	bool alive = s->state == SB_RUNNING || s->state == SB_ASLEEP;
	if (!warden_client_is_up(d->warden))
		return daemon_request_view(r, 200, r->sandbox, NULL);
	daemon_request_hold(r);
	loop_timer_set(d->loop, &r->timer, INSPECT_WAIT_MS, on_inspect_late);
	struct warden_request q = {.op = alive ? WARDEN_INSPECT : WARDEN_DISK};
	sandbox_ask(s, &q, on_inspected, r);
}
