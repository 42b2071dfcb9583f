/*
 * Making a box has two halves that run at the same time: the row in the store and the box at the warden. Only when both
 * are done is the sandbox running; when one fails the other is undone. A sandbox that ran before has its row already:
 * it stays `stopped` there until the box runs.
 */
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "daemon/sandbox.h"

enum { LOOK_AGAIN_MS = 20 };

static void create_step(struct sandbox *s);

void sandbox_take_info(struct sandbox *s, const struct box_info *info)
{
	char path[128];
	struct err e;
	s->slot = info->slot;
	s->spec.limits = info->limits;
	s->unseen = false;
	snprintf(path, sizeof path, WARDEN_AGENT_SOCKET_FMT, s->daemon->config.run, info->slot);
	/* config.run is short enough for every slot's path. */
	INVARIANT(http_endpoint_unix(&s->agent, str_of(path), &e) == 0);
}

static void create_end(struct sandbox *s)
{
	s->op = OP_NONE;
	s->row = s->box = HALF_NONE;
	loop_timer_stop(&s->retry);
}

static void create_ok(struct sandbox *s)
{
	struct daemon *d = s->daemon;
	uint64_t us = clock_us() - s->create_us;
	create_end(s);
	s->has_files = true;
	metrics_created(&d->metrics, us);
	log_event(LOG_DEBUG, "created", "id=%s slot=%u us=%llu", LOG_Q(s->id), s->slot, (unsigned long long)us);
	sandbox_move(s, SB_RUNNING, NULL);
	store_set_state(d->store, s->id, state_name(s->state), "", NULL, NULL);
	sandbox_advance(s);
}

static void create_failed(struct sandbox *s)
{
	struct daemon *d = s->daemon;
	struct err e = s->create_err;
	bool row_there = s->row == HALF_DONE;
	create_end(s);
	d->metrics.create_failures++;
	log_event(LOG_WARN, "create failed", "id=%s error=%s", LOG_Q(s->id), LOG_Q(e.msg));
	if (s->has_files) {
		sandbox_move(s, SB_STOPPED, e.msg);
		store_set_state(d->store, s->id, state_name(s->state), s->reason, NULL, NULL);
	} else {
		/* If this cannot be written the row stays `creating`, and is dropped at the next start. */
		if (row_there)
			store_delete(d->store, s->id, NULL, NULL);
		sandbox_move(s, SB_DESTROYED, NULL);
	}
	sandbox_fail_waiters(s, WAIT_RUNNING, &e);
	sandbox_advance(s);
}

static void on_undone(void *arg, const struct warden_answer *a)
{
	struct sandbox *s = arg;
	if (a->err)
		log_event(LOG_WARN, "box left behind", "id=%s error=%s", LOG_Q(s->id), LOG_Q(a->err->msg));
	create_failed(s);
	sandbox_unref(s);
}

/* The box is there, its row is not. */
static void undo_box(struct sandbox *s)
{
	if (!warden_is_up(s->daemon->warden))
		return create_failed(s);
	s->box = HALF_FAILED; /* its death is no news from here on */
	struct warden_request r = {.op = WARDEN_DESTROY, .flags = s->has_files ? WARDEN_KEEP_FILES : 0};
	memcpy(r.id, s->id, sizeof r.id);
	sandbox_ref(s);
	warden_call(s->daemon->warden, &r, on_undone, s);
}

static void create_step(struct sandbox *s)
{
	if (s->op != OP_CREATE || s->row == HALF_ASKED || s->box == HALF_ASKED)
		return;
	if (s->box == HALF_FAILED)
		create_failed(s);
	else if (s->row == HALF_FAILED)
		undo_box(s);
	else
		create_ok(s);
}

static void on_row(void *arg, const struct err *e)
{
	struct sandbox *s = arg;
	s->row = e ? HALF_FAILED : HALF_DONE;
	if (e)
		s->create_err = *e;
	create_step(s);
	sandbox_unref(s);
}

static void fail_box(struct sandbox *s, const struct err *e)
{
	s->box = HALF_FAILED;
	s->create_err = *e;
	create_step(s);
}

static void on_made(void *arg, const struct warden_answer *a)
{
	struct sandbox *s = arg;
	INVARIANT(s->op == OP_CREATE);
	if (a->lost) {
		/* The warden's list will say what became of it. */
		s->op = OP_NONE;
		s->box = HALF_NONE;
	} else if (a->err || !a->info) {
		struct err none;
		err_set(&none, ERRC_BOX_CREATE_FAILED, "the warden's answer has no box");
		fail_box(s, a->err ? a->err : &none);
	} else {
		sandbox_take_info(s, a->info);
		s->box = HALF_DONE;
		create_step(s);
	}
	sandbox_unref(s);
}

static void write_row(struct sandbox *s)
{
	struct store_row row;
	if (s->row == HALF_DONE || s->row == HALF_ASKED)
		return;
	s->row = HALF_ASKED;
	sandbox_row(s, &row);
	sandbox_ref(s);
	store_put(s->daemon->store, &row, on_row, s);
}

void sandbox_create(struct sandbox *s)
{
	if (s->state == SB_STOPPED)
		sandbox_move(s, SB_CREATING, NULL);
	INVARIANT(s->state == SB_CREATING && s->op == OP_NONE);
	s->op = OP_CREATE;
	s->create_us = clock_us();
	if (s->has_files)
		s->row = HALF_DONE;
	struct warden_request r = {.op = WARDEN_CREATE, .limits = s->spec.limits};
	memcpy(r.id, s->id, sizeof r.id);
	memcpy(r.image, s->spec.image, sizeof r.image);
	s->box = HALF_ASKED;
	sandbox_ref(s);
	warden_call(s->daemon->warden, &r, on_made, s);
	write_row(s);
}

/* ---- after the warden was away ---- */

static void look_again(struct loop_timer *t);

static void on_looked(void *arg, const struct warden_answer *a)
{
	struct sandbox *s = arg;
	INVARIANT(s->op == OP_CREATE && s->box == HALF_ASKED);
	s->op = OP_NONE;
	s->box = HALF_NONE;
	if (!a->lost)
		sandbox_create_resume(s, a->err ? NULL : a->info);
	sandbox_unref(s);
}

static void look_again(struct loop_timer *t)
{
	struct sandbox *s = container_of(t, struct sandbox, retry);
	if (!warden_is_up(s->daemon->warden)) {
		s->op = OP_NONE;
		s->box = HALF_NONE;
		return;
	}
	struct warden_request r = {.op = WARDEN_INSPECT};
	memcpy(r.id, s->id, sizeof r.id);
	sandbox_ref(s);
	warden_call(s->daemon->warden, &r, on_looked, s);
}

static void drop_unmade(struct sandbox *s, bool remains)
{
	sandbox_ref(s);
	s->row = HALF_NONE;
	if (remains && !s->has_files) {
		struct warden_request r = {.op = WARDEN_DESTROY};
		memcpy(r.id, s->id, sizeof r.id);
		warden_call(s->daemon->warden, &r, NULL, NULL);
	}
	if (s->has_files) {
		sandbox_move(s, SB_STOPPED, "could not be started: the warden went away");
	} else {
		store_delete(s->daemon->store, s->id, NULL, NULL);
		sandbox_move(s, SB_DESTROYED, NULL);
	}
	sandbox_unref(s);
}

void sandbox_create_resume(struct sandbox *s, const struct box_info *info)
{
	INVARIANT(s->state == SB_CREATING && s->op == OP_NONE);
	if (info && info->state == BOX_CREATING) {
		s->op = OP_CREATE;
		s->box = HALF_ASKED;
		loop_timer_set(s->daemon->loop, &s->retry, LOOK_AGAIN_MS, look_again);
	} else if (info && info->state != BOX_DEAD) {
		sandbox_take_info(s, info);
		s->op = OP_CREATE;
		s->box = HALF_DONE;
		write_row(s);
		create_step(s);
	} else if (list_empty(&s->waiters)) {
		drop_unmade(s, info != NULL);
	} else {
		sandbox_advance(s);
	}
}

void sandbox_create_died(struct sandbox *s, const char *reason)
{
	if (s->op != OP_CREATE || s->box != HALF_DONE)
		return;
	struct err e;
	err_set(&e, ERRC_BOX_CREATE_FAILED, "sandbox '%s' ended as soon as it was made: %s", s->id, reason);
	fail_box(s, &e);
}
