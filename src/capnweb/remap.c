#include <stdlib.h>

#include "capnweb/impl.h"

/*
 * remap: the peer recorded a function as a list of instructions. Each instruction is an expression over the input
 * (variable 0), the results before it (1, 2 …) and the captures (-1, -2 …); the last one is the result. An array is
 * mapped element by element. One frame evaluates at most CAPNWEB_MAP_MAX instructions.
 */

/* The hook that an evaluated instruction stands for. Takes p. */
static struct cw_hook *hook_of(struct capnweb *s, struct payload *p)
{
	struct capnweb_ref *ref = p->root ? payload_find(p, p->root) : NULL;
	if (!ref || !ref->hook)
		return hook_value(s, p, NULL);
	struct cw_hook *h = hook_ref(ref->hook);
	payload_unref(p);
	return h;
}

static struct cw_hook *map_one(struct capnweb *s, struct cw_hook *input, const struct mapping *m)
{
	size_t n = m->code->count;
	if (!n)
		return hook_error(s, "Error", "Invalid empty mapper function.");
	if (n > *m->budget)
		return hook_error(s, "RangeError", "a mapper can evaluate %d instructions", CAPNWEB_MAP_MAX);
	*m->budget -= n;
	struct cw_hook **vars = xcalloc(n + 1, sizeof(struct cw_hook *)), *result = NULL;
	struct scope scope = {.s = s,
		.doc = m->doc,
		.map = true,
		.vars = vars,
		.caps = m->caps,
		.caps_n = m->caps_n,
		.vars_n = 1,
		.budget = m->budget};
	vars[0] = hook_ref(input);
	json_each(it, m->code)
	{
		struct payload *p = eval(&scope, it);
		if (!p) {
			result = hook_error(s, "TypeError", "%s", scope.error);
			break;
		}
		vars[scope.vars_n++] = hook_of(s, p);
	}
	if (!result)
		result = hook_ref(vars[scope.vars_n - 1]);
	for (size_t i = 0; i < scope.vars_n; i++)
		hook_unref(vars[i]);
	free(vars);
	return result;
}

static struct cw_hook *map_array(struct cw_hook *h, const struct json *array, const struct mapping *m)
{
	struct capnweb_answer a = {0};
	struct capnweb *s = h->s;
	if (array->count * (m->code->count ? m->code->count : 1) > *m->budget)
		return hook_error(s, "RangeError", "a mapper can evaluate %d instructions", CAPNWEB_MAP_MAX);
	a.refs = xcalloc(array->count + 1, sizeof *a.refs);
	buf_add_c(&a.text, "[[");
	json_each(it, array)
	{
		struct cw_hook *input = hook_value(s, payload_ref(h->payload), it);
		if (a.n)
			buf_add_byte(&a.text, ',');
		size_t at = buf_size(&a.text);
		buf_printf(&a.text, "[\"$ref\",%zu]", a.n);
		a.refs[a.n++] = (struct capnweb_ref){
			.kind = REF_PROMISE, .at = at, .len = buf_size(&a.text) - at, .hook = map_one(s, input, m)};
		hook_unref(input);
	}
	buf_add_c(&a.text, "]]");
	return hook_value(s, payload_of_text(s, &a.text, a.refs, a.n), NULL);
}

struct cw_hook *hook_map(struct cw_hook *h, const struct mapping *m)
{
	const struct json *path = m->path;
	for (;;) {
		h = hook_follow(h);
		if (h->kind != HOOK_VALUE)
			break;
		struct capnweb_ref *ref = NULL;
		struct cw_hook *error = NULL;
		const struct json *node = hook_walk(h, &path, &ref, &error);
		if (error)
			return error;
		if (!ref) {
			const struct json *array = capnweb_array(node);
			if (array)
				return map_array(h, array, m);
			struct cw_hook *input = hook_value(h->s, payload_ref(h->payload), node);
			bool none = node->type == JSON_T_NULL || capnweb_is_undefined(node);
			struct cw_hook *result = none ? hook_ref(input) : map_one(h->s, input, m);
			hook_unref(input);
			return result;
		}
		if (!ref->hook)
			return hook_error(h->s, "Error", "Cannot use map() on a ReadableStream");
		h = ref->hook;
	}
	struct mapping rest = *m;
	rest.path = path;
	if (h->kind == HOOK_PENDING)
		return late_map(h, &rest);
	if (h->kind == HOOK_ERROR)
		return hook_ref(h);
	struct cw_hook *input = hook_get(h, m->doc, path), *result = map_one(h->s, input, m);
	hook_unref(input);
	return result;
}
