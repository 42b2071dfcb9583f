#include <stdio.h>
#include <stdlib.h>

#include "capnweb/impl.h"

/* Calls and properties: on results, on promises that must settle first, on objects of the application and of the peer.
 */

/* ---- later: the hook has not settled ---- */

struct late_call {
	struct list node;
	struct waiter w;
	struct capnweb *s;
	struct cw_hook *on, *result;
	struct doc *doc;
	const struct json *path, *code; /* code: a remap */
	struct payload *args;		/* neither: a property */
	struct cw_hook *caps[CAPNWEB_PATH_MAX];
	size_t caps_n;
};

static void late_free(struct late_call *l)
{
	list_del(&l->node);
	list_del(&l->w.node);
	hook_unref(l->on);
	hook_unref(l->result);
	payload_unref(l->args);
	for (size_t i = 0; i < l->caps_n; i++)
		hook_unref(l->caps[i]);
	doc_unref(l->doc);
	free(l);
}

void late_free_all(struct capnweb *s)
{
	while (!list_empty(&s->lates))
		late_free(list_entry(s->lates.next, struct late_call, node));
}

static void late_run(struct waiter *w)
{
	struct late_call *l = container_of(w, struct late_call, w);
	struct cw_hook *on = hook_follow(l->on), *h = NULL;
	if (on->kind == HOOK_PENDING) { /* it settled to another promise */
		list_push(&on->waiters, &l->w.node);
		return;
	}
	size_t budget = CAPNWEB_MAP_MAX;
	struct mapping m = {.doc = l->doc,
		.path = l->path,
		.code = l->code,
		.caps = l->caps,
		.caps_n = l->caps_n,
		.budget = &budget};
	if (l->code)
		h = hook_map(on, &m);
	else if (l->args)
		h = hook_call(on, l->doc, l->path, take_ptr(&l->args));
	else
		h = hook_get(on, l->doc, l->path);
	hook_become(l->result, h);
	late_free(l);
}

static struct late_call *late_new(struct cw_hook *on, struct doc *doc, const struct json *path)
{
	struct late_call *l = xcalloc(1, sizeof *l);
	*l = (struct late_call){.s = on->s,
		.on = hook_ref(on),
		.result = hook_new(on->s, HOOK_PENDING),
		.doc = doc_ref(doc),
		.path = path,
		.w.run = late_run};
	list_push(&on->s->lates, &l->node);
	list_push(&on->waiters, &l->w.node);
	return l;
}

struct cw_hook *late_map(struct cw_hook *h, const struct mapping *m)
{
	struct late_call *l = late_new(h, m->doc, m->path);
	l->code = m->code;
	for (size_t i = 0; i < m->caps_n; i++)
		l->caps[l->caps_n++] = hook_ref(m->caps[i]);
	return hook_ref(l->result);
}

/* ---- on objects of the application ---- */

/* Joins a path with dots behind a prefix. False: too long. */
static bool join(char ret[CAPNWEB_METHOD_MAX + 1], const char *prefix, const struct json *path)
{
	size_t n = 0;
	if (prefix)
		n = (size_t)snprintf(ret, CAPNWEB_METHOD_MAX + 1, "%s", prefix);
	ret[n] = '\0';
	for (; path; path = path->next) {
		if (n + path->text.n + 1 > CAPNWEB_METHOD_MAX || memchr(path->text.p, '\0', path->text.n))
			return false;
		if (n)
			ret[n++] = '.';
		memcpy(ret + n, path->text.p, path->text.n);
		n += path->text.n;
		ret[n] = '\0';
	}
	return true;
}

void call_free(struct capnweb_call *c)
{
	list_del(&c->node);
	list_del(&c->w.node);
	if (c->told)
		c->s->calls_n--;
	if (c->gone)
		*c->gone = true;
	hook_unref(c->result);
	hook_unref(c->args);
	object_unref(c->s, c->object);
	free(c);
}

static void call_settle(struct waiter *w)
{
	struct capnweb_call *c = container_of(w, struct capnweb_call, w);
	struct capnweb *s = c->s;
	struct cw_hook *args = hook_settle(c->args, &c->w);
	if (!args)
		return;
	hook_ref(args);
	hook_unref(c->args);
	c->args = args;
	if (args->kind == HOOK_ERROR) {
		hook_become(c->result, hook_ref(args));
		return call_free(c);
	}
	if (s->calls_n >= CAPNWEB_CALLS_MAX) {
		hook_become(
			c->result, hook_error(s, "RangeError", "more than %d calls wait for an answer in this session",
					   CAPNWEB_CALLS_MAX));
		return call_free(c);
	}
	c->told = true;
	s->calls_n++;
	if (!payload_read(args->payload, s))
		return capnweb_reject(c, "RangeError", STR("the arguments are too large"), STR_NULL);
	bool gone = false;
	c->gone = &gone;
	s->ops->on_call(s->arg, c, c->object->arg, c->method);
	if (gone)
		return;
	/* A command may run for hours: its arguments need not be kept. */
	c->gone = NULL;
	hook_unref(take_ptr(&c->args));
}

static struct cw_hook *call_object(struct cw_hook *h, const struct json *path, struct payload *args)
{
	struct capnweb *s = h->s;
	struct capnweb_call *c = xcalloc(1, sizeof *c);
	if (!join(c->method, h->prefix, path)) {
		free(c);
		payload_unref(args);
		return hook_error(s, "TypeError", "the name of a method can have %d characters", CAPNWEB_METHOD_MAX);
	}
	c->s = s;
	c->result = hook_new(s, HOOK_PENDING);
	c->args = hook_value(s, args, NULL);
	c->object = object_ref(h->object);
	c->w.run = call_settle;
	list_push(&s->calls, &c->node);
	/* From the list, so that a call that answers at once finds the frame that made it complete. */
	list_push(&s->ready, &c->w.node);
	return hook_ref(c->result);
}

static struct cw_hook *get_object(struct cw_hook *h, const struct json *path)
{
	char name[CAPNWEB_METHOD_MAX + 1];
	struct capnweb *s = h->s;
	if (!path)
		return hook_ref(h);
	bool known = join(name, h->prefix, path) && !h->object->arg && s->ops->has_object &&
		     s->ops->has_object(s->arg, name);
	if (!known) {
		struct buf text = {0};
		buf_add_str(&text, CAPNWEB_UNDEFINED);
		return hook_value(s, payload_of_text(s, &text, NULL, 0), NULL);
	}
	struct cw_hook *below = hook_new(s, HOOK_OBJECT);
	below->object = object_ref(h->object);
	below->prefix = xstrdup(name);
	return below;
}

/* ---- on objects of the peer: it may send its own stub back and call it through us ---- */

static struct cw_hook *call_import(struct cw_hook *h, const struct json *path, struct payload *args)
{
	char name[CAPNWEB_METHOD_MAX + 1];
	struct capnweb *s = h->s;
	bool ok = join(name, NULL, path) && !args->n;
	auto_buf struct buf text = {0};
	json_each(it, args->root)
	{
		if (it != args->root->first)
			buf_add_byte(&text, ',');
		json_put_tree(&text, it);
	}
	payload_unref(args);
	if (!ok)
		return hook_error(s, "TypeError", "a call to an object of the caller can have plain arguments only");
	buf_add_str(cw_call_begin(s, "push", h->import->id, *name ? name : NULL), buf_str(&text));
	struct imported *i = cw_call_send(s);
	struct cw_hook *result = hook_new(s, HOOK_PENDING);
	result->import = i;
	i->hook = result;
	i->remote = 1;
	auto_buf struct buf pull = {0};
	buf_printf(&pull, "[\"pull\",%lld]", (long long)i->id);
	cw_send(s, &pull);
	return result;
}

/* ---- all of them ---- */

static struct cw_hook *not_a_function(struct cw_hook *h, const struct json *path)
{
	char name[CAPNWEB_METHOD_MAX + 1];
	bool named = join(name, NULL, path);
	return hook_error(h->s, "TypeError", "'%s' is not a function.", named ? name : "…");
}

struct cw_hook *hook_call(struct cw_hook *h, struct doc *doc, const struct json *path, struct payload *args)
{
	const struct json *rest = path;
	struct capnweb_ref *ref = NULL;
	struct cw_hook *error = NULL;
	for (;;) {
		h = hook_follow(h);
		if (h->kind != HOOK_VALUE)
			break;
		ref = NULL;
		hook_walk(h, &rest, &ref, &error);
		if (!ref || (ref->kind != REF_STUB && ref->kind != REF_PROMISE)) {
			payload_unref(args);
			return error ? error : not_a_function(h, path);
		}
		h = ref->hook;
	}
	struct late_call *l = NULL;
	switch (h->kind) {
	case HOOK_PENDING:
		l = late_new(h, doc, rest);
		l->args = args;
		return hook_ref(l->result);
	case HOOK_OBJECT:
		return call_object(h, rest, args);
	case HOOK_IMPORT:
		return call_import(h, rest, args);
	case HOOK_PIPE:
		return pipe_call(h, rest, args);
	case HOOK_ERROR:
	case HOOK_VALUE:
	case HOOK_SAME:
		break;
	}
	payload_unref(args);
	return hook_ref(h);
}

struct cw_hook *hook_get(struct cw_hook *h, struct doc *doc, const struct json *path)
{
	for (;;) {
		h = hook_follow(h);
		if (h->kind != HOOK_VALUE)
			break;
		struct capnweb_ref *ref = NULL;
		struct cw_hook *error = NULL;
		const struct json *node = hook_walk(h, &path, &ref, &error);
		if (error)
			return error;
		if (!ref)
			return hook_value(h->s, payload_ref(h->payload), node);
		if (ref->kind == REF_STREAM || ref->kind == REF_PIPE)
			return path ? hook_error(h->s, "Error", "Cannot access properties on a ReadableStream stub")
				    : hook_value(h->s, payload_ref(h->payload), node);
		if (!path && ref->kind == REF_STUB)
			return hook_ref(ref->hook);
		h = ref->hook;
	}
	if (h->kind == HOOK_PENDING)
		return hook_ref(late_new(h, doc, path)->result);
	if (h->kind == HOOK_OBJECT)
		return get_object(h, path);
	if (h->kind == HOOK_ERROR || !path)
		return hook_ref(h);
	return hook_error(h->s, "TypeError", "properties of an object of the caller cannot be read here");
}

/* ---- what the application sees ---- */

const struct json *capnweb_call_arg(const struct capnweb_call *c, size_t i)
{
	json_each(it, c->args->payload->root)
	{
		if (i-- == 0)
			return capnweb_is_undefined(it) ? NULL : it;
	}
	return NULL;
}

void *capnweb_call_session_arg(const struct capnweb_call *c)
{
	return c->s->arg;
}

struct capnweb *capnweb_call_session(const struct capnweb_call *c)
{
	return c->s;
}

static void answer(struct capnweb_call *c, struct cw_hook *h)
{
	struct capnweb *s = c->s;
	if (s->ended)
		hook_unref(h);
	else
		hook_become(c->result, h);
	call_free(c);
	cw_run(s);
}

void capnweb_resolve(struct capnweb_call *c, struct str expression)
{
	struct capnweb_answer a = {0};
	buf_add_str(&a.text, expression);
	capnweb_resolve_answer(c, &a);
}

void capnweb_resolve_answer(struct capnweb_call *c, struct capnweb_answer *a)
{
	struct payload *p = payload_of_text(c->s, &a->text, a->refs, a->n);
	*a = (struct capnweb_answer){0};
	answer(c, hook_value(c->s, p, NULL));
}

void capnweb_reject(struct capnweb_call *c, const char *name, struct str message, struct str properties)
{
	struct buf b = {0};
	struct json_writer w = json_writer(&b);
	json_array_begin(&w);
	json_cstr(&w, "error");
	json_cstr(&w, name);
	json_str(&w, message);
	if (properties.n) {
		json_null(&w);
		json_raw(&w, properties);
	}
	json_array_end(&w);
	struct cw_hook *h = hook_new(c->s, HOOK_ERROR);
	h->payload = payload_of_text(c->s, &b, NULL, 0);
	answer(c, h);
}

struct capnweb_pipe *capnweb_take_pipe(struct capnweb_call *c, const struct json *value)
{
	struct capnweb_ref *ref = value ? payload_find(c->args->payload, value) : NULL;
	return ref && ref->kind == REF_PIPE ? pipe_take(ref->hook->pipe) : NULL;
}

int64_t capnweb_take_stub(struct capnweb_call *c, const struct json *value)
{
	struct capnweb_ref *ref = value ? payload_find(c->args->payload, value) : NULL;
	struct cw_hook *h = ref && ref->kind == REF_STUB ? hook_follow(ref->hook) : NULL;
	if (!h || h->kind != HOOK_IMPORT)
		return 0;
	hook_ref(h);
	return h->import->id;
}
