#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "capnweb/impl.h"

/*
 * Expressions of the peer. What they name is looked up and calls are started while the expression is read; the payload
 * keeps the references. A wrong expression ends the session, or inside a mapper that element.
 */

struct evaluation {
	struct scope *scope;
	struct payload *p;
};

static bool read_value(struct evaluation *r, const struct json *node);

static bool wrong(struct scope *scope, const char *fmt, ...) PRINTF_LIKE(2, 3);
static bool wrong(struct scope *scope, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	if (!scope->error[0])
		vsnprintf(scope->error, sizeof scope->error, fmt, ap);
	va_end(ap);
	return false;
}

/* Takes the hook. */
static bool add_ref(struct evaluation *r, const struct json *node, enum ref_kind kind, struct cw_hook *h)
{
	struct payload *p = r->p;
	if (p->n >= CAPNWEB_REFS_MAX || r->scope->s->hooks > CAPNWEB_HOOKS_MAX) {
		hook_unref(h);
		return wrong(r->scope, "too many references");
	}
	if (!(p->n & (p->n - 1)))
		p->ref = xrealloc(p->ref, (p->n ? 2 * p->n : 1) * sizeof *p->ref);
	p->ref[p->n++] = (struct capnweb_ref){.kind = kind, .node = node, .hook = h};
	p->promises += kind == REF_PROMISE;
	return true;
}

static struct cw_hook *find(struct scope *scope, const struct json *id_node)
{
	int64_t id = 0;
	struct cw_hook *h = NULL;
	if (!node_id(id_node, &id)) {
		wrong(scope, "an id must be a whole number");
		return NULL;
	}
	if (scope->map) {
		if (id >= 0 && (size_t)id < scope->vars_n)
			h = scope->vars[id];
		else if (id < 0 && (size_t)(-(id + 1)) < scope->caps_n)
			h = scope->caps[-(id + 1)];
	} else {
		struct exported *e = cw_export(scope->s, id);
		h = e ? e->hook : NULL;
	}
	if (!h)
		wrong(scope, "no such entry on exports table: %lld", (long long)id);
	return h;
}

static bool path_ok(struct scope *scope, const struct json *path)
{
	if (path->type != JSON_T_ARRAY || path->count > CAPNWEB_PATH_MAX)
		return wrong(scope, "a path must be an array of at most %d names", CAPNWEB_PATH_MAX);
	json_each(it, path)
	{
		if (it->type != JSON_T_STRING && it->type != JSON_T_NUMBER)
			return wrong(scope, "a path must be of names and numbers");
	}
	return true;
}

static struct payload *read_args(struct scope *scope, const struct json *args)
{
	struct payload *p = xcalloc(1, sizeof *p);
	*p = (struct payload){.refs = 1, .doc = doc_ref(scope->doc), .root = args, .list = true};
	struct evaluation r = {scope, p};
	json_each(it, args)
	{
		if (read_value(&r, it))
			continue;
		payload_unref(p);
		return NULL;
	}
	return p;
}

static bool read_pipeline(struct evaluation *r, const struct json *node)
{
	bool promise = node_is(node, "pipeline");
	const struct json *id = node->first->next, *path = id ? id->next : NULL, *args = path ? path->next : NULL;
	if (node->count < 2 || node->count > 4)
		return wrong(r->scope, "unknown special value: %s of %zu parts", promise ? "pipeline" : "import",
			node->count);
	struct cw_hook *h = find(r->scope, id);
	if (!h || (path && !path_ok(r->scope, path)))
		return false;
	if (!path && !promise)
		return add_ref(r, node, REF_STUB, hook_ref(h));
	const struct json *names = path ? path->first : NULL;
	if (!args)
		return add_ref(r, node, promise ? REF_PROMISE : REF_STUB, hook_get(h, r->scope->doc, names));
	if (args->type != JSON_T_ARRAY)
		return wrong(r->scope, "arguments must be an array");
	hook_ref(h);
	struct payload *p = read_args(r->scope, args);
	struct cw_hook *result = p ? hook_call(h, r->scope->doc, names, p) : NULL;
	hook_unref(h);
	return result && add_ref(r, node, promise ? REF_PROMISE : REF_STUB, result);
}

static struct cw_hook *read_capture(struct scope *scope, const struct json *cap)
{
	int64_t id = 0;
	bool is_import = node_is(cap, "import"), is_export = node_is(cap, "export");
	if (cap->type != JSON_T_ARRAY || cap->count != 2 || (!is_import && !is_export) ||
		!node_id(cap->first->next, &id)) {
		wrong(scope, "unknown map capture");
		return NULL;
	}
	if (is_import) {
		struct cw_hook *h = find(scope, cap->first->next);
		return h ? hook_ref(h) : NULL;
	}
	if (scope->map || id >= 0) {
		wrong(scope, scope->map ? "A mapper function cannot refer to exports."
					: "the id of an object must be negative");
		return NULL;
	}
	return cw_import_stub(scope->s, id);
}

static bool read_remap(struct evaluation *r, const struct json *node)
{
	const struct json *id = node->first->next, *path = id ? id->next : NULL, *caps = path ? path->next : NULL;
	const struct json *code = caps ? caps->next : NULL;
	if (node->count != 5 || !caps || !code || caps->type != JSON_T_ARRAY || code->type != JSON_T_ARRAY)
		return wrong(r->scope, "unknown special value: remap needs an id, a path, captures and instructions");
	struct cw_hook *h = find(r->scope, id), *result = NULL;
	if (!h || !path_ok(r->scope, path))
		return false;
	if (caps->count > CAPNWEB_PATH_MAX)
		return wrong(r->scope, "a mapper can capture %d values", CAPNWEB_PATH_MAX);
	struct cw_hook *held[CAPNWEB_PATH_MAX];
	size_t budget = CAPNWEB_MAP_MAX;
	struct mapping m = {.doc = r->scope->doc,
		.path = path->first,
		.code = code,
		.caps = held,
		.budget = r->scope->budget ? r->scope->budget : &budget};
	bool ok = true;
	json_each(it, caps)
	{
		struct cw_hook *cap = ok ? read_capture(r->scope, it) : NULL;
		ok = cap != NULL;
		if (ok)
			held[m.caps_n++] = cap;
	}
	hook_ref(h);
	if (ok)
		result = hook_map(h, &m);
	hook_unref(h);
	for (size_t i = 0; i < m.caps_n; i++)
		hook_unref(held[i]);
	return result && add_ref(r, node, REF_PROMISE, result);
}

static bool read_sent(struct evaluation *r, const struct json *node)
{
	struct capnweb *s = r->scope->s;
	int64_t id = 0;
	if (r->scope->map)
		return wrong(r->scope, "A mapper function cannot refer to exports.");
	if (!node_id(node->first->next, &id))
		return wrong(r->scope, "an id must be a whole number");
	if (node_is(node, "readable")) {
		struct exported *e = cw_export(s, id);
		if (!e || e->hook->kind != HOOK_PIPE)
			return wrong(r->scope, "Export %lld is not a pipe or its readable end was already consumed.",
				(long long)id);
		return add_ref(r, node, REF_PIPE, hook_ref(e->hook));
	}
	/* Ids that the peer gives to its objects are negative; the positive ones are answers to us. */
	if (id >= 0)
		return wrong(r->scope, "the id of an object must be negative");
	bool promise = node_is(node, "promise");
	struct cw_hook *h = promise ? cw_import_promise(s, id) : cw_import_stub(s, id);
	return add_ref(r, node, promise ? REF_PROMISE : REF_STUB, h);
}

static bool read_error(struct evaluation *r, const struct json *node)
{
	const struct json *name = node->first->next, *message = name ? name->next : NULL;
	const struct json *stack = message ? message->next : NULL, *own = stack ? stack->next : NULL;
	if (!message || name->type != JSON_T_STRING || message->type != JSON_T_STRING)
		return wrong(r->scope, "unknown special value: an error needs a name and a message");
	if (node->count > 5 || (stack && stack->type != JSON_T_STRING && stack->type != JSON_T_NULL))
		return wrong(r->scope, "unknown special value: the stack of an error must be text");
	if (own && own->type != JSON_T_OBJECT)
		return wrong(r->scope, "unknown special value: the properties of an error must be an object");
	return !own || read_value(r, own);
}

static bool read_literal(struct evaluation *r, const struct json *node)
{
	const struct json *second = node->first->next;
	enum json_type type = second ? second->type : JSON_T_BOOL;
	if (node->count > 2)
		return wrong(r->scope, "unknown special value: %zu parts", node->count);
	if (node->count == 1 && (node_is(node, "inf") || node_is(node, "-inf") || node_is(node, "nan")))
		return true;
	if (node_is(node, "undefined") && node->count == 1)
		return true;
	if ((node_is(node, "bigint") || node_is(node, "bytes")) && type == JSON_T_STRING)
		return true;
	if (node_is(node, "date") && (type == JSON_T_NUMBER || type == JSON_T_NULL))
		return true;
	struct str name = node->first->text;
	return wrong(r->scope, "unknown special value: %.*s", (int)(name.n < 60 ? name.n : 60), name.p ? name.p : "");
}

static bool read_special(struct evaluation *r, const struct json *node)
{
	if (!node->first || node->first->type != JSON_T_STRING)
		return wrong(r->scope, "unknown special value: an array that is not wrapped");
	if (node_is(node, "pipeline") || node_is(node, "import"))
		return read_pipeline(r, node);
	if (node_is(node, "remap"))
		return read_remap(r, node);
	if (node_is(node, "export") || node_is(node, "promise") || node_is(node, "writable") ||
		node_is(node, "readable"))
		return read_sent(r, node);
	if (node_is(node, "error"))
		return read_error(r, node);
	return read_literal(r, node);
}

static bool read_value(struct evaluation *r, const struct json *node)
{
	const struct json *array = capnweb_array(node);
	if (!array && node->type == JSON_T_ARRAY)
		return read_special(r, node);
	if (!array && node->type != JSON_T_OBJECT)
		return true;
	json_each(it, array ? array : node)
	{
		if (!read_value(r, it))
			return false;
	}
	return true;
}

struct payload *eval(struct scope *scope, const struct json *node)
{
	struct payload *p = xcalloc(1, sizeof *p);
	*p = (struct payload){.refs = 1, .doc = doc_ref(scope->doc), .root = node};
	struct evaluation r = {scope, p};
	if (read_value(&r, node))
		return p;
	payload_unref(p);
	return NULL;
}
