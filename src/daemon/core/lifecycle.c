#include <stdio.h>

#include "base/log.h"
#include "daemon/core/sandbox.h"
#include "daemon/core/uses.h"
#include "daemon/limits.h"
#include "daemon/network/gate_client.h"
#include "proto/limits.h"

/* How long a box whose agent is gone may take to be dead: processes of a full box need a while to be killed. */
enum { CHECK_MS = 10, CHECKS_MAX = 200 };

static void waiter_take_off(struct sandbox_waiter *w)
{
	struct sandbox *s = w->sandbox;
	list_del(&w->node);
	loop_timer_stop(&w->deadline);
	s->waiters_n--;
	w->sandbox = NULL;
}

static void waiter_release(struct sandbox_waiter *w, const struct err *e)
{
	struct sandbox *s = w->sandbox;
	waiter_take_off(w);
	w->on_done(w, s, e);
	sandbox_unref(s);
}

void sandbox_fail_waiters(struct sandbox *s, enum wait_goal goal, const struct err *e)
{
	sandbox_ref(s);
	while (!list_empty(&s->waiters)) {
		struct sandbox_waiter *w = list_entry(s->waiters.next, struct sandbox_waiter, node);
		if (w->goal != goal)
			break;
		waiter_release(w, e);
	}
	sandbox_unref(s);
}

/* ---- asleep and awake ---- */

static void on_woken(struct sandbox *s, const struct warden_answer *a, void *arg)
{
	(void)arg;
	INVARIANT(s->op == OP_WAKE);
	sandbox_op_end(s);
	if (!a->err && s->state == SB_ASLEEP) {
		gate_client_asleep(s->daemon->gate, s, false);
		sandbox_move(s, SB_RUNNING, NULL);
		sandbox_write_state(s);
	} else if (!a->lost && s->state == SB_ASLEEP) {
		sandbox_fail_waiters(s, WAIT_RUNNING, a->err);
	}
	sandbox_advance(s);
}

static void on_slept(struct sandbox *s, const struct warden_answer *a, void *arg)
{
	(void)arg;
	INVARIANT(s->op == OP_SLEEP);
	sandbox_op_end(s);
	if (!a->err && s->state == SB_RUNNING) {
		sandbox_move(s, SB_ASLEEP, NULL);
		sandbox_write_state(s);
	} else if (a->err && !a->lost) {
		log_limited(LOG_WARN, "cannot sleep", "id=%s error=%s", LOG_Q(s->id), LOG_Q(a->err->msg));
		s->daemon->metrics.sleep_failures++;
		gate_client_asleep(s->daemon->gate, s, false);
		s->last_used = loop_now(s->daemon->loop);
		sandbox_set_idle(s);
		sandbox_fail_waiters(s, WAIT_ASLEEP, a->err);
	}
	sandbox_advance(s);
	if (s->nudged)
		sandbox_wake(s);
}

static void begin_asking(struct sandbox *s, enum sandbox_op op, enum warden_op what, sandbox_on_answer on_answer)
{
	sandbox_op_begin(s, op);
	sandbox_ask(s, &(struct warden_request){.op = what}, on_answer, NULL);
}

void sandbox_wake(struct sandbox *s)
{
	if (s->state == SB_ASLEEP && s->op == OP_NONE && warden_client_is_up(s->daemon->warden))
		begin_asking(s, OP_WAKE, WARDEN_THAW, on_woken);
}

void sandbox_sleep(struct sandbox *s)
{
	s->nudged = false;
	gate_client_asleep(s->daemon->gate, s, true);
	begin_asking(s, OP_SLEEP, WARDEN_FREEZE, on_slept);
}

/* ---- the queue ---- */

/* The waiters behind a destroyed sandbox want a new one of the same name. */
static void hand_waiters_on(struct sandbox *old)
{
	struct err e;
	struct sandbox *s = sandbox_add(old->daemon, old->id, SB_CREATING, &e);
	if (!s)
		return sandbox_fail_waiters(old, WAIT_RUNNING, &e);
	sandbox_set_work(s, old->work);
	while (!list_empty(&old->waiters)) {
		struct sandbox_waiter *w = list_entry(old->waiters.next, struct sandbox_waiter, node);
		list_del(&w->node);
		list_push(&s->waiters, &w->node);
		w->sandbox = s;
		old->waiters_n--;
		s->waiters_n++;
		sandbox_ref(s);
		sandbox_unref(old);
	}
	sandbox_advance(s);
}

static bool waiter_satisfied(const struct sandbox *s, const struct sandbox_waiter *w)
{
	switch (w->goal) {
	case WAIT_GONE:
		return s->state == SB_DESTROYED;
	case WAIT_ASLEEP:
		return s->state == SB_ASLEEP && s->view != VIEW_UNSEEN;
	case WAIT_STOPPED:
		return s->state == SB_STOPPED && s->view != VIEW_UNSEEN;
	case WAIT_SETTLED:
		return s->op == OP_NONE && s->view != VIEW_UNSEEN && s->state != SB_CREATING && sandbox_exists(s);
	case WAIT_RUNNING:
		break;
	}
	return sandbox_is_ready(s);
}

static void start_for(struct sandbox *s, struct sandbox_waiter *w)
{
	if (w->goal == WAIT_GONE)
		return sandbox_destroy(s);
	if (w->goal == WAIT_ASLEEP)
		return sandbox_sleep(s);
	if (w->goal == WAIT_STOPPED)
		return sandbox_stop(s);
	if (s->state == SB_ASLEEP)
		return sandbox_wake(s);
	w->made = !s->has_files;
	if (w->change && !s->has_files) {
		s->wished = true;
		api_change_apply(w->change, &s->spec);
		uses_note(s);
		if (w->change->no_image.code)
			return sandbox_create_refused(s, &w->change->no_image);
	}
	sandbox_create(s);
}

/* After a PUT that failed no box of other settings is made in its place. */
static bool refuse_failed(struct sandbox *s, struct sandbox_waiter *w)
{
	struct err e;
	if (s->state != SB_FAILED || w->goal != WAIT_RUNNING || w->change)
		return false;
	sandbox_failure(s, &e);
	waiter_release(w, &e);
	return true;
}

/* Refuses a waiter that needs a living box and may not make one, if there is none. */
static bool refuse_start(struct sandbox *s, struct sandbox_waiter *w)
{
	struct err e;
	if (w->goal == WAIT_SETTLED && !sandbox_exists(s)) {
		err_set(&e, ERRC_SANDBOX_NOT_FOUND, "sandbox '%s' was destroyed meanwhile", s->id);
		waiter_release(w, &e);
		return true;
	}
	bool needs = w->wake_only || w->goal == WAIT_ASLEEP || w->goal == WAIT_STOPPED;
	if (!needs || s->view == VIEW_UNSEEN || s->state == SB_ASLEEP || s->state == SB_RUNNING)
		return false;
	err_set(&e, s->state == SB_STOPPED ? ERRC_INVALID_STATE : ERRC_SANDBOX_NOT_FOUND, "sandbox '%s' does not run",
		s->id);
	waiter_release(w, &e);
	return true;
}

static void discard_if_unwanted(struct sandbox *s)
{
	bool never_asked =
		s->state == SB_CREATING && s->op == OP_NONE && list_empty(&s->waiters) && s->row == PART_NONE;
	if (never_asked)
		sandbox_move(s, s->has_files ? SB_STOPPED : SB_DESTROYED, s->has_files ? "could not be started" : NULL);
}

/* Destroying takes the remains along; anything else begins with sweeping them. */
static bool must_sweep(const struct sandbox *s)
{
	if (s->view != VIEW_REMAINS || s->op != OP_NONE || !warden_client_is_up(s->daemon->warden))
		return false;
	return list_empty(&s->waiters) || list_entry(s->waiters.next, struct sandbox_waiter, node)->goal != WAIT_GONE;
}

void sandbox_advance(struct sandbox *s)
{
	sandbox_ref(s);
	if (must_sweep(s))
		sandbox_sweep(s);
	while (s->op == OP_NONE && !list_empty(&s->waiters)) {
		struct sandbox_waiter *w = list_entry(s->waiters.next, struct sandbox_waiter, node);
		if (waiter_satisfied(s, w)) {
			waiter_release(w, NULL);
		} else if (refuse_failed(s, w) || refuse_start(s, w)) {
			continue;
		} else if (s->state == SB_DESTROYED) {
			hand_waiters_on(s);
		} else {
			if (!warden_client_is_up(s->daemon->warden))
				break; /* goes on in recover.c, when the warden is back */
			start_for(s, w);
		}
	}
	discard_if_unwanted(s);
	sandbox_unref(s);
}

static void on_deadline(struct loop_timer *t)
{
	struct sandbox_waiter *w = container_of(t, struct sandbox_waiter, deadline);
	struct sandbox *s = w->sandbox;
	struct err e;
	if (!warden_client_is_up(s->daemon->warden))
		err_set(&e, ERRC_CONTAINER_UNAVAILABLE,
			"sandbox '%s' cannot be changed now: the warden is not running ('atoll up' starts it again)",
			s->id);
	else
		err_set(&e, ERRC_CONTAINER_UNAVAILABLE, "sandbox '%s' was not ready after %d s", s->id,
			BOX_CREATE_TIMEOUT / 1000);
	sandbox_ref(s);
	/* A sandbox that the warden has told nothing of yet may have files. */
	bool wished =
		w->change && !s->has_files && s->state == SB_CREATING && s->op == OP_NONE && s->view != VIEW_UNSEEN;
	if (wished) {
		api_change_apply(w->change, &s->spec);
		uses_note(s);
	}
	waiter_release(w, &e);
	if (wished && list_empty(&s->waiters))
		sandbox_set_failed(s, &e);
	discard_if_unwanted(s);
	sandbox_unref(s);
}

int sandbox_wait(struct sandbox *s, struct sandbox_waiter *w, struct err *e)
{
	struct daemon *d = s->daemon;
	if (s->waiters_n >= BOX_WAITERS_MAX)
		return err_set(e, ERRC_CONTAINER_UNAVAILABLE, "%d requests wait for sandbox '%s' already",
			BOX_WAITERS_MAX, s->id);
	w->sandbox = s;
	w->made = false;
	s->waiters_n++;
	sandbox_ref(s);
	list_push(&s->waiters, &w->node);
	loop_timer_set(
		d->loop, &w->deadline, warden_client_is_up(d->warden) ? BOX_CREATE_TIMEOUT : WARDEN_WAIT, on_deadline);
	if (s->op == OP_NONE && s->waiters_n == 1)
		sandbox_advance(s);
	return 0;
}

int sandbox_wait_id(struct daemon *d, const char *id, struct sandbox_waiter *w, struct err *e)
{
	struct sandbox *s = sandbox_find(d, id);
	if (s)
		return sandbox_wait(s, w, e);
	s = sandbox_add(d, id, SB_CREATING, e);
	if (!s)
		return -1;
	sandbox_set_work(s, w->change && sandbox_settings_work(w->change->settings_changes));
	return sandbox_wait(s, w, e);
}

void sandbox_wait_cancel(struct sandbox_waiter *w)
{
	struct sandbox *s = w->sandbox;
	if (!s)
		return;
	waiter_take_off(w);
	discard_if_unwanted(s);
	sandbox_unref(s);
}

/* ---- checking a suspect box ---- */

static void check_box(struct sandbox *s);

static void on_check_due(struct loop_timer *t)
{
	struct sandbox *s = container_of(t, struct sandbox, retry);
	check_box(s);
	sandbox_unref(s);
}

static void check_end(struct sandbox *s, bool gone, bool remains)
{
	sandbox_op_end(s);
	if (gone && s->state == SB_RUNNING) {
		sandbox_move(s, SB_STOPPED, "its agent could not be reached and the box was gone");
		sandbox_set_view(s, remains ? VIEW_REMAINS : VIEW_CLEAR);
		sandbox_write_state(s);
	}
	sandbox_advance(s);
}

static void on_checked(struct sandbox *s, const struct warden_answer *a, void *arg)
{
	(void)arg;
	INVARIANT(s->op == OP_CHECK);
	bool gone = a->err ? a->err->code == ERRC_SANDBOX_NOT_FOUND : a->info && a->info->state == BOX_DEAD;
	if (!a->err && !gone && s->state == SB_RUNNING && s->checks_left-- > 0) {
		sandbox_ref(s); /* for the timer */
		loop_timer_set(s->daemon->loop, &s->retry, CHECK_MS, on_check_due);
		return;
	}
	check_end(s, gone, gone && !a->err);
}

static void check_box(struct sandbox *s)
{
	if (warden_client_is_up(s->daemon->warden))
		sandbox_ask(s, &(struct warden_request){.op = WARDEN_INSPECT}, on_checked, NULL);
	else
		check_end(s, false, false);
}

void sandbox_suspect(struct sandbox *s, bool refused)
{
	if (!sandbox_is_ready(s) || !warden_client_is_up(s->daemon->warden))
		return;
	s->checks_left = refused ? CHECKS_MAX : 0;
	sandbox_op_begin(s, OP_CHECK);
	check_box(s);
}
