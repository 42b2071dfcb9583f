/*
 * Our JSON reader against jansson, and against itself in pieces; our writer against our reader.
 *
 * Where the two may differ, and nowhere else:
 *	- we refuse nesting past JSON_DEPTH_MAX, numbers past JSON_NUMBER_MAX characters, texts past JSON_NODES_MAX
 *	  values;
 *	- jansson refuses numbers that fit neither 64 bits nor a double, and keys that hold NUL;
 *	- jansson passes over raw NUL bytes between tokens, where the RFC has no place for them.
 */
#include "base/json.h"

#include <stdio.h>

#include "base/limits.h"
#include "json_oracle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(cond) ((cond) ? (void)0 : broken(#cond, __LINE__))

static _Noreturn void broken(const char *what, int line)
{
	fprintf(stderr, "fuzz_json.c:%d: %s does not hold\n", line, what);
	abort();
}

static void dump(struct buf *out, const struct json *j)
{
	switch (j->type) {
	case JSON_T_OBJECT:
	case JSON_T_ARRAY:
		buf_printf(out, "%s %zu\n", j->type == JSON_T_OBJECT ? "object" : "array", j->count);
		json_each(child, j)
		{
			if (j->type == JSON_T_OBJECT) {
				buf_printf(out, "key %zu ", child->key.n);
				buf_add_str(out, child->key);
				buf_add_c(out, "\n");
			}
			dump(out, child);
		}
		break;
	case JSON_T_STRING:
		buf_printf(out, "string %zu ", j->text.n);
		buf_add_str(out, j->text);
		buf_add_c(out, "\n");
		break;
	case JSON_T_NUMBER:
		if (strpbrk(j->text.p, ".eE"))
			buf_printf(out, "real %a\n", strtod(j->text.p, NULL));
		else
			buf_printf(out, "integer %lld\n", strtoll(j->text.p, NULL, 10));
		break;
	case JSON_T_BOOL:
	case JSON_T_NULL:
		buf_add_c(out, j->type == JSON_T_NULL ? "null\n" : j->boolean ? "true\n" : "false\n");
		break;
	}
}

static bool is_our_limit(const struct err *e)
{
	return strncmp(e->msg, "nesting deeper", 14) == 0 || strncmp(e->msg, "a number longer", 15) == 0 ||
	       strncmp(e->msg, "more than", 9) == 0;
}

static void compare_with_oracle(struct str text)
{
	struct err e = {0};
	auto_json struct json_doc *d = json_parse(text, &e);
	if (str_index(text, 0) >= 0) {
		MUST(!d);
		return;
	}
	auto_buf struct buf ours = {0}, theirs = {0};
	enum oracle_verdict verdict = json_oracle(text, &theirs);
	if (!d) {
		MUST(e.code == ERR_BAD_JSON && e.msg[0]);
		MUST(verdict != ORACLE_ACCEPTS || is_our_limit(&e));
		return;
	}
	MUST(verdict != ORACLE_REFUSES);
	if (verdict != ORACLE_ACCEPTS)
		return;
	dump(&ours, json_root(d));
	MUST(str_eq(buf_str(&ours), buf_str(&theirs)));
}

static bool trace_token(void *arg, enum json_token token, struct str text, struct err *e)
{
	(void)e;
	bool chunk = token == JSON_KEY_CHUNK || token == JSON_STRING_CHUNK;
	MUST(!chunk || text.n > 0);
	buf_add_str(arg, text);
	return chunk || buf_add_byte(arg, (char)token);
}

/* Tokens, then the error if any. Pieces of 1 to `widest` bytes in a row. */
static void trace(struct str text, size_t widest, struct buf *ret)
{
	struct json_parser p;
	struct err e = {0};
	json_parser_init(&p, trace_token, ret);
	int r = 0;
	for (size_t at = 0, n = 1; at < text.n && r == 0; at += n, n = n % widest + 1) {
		if (n > text.n - at)
			n = text.n - at;
		r = json_feed(&p, str_n(text.p + at, n), &e);
	}
	if (r < 0 || json_finish(&p, &e) < 0)
		buf_add_c(ret, e.msg);
}

static void compare_pieces(struct str text)
{
	auto_buf struct buf whole = {0}, ones = {0}, few = {0};
	struct json_parser p;
	struct err e = {0};
	json_parser_init(&p, trace_token, &whole);
	if (json_feed(&p, text, &e) < 0 || json_finish(&p, &e) < 0)
		buf_add_c(&whole, e.msg);
	trace(text, 1, &ones);
	trace(text, 11, &few);
	MUST(str_eq(buf_str(&whole), buf_str(&ones)));
	MUST(str_eq(buf_str(&whole), buf_str(&few)));
}

/* Any bytes written as a string are read back: as they were when they are UTF-8. */
static void write_and_read(struct str bytes)
{
	auto_buf struct buf whole = {0}, pieces = {0};
	json_put_str(&whole, bytes);
	auto_json struct json_doc *d = json_parse(buf_str(&whole), NULL);
	MUST(d && json_root(d)->type == JSON_T_STRING);
	MUST(str_is_utf8(json_root(d)->text));
	MUST(str_eq(json_root(d)->text, bytes) == str_is_utf8(bytes));
	buf_add_byte(&pieces, '"');
	size_t end = 0;
	for (size_t at = 0; at < bytes.n;) {
		end = end + 5 < bytes.n ? end + 5 : bytes.n;
		size_t left = json_put_piece(&pieces, str_n(bytes.p + at, end - at), end == bytes.n);
		MUST(left <= 3);
		at = end - left;
	}
	buf_add_byte(&pieces, '"');
	MUST(str_eq(buf_str(&whole), buf_str(&pieces)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str text = str_n(data, size);
	compare_with_oracle(text);
	compare_pieces(text);
	write_and_read(text);
	return 0;
}
