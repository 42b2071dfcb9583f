/* Destroy, sleep, wake and stop: the sandbox reaches that state. */
#include "daemon/op/op_impl.h"

static void on_reached(struct sandbox_waiter *w, struct sandbox *s, const struct err *e)
{
	struct operation *op = container_of(w, struct operation, waiter);
	if (e)
		return op_fail(op, e);
	if (w->goal != WAIT_GONE)
		op_use(op, s);
	op_succeed(op, false);
}

static struct operation *reach(const struct op_call *call, const struct op_kind *kind, enum wait_goal goal)
{
	struct err e;
	struct operation *op = xcalloc(1, sizeof *op);
	op_begin(op, call, kind);
	op->waiter = (struct sandbox_waiter){.goal = goal, .on_done = on_reached};
	struct sandbox *s = op_find(op->daemon, &op->caller, op->id, &e);
	if (s)
		op_wait(op, s);
	else
		op_fail(op, &e);
	return op_begun(op);
}

struct operation *op_destroy(const struct op_call *call)
{
	static const struct op_kind kind = {"DELETE", "/v1/sandboxes/{id}", 204, 204};
	return reach(call, &kind, WAIT_GONE);
}

struct operation *op_sleep(const struct op_call *call)
{
	static const struct op_kind kind = {"POST", "/v1/sandboxes/{id}/sleep", 200, 200};
	return reach(call, &kind, WAIT_ASLEEP);
}

struct operation *op_wake(const struct op_call *call)
{
	static const struct op_kind kind = {"POST", "/v1/sandboxes/{id}/wake", 200, 200};
	return reach(call, &kind, WAIT_RUNNING);
}

struct operation *op_stop(const struct op_call *call)
{
	static const struct op_kind kind = {"POST", "/v1/sandboxes/{id}/stop", 200, 200};
	return reach(call, &kind, WAIT_STOPPED);
}
