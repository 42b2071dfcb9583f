#include "daemon/op/op_impl.h"

#include <stdio.h>
#include <string.h>

#include "daemon/op/audit.h"
#include "proto/id.h"

struct sandbox *op_find(struct daemon *d, const struct caller *c, const char *id, struct err *e)
{
	struct sandbox *s = sandbox_find(d, id);
	if (s && (!s->work || caller_is_own(c)))
		return s;
	err_set(e, ERRC_SANDBOX_NOT_FOUND, "there is no sandbox '%s'", id);
	return NULL;
}

/* Ids that a door gives to what its clients name otherwise. */
static bool gives_id(const struct caller *c, const char *id)
{
	return (c->door == DOOR_DOCKER && strncmp(id, "docker-", 7) == 0) ||
	       (c->door == DOOR_BRIDGE && strncmp(id, "bridge-", 7) == 0);
}

int op_may_make(struct daemon *d, const struct caller *c, const char *id, struct err *e)
{
	const struct sandbox *s = sandbox_find(d, id);
	if (caller_is_own(c) || (s && !s->work))
		return 0;
	if (box_id_is_given(str_of(id)) && !gives_id(c, id))
		return err_set(e, ERRC_RESERVED_SANDBOX_ID,
			"'%s' is an id of the kind that Atoll itself gives (image-, docker-, bridge-, backup-)", id);
	return s ? err_set(e, ERRC_SANDBOX_NOT_FOUND, "there is no sandbox '%s'", id) : 0;
}

void op_begin(struct operation *op, const struct op_call *call, const struct op_kind *kind)
{
	op->daemon = call->daemon;
	op->caller = *call->caller;
	op->kind = kind;
	op->on_done = call->on_done;
	op->arg = call->arg;
	snprintf(op->id, sizeof op->id, "%s", call->id);
}

void op_use(struct operation *op, struct sandbox *s)
{
	INVARIANT(!op->sandbox);
	sandbox_ref(s);
	op->sandbox = s;
}

static void op_free(struct operation *op)
{
	INVARIANT(!op->waiter.sandbox);
	if (op->sandbox)
		sandbox_unref(op->sandbox);
	if (op->free)
		op->free(op);
	else
		free(op);
}

static void record(const struct operation *op, int status)
{
	if (op->kind)
		audit_operation(op->daemon, &op->caller,
			&(struct audit_entry){op->kind->method, op->kind->route, op->id, status});
}

void op_end(struct operation *op, const struct op_result *result)
{
	if (result->err)
		record(op, errc_info((int)result->err->code)->status);
	else
		record(op, op->kind ? (result->made ? op->kind->made : op->kind->done) : 0);
	if (op->on_done)
		op->on_done(op->arg, result);
	op->on_done = NULL;
	op->ended = true;
	if (op->begun)
		op_free(op);
}

struct operation *op_begun(struct operation *op)
{
	op->begun = true;
	if (!op->ended)
		return op;
	op_free(op);
	return NULL;
}

void op_fail(struct operation *op, const struct err *e)
{
	struct err copy = *e;
	op_end(op, &(struct op_result){.err = &copy});
}

void op_succeed(struct operation *op, bool made)
{
	op_end(op, &(struct op_result){.sandbox = op->sandbox, .made = made});
}

void op_wait(struct operation *op, struct sandbox *s)
{
	struct err e;
	int r = s ? sandbox_wait(s, &op->waiter, &e) : sandbox_wait_id(op->daemon, op->id, &op->waiter, &e);
	if (r < 0)
		op_fail(op, &e);
}

int op_needs_warden(const struct operation *op, struct err *e)
{
	if (warden_client_is_up(op->daemon->warden))
		return 0;
	return err_set(e, ERRC_CONTAINER_UNAVAILABLE, "the warden is not running ('atoll up' starts it again)");
}

void op_forget(struct operation *op)
{
	if (!op)
		return;
	op->on_done = NULL;
	op->gone = true;
	if (op->waiter.sandbox) {
		sandbox_wait_cancel(&op->waiter);
		record(op, 0);
		op_free(op);
	} else if (op->on_forget) {
		op->on_forget(op);
	}
}
