#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "capnweb/impl.h"

/* Frames of the peer. Every mistake ends the session with a reason. */

struct incoming {
	struct capnweb *s;
	struct doc *doc;
	const struct json *root, *second, *third;
	struct scope scope;
};

static void bad(struct incoming *in, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void bad(struct incoming *in, const char *fmt, ...)
{
	char reason[CAPNWEB_ERROR_MAX];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(reason, sizeof reason, fmt, ap);
	va_end(ap);
	cw_end(in->s, reason, true);
}

static void on_push(struct incoming *in)
{
	struct payload *p = in->second ? eval(&in->scope, in->second) : NULL;
	if (!p)
		return bad(in, "bad RPC message: %s", in->second ? in->scope.error : "nothing to push");
	struct exported *e = cw_export_next(in->s, hook_value(in->s, p, NULL));
	e->auto_release = node_is(in->root, "stream");
	if (e->auto_release)
		cw_pull(e);
}

static void on_pipe(struct incoming *in)
{
	struct cw_hook *h = hook_new(in->s, HOOK_PIPE);
	h->pipe = pipe_new(in->s);
	cw_export_next(in->s, h);
}

static void on_pull(struct incoming *in)
{
	int64_t id = 0;
	struct exported *e = node_id(in->second, &id) ? cw_export(in->s, id) : NULL;
	if (!e)
		return bad(in, "no such export ID: %lld", (long long)id);
	cw_pull(e);
}

static void on_release(struct incoming *in)
{
	int64_t id = 0, n = 0;
	struct exported *e = node_id(in->second, &id) ? cw_export(in->s, id) : NULL;
	if (!e)
		return bad(in, "no such export ID: %lld", (long long)id);
	if (!node_id(in->third, &n) || n < 0)
		return bad(in, "bad RPC message: a release needs a count");
	if ((uint64_t)n > e->refs)
		return bad(in, "refcount would go negative: %llu < %lld", (unsigned long long)e->refs, (long long)n);
	e->refs -= (uint64_t)n;
	if (!e->refs)
		cw_export_free(e);
}

/* The answer to a call of ours, or the value of a promise of the peer. */
static void settle_import(struct incoming *in, struct imported *i, struct payload *p, bool ok)
{
	struct capnweb *s = in->s;
	int64_t id = i->id;
	struct capnweb_stream *st = i->ack ? take_ptr(&i->stream) : NULL;
	capnweb_on_reply on_reply = i->on_reply;
	struct cw_hook *h = i->hook && i->hook->kind == HOOK_PENDING ? i->hook : NULL;
	i->on_reply = NULL;
	if (st)
		stream_acked(st, i, ok);
	if (on_reply)
		on_reply(i->arg, ok, p->root);
	if (h) {
		struct cw_hook *value = hook_value(s, payload_ref(p), NULL);
		value->kind = ok ? HOOK_VALUE : HOOK_ERROR;
		h->import = NULL;
		i->hook = NULL;
		hook_become(h, value);
	}
	payload_unref(p);
	/* The value may have held the last reference to it. */
	i = cw_import(s, id);
	if (i)
		cw_import_gone(s, i);
}

static void on_settle(struct incoming *in)
{
	int64_t id = 0;
	if (!node_id(in->second, &id) || !in->third)
		return bad(in, "bad RPC message: an answer needs an id and a value");
	struct payload *p = eval(&in->scope, in->third);
	if (!p)
		return bad(in, "bad RPC message: %s", in->scope.error);
	struct imported *i = cw_import(in->s, id);
	if (i)
		settle_import(in, i, p, node_is(in->root, "resolve"));
	else
		payload_unref(p);
}

static void on_abort(struct incoming *in)
{
	const struct json *name = node_is(in->second, "error") ? in->second->first->next : NULL;
	struct str message = name && name->next ? name->next->text : STR_NULL;
	char reason[CAPNWEB_ERROR_MAX];
	snprintf(reason, sizeof reason, "the peer aborted: %.*s", (int)(message.n < 300 ? message.n : 300),
		message.p ? message.p : "");
	cw_end(in->s, reason, false);
}

static void dispatch(struct incoming *in)
{
	static const struct {
		const char *name;
		void (*run)(struct incoming *in);
	} kinds[] = {{"push", on_push}, {"stream", on_push}, {"pipe", on_pipe}, {"pull", on_pull},
		{"release", on_release}, {"resolve", on_settle}, {"reject", on_settle}, {"abort", on_abort}};
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (node_is(in->root, kinds[i].name))
			return kinds[i].run(in);
	bad(in, "bad RPC message: not a frame of this protocol");
}

/* The value of a \u escape at `at`; -1: there is none. */
static int escape_at(struct str text, size_t at)
{
	char digits[5] = "";
	if (at + 6 > text.n || text.p[at] != '\\' || text.p[at + 1] != 'u')
		return -1;
	memcpy(digits, text.p + at + 2, 4);
	return strspn(digits, "0123456789abcdefABCDEF") == 4 ? (int)strtol(digits, NULL, 16) : -1;
}

/* A string of JavaScript may hold one half of a surrogate pair, from an emoji that was cut for instance, and comes as
 * an escape then. It stands for U+FFFD, as it does for JavaScript when it writes UTF-8. NULL: there is none. */
static char *replace_surrogates(struct str text)
{
	char *copy = NULL;
	const char *next;
	for (size_t i = 0; i < text.n && (next = memchr(text.p + i, '\\', text.n - i)) != NULL;) {
		i = (size_t)(next - text.p);
		int first = escape_at(text, i), second = (first & ~0x3ff) == 0xd800 ? escape_at(text, i + 6) : -1;
		bool pair = (second & ~0x3ff) == 0xdc00;
		if (!pair && (first & ~0x7ff) == 0xd800) {
			copy = copy ? copy : str_dup(text);
			memcpy(copy + i + 2, "fffd", 4);
		}
		i += first < 0 ? 2 : pair ? 12 : 6;
	}
	return copy;
}

void capnweb_frame(struct capnweb *s, struct str text)
{
	struct err e = {0};
	if (s->ended)
		return;
	struct incoming in = {.s = s};
	auto_free char *replaced = replace_surrogates(text);
	struct json_doc *json = json_parse(replaced ? str_n(replaced, text.n) : text, &e);
	if (!json)
		return bad(&in, "bad RPC message: %s", e.msg);
	in.doc = doc_new(s, json, text.n);
	in.root = json_root(json);
	in.second = in.root->type == JSON_T_ARRAY && in.root->first ? in.root->first->next : NULL;
	in.third = in.second ? in.second->next : NULL;
	in.scope = (struct scope){.s = s, .doc = in.doc};
	dispatch(&in);
	cw_run(s);
	doc_unref(in.doc);
}
