#include <stdio.h>
#include <stdlib.h>

#include "capnweb/impl.h"

/* Hooks: results, promises and objects, and how they settle. */

struct object *object_ref(struct object *o)
{
	o->refs++;
	return o;
}

void object_unref(struct capnweb *s, struct object *o)
{
	if (!o || --o->refs || o == &s->main)
		return;
	if (s->ops->on_drop)
		s->ops->on_drop(s->arg, o->arg);
	free(o);
}

struct cw_hook *hook_new(struct capnweb *s, enum hook_kind kind)
{
	struct cw_hook *h = xcalloc(1, sizeof *h);
	*h = (struct cw_hook){.s = s, .refs = 1, .kind = kind};
	list_init(&h->waiters);
	s->hooks++;
	return h;
}

struct cw_hook *hook_ref(struct cw_hook *h)
{
	h->refs++;
	return h;
}

void hook_unref(struct cw_hook *h)
{
	if (!h || --h->refs)
		return;
	h->s->hooks--;
	if (h->import) {
		h->import->hook = NULL;
		cw_import_gone(h->s, h->import);
	}
	if (h->pipe)
		pipe_drop(h->pipe);
	while (!list_empty(&h->waiters))
		(void)list_pop(&h->waiters);
	payload_unref(h->payload);
	object_unref(h->s, h->object);
	hook_unref(h->same);
	free(h->prefix);
	free(h);
}

struct cw_hook *hook_follow(struct cw_hook *h)
{
	while (h->kind == HOOK_SAME)
		h = h->same;
	return h;
}

struct cw_hook *hook_value(struct capnweb *s, struct payload *p, const struct json *root)
{
	struct cw_hook *h = hook_new(s, HOOK_VALUE);
	h->payload = p;
	h->root = root;
	return h;
}

static struct payload *error_payload(struct capnweb *s, const char *name, struct str message, struct str properties)
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
	return payload_of_text(s, &b, NULL, 0);
}

struct cw_hook *hook_error(struct capnweb *s, const char *name, const char *fmt, ...)
{
	char message[CAPNWEB_ERROR_MAX];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(message, sizeof message, fmt, ap);
	va_end(ap);
	struct cw_hook *h = hook_new(s, HOOK_ERROR);
	h->payload = error_payload(s, name, str_of(message), STR_NULL);
	return h;
}

void hook_wake(struct cw_hook *h)
{
	while (!list_empty(&h->waiters))
		list_push(&h->s->ready, list_pop(&h->waiters));
}

/* Whether one can get from h to `target`. Each hook is looked at once in a walk. */
static bool leads_to(struct cw_hook *h, const struct cw_hook *target)
{
	h = hook_follow(h);
	if (h == target || h->mark == h->s->walks)
		return h == target;
	h->mark = h->s->walks;
	for (size_t i = 0; h->payload && i < h->payload->n; i++)
		if (h->payload->ref[i].hook && leads_to(h->payload->ref[i].hook, target))
			return true;
	return false;
}

void hook_become(struct cw_hook *pending, struct cw_hook *h)
{
	h->s->walks++;
	if (leads_to(h, pending)) {
		struct capnweb *s = h->s;
		hook_unref(h);
		h = hook_error(s, "Error", "a promise cannot resolve to a value that contains it");
	}
	pending->kind = HOOK_SAME;
	pending->same = h;
	hook_wake(pending);
}

/* ---- settling ---- */

/* A value that is written again with its promises replaced; all of them have settled to values. A few frames can
 * describe a value of any size: the work for it is bounded, not only the text. */
struct replacement {
	struct capnweb_answer a;
	size_t nodes;
};

static void put_replaced(struct replacement *r, const struct payload *p, const struct json *node);

static bool too_large(const struct replacement *r)
{
	return r->a.text.failed || r->nodes > CAPNWEB_REPLACED_NODES || r->a.n > CAPNWEB_MAP_MAX;
}

static void put_settled(struct replacement *r, struct capnweb_ref *ref)
{
	struct cw_hook *h = ref->kind == REF_PROMISE ? hook_settle(ref->hook, NULL) : NULL;
	if (h && h->kind == HOOK_VALUE && payload_read(h->payload, h->s))
		return put_replaced(r, h->payload, h->root ? h->root : h->payload->root);
	/* Not a value: the reference moves into the new text. */
	struct capnweb_answer *a = &r->a;
	struct capnweb_ref moved = {.kind = ref->kind == REF_PROMISE ? REF_STUB : ref->kind, .at = buf_size(&a->text)};
	if (h || ref->hook)
		moved.hook = hook_ref(h ? h : ref->hook);
	moved.stream = take_ptr(&ref->stream);
	buf_printf(&a->text, "[\"$ref\",%zu]", a->n);
	moved.len = buf_size(&a->text) - moved.at;
	a->refs = xrealloc(a->refs, (a->n + 1) * sizeof *a->refs);
	a->refs[a->n++] = moved;
}

static void put_replaced(struct replacement *r, const struct payload *p, const struct json *node)
{
	struct buf *out = &r->a.text;
	r->nodes++;
	if (too_large(r))
		return;
	struct capnweb_ref *ref = payload_find(p, node);
	if (ref)
		return put_settled(r, ref);
	bool object = node->type == JSON_T_OBJECT;
	if (!object && node->type != JSON_T_ARRAY)
		return json_put_tree(out, node);
	buf_add_byte(out, object ? '{' : '[');
	json_each(it, node)
	{
		if (it != node->first)
			buf_add_byte(out, ',');
		if (object) {
			json_put_str(out, it->key);
			buf_add_byte(out, ':');
		}
		put_replaced(r, p, it);
		if (too_large(r))
			return;
	}
	buf_add_byte(out, object ? '}' : ']');
}

/* The value becomes an error. */
static void refuse_replaced(struct cw_hook *h, struct capnweb_answer *a)
{
	struct cw_hook *e = hook_error(h->s, "RangeError", "the value is too large");
	h->s->too_large++;
	h->kind = HOOK_ERROR;
	h->payload = payload_ref(e->payload);
	hook_unref(e);
	for (size_t i = 0; i < a->n; i++) {
		if (a->refs[i].stream)
			stream_dropped(a->refs[i].stream);
		hook_unref(a->refs[i].hook);
	}
	free(a->refs);
	buf_free(&a->text);
}

static void replace_promises(struct cw_hook *h)
{
	struct replacement r = {.a.text.max = CAPNWEB_REPLACED_MAX};
	struct payload *p = h->payload;
	if (!payload_read(p, h->s))
		return;
	put_replaced(&r, p, h->root ? h->root : p->root);
	if (too_large(&r)) {
		refuse_replaced(h, &r.a);
	} else {
		h->payload = payload_of_text(h->s, &r.a.text, r.a.refs, r.a.n);
		h->payload->list = p->list;
	}
	h->root = NULL;
	payload_unref(p);
}

static struct cw_hook *settle_value(struct cw_hook *h, struct waiter *w)
{
	struct payload *p = h->payload;
	if (!payload_read(p, h->s))
		return h;
	struct capnweb_ref *whole = payload_find(p, h->root ? h->root : p->root);
	if (whole && whole->kind == REF_PROMISE)
		return hook_settle(whole->hook, w);
	for (size_t i = 0; i < p->n; i++) {
		if (p->ref[i].kind != REF_PROMISE)
			continue;
		struct cw_hook *one = hook_settle(p->ref[i].hook, w);
		if (!one || one->kind == HOOK_ERROR)
			return one;
	}
	replace_promises(h);
	return h;
}

struct cw_hook *hook_settle(struct cw_hook *h, struct waiter *w)
{
	h = hook_follow(h);
	if (h->kind == HOOK_PENDING) {
		if (w)
			list_push(&h->waiters, &w->node);
		return NULL;
	}
	if (h->kind == HOOK_VALUE && h->payload->promises)
		return settle_value(h, w);
	return h;
}

/* ---- properties ---- */

static const struct json undefined_first = {.type = JSON_T_STRING, .text = {"undefined", 9}};
static const struct json undefined_node = {.type = JSON_T_ARRAY, .first = (struct json *)&undefined_first, .count = 1};

static const struct json *step(const struct json *node, const struct json *part)
{
	const struct json *array = capnweb_array(node);
	uint64_t i = 0;
	if (array && part->type == JSON_T_NUMBER && str_to_u64(part->text, JSON_NODES_MAX, &i)) {
		json_each(it, array)
		{
			if (i-- == 0)
				return it;
		}
	}
	if (node->type == JSON_T_OBJECT && part->type == JSON_T_STRING && !key_is_hidden(part->text))
		json_each(it, node)
		{
			if (str_eq(it->key, part->text))
				return it;
		}
	return &undefined_node;
}

const struct json *hook_walk(
	struct cw_hook *h, const struct json **path, struct capnweb_ref **ret_ref, struct cw_hook **ret_error)
{
	struct payload *p = h->payload;
	if (!payload_read(p, h->s)) {
		*ret_error = hook_error(h->s, "RangeError", "the result is too large to take a part of it");
		return NULL;
	}
	const struct json *node = h->root ? h->root : p->root;
	for (;;) {
		*ret_ref = payload_find(p, node);
		if (*ret_ref || !*path)
			return node;
		if (capnweb_is_undefined(node)) {
			*ret_error =
				hook_error(h->s, "TypeError", "Cannot read properties of undefined (reading '%.*s')",
					(int)((*path)->text.n < 100 ? (*path)->text.n : 100), (*path)->text.p);
			return NULL;
		}
		node = step(node, *path);
		*path = (*path)->next;
	}
}
