/*
 * Exposed ports. Exposing changes the table at once and ends when the store has it; a change that could not be written
 * is taken back, unless a newer change has replaced it (port.serial). Unexposing writes to the store first, so that a
 * port that is gone for the client does not come back with a restart. The store writes in order, so the last of several
 * changes wins in both places.
 */
#include <string.h>

#include "daemon/op/op_impl.h"
#include "daemon/ports/ports.h"

struct exposing {
	struct operation op;
	struct op_port_wish wish;
	struct port *port; /* referenced while the store is asked */
	uint32_t serial;
	bool made;
	char token_before[PORT_TOKEN_MAX + 1], name_before[PORT_NAME_MAX + 1];
};

static void exposing_free(struct operation *op)
{
	struct exposing *c = container_of(op, struct exposing, op);
	if (c->port)
		port_unref(c->port);
	free(c);
}

static struct exposing *exposing_new(const struct op_call *call, const struct op_kind *kind)
{
	struct exposing *c = xcalloc(1, sizeof *c);
	op_begin(&c->op, call, kind);
	c->op.free = exposing_free;
	return c;
}

static void succeed(struct exposing *c, struct port *p)
{
	op_end(&c->op, &(struct op_result){.sandbox = c->op.sandbox, .made = c->made, .port = p});
}

/* From here to the store's answer a newer change of the port makes this one void. */
static void hold(struct exposing *c, struct port *p)
{
	c->port = p;
	c->serial = ++p->serial;
	port_ref(p);
}

/* ---- expose ---- */

static void take_back(struct exposing *c)
{
	struct port *p = c->port;
	if (p->gone || p->serial != c->serial)
		return;
	if (c->made)
		return port_remove(c->op.sandbox, p);
	memcpy(p->token, c->token_before, sizeof p->token);
	memcpy(p->name, c->name_before, sizeof p->name);
}

static void on_exposed(void *arg, const struct err *e)
{
	struct exposing *c = arg;
	struct err gone;
	if (e) {
		take_back(c);
		return op_fail(&c->op, e);
	}
	port_cut(c->port);
	if (!c->port->gone)
		return succeed(c, c->port);
	err_set(&gone, sandbox_exists(c->op.sandbox) ? ERRC_PORT_NOT_EXPOSED : ERRC_SANDBOX_NOT_FOUND,
		"sandbox '%s', or its port %u, went away meanwhile", c->op.id, (unsigned)c->wish.port);
	op_fail(&c->op, &gone);
}

static int choose_token(const struct exposing *c, const struct port *p, char *ret, struct err *e)
{
	if (*c->wish.token)
		memcpy(ret, c->wish.token, sizeof c->wish.token);
	else if (p)
		memcpy(ret, p->token, sizeof p->token);
	else
		return port_make_token(ret, e);
	struct port *other = port_find_token(c->op.sandbox, ret);
	if (other && other != p)
		return err_set(e, ERRC_PORT_ALREADY_EXPOSED,
			"This token is already in use by port %u. Please use a different token.",
			(unsigned)other->number);
	return 0;
}

static void write_port(struct exposing *c, struct port *p)
{
	const struct sandbox *s = c->op.sandbox;
	struct store_port row = {.port = p->number, .box_ms = s->created_ms, .created_ms = p->created_ms};
	memcpy(row.id, s->id, sizeof row.id);
	memcpy(row.token, p->token, sizeof row.token);
	memcpy(row.name, p->name, sizeof row.name);
	hold(c, p);
	store_port_put(c->op.daemon->store, &row, on_exposed, c);
}

static void expose(struct exposing *c)
{
	struct err e;
	char token[PORT_TOKEN_MAX + 1];
	struct sandbox *s = c->op.sandbox;
	struct port *p = port_find(s, c->wish.port);
	if (choose_token(c, p, token, &e) < 0)
		return op_fail(&c->op, &e);
	if (p && strcmp(p->token, token) == 0 && strcmp(p->name, c->wish.name) == 0)
		return succeed(c, p);
	c->made = !p;
	if (!p)
		p = port_add(s, c->wish.port, token, c->wish.name, &e);
	if (!p)
		return op_fail(&c->op, &e);
	memcpy(c->token_before, p->token, sizeof c->token_before);
	memcpy(c->name_before, p->name, sizeof c->name_before);
	memcpy(p->token, token, sizeof p->token);
	memcpy(p->name, c->wish.name, sizeof p->name);
	write_port(c, p);
}

static void on_there(struct sandbox_waiter *w, struct sandbox *s, const struct err *e)
{
	struct exposing *c = container_of(w, struct exposing, op.waiter);
	if (e)
		return op_fail(&c->op, e);
	op_use(&c->op, s);
	expose(c);
}

static int check(const struct exposing *c, struct err *e)
{
	size_t token_n = *c->wish.token ? strlen(c->wish.token) : PORT_TOKEN_MAX;
	if (port_check_number(c->wish.port, e) < 0 || port_check_id(c->op.id, c->wish.port, token_n, e) < 0)
		return -1;
	return op_may_make(c->op.daemon, &c->op.caller, c->op.id, e);
}

struct operation *op_expose(const struct op_call *call, const struct op_port_wish *wish)
{
	static const struct op_kind kind = {"POST", "/v1/sandboxes/{id}/ports/{port}", 200, 201};
	struct err e;
	struct exposing *c = exposing_new(call, &kind);
	c->wish = *wish;
	c->op.waiter = (struct sandbox_waiter){.goal = WAIT_RUNNING, .on_done = on_there};
	if (check(c, &e) < 0)
		op_fail(&c->op, &e);
	else
		op_wait(&c->op, NULL);
	return op_begun(&c->op);
}

/* ---- unexpose ---- */

static void on_unexposed(void *arg, const struct err *e)
{
	struct exposing *c = arg;
	if (e)
		return op_fail(&c->op, e);
	if (!c->port->gone && c->port->serial == c->serial) {
		port_remove(c->op.sandbox, c->port);
		port_cut(c->port);
	}
	succeed(c, NULL);
}

struct operation *op_unexpose(const struct op_call *call, uint16_t port)
{
	static const struct op_kind kind = {"DELETE", "/v1/sandboxes/{id}/ports/{port}", 204, 204};
	struct err e;
	struct exposing *c = exposing_new(call, &kind);
	struct sandbox *s = port_check_number(port, &e) < 0 ? NULL : op_find(c->op.daemon, &c->op.caller, c->op.id, &e);
	struct port *p = s ? port_find(s, port) : NULL;
	if (s && !p)
		err_set(&e, ERRC_PORT_NOT_EXPOSED, "Port %u of sandbox '%s' is not exposed.", (unsigned)port, s->id);
	if (p) {
		op_use(&c->op, s);
		hold(c, p);
		store_port_delete(c->op.daemon->store, s->id, p->number, on_unexposed, c);
	} else {
		op_fail(&c->op, &e);
	}
	return op_begun(&c->op);
}
