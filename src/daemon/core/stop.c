/*
 * A stop ends the processes of a box and keeps its files. Its first process gets SIGTERM, which it passes on to all
 * others; it ends when they have ended. A box that is still there after BOX_STOP_GRACE is killed. A box that sleeps is
 * thawed first: a frozen process cannot end in its own way.
 */
#include <signal.h>

#include "base/log.h"
#include "daemon/core/sandbox.h"
#include "daemon/limits.h"

static const char *reason_of(const struct sandbox *s)
{
	return s->stop_killed ? SANDBOX_KILLED : "stopped by a request";
}

static void stop_end(struct sandbox *s, enum warden_view view)
{
	sandbox_op_end(s);
	sandbox_move(s, SB_STOPPED, reason_of(s));
	sandbox_set_view(s, view);
	sandbox_advance(s);
}

static void on_written(struct sandbox *s, const struct err *e, enum warden_view view)
{
	if (e)
		log_limited(LOG_WARN, "state not written", "id=%s error=%s", LOG_Q(s->id), LOG_Q(e->msg));
	stop_end(s, view);
	sandbox_unref(s);
}

static void on_written_clear(void *arg, const struct err *e)
{
	on_written(arg, e, VIEW_CLEAR);
}

static void on_written_remains(void *arg, const struct err *e)
{
	on_written(arg, e, VIEW_REMAINS);
}

/* The box has ended. The row says so before the client hears it: a row that still says `creating` and has no box is
 * deleted, with its files, by the daemon that comes after a kill. */
static void write_stopped(struct sandbox *s, store_on_done on_done)
{
	loop_timer_stop(&s->retry);
	s->stop_forced = true; /* what is told of the box from here on changes nothing */
	sandbox_ref(s);
	store_set_state(s->daemon->store, s->id, state_name(SB_STOPPED), reason_of(s), false, on_done, s);
}

static void stop_failed(struct sandbox *s, const struct warden_answer *a)
{
	loop_timer_stop(&s->retry);
	sandbox_op_end(s);
	if (a->lost)
		return; /* the warden's next list shows what is left */
	log_limited(LOG_WARN, "stop failed", "id=%s error=%s", LOG_Q(s->id), LOG_Q(a->err->msg));
	sandbox_fail_waiters(s, WAIT_STOPPED, a->err);
	sandbox_advance(s);
}

static void on_killed(struct sandbox *s, const struct warden_answer *a, void *arg)
{
	(void)arg;
	INVARIANT(s->op == OP_STOP);
	if (a->err && (a->lost || a->err->code != ERRC_SANDBOX_NOT_FOUND))
		return stop_failed(s, a);
	write_stopped(s, on_written_clear);
}

static void on_grace_over(struct loop_timer *t)
{
	struct sandbox *s = container_of(t, struct sandbox, retry);
	if (!warden_client_is_up(s->daemon->warden))
		return sandbox_op_end(s);
	s->stop_forced = s->stop_killed = true;
	struct warden_request r = {.op = WARDEN_DESTROY, .flags = WARDEN_KEEP_FILES};
	sandbox_ask(s, &r, on_killed, NULL);
}

static void on_told(struct sandbox *s, const struct warden_answer *a, void *arg)
{
	(void)arg;
	/* Its death may have been told before. */
	if (s->op != OP_STOP || s->stop_forced || !a->err)
		return;
	if (a->lost)
		return stop_failed(s, a);
	loop_timer_set(s->daemon->loop, &s->retry, 0, on_grace_over);
}

static void tell_box(struct sandbox *s)
{
	loop_timer_set(s->daemon->loop, &s->retry, BOX_STOP_GRACE, on_grace_over);
	sandbox_ask(s, &(struct warden_request){.op = WARDEN_SIGNAL, .signal = SIGTERM}, on_told, NULL);
}

static void on_thawed(struct sandbox *s, const struct warden_answer *a, void *arg)
{
	(void)arg;
	if (s->op != OP_STOP)
		return;
	if (a->err && a->lost)
		return stop_failed(s, a);
	if (a->err)
		loop_timer_set(s->daemon->loop, &s->retry, 0, on_grace_over);
	else
		tell_box(s);
}

void sandbox_stop(struct sandbox *s)
{
	sandbox_op_begin(s, OP_STOP);
	loop_timer_stop(&s->idle);
	s->stop_forced = s->stop_killed = false;
	if (s->state == SB_ASLEEP)
		sandbox_ask(s, &(struct warden_request){.op = WARDEN_THAW}, on_thawed, NULL);
	else
		tell_box(s);
}

void sandbox_stop_died(struct sandbox *s)
{
	if (!s->stop_forced)
		write_stopped(s, on_written_remains);
}
