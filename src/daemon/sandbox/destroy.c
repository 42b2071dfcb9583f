/*
 * Destroying asks the warden first, since that is what frees a full disk, and takes the row away after. A row that
 * cannot be deleted then does not bring the box back: it is tried again every second, unless a new sandbox of the same
 * name has replaced it meanwhile.
 */
#include "base/log.h"
#include "daemon/sandbox/sandbox.h"

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
		s->op = OP_NONE;
		sandbox_move(s, SB_DESTROYED, NULL);
		s->daemon->metrics.destroys++;
		sandbox_advance(s);
	}
	sandbox_unref(s);
}

static void on_gone(void *arg, const struct warden_answer *a)
{
	struct sandbox *s = arg;
	if (!a->err || (!a->lost && a->err->code == ERRC_SANDBOX_NOT_FOUND)) {
		store_delete(s->daemon->store, s->id, on_row_gone, s);
		return;
	}
	s->op = OP_NONE;
	if (!a->lost) {
		log_limited(LOG_WARN, "destroy failed", "id=%s error=%s", LOG_Q(s->id), LOG_Q(a->err->msg));
		sandbox_fail_waiters(s, WAIT_GONE, a->err);
		sandbox_advance(s);
	}
	sandbox_unref(s);
}

void sandbox_destroy(struct sandbox *s)
{
	INVARIANT(s->op == OP_NONE);
	s->op = OP_DESTROY;
	loop_timer_stop(&s->idle);
	struct warden_request r = {.op = WARDEN_DESTROY};
	memcpy(r.id, s->id, sizeof r.id);
	sandbox_ref(s);
	warden_client_call(s->daemon->warden, &r, on_gone, s);
}

static void on_swept(void *arg, const struct warden_answer *a)
{
	struct sandbox *s = arg;
	INVARIANT(s->op == OP_SWEEP);
	s->op = OP_NONE;
	/* After another failure the next create says what is wrong. */
	s->remains = a->lost;
	if (a->err && !a->lost)
		log_limited(LOG_WARN, "remains not swept", "id=%s error=%s", LOG_Q(s->id), LOG_Q(a->err->msg));
	sandbox_advance(s);
	sandbox_unref(s);
}

void sandbox_sweep(struct sandbox *s)
{
	INVARIANT(s->op == OP_NONE);
	s->op = OP_SWEEP;
	struct warden_request r = {.op = WARDEN_DESTROY, .flags = WARDEN_KEEP_FILES};
	memcpy(r.id, s->id, sizeof r.id);
	sandbox_ref(s);
	warden_client_call(s->daemon->warden, &r, on_swept, s);
}
