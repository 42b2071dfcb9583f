/*
 * A destroy asks the warden first, because that frees a full disk, and deletes the row afterwards. If the row cannot be
 * deleted, the sandbox is destroyed all the same. The delete is tried again every second, until it works or a new
 * sandbox of the same name has replaced the row.
 */
#include "base/log.h"
#include "daemon/core/sandbox.h"
#include "daemon/network/hooks.h"
#include "daemon/storage/snapshots.h"

enum { ROW_RETRY_MS = 1000 };

static void on_row_gone(void *arg, const struct err *e);

static void on_retry(struct loop_timer *t)
{
	struct sandbox *s = container_of(t, struct sandbox, retry);
	if (sandbox_find(s->daemon, s->id))
		sandbox_unref(s);
	else
		store_delete(s->daemon->store, s->id, on_row_gone, s);
}

static void on_row_gone(void *arg, const struct err *e)
{
	struct sandbox *s = arg;
	if (e) {
		log_limited(LOG_WARN, "row not deleted", "id=%s error=%s", LOG_Q(s->id), LOG_Q(e->msg));
		sandbox_ref(s);
		loop_timer_set(s->daemon->loop, &s->retry, ROW_RETRY_MS, on_retry);
	}
	if (!e && s->op != OP_DESTROY)
		log_limited(LOG_INFO, "row deleted at last", "id=%s", LOG_Q(s->id));
	if (s->op == OP_DESTROY) {
		sandbox_op_end(s);
		snapshots_drop_all(s->daemon, s->id);
		sandbox_move(s, SB_DESTROYED, NULL);
		hooks_free(take_ptr(&s->hook)); /* a client of the box that does not close its end keeps `s` */
		s->daemon->metrics.destroys++;
		sandbox_advance(s);
	}
	sandbox_unref(s);
}

static void on_gone(struct sandbox *s, const struct warden_answer *a, void *arg)
{
	(void)arg;
	if (!a->err || (!a->lost && a->err->code == ERRC_SANDBOX_NOT_FOUND)) {
		sandbox_ref(s);
		store_delete(s->daemon->store, s->id, on_row_gone, s);
		return;
	}
	sandbox_op_end(s);
	if (!a->lost) {
		log_limited(LOG_WARN, "destroy failed", "id=%s error=%s", LOG_Q(s->id), LOG_Q(a->err->msg));
		sandbox_fail_waiters(s, WAIT_GONE, a->err);
		sandbox_advance(s);
	}
}

void sandbox_destroy(struct sandbox *s)
{
	sandbox_op_begin(s, OP_DESTROY);
	loop_timer_stop(&s->idle);
	sandbox_ask(s, &(struct warden_request){.op = WARDEN_DESTROY}, on_gone, NULL);
}

static void on_swept(struct sandbox *s, const struct warden_answer *a, void *arg)
{
	(void)arg;
	INVARIANT(s->op == OP_SWEEP);
	sandbox_op_end(s);
	/* After any other failure the next create reports the reason. */
	if (!a->lost)
		sandbox_set_view(s, VIEW_CLEAR);
	if (a->err && !a->lost)
		log_limited(LOG_WARN, "remains not swept", "id=%s error=%s", LOG_Q(s->id), LOG_Q(a->err->msg));
	sandbox_advance(s);
}

void sandbox_sweep(struct sandbox *s)
{
	sandbox_op_begin(s, OP_SWEEP);
	struct warden_request r = {.op = WARDEN_DESTROY, .flags = WARDEN_KEEP_FILES};
	sandbox_ask(s, &r, on_swept, NULL);
}
