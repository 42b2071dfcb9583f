/* Snapshots of a sandbox: taken, and deleted. */
#include <stdio.h>
#include <string.h>

#include "daemon/op/op_impl.h"
#include "daemon/storage/snapshots.h"

static void on_taken(void *arg, struct snapshot *s, const struct err *e)
{
	struct operation *op = arg;
	op_end(op, &(struct op_result){.err = e, .made = true, .sandbox = op->sandbox, .snapshot = s});
}

static int may_take(const struct operation *op, struct err *e)
{
	size_t n;
	if (op_needs_warden(op, e) < 0)
		return -1;
	free(snapshots_of(op->daemon, op->id, &n));
	if (n < SNAPSHOTS_MAX)
		return 0;
	return err_set(e, ERRC_LIMIT_REACHED, "sandbox '%s' has %d snapshots, more are not kept; delete some", op->id,
		SNAPSHOTS_MAX);
}

struct operation *op_snapshot(const struct op_call *call, const char *name)
{
	static const struct op_kind kind = {"POST", "/v1/sandboxes/{id}/snapshots", 201, 201};
	struct err e;
	struct operation *op = xcalloc(1, sizeof *op);
	op_begin(op, call, &kind);
	struct sandbox *s = op_find(op->daemon, &op->caller, op->id, &e);
	if (s && may_take(op, &e) == 0) {
		op_use(op, s);
		snapshot_take(s, name, on_taken, op);
	} else {
		op_fail(op, &e);
	}
	return op_begun(op);
}

static void on_dropped(void *arg, struct snapshot *s, const struct err *e)
{
	struct operation *op = arg;
	(void)s;
	op_end(op, &(struct op_result){.err = e});
}

struct operation *op_snapshot_drop(const struct op_call *call, struct str id)
{
	static const struct op_kind kind = {"DELETE", "/v1/sandboxes/{id}/snapshots/{snapshot}", 204, 204};
	struct err e;
	struct operation *op = xcalloc(1, sizeof *op);
	op_begin(op, call, &kind);
	struct snapshot *s =
		op_find(op->daemon, &op->caller, op->id, &e) ? snapshot_find(op->daemon, op->id, id) : NULL;
	if (s && op_needs_warden(op, &e) == 0) {
		snapshot_drop(s, on_dropped, op);
		return op_begun(op);
	}
	if (!s && sandbox_find(op->daemon, op->id))
		err_set(&e, ERRC_SNAPSHOT_NOT_FOUND, "sandbox '%s' has no snapshot '%.*s'", op->id,
			(int)(id.n < 80 ? id.n : 80), id.p);
	op_fail(op, &e);
	return op_begun(op);
}
