/* Tunnels: URLs of a port without a token in them. */
#include "daemon/op/op_impl.h"
#include "daemon/ports/tunnels.h"

struct tunnelling {
	struct operation op;
	struct tunnel_wish wish;
};

static void tunnelling_free(struct operation *op)
{
	free(container_of(op, struct tunnelling, op));
}

static void on_opened(void *arg, const struct tunnel *t, bool made, const struct err *e)
{
	struct tunnelling *k = arg;
	op_end(&k->op, &(struct op_result){.err = e, .made = made, .sandbox = k->op.sandbox, .tunnel = t});
}

static void on_there(struct sandbox_waiter *w, struct sandbox *s, const struct err *e)
{
	struct tunnelling *k = container_of(w, struct tunnelling, op.waiter);
	if (e)
		return op_fail(&k->op, e);
	op_use(&k->op, s);
	tunnel_open(s, &k->wish, on_opened, k);
}

struct operation *op_tunnel_open(const struct op_call *call, const struct tunnel_wish *wish)
{
	static const struct op_kind kind = {"POST", "/v1/sandboxes/{id}/tunnels", 200, 201};
	struct err e;
	struct tunnelling *k = xcalloc(1, sizeof *k);
	op_begin(&k->op, call, &kind);
	k->op.free = tunnelling_free;
	k->wish = *wish;
	k->op.waiter = (struct sandbox_waiter){.goal = WAIT_RUNNING, .on_done = on_there};
	if (op_may_make(k->op.daemon, &k->op.caller, k->op.id, &e) < 0)
		op_fail(&k->op, &e);
	else
		op_wait(&k->op, NULL);
	return op_begun(&k->op);
}

struct operation *op_tunnel_close(const struct op_call *call, uint16_t port)
{
	static const struct op_kind kind = {"DELETE", "/v1/sandboxes/{id}/tunnels/{port}", 204, 204};
	struct err e;
	struct operation *op = xcalloc(1, sizeof *op);
	op_begin(op, call, &kind);
	struct sandbox *s = op_find(op->daemon, &op->caller, op->id, &e);
	struct tunnel *t = s ? tunnel_find_port(s, port) : NULL;
	if (s && !t)
		err_set(&e, ERRC_TUNNEL_NOT_FOUND, "Port %u of sandbox '%s' has no tunnel.", (unsigned)port, s->id);
	if (t) {
		op_use(op, s);
		tunnel_close(t);
		op_succeed(op, false);
	} else {
		op_fail(op, &e);
	}
	return op_begun(op);
}
