#include "warden/storage/snapshot.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "proto/id.h"
#include "warden/closing.h"
#include "warden/limits.h"
#include "warden/storage/storage.h"
#include "warden/warden.h"

enum { FREEZE_POLL = 1 };

/* One request under way, or behind another one of the same sandbox. */
struct op {
	struct warden *w;
	struct warden_request rq;
	struct warden_asker who;
	void (*run)(struct op *o);
	bool started, cancelled;
	bool froze; /* the box in `slot` */
	uint32_t slot;
	uint64_t freeze_until;
	unsigned freezes; /* that were tried */
	struct loop_timer timer;
	struct loop_task free_task;
	struct list node; /* of warden.storage_ops */
};

static void op_free(struct loop_task *t)
{
	free(container_of(t, struct op, free_task));
}

static struct op *op_of(const struct warden *w, const char *id)
{
	list_each(it, (struct list *)&w->storage_ops)
	{
		struct op *o = list_entry(it, struct op, node);
		if (strcmp(o->rq.id, id) == 0)
			return o;
	}
	return NULL;
}

bool snapshot_busy(const struct warden *w, const char *id)
{
	const struct op *o = op_of(w, id);
	return o && (o->rq.op == WARDEN_CLONE || o->rq.op == WARDEN_REPLACE);
}

bool snapshot_cancel(struct warden *w, const char *id)
{
	bool found = false;
	list_each(it, &w->storage_ops)
	{
		struct op *o = list_entry(it, struct op, node);
		if (o->rq.op == WARDEN_CLONE && strcmp(o->rq.id, id) == 0)
			o->cancelled = found = true;
	}
	return found;
}

static void op_begin(struct op *o)
{
	o->started = true;
	o->run(o);
}

static bool uses(const struct op *o, const char *snapshot)
{
	return *snapshot && (strcmp(o->rq.snapshot, snapshot) == 0 || strcmp(o->rq.parent, snapshot) == 0);
}

/* Many may read a snapshot at once; making and deleting it stand alone. */
static bool excludes(const struct op *a, const struct op *b)
{
	bool alone = a->rq.op == WARDEN_SNAPSHOT_DROP || a->rq.op == WARDEN_RECEIVE ||
		     b->rq.op == WARDEN_SNAPSHOT_DROP || b->rq.op == WARDEN_RECEIVE;
	if (*a->rq.id && strcmp(a->rq.id, b->rq.id) == 0)
		return true;
	return alone && (uses(a, b->rq.snapshot) || uses(a, b->rq.parent));
}

/* Whether an earlier one has to end first. */
static bool must_wait(const struct op *o)
{
	list_each(it, (struct list *)&o->w->storage_ops)
	{
		const struct op *other = list_entry(it, struct op, node);
		if (other == o)
			return false;
		if (excludes(other, o))
			return true;
	}
	return false;
}

/* Beginning one may end it at once, and change the list. */
static void begin_next(struct warden *w)
{
	list_each(it, &w->storage_ops)
	{
		struct op *o = list_entry(it, struct op, node);
		if (o->started || must_wait(o))
			continue;
		op_begin(o);
		return begin_next(w);
	}
}

static void op_end(struct op *o, const struct err *e)
{
	struct warden *w = o->w;
	struct box shown = {.w = w};
	memcpy(shown.info.id, o->rq.id, sizeof shown.info.id);
	if (!e && *o->rq.id)
		storage_usage(w, o->rq.id, &shown.info);
	server_reply(w, &o->who, e, e ? NULL : &shown);
	loop_timer_stop(&o->timer);
	list_del(&o->node);
	loop_defer(w->loop, &o->free_task, op_free);
	begin_next(w);
}

static void op_fail(struct op *o, enum errc code, int os, const char *what)
{
	struct err e;
	err_os(&e, os == ENOSPC || os == EDQUOT ? ERRC_NO_SPACE : code, os, "%s", what);
	op_end(o, &e);
}

static void op_new(
	struct warden *w, const struct warden_request *rq, struct warden_asker who, void (*run)(struct op *o))
{
	struct err e;
	if (w->pool.kind == POOL_PLAIN) {
		err_set(&e, ERRC_HOST_UNSUPPORTED, "this host has no snapshots: %.150s", w->pool.why);
		return server_reply(w, &who, &e, NULL);
	}
	if (!snapshot_name_ok(str_of(rq->snapshot)) || (*rq->parent && !snapshot_name_ok(str_of(rq->parent)))) {
		err_set(&e, ERRC_INVALID_REQUEST, "'%s' is not the name of a snapshot", rq->snapshot);
		return server_reply(w, &who, &e, NULL);
	}
	struct op *o = xcalloc(1, sizeof *o);
	*o = (struct op){.w = w, .rq = *rq, .who = who, .run = run};
	list_push(&w->storage_ops, &o->node);
	if (!must_wait(o))
		op_begin(o);
}

static struct storer_job job_of(const struct op *o, enum storer_kind kind)
{
	struct storer_job j = {.kind = kind, .limit = o->rq.limits.disk_bytes};
	box_id_filename(str_of(o->rq.id), j.layer);
	memcpy(j.snapshot, o->rq.snapshot, sizeof j.snapshot);
	memcpy(j.parent, o->rq.parent, sizeof j.parent);
	memcpy(j.image, o->rq.image, sizeof j.image);
	return j;
}

static void ask(struct op *o, enum storer_kind kind, storer_on_done on_done)
{
	struct storer_job j = job_of(o, kind);
	storer_ask(o->w, &j, -1, on_done, o);
}

/* Whether the sandbox has a layer in the pool; if not, the request has been answered. */
static bool has_layer(struct op *o)
{
	char name[BOX_FILENAME_MAX];
	struct err e;
	box_id_filename(str_of(o->rq.id), name);
	int dir = storage_find(o->w, name);
	if (dir >= 0 && !storage_is_plain(o->w, dir))
		return true;
	if (dir < 0)
		err_set(&e, ERRC_SANDBOX_NOT_FOUND, "sandbox '%s' has no files", o->rq.id);
	else
		err_set(&e, ERRC_INVALID_STATE,
			"the files of sandbox '%s' are not in the pool yet; stop it, and they move there", o->rq.id);
	op_end(o, &e);
	return false;
}

/* ---- make ---- */

/* The box that was frozen, if it still lives. */
static struct box *frozen_box(struct op *o)
{
	struct box *b = o->froze ? box_find(o->w, o->rq.id) : NULL;
	return b && b->held && b->info.slot == o->slot ? b : NULL;
}

static void let_go(struct op *o)
{
	struct box *b = frozen_box(o);
	o->froze = false;
	if (!b)
		return;
	b->held = false;
	if (b->stage == STAGE_RUNNING)
		cgroup_freeze(&o->w->cgroups, b->info.slot, false, NULL);
	if (b->stage == STAGE_RUNNING || b->stage == STAGE_FROZEN || b->stage == STAGE_FREEZING)
		box_write_record(b, RECORD_RUNNING);
}

static void on_copied(void *arg, int os)
{
	struct op *o = arg;
	let_go(o);
	if (os == EEXIST)
		return op_fail(o, ERRC_INVALID_STATE, os, "make the snapshot");
	if (os == EDQUOT && o->w->pool.quota == BTRFS_QUOTA_FULL) {
		struct err e;
		err_set(&e, ERRC_NO_SPACE,
			"the disk limit of sandbox '%s' has no room for a snapshot: on this kernel (before Linux 6.7) "
			"each one counts as much as the sandbox's files; delete files or snapshots, or raise the limit",
			o->rq.id);
		return op_end(o, &e);
	}
	if (os)
		return op_fail(o, ERRC_INTERNAL_ERROR, os, "make the snapshot");
	op_end(o, NULL);
}

static void freeze(struct loop_timer *t);

static void poll_frozen(struct loop_timer *t)
{
	struct op *o = container_of(t, struct op, timer);
	struct box *b = frozen_box(o);
	if (!b || cgroup_is_frozen(&o->w->cgroups, o->slot)) {
		ask(o, STORER_SNAPSHOT, on_copied);
	} else if (clock_ms() < o->freeze_until) {
		loop_timer_set(o->w->loop, t, FREEZE_POLL, poll_frozen);
	} else {
		let_go(o);
		if (++o->freezes < SNAPSHOT_FREEZES)
			loop_timer_set(o->w->loop, t, SNAPSHOT_FREEZE_PAUSE, freeze);
		else
			op_fail(o, ERRC_INVALID_STATE, ETIMEDOUT, "freeze the sandbox for a snapshot");
	}
}

/* A freeze that lasts too long is undone: the rest of the box waits in it. The machine may only be busy, so it is tried
 * again. */
static void freeze(struct loop_timer *t)
{
	struct op *o = container_of(t, struct op, timer);
	struct box *b = box_find(o->w, o->rq.id);
	struct err e;
	if (!b || b->stage != STAGE_RUNNING)
		return ask(o, STORER_SNAPSHOT, on_copied);
	o->froze = b->held = true;
	o->slot = b->info.slot;
	int n = box_write_record(b, RECORD_RUNNING);
	if (n < 0 || cgroup_freeze(&o->w->cgroups, o->slot, true, &e) < 0) {
		let_go(o);
		return op_fail(o, ERRC_INTERNAL_ERROR, n < 0 ? -n : e.os, "freeze the sandbox for a snapshot");
	}
	o->freeze_until = clock_ms() + WARDEN_FREEZE_MAX;
	poll_frozen(&o->timer);
}

static void on_flushed(void *arg, int os)
{
	struct op *o = arg;
	if (os)
		return op_fail(o, ERRC_INTERNAL_ERROR, os, "write the sandbox's files to the disk");
	freeze(&o->timer);
}

/* Whether there is so much to write that the box should not stand still for it. */
static bool must_flush(const struct op *o)
{
	const struct box *b = box_find(o->w, o->rq.id);
	return b && b->stage == STAGE_RUNNING && cgroup_dirty(&o->w->cgroups, b->info.slot) > SNAPSHOT_DIRTY_MAX;
}

static void run_make(struct op *o)
{
	if (!has_layer(o))
		return;
	if (must_flush(o))
		ask(o, STORER_FLUSH, on_flushed);
	else
		freeze(&o->timer);
}

void snapshot_make(struct warden *w, const struct warden_request *rq, struct warden_asker who)
{
	op_new(w, rq, who, run_make);
}

/* ---- drop ---- */

static void on_dropped(void *arg, int os)
{
	struct op *o = arg;
	if (os)
		op_fail(o, ERRC_INTERNAL_ERROR, os, "delete the snapshot");
	else
		op_end(o, NULL);
}

static void run_drop(struct op *o)
{
	ask(o, STORER_DROP, on_dropped);
}

void snapshot_drop(struct warden *w, const struct warden_request *rq, struct warden_asker who)
{
	op_new(w, rq, who, run_drop);
}

/* ---- layers from snapshots ---- */

void snapshot_recount(struct warden *w, const char *id)
{
	struct storer_job j = {.kind = STORER_RECOUNT};
	box_id_filename(str_of(id), j.layer);
	if (w->pool.kind != POOL_PLAIN)
		storer_ask(w, &j, -1, NULL, NULL);
}

static void on_layer_made(void *arg, int os)
{
	struct op *o = arg;
	struct err e;
	if (os == ENOENT)
		err_set(&e, ERRC_SNAPSHOT_NOT_FOUND, "there is no snapshot '%s'", o->rq.snapshot);
	else if (os == EEXIST)
		err_set(&e, ERRC_INVALID_STATE, "sandbox '%s' has files already", o->rq.id);
	else if (os)
		return op_fail(o, ERRC_BOX_CREATE_FAILED, os, "make files from the snapshot");
	reaper_wake(o->w);
	if (!os && o->cancelled) {
		box_drop_layer(o->w, o->rq.id);
		os = ECANCELED;
		err_set(&e, ERRC_INVALID_STATE, "sandbox '%s' was destroyed meanwhile", o->rq.id);
	}
	if (!os) {
		if (o->rq.op == WARDEN_REPLACE)
			closing_forget(o->w, o->rq.id); /* the layer that is still mounted is in the trash */
		snapshot_recount(o->w, o->rq.id);
	}
	op_end(o, os ? &e : NULL);
}

/* A box that lives, or a disk limit that cannot be; the request has been answered then. */
static bool refused(struct op *o)
{
	struct err e;
	struct box *b = box_find(o->w, o->rq.id);
	if (b && b->stage != STAGE_DEAD)
		err_set(&e, ERRC_INVALID_STATE, "sandbox '%s' runs", o->rq.id);
	else if (o->rq.limits.disk_bytes < BOX_DISK_MIN || o->rq.limits.disk_bytes > BOX_DISK_MAX)
		err_set(&e, ERRC_INVALID_LIMITS, "disk must be %llu to %llu bytes", (unsigned long long)BOX_DISK_MIN,
			(unsigned long long)BOX_DISK_MAX);
	else
		return false;
	op_end(o, &e);
	return true;
}

static void run_clone(struct op *o)
{
	char name[BOX_FILENAME_MAX];
	struct err e;
	box_id_filename(str_of(o->rq.id), name);
	if (refused(o))
		return;
	if (storage_has(o->w, name))
		return on_layer_made(o, EEXIST);
	if (storage_check_room(o->w, &e) < 0)
		return op_end(o, &e);
	ask(o, STORER_CLONE, on_layer_made);
}

static void run_replace(struct op *o)
{
	char name[BOX_FILENAME_MAX];
	struct err e;
	box_id_filename(str_of(o->rq.id), name);
	if (refused(o))
		return;
	if (!storage_has(o->w, name)) {
		err_set(&e, ERRC_SANDBOX_NOT_FOUND, "sandbox '%s' has no files", o->rq.id);
		return op_end(o, &e);
	}
	ask(o, STORER_REPLACE, on_layer_made);
}

void snapshot_clone(struct warden *w, const struct warden_request *rq, struct warden_asker who)
{
	op_new(w, rq, who, run_clone);
}

void snapshot_replace(struct warden *w, const struct warden_request *rq, struct warden_asker who)
{
	op_new(w, rq, who, run_replace);
}

/* ---- compare ---- */

/* The list goes through a pipe of its own. An error of the job shows as a list without its end. */
static void run_diff(struct op *o)
{
	struct warden *w = o->w;
	struct image image;
	struct err e;
	int ends[2];
	if (!has_layer(o))
		return;
	if (image_find(w->host.images, o->rq.image, &image, &e) < 0)
		return op_end(o, &e);
	if (pipe2(ends, O_CLOEXEC) < 0)
		return op_fail(o, ERRC_INTERNAL_ERROR, errno, "make a pipe");
	auto_fd int ours = ends[0];
	auto_fd int its = ends[1];
	struct box shown = {.w = w};
	struct storer_job j = job_of(o, STORER_DIFF);
	memcpy(shown.info.id, o->rq.id, sizeof shown.info.id);
	memcpy(j.image, image.key, sizeof j.image);
	storer_ask(w, &j, its, NULL, NULL);
	if (server_reply_fds(w, &o->who, &shown, &ours, 1) == -EAGAIN) {
		err_set(&e, ERRC_RESOURCE_BUSY, "the warden's replies wait to be read");
		return op_end(o, &e);
	}
	o->who = (struct warden_asker){0};
	op_end(o, NULL);
}

void snapshot_diff(struct warden *w, const struct warden_request *rq, struct warden_asker who)
{
	op_new(w, rq, who, run_diff);
}

/* ---- backups ---- */

static void on_moved(void *arg, int os)
{
	struct op *o = arg;
	if (os)
		log_event(LOG_WARN, o->rq.op == WARDEN_SEND ? "backup not sent" : "backup not received",
			"snapshot=%s error=%s", o->rq.snapshot, LOG_Q(strerror(os)));
	op_end(o, NULL);
}

/* `ours` goes to the daemon, `its` to the job. Both are closed. */
static void hand_over(struct op *o, enum storer_kind kind, int ours, int its)
{
	struct warden *w = o->w;
	auto_fd int theirs = ours;
	auto_fd int job_end = its;
	struct box shown = {.w = w};
	struct storer_job j = job_of(o, kind);
	struct err e;
	if (server_reply_fds(w, &o->who, &shown, &theirs, 1) == -EAGAIN) {
		err_set(&e, ERRC_RESOURCE_BUSY, "the warden's replies wait to be read");
		return op_end(o, &e);
	}
	o->who = (struct warden_asker){0};
	storer_ask(w, &j, job_end, on_moved, o);
}

static void run_send(struct op *o)
{
	int ends[2];
	if (pipe2(ends, O_CLOEXEC) < 0)
		return op_fail(o, ERRC_INTERNAL_ERROR, errno, "make a pipe");
	hand_over(o, STORER_SEND, ends[0], ends[1]);
}

static void run_receive(struct op *o)
{
	int ends[2];
	struct err e;
	if (o->rq.limits.disk_bytes < BOX_DISK_MIN || o->rq.limits.disk_bytes > BOX_DISK_MAX) {
		err_set(&e, ERRC_INVALID_LIMITS, "disk must be %llu to %llu bytes", (unsigned long long)BOX_DISK_MIN,
			(unsigned long long)BOX_DISK_MAX);
		return op_end(o, &e);
	}
	struct image image;
	images_use(o->w, o->rq.image);
	if (image_find(o->w->host.images, o->rq.image, &image, &e) < 0)
		return op_end(o, &e);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		return op_fail(o, ERRC_INTERNAL_ERROR, errno, "make a socket");
	hand_over(o, STORER_RECEIVE, ends[0], ends[1]);
}

void snapshot_send(struct warden *w, const struct warden_request *rq, struct warden_asker who)
{
	op_new(w, rq, who, run_send);
}

void snapshot_receive(struct warden *w, const struct warden_request *rq, struct warden_asker who)
{
	op_new(w, rq, who, run_receive);
}
