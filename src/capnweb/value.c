#include <stdlib.h>

#include "base/base64.h"
#include "capnweb/impl.h"

/* Documents, payloads, and values in the form of the wire. */

/* ---- documents ---- */

struct doc *doc_new(struct capnweb *s, struct json_doc *json, size_t bytes)
{
	/* The shortest value and its comma are two bytes. */
	size_t nodes = bytes / 2 < JSON_NODES_MAX ? bytes / 2 : JSON_NODES_MAX;
	struct doc *d = xcalloc(1, sizeof *d);
	*d = (struct doc){.refs = 1, .s = s, .cost = bytes + nodes * CAPNWEB_NODE_COST, .json = json};
	s->held += d->cost;
	return d;
}

struct doc *doc_ref(struct doc *d)
{
	if (d)
		d->refs++;
	return d;
}

void doc_unref(struct doc *d)
{
	if (!d || --d->refs)
		return;
	d->s->held -= d->cost;
	json_free(d->json);
	free(d);
}

/* ---- payloads ---- */

struct payload *payload_of_text(struct capnweb *s, struct buf *text, struct capnweb_ref *refs, size_t n)
{
	struct payload *p = xcalloc(1, sizeof *p);
	*p = (struct payload){.refs = 1, .s = s, .text = *text, .ref = refs, .n = n};
	*text = (struct buf){0};
	s->answers += buf_size(&p->text);
	for (size_t i = 0; i < n; i++)
		p->promises += refs[i].kind == REF_PROMISE;
	return p;
}

struct payload *payload_ref(struct payload *p)
{
	if (p)
		p->refs++;
	return p;
}

void payload_unref(struct payload *p)
{
	if (!p || --p->refs)
		return;
	for (size_t i = 0; i < p->n; i++) {
		if (p->ref[i].stream)
			stream_dropped(p->ref[i].stream);
		hook_unref(p->ref[i].hook);
	}
	free(p->ref);
	if (p->s)
		p->s->answers -= buf_size(&p->text);
	buf_free(&p->text);
	doc_unref(p->doc);
	free(p);
}

bool payload_read(struct payload *p, struct capnweb *s)
{
	if (p->root || p->too_large)
		return p->root;
	struct json_doc *json = json_parse(buf_str(&p->text), NULL);
	p->too_large = !json;
	if (!json)
		return false;
	p->doc = doc_new(s, json, buf_size(&p->text));
	p->root = json_root(json);
	return true;
}

struct capnweb_ref *payload_find(const struct payload *p, const struct json *node)
{
	if (!p->n || node->type != JSON_T_ARRAY || (p->list && node == p->root))
		return NULL;
	int64_t n = 0;
	if (buf_size(&p->text))
		return node_is(node, "$ref") && node_id(node->first->next, &n) && n >= 0 && (size_t)n < p->n
			       ? &p->ref[n]
			       : NULL;
	for (size_t i = 0; i < p->n; i++)
		if (p->ref[i].node == node)
			return &p->ref[i];
	return NULL;
}

/* ---- nodes ---- */

bool node_is(const struct json *node, const char *special)
{
	return node && node->type == JSON_T_ARRAY && node->first && node->first->type == JSON_T_STRING &&
	       str_eq_c(node->first->text, special);
}

/* Ids are whole numbers that JavaScript can count to. */
bool node_id(const struct json *node, int64_t *ret)
{
	if (!node || node->type != JSON_T_NUMBER)
		return false;
	bool minus = node->text.n && node->text.p[0] == '-';
	uint64_t n = 0;
	if (!str_to_u64(str_skip(node->text, minus), (1ull << 53) - 1, &n))
		return false;
	*ret = minus ? -(int64_t)n : (int64_t)n;
	return true;
}

/* Names that every JavaScript object has: the other implementation removes them, too. */
bool key_is_hidden(struct str key)
{
	static const char *const hidden[] = {"__proto__", "constructor", "hasOwnProperty", "isPrototypeOf",
		"propertyIsEnumerable", "toLocaleString", "toString", "valueOf", "toJSON", "__defineGetter__",
		"__defineSetter__", "__lookupGetter__", "__lookupSetter__"};
	for (size_t i = 0; i < ARRAY_LEN(hidden); i++)
		if (str_eq_c(key, hidden[i]))
			return true;
	return false;
}

bool capnweb_is_undefined(const struct json *value)
{
	return !value || node_is(value, "undefined");
}

bool capnweb_is_bytes(const struct json *value)
{
	return node_is(value, "bytes");
}

const struct json *capnweb_array(const struct json *value)
{
	bool wrapped = value && value->type == JSON_T_ARRAY && value->count == 1 && value->first->type == JSON_T_ARRAY;
	return wrapped ? value->first : NULL;
}

bool capnweb_bytes(struct buf *out, const struct json *value)
{
	static const char *const padding[] = {"", "", "==", "="};
	const struct json *text = capnweb_is_bytes(value) ? value->first->next : NULL;
	if (!text || text->type != JSON_T_STRING || text->text.n % 4 == 1)
		return false;
	struct base64_decoder d = {0};
	bool padded = text->text.n && text->text.p[text->text.n - 1] == '=';
	struct str rest = str_of(padded ? "" : padding[text->text.n % 4]);
	return base64_decode(&d, text->text, out) && base64_decode(&d, rest, out) && base64_finish(&d);
}

/* ---- as plain JSON ---- */

static void plain_special(struct buf *out, const struct json *value)
{
	const struct json *second = value->first ? value->first->next : NULL;
	bool passes = node_is(value, "date") || node_is(value, "bigint");
	if (capnweb_is_bytes(value))
		buf_add_c(out, "{}");
	else if (passes && second && second->type == JSON_T_NUMBER)
		buf_add_str(out, second->text);
	else if (passes && second && second->type == JSON_T_STRING)
		json_put_str(out, second->text);
	else if (node_is(value, "error") && second && second->next && second->next->type == JSON_T_STRING)
		json_put_str(out, second->next->text);
	else
		buf_add_c(out, "null");
}

void capnweb_plain(struct buf *out, const struct json *value)
{
	const struct json *array = capnweb_array(value);
	bool first = true;
	if (!value) {
		buf_add_c(out, "null");
	} else if (array) {
		buf_add_byte(out, '[');
		json_each(it, array)
		{
			if (it != array->first)
				buf_add_byte(out, ',');
			capnweb_plain(out, it);
		}
		buf_add_byte(out, ']');
	} else if (value->type == JSON_T_OBJECT) {
		buf_add_byte(out, '{');
		json_each(it, value)
		{
			if (capnweb_is_undefined(it) || key_is_hidden(it->key))
				continue;
			if (!first)
				buf_add_byte(out, ',');
			first = false;
			json_put_str(out, it->key);
			buf_add_byte(out, ':');
			capnweb_plain(out, it);
		}
		buf_add_byte(out, '}');
	} else if (value->type == JSON_T_ARRAY) {
		plain_special(out, value);
	} else {
		json_put_tree(out, value);
	}
}

void capnweb_plain_members(struct buf *out, const struct json *object)
{
	if (!object || object->type != JSON_T_OBJECT)
		return;
	json_each(it, object)
	{
		if (capnweb_is_undefined(it) || key_is_hidden(it->key))
			continue;
		buf_add_byte(out, ',');
		json_put_str(out, it->key);
		buf_add_byte(out, ':');
		capnweb_plain(out, it);
	}
}

/* ---- as expressions ---- */

/* The first `c` from `from` on, or `to`. */
static size_t find(struct str s, char c, size_t from, size_t to)
{
	const char *at = from < to ? memchr(s.p + from, c, to - from) : NULL;
	return at ? (size_t)(at - s.p) : to;
}

void capnweb_put_json(struct buf *out, struct str json)
{
	size_t from = 0, quote = 0; /* quote: the next one from i on, once it was looked for */
	bool quoted = false;
	for (size_t i = 0; i < json.n; i++) {
		char c = json.p[i];
		if (quoted && c != '"' && c != '\\') {
			/* Most of a long answer is one string, and may have an escape in each line. */
			if (quote < i)
				quote = find(json, '"', i, json.n);
			i = find(json, '\\', i, quote) - 1;
		} else if (quoted && c == '\\') {
			i++;
		} else if (c == '"') {
			quoted = !quoted;
		} else if (c == '[' || c == ']') {
			buf_add(out, json.p + from, i - from + 1);
			from = i;
		}
	}
	buf_add(out, json.p + from, json.n - from);
}

void capnweb_put_bytes(struct buf *out, struct str bytes)
{
	size_t n = base64_len(bytes.n);
	buf_add_c(out, "[\"bytes\",\"");
	char *room = buf_room(out, n);
	if (!room)
		return;
	base64_encode(bytes.p, bytes.n, room);
	while (n && room[n - 1] == '=')
		n--;
	buf_commit(out, n);
	buf_add_c(out, "\"]");
}

void capnweb_put_date(struct buf *out, int64_t ms)
{
	buf_printf(out, "[\"date\",%lld]", (long long)ms);
}

static void answer_ref(struct capnweb_answer *a, struct capnweb_ref ref)
{
	a->refs = xrealloc(a->refs, (a->n + 1) * sizeof *a->refs);
	ref.at = buf_size(&a->text);
	buf_printf(&a->text, "[\"$ref\",%zu]", a->n);
	ref.len = buf_size(&a->text) - ref.at;
	a->refs[a->n++] = ref;
}

void capnweb_answer_object(struct capnweb_answer *a, struct capnweb *s, void *object)
{
	struct cw_hook *h = hook_new(s, HOOK_OBJECT);
	h->object = xcalloc(1, sizeof *h->object);
	*h->object = (struct object){.refs = 1, .arg = object};
	answer_ref(a, (struct capnweb_ref){.kind = REF_STUB, .hook = h});
}

void capnweb_answer_stream(struct capnweb_answer *a, struct capnweb_stream *st)
{
	answer_ref(a, (struct capnweb_ref){.kind = REF_STREAM, .stream = st});
}

static void put_stub(struct capnweb *s, struct buf *out, struct cw_hook *h)
{
	h = hook_follow(h);
	if (h->kind == HOOK_IMPORT)
		buf_printf(out, "[\"import\",%lld]", (long long)h->import->id);
	else
		buf_printf(out, "[\"export\",%lld]", (long long)cw_export_hook(s, h));
}

static void put_ref(struct capnweb *s, struct buf *out, struct capnweb_ref *ref)
{
	if (ref->kind == REF_STREAM && ref->stream) {
		auto_buf struct buf pipe = {0};
		buf_add_c(&pipe, "[\"pipe\"]");
		cw_send(s, &pipe);
		struct imported *i = cw_import_new(s, ++s->next_import);
		buf_printf(out, "[\"readable\",%lld]", (long long)i->id);
		i->stream = ref->stream;
		i->remote = 1;
		stream_open(take_ptr(&ref->stream), i->id);
	} else if (ref->kind == REF_STUB) {
		put_stub(s, out, ref->hook);
	} else {
		buf_add_c(out, "[\"undefined\"]"); /* a stream can be sent once */
	}
}

static void put_node(struct capnweb *s, struct buf *out, const struct payload *p, const struct json *node)
{
	struct capnweb_ref *ref = payload_find(p, node);
	if (ref)
		return put_ref(s, out, ref);
	bool object = node->type == JSON_T_OBJECT, first = true;
	if (!object && node->type != JSON_T_ARRAY)
		return json_put_tree(out, node);
	buf_add_byte(out, object ? '{' : '[');
	json_each(it, node)
	{
		if (object && key_is_hidden(it->key))
			continue;
		if (!first)
			buf_add_byte(out, ',');
		first = false;
		if (object) {
			json_put_str(out, it->key);
			buf_add_byte(out, ':');
		}
		put_node(s, out, p, it);
	}
	buf_add_byte(out, object ? '}' : ']');
}

void cw_put_value(struct capnweb *s, struct buf *out, const struct cw_hook *h)
{
	const struct payload *p = h->payload;
	if (h->root || !buf_size(&p->text))
		return put_node(s, out, p, h->root ? h->root : p->root);
	struct str text = buf_str(&p->text);
	size_t at = 0;
	for (size_t i = 0; i < p->n; i++) {
		buf_add(out, text.p + at, p->ref[i].at - at);
		put_ref(s, out, &p->ref[i]);
		at = p->ref[i].at + p->ref[i].len;
	}
	buf_add(out, text.p + at, text.n - at);
}
