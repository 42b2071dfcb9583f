/*
 * Files from a snapshot: for a new sandbox, or for one that exists.
 *
 * The row of a new sandbox says `creating` and `filling` until its files are there. After a kill in between, the
 * recovery finds no box for the row, and deletes the row and what there is of the files.
 */
#include <stdio.h>

#include "base/log.h"
#include "daemon/core/sandbox.h"
#include "daemon/core/uses.h"
#include "daemon/network/gate_client.h"

struct fill {
	struct sandbox *sandbox; /* referenced */
	char snapshot[SNAPSHOT_NAME_MAX + 1];
	sandbox_on_filled on_done;
	void *arg;
};

static struct fill *fill_new(struct sandbox *s, const char *snapshot, sandbox_on_filled on_done, void *arg)
{
	struct fill *f = xcalloc(1, sizeof *f);
	*f = (struct fill){.sandbox = s, .on_done = on_done, .arg = arg};
	snprintf(f->snapshot, sizeof f->snapshot, "%s", snapshot);
	sandbox_ref(s);
	return f;
}

static void fill_end(struct fill *f, const struct err *e)
{
	struct sandbox *s = f->sandbox;
	f->on_done(f->arg, s, e);
	sandbox_advance(s);
	sandbox_unref(s);
	free(f);
}

static void ask_files(struct fill *f, enum warden_op op, sandbox_on_answer on_answer)
{
	struct warden_request q = {.op = op, .limits = f->sandbox->spec.limits};
	memcpy(q.snapshot, f->snapshot, sizeof q.snapshot);
	sandbox_ask(f->sandbox, &q, on_answer, f);
}

static void away(const struct sandbox *s, struct err *e)
{
	err_set(e, ERRC_CONTAINER_UNAVAILABLE, "the files of sandbox '%s' cannot be made now: the warden went away",
		s->id);
}

/* ---- a new sandbox ---- */

/* `lost`: there may be files. The row stays `creating`, and the recovery deletes both when the warden is back. */
static void fill_failed(struct fill *f, const struct err *why, bool lost)
{
	struct sandbox *s = f->sandbox;
	struct err e = *why;
	sandbox_op_end(s);
	s->row = lost ? PART_DONE : PART_NONE;
	if (!lost) {
		store_delete(s->daemon->store, s->id, NULL, NULL);
		sandbox_move(s, SB_DESTROYED, NULL);
	}
	sandbox_fail_waiters(s, WAIT_RUNNING, &e);
	sandbox_fail_waiters(s, WAIT_SETTLED, &e);
	fill_end(f, &e);
}

static const char made[] = "made from a snapshot; the first request starts it";

static void on_made_written(void *arg, const struct err *e)
{
	struct fill *f = arg;
	struct sandbox *s = f->sandbox;
	if (e)
		log_limited(LOG_WARN, "state not written", "id=%s error=%s", LOG_Q(s->id), LOG_Q(e->msg));
	sandbox_op_end(s);
	s->row = PART_NONE;
	s->has_files = true;
	sandbox_move(s, SB_STOPPED, made);
	fill_end(f, NULL);
}

/* The row says so on the disk before the client hears it: the recovery deletes a sandbox whose files are being made,
 * also after a loss of power. */
static void on_cloned(struct sandbox *s, const struct warden_answer *a, void *arg)
{
	struct fill *f = arg;
	if (a->err)
		return fill_failed(f, a->err, a->lost);
	store_set_state(s->daemon->store, s->id, state_name(SB_STOPPED), made, true, on_made_written, f);
}

static void on_row(void *arg, const struct err *e)
{
	struct fill *f = arg;
	struct err gone;
	if (!e && !warden_client_is_up(f->sandbox->daemon->warden)) {
		away(f->sandbox, &gone);
		e = &gone;
	}
	if (e)
		return fill_failed(f, e, false);
	f->sandbox->row = PART_DONE;
	ask_files(f, WARDEN_CLONE, on_cloned);
}

int sandbox_fill(struct daemon *d, const struct sandbox_filling *what, struct err *e)
{
	struct store_row row;
	struct sandbox *s = sandbox_add(d, what->id, SB_CREATING, e);
	if (!s)
		return -1;
	api_spec_free(&s->spec);
	api_spec_copy(&s->spec, what->spec);
	uses_note(s);
	sandbox_set_work(s, sandbox_settings_work(what->spec->settings));
	struct fill *f = fill_new(s, what->snapshot, what->on_done, what->arg);
	sandbox_op_begin(s, OP_FILL);
	s->row = PART_ASKED;
	s->filling = true;
	snprintf(s->reason, sizeof s->reason, "its files are being made");
	sandbox_row(s, &row);
	store_put(d->store, &row, on_row, f);
	return 0;
}

/* ---- other files for a sandbox ---- */

static void on_replaced(struct sandbox *s, const struct warden_answer *a, void *arg)
{
	struct fill *f = arg;
	sandbox_op_end(s);
	fill_end(f, a->err);
}

static void on_stopped(struct sandbox *s, const struct warden_answer *a, void *arg)
{
	struct fill *f = arg;
	bool done = !a->err || (!a->lost && a->err->code == ERRC_SANDBOX_NOT_FOUND);
	if (done && s->state != SB_STOPPED) {
		sandbox_move(s, SB_STOPPED, "its files were replaced");
		sandbox_write_state(s);
	}
	if (done)
		sandbox_set_view(s, VIEW_CLEAR);
	if (done && warden_client_is_up(s->daemon->warden))
		return ask_files(f, WARDEN_REPLACE, on_replaced);
	struct err e;
	away(s, &e);
	sandbox_op_end(s);
	fill_end(f, a->err && !done ? a->err : &e);
}

void sandbox_replace(struct sandbox *s, const char *snapshot, sandbox_on_filled on_done, void *arg)
{
	struct fill *f = fill_new(s, snapshot, on_done, arg);
	struct warden_request q = {.op = WARDEN_DESTROY, .flags = WARDEN_KEEP_FILES};
	sandbox_op_begin(s, OP_REPLACE);
	loop_timer_stop(&s->idle);
	sandbox_ask(s, &q, on_stopped, f);
}
