#include <stdlib.h>

#include "agent/agent.h"
#include "agent/rpc/control.h"

/*
 * extensions.*: packages with a program of their own that the client brings along. The interpreter is one: its package
 * would be unpacked in the box and run by Bun. The agent has an interpreter, so it knows that package by its hash and
 * answers with an object of its own that has the same methods. Other packages are refused.
 */

/* SHA-256 of the package in dist/interpreter of CONTROL_VERSION. */
#define INTERPRETER_HASH "8f88475725e425f72f73a98698b92da764c8d63ec3a535ae2e0cff2ac86263c0"

struct interpreter {
	struct rpc_object object;
	struct rpc *rpc;
};

/* The run ends as it does when its client goes away. */
static void interrupt(const struct rpc *r, struct capnweb_call *call)
{
	const struct json *id = capnweb_call_arg(call, 0);
	list_each(it, &r->calls)
	{
		const struct rpc_call *c = list_entry(it, struct rpc_call, node);
		bool same = c->code && c->http && c->path && id && str_eq_c(id->text, c->path);
		if (same)
			http_call_cancel(c->http);
	}
	capnweb_resolve(call, CAPNWEB_UNDEFINED);
}

static void on_call(struct rpc_object *o, struct capnweb_call *call, const char *method)
{
	struct interpreter *i = container_of(o, struct interpreter, object);
	auto_free char *name = xasprintf("interpreter.%s", method);
	if (strcmp(method, "__ping__") == 0)
		capnweb_resolve(call, STR("\"pong\""));
	else if (strcmp(method, "interruptContext") == 0)
		interrupt(i->rpc, call);
	else
		rpc_start(i->rpc, call, name);
}

static void on_drop(struct rpc_object *o)
{
	free(container_of(o, struct interpreter, object));
}

static bool is_interpreter(const struct json *hash)
{
	return hash && hash->type == JSON_T_STRING && str_eq_c(hash->text, INTERPRETER_HASH);
}

static void refuse(struct capnweb_call *call)
{
	control_reject(call, "COMMAND_NOT_FOUND",
		"packages with a program of their own are not run here, but for the interpreter of " CONTROL_VERSION,
		NULL);
}

void control_extension_connect(struct rpc *r, struct capnweb_call *call)
{
	struct capnweb_answer a = {0};
	if (!is_interpreter(control_option(capnweb_call_arg(call, 0), "packageHash")))
		return refuse(call);
	struct interpreter *i = xcalloc(1, sizeof *i);
	*i = (struct interpreter){.object = {.on_call = on_call, .on_drop = on_drop}, .rpc = r};
	capnweb_answer_object(&a, r->session, &i->object);
	capnweb_resolve_answer(call, &a);
}

void control_extension_health(struct rpc *r, struct capnweb_call *call)
{
	(void)r;
	if (!is_interpreter(capnweb_call_arg(call, 0)))
		return refuse(call);
	capnweb_resolve(
		call, STR("{\"packageHash\":\"" INTERPRETER_HASH "\",\"id\":\"cloudflare-sandbox-interpreter-sidecar\","
			  "\"version\":\"" CONTROL_VERSION
			  "\",\"provisioned\":true,\"running\":true,\"pid\":null,\"responsive\":true}"));
}

/* The interpreter is a part of the agent. */
void control_extension_stop(struct rpc *r, struct capnweb_call *call)
{
	(void)r;
	capnweb_resolve(call, CAPNWEB_UNDEFINED);
}
