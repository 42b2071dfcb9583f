/*
 * Finding the boxes again: applies the table of docs/design/004-daemon.md each time the warden comes up. The rows of
 * the store are read before. A row that says "running" counts only if the warden's list confirms it.
 */
#include <stdio.h>

#include "base/log.h"
#include "daemon/core/sandbox.h"
#include "daemon/core/uses.h"
#include "daemon/network/gate_client.h"
#include "daemon/network/network.h"
#include "daemon/ports/ports.h"
#include "daemon/ports/tunnels.h"
#include "daemon/storage/snapshots.h"
#include "daemon/storage/volumes.h"
#include "proto/id.h"

static int take_row(void *arg, const struct store_row *row, struct err *e)
{
	struct daemon *d = arg;
	enum sandbox_state state;
	if (!state_from_name(str_of(row->state), &state) || state == SB_DESTROYED)
		return err_set(e, ERRC_INTERNAL_ERROR,
			"the state of sandbox '%s' is '%s', which this atolld does not know", row->id, row->state);
	struct sandbox *s = sandbox_add(d, row->id, state, e);
	if (!s)
		return -1;
	s->spec.limits = row->limits;
	s->spec.sleep_after_ms = row->sleep_after_ms;
	s->spec.keep_alive = row->keep_alive;
	s->created_ms = row->created_ms;
	s->filling = row->filling;
	s->row = state == SB_CREATING ? PART_DONE : PART_NONE;
	s->view = VIEW_UNSEEN;
	memcpy(s->spec.image, row->image, sizeof s->spec.image);
	memcpy(s->reason, row->reason, sizeof s->reason);
	free(s->spec.env);
	free(s->spec.labels);
	free(s->spec.network);
	free(s->spec.settings);
	s->spec.network = xstrdup(row->network);
	s->spec.settings = xstrdup(row->settings);
	sandbox_set_work(s, sandbox_settings_work(row->settings));
	s->spec.env = xstrdup(row->env);
	s->spec.labels = xstrdup(row->labels);
	uses_note(s);
	return 0;
}

int recover_load(struct daemon *d, struct err *e)
{
	if (store_load(d->store, take_row, d, e) < 0 || ports_load(d, e) < 0 || tunnels_load(d, e) < 0)
		return -1;
	return volumes_load(d, e) < 0 ? -1 : snapshots_load(d, e);
}

/* How a dead box ended, as a sentence for people. */
static void describe_end(const struct box_info *info, char *ret, size_t cap)
{
	const char *oom = info->oom_kills ? "; it had run out of memory" : "";
	if (!info->exit_known)
		snprintf(ret, cap, "the box ended, how is not known%s", oom);
	else if (info->exit_signal)
		snprintf(ret, cap, "the box's init was killed by signal %d%s", info->exit_signal, oom);
	else
		snprintf(ret, cap, "the box's init exited with code %d%s", info->exit_code, oom);
}

static void set_stopped(struct sandbox *s, const struct box_info *info, const char *otherwise)
{
	char reason[STORE_REASON_MAX + 1];
	if (info)
		describe_end(info, reason, sizeof reason);
	sandbox_move(s, SB_STOPPED, info ? reason : otherwise);
	sandbox_set_view(s, info ? VIEW_REMAINS : VIEW_CLEAR);
	sandbox_write_state(s);
}

static void on_died(void *arg, const struct box_info *info)
{
	struct sandbox *s = sandbox_find(arg, info->id);
	if (!s || s->op == OP_DESTROY || s->op == OP_REPLACE)
		return;
	if (s->op == OP_STOP) {
		sandbox_ref(s);
		sandbox_stop_died(s);
		return sandbox_unref(s);
	}
	char reason[STORE_REASON_MAX + 1];
	describe_end(info, reason, sizeof reason);
	sandbox_ref(s);
	if (s->state == SB_RUNNING || s->state == SB_ASLEEP) {
		s->daemon->metrics.deaths++;
		set_stopped(s, info, NULL);
		sandbox_advance(s);
	} else {
		sandbox_create_died(s, reason);
	}
	sandbox_unref(s);
}

/* The row of an adopted box is written, or not. */
static void on_adopted(void *arg, const struct err *e)
{
	struct sandbox *s = arg;
	if (e)
		log_limited(LOG_WARN, "state not written", "id=%s error=%s", LOG_Q(s->id), LOG_Q(e->msg));
	sandbox_unref(s);
}

/* Its policy was in the row. The daemon's default may allow more. */
static void forget_network(struct sandbox *s)
{
	free(s->spec.network);
	s->spec.network = xstrdup(NETWORK_UNKNOWN);
}

static void adopt_box(struct daemon *d, const struct box_info *info)
{
	struct err e;
	if (info->state == BOX_CREATING || box_id_check(str_of(info->id), NULL) < 0)
		return;
	enum sandbox_state state = info->state == BOX_DEAD     ? SB_STOPPED
				   : info->state == BOX_FROZEN ? SB_ASLEEP
							       : SB_RUNNING;
	struct sandbox *s = sandbox_add(d, info->id, state, &e);
	if (!s) {
		log_event(LOG_ERROR, "box not adopted", "id=%s error=%s", LOG_Q(info->id), LOG_Q(e.msg));
		return;
	}
	sandbox_take_info(s, info);
	s->created_ms = info->created_ms;
	if (box_image_name_ok(str_of(info->image)))
		memcpy(s->spec.image, info->image, sizeof s->spec.image);
	if (state == SB_STOPPED)
		describe_end(info, s->reason, sizeof s->reason);
	else
		forget_network(s);
	sandbox_set_view(s, state == SB_STOPPED ? VIEW_REMAINS : VIEW_CLEAR);
	log_event(LOG_INFO, "box adopted", "id=%s state=%s", LOG_Q(s->id), state_name(state));
	struct store_row row;
	sandbox_row(s, &row);
	sandbox_ref(s);
	store_put(d->store, &row, on_adopted, s);
	sandbox_advance(s);
}

/* The row's box lives: the warden decides between running and asleep. */
static void confirm_box(struct sandbox *s, const struct box_info *info)
{
	enum sandbox_state now = info->state == BOX_FROZEN ? SB_ASLEEP : SB_RUNNING;
	if (s->state == SB_STOPPED)
		sandbox_move(s, SB_CREATING, NULL);
	sandbox_take_info(s, info);
	if (s->state == now)
		return sandbox_set_idle(s);
	if (s->state == SB_CREATING && now == SB_ASLEEP)
		sandbox_move(s, SB_RUNNING, NULL);
	sandbox_move(s, now, NULL);
	sandbox_write_state(s);
}

static void on_files_sought(struct sandbox *s, const struct warden_answer *a, void *arg)
{
	(void)arg;
	INVARIANT(s->op == OP_CREATE && s->box == PART_ASKED);
	s->box = PART_NONE;
	sandbox_op_end(s);
	if (a->lost)
		return; /* still VIEW_UNSEEN: asked again with the warden's next list */
	sandbox_set_view(s, VIEW_CLEAR);
	if (a->err && a->err->code == ERRC_SANDBOX_NOT_FOUND)
		return sandbox_create_resume(s, NULL);
	s->has_files = true;
	set_stopped(s, NULL, "the box ended while nobody watched");
	sandbox_advance(s);
}

/* The row is of the daemon before, which may have told a client that the sandbox is there: its box can have ended, and
 * been swept, before the row said more than `creating`. Only files tell. */
static void seek_files(struct sandbox *s)
{
	sandbox_op_begin(s, OP_CREATE);
	s->box = PART_ASKED;
	sandbox_ask(s, &(struct warden_request){.op = WARDEN_DISK}, on_files_sought, NULL);
}

static void reconcile(struct sandbox *s, const struct box_info *info)
{
	bool alive = info && info->state != BOX_DEAD;
	bool of_daemon_before = s->view == VIEW_UNSEEN;
	if (s->state == SB_CREATING && !info && of_daemon_before && !s->filling)
		return seek_files(s);
	if (s->state == SB_FAILED) {
		sandbox_set_view(s, VIEW_CLEAR);
		if (info) /* the warden made it after all, when no request wanted it any more */
			sandbox_ask(s, &(struct warden_request){.op = WARDEN_DESTROY}, NULL, NULL);
		return sandbox_advance(s);
	}
	sandbox_set_view(s, info && !alive && s->state == SB_STOPPED ? VIEW_REMAINS : VIEW_CLEAR);
	/* The row says `running` only after the client was told. A dead box was made and may hold files: keep it. */
	if (s->state == SB_CREATING && info && !alive) {
		s->has_files = true;
		set_stopped(s, info, NULL);
		return sandbox_advance(s);
	}
	if (s->state == SB_CREATING) {
		/* A client may have been told that it is there: whatever fails from now on, its files and settings
		 * stay. */
		s->has_files |= alive && (of_daemon_before || list_empty(&s->waiters));
		return sandbox_create_resume(s, info);
	}
	if (alive && info->state != BOX_CREATING)
		confirm_box(s, info);
	else if (!alive && s->state != SB_STOPPED)
		set_stopped(s, info, "the box ended while nobody watched");
	sandbox_advance(s);
}

static void on_images(void *arg, const struct warden_answer *a)
{
	struct daemon *d = arg;
	if (a->err || a->fds_n != 1)
		return;
	fd_close(&d->images_meta);
	d->images_meta = take_fd(&a->fds[0]);
}

static void on_up(void *arg, const struct box_info *boxes, size_t n)
{
	struct daemon *d = arg;
	struct map listed = {0};
	size_t known;
	for (size_t i = 0; i < n; i++)
		map_put(&listed, str_of(boxes[i].id), (void *)&boxes[i]);
	struct sandbox **all = sandbox_sorted(d, &known);
	for (size_t i = 0; i < known; i++)
		sandbox_ref(all[i]);
	for (size_t i = 0; i < known; i++) {
		const struct box_info *info = map_del(&listed, str_of(all[i]->id));
		if (sandbox_exists(all[i]) && all[i]->op == OP_NONE)
			reconcile(all[i], info);
		sandbox_unref(all[i]);
	}
	free(all);
	size_t it = 0;
	struct str id;
	void *info;
	while (map_next(&listed, &it, &id, &info))
		adopt_box(d, info);
	map_free(&listed);
	tunnels_recover(d);
	snapshots_warden_up(d);
	d->recovered = true;
	gate_client_all(d->gate);
	warden_client_call(d->warden, &(struct warden_request){.op = WARDEN_IMAGES}, on_images, d);
	if (d->on_recovered)
		d->on_recovered(d);
	d->on_recovered = NULL;
}

static void on_down(void *arg)
{
	(void)arg;
}

const struct warden_ops recover_warden_ops = {.on_up = on_up, .on_down = on_down, .on_died = on_died};
