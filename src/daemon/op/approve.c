/*
 * The answer to a question of the gate. It is kept first (a rule of the sandbox, or of all), then sent to the gate; the
 * client is told when the gate has acted on it.
 */
#include <stdio.h>

#include "daemon/network/approvals.h"
#include "daemon/network/gate_client.h"
#include "daemon/network/network.h"
#include "daemon/op/change.h"

enum { BUSY_RETRY = 5, BUSY_MAX = 1000 };

struct approving {
	struct operation op;
	struct approval_answer answer, *ret;
	struct gate_ack ack;
	struct loop_timer timer;
	unsigned tries;
};

static void approving_free(struct operation *op)
{
	free(container_of(op, struct approving, op));
}

static void on_told(struct gate_ack *ack)
{
	struct approving *a = container_of(ack, struct approving, ack);
	if (!a->op.gone)
		*a->ret = a->answer;
	op_succeed(&a->op, false);
}

static void tell_gate(struct approving *a)
{
	approvals_done(a->op.daemon, &a->answer);
	a->ack.on_done = on_told;
	gate_client_answer(a->op.daemon->gate, a->answer.id, a->answer.allow, &a->ack);
}

/* The question is shown again. */
static void fail(struct approving *a, const struct err *e)
{
	approvals_put_back(a->op.daemon, a->answer.id);
	op_fail(&a->op, e);
}

/* ---- a rule of the sandbox ---- */

static void on_changed(void *arg, const struct op_result *result)
{
	if (result->err)
		fail(arg, result->err);
	else
		tell_gate(arg);
}

static void keep_for_sandbox(struct approving *a);

static void on_retry(struct loop_timer *t)
{
	keep_for_sandbox(container_of(t, struct approving, timer));
}

static void keep_for_sandbox(struct approving *a)
{
	struct err e;
	struct api_change change = {0};
	struct sandbox *s = op_find(a->op.daemon, &a->op.caller, a->answer.sandbox, &e);
	/* The client went while it waited for another answer. */
	if (a->op.gone)
		err_set(&e, ERRC_INVALID_STATE, "the client left before the answer was kept");
	if (!s || a->op.gone)
		return fail(a, &e);
	/* Another answer for this sandbox is being kept. */
	if (s->changing && a->tries++ < BUSY_MAX)
		return loop_timer_set(a->op.daemon->loop, &a->timer, BUSY_RETRY, on_retry);
	if (network_add_rule(
		    s->spec.network, a->answer.allow ? "allow" : "deny", a->answer.rule, &change.spec.network, &e) < 0)
		return fail(a, &e);
	const struct op_call call = {a->op.daemon, &a->op.caller, s->id, on_changed, a};
	change_begin(&call, NULL, &change);
}

/* ---- a rule for all sandboxes ---- */

static void on_kept(void *arg, const struct err *e)
{
	if (e)
		fail(arg, e);
	else
		tell_gate(arg);
}

static void keep_for_all(struct approving *a)
{
	struct err e;
	if (approvals_keep(a->op.daemon, &a->answer, on_kept, a, &e) < 0)
		fail(a, &e);
}

struct operation *op_approve(
	const struct op_call *call, const char *id, const struct approval_answer *answer, struct approval_answer *ret)
{
	static const struct op_kind kind = {"POST", "/v1/approvals/{id}", 200, 200};
	struct err e;
	struct approving *a = xcalloc(1, sizeof *a);
	op_begin(&a->op, call, &kind);
	a->op.free = approving_free;
	a->answer = *answer;
	a->ret = ret;
	bool taken = approvals_take(a->op.daemon, id, caller_is_own(&a->op.caller), &a->answer, &e) == 0;
	snprintf(a->op.id, sizeof a->op.id, "%s", taken ? a->answer.sandbox : "");
	if (!taken)
		op_fail(&a->op, &e);
	else if (answer->remember == REMEMBER_SANDBOX)
		keep_for_sandbox(a);
	else if (answer->remember == REMEMBER_ALWAYS)
		keep_for_all(a);
	else
		tell_gate(a);
	return op_begun(&a->op);
}
