/*
 * Buckets of a sandbox. A mount is first written to the settings, as any change is (the secret may be new to the
 * sandbox: its box then trusts the gate's authority and the gate knows the key), then made in the box. If s3fs refuses,
 * the note goes again.
 */
#include <stdio.h>

#include "daemon/core/settings.h"
#include "daemon/op/change.h"
#include "daemon/storage/buckets.h"

struct mounting {
	struct operation op;
	struct bucket_mount mount;
};

static void mounting_free(struct operation *op)
{
	free(container_of(op, struct mounting, op));
}

static struct mounting *mounting_new(const struct op_call *call, const struct op_kind *kind)
{
	struct mounting *m = xcalloc(1, sizeof *m);
	op_begin(&m->op, call, kind);
	m->op.free = mounting_free;
	return m;
}

static void drop_note(struct sandbox *s, const char *path)
{
	struct err e;
	auto_free char *changes = sandbox_exists(s) ? buckets_remove(s->spec.settings, path, &e) : NULL;
	if (!changes)
		return;
	char *merged = settings_merge(s->spec.settings, changes);
	free(s->spec.settings);
	s->spec.settings = merged;
	sandbox_write_state(s);
}

/* ---- mount ---- */

static void on_mounted(void *arg, const struct err *e)
{
	struct mounting *m = arg;
	if (e) {
		drop_note(m->op.sandbox, m->mount.path);
		op_fail(&m->op, e);
	} else {
		op_succeed(&m->op, true);
	}
}

static void on_noted(void *arg, const struct op_result *result)
{
	struct mounting *m = arg;
	if (result->err)
		op_fail(&m->op, result->err);
	else
		bucket_mount(m->op.sandbox, &m->mount, on_mounted, m);
}

static void on_running(struct sandbox_waiter *w, struct sandbox *s, const struct err *e)
{
	struct mounting *m = container_of(w, struct mounting, op.waiter);
	struct api_change change = {0};
	struct err why;
	if (e)
		return op_fail(&m->op, e);
	op_use(&m->op, s);
	change.settings_changes = buckets_add(s, &m->mount, &why);
	if (!change.settings_changes)
		return op_fail(&m->op, &why);
	const struct op_call call = {m->op.daemon, &m->op.caller, m->op.id, on_noted, m};
	change_begin(&call, NULL, &change);
}

struct operation *op_mount(const struct op_call *call, const struct bucket_mount *mount)
{
	static const struct op_kind kind = {"POST", "/v1/sandboxes/{id}/mounts", 200, 201};
	struct err e;
	struct mounting *m = mounting_new(call, &kind);
	m->mount = *mount;
	m->op.waiter = (struct sandbox_waiter){.goal = WAIT_RUNNING, .on_done = on_running};
	if (op_may_make(m->op.daemon, &m->op.caller, m->op.id, &e) < 0)
		op_fail(&m->op, &e);
	else
		op_wait(&m->op, NULL);
	return op_begun(&m->op);
}

/* ---- unmount ---- */

static void on_unmounted(void *arg, const struct err *e)
{
	struct mounting *m = arg;
	if (e)
		return op_fail(&m->op, e);
	drop_note(m->op.sandbox, m->mount.path);
	op_succeed(&m->op, false);
}

static void on_awake(struct sandbox_waiter *w, struct sandbox *s, const struct err *e)
{
	struct mounting *m = container_of(w, struct mounting, op.waiter);
	if (e)
		op_fail(&m->op, e);
	else
		bucket_unmount(s, m->mount.path, on_unmounted, m);
}

static void begin_unmount(struct mounting *m)
{
	struct err e;
	struct sandbox *s = op_find(m->op.daemon, &m->op.caller, m->op.id, &e);
	auto_free char *changes = s ? buckets_remove(s->spec.settings, m->mount.path, &e) : NULL;
	if (!changes)
		return op_fail(&m->op, &e);
	op_use(&m->op, s);
	if (s->state == SB_STOPPED || s->state == SB_FAILED)
		return on_unmounted(m, NULL);
	m->op.waiter = (struct sandbox_waiter){.goal = WAIT_RUNNING, .wake_only = true, .on_done = on_awake};
	op_wait(&m->op, s);
}

struct operation *op_unmount(const struct op_call *call, const char *path)
{
	static const struct op_kind kind = {"DELETE", "/v1/sandboxes/{id}/mounts", 200, 200};
	struct mounting *m = mounting_new(call, &kind);
	snprintf(m->mount.path, sizeof m->mount.path, "%s", path);
	begin_unmount(m);
	return op_begun(&m->op);
}
