#include "base/json.h"
#include "test.h"

#include "base/limits.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>

/* ---- tokens, whatever the pieces ---- */

static bool trace_token(void *arg, enum json_token token, struct str text, struct err *e)
{
	static const char *const names[] = {[JSON_OBJECT_BEGIN] = "{",
		[JSON_OBJECT_END] = "}",
		[JSON_ARRAY_BEGIN] = "[",
		[JSON_ARRAY_END] = "]",
		[JSON_KEY_END] = "<K>",
		[JSON_STRING_END] = "<S>",
		[JSON_NUMBER] = "<N>",
		[JSON_TRUE] = "<T>",
		[JSON_FALSE] = "<F>",
		[JSON_NULL] = "<0>"};
	(void)e;
	buf_add_str(arg, text);
	return token == JSON_KEY_CHUNK || token == JSON_STRING_CHUNK || buf_add_c(arg, names[token]);
}

/* Feeds pieces of `step` bytes, the first one `first` long, each from memory of its own so that a sanitizer sees every
 * read past it. The trace, or the error's message, goes into *ret. */
static int trace(struct str text, size_t first, size_t step, struct buf *ret)
{
	struct json_parser p;
	struct err e = {0};
	json_parser_init(&p, trace_token, ret);
	int r = 0;
	for (size_t at = 0, n = first; at < text.n && r == 0; at += n, n = step) {
		if (n > text.n - at)
			n = text.n - at;
		auto_free char *piece = n ? memcpy(xmalloc(n), text.p + at, n) : NULL;
		r = json_feed(&p, str_n(piece, n), &e);
	}
	if (r == 0)
		r = json_finish(&p, &e);
	CHECK(r == 0 || e.code == ERR_BAD_JSON);
	if (r < 0) {
		buf_clear(ret);
		buf_add_c(ret, e.msg);
		CHECK_INT(json_feed(&p, STR(" "), NULL), -1);
		CHECK_INT(json_finish(&p, NULL), -1);
	}
	return r;
}

static void check_trace_n(struct str text, int want, const char *want_trace)
{
	auto_buf struct buf whole = {0};
	CHECK_INT(trace(text, text.n, 1, &whole), want);
	CHECK_STR(buf_str(&whole), want_trace);
	for (size_t split = 0; split < text.n; split++) {
		auto_buf struct buf two = {0};
		CHECK_INT(trace(text, split, text.n, &two), want);
		CHECK_STR(buf_str(&two), want_trace);
	}
	for (size_t step = 1; step < 4; step++) {
		auto_buf struct buf many = {0};
		CHECK_INT(trace(text, step, step, &many), want);
		CHECK_STR(buf_str(&many), want_trace);
	}
}

#define ACCEPTS(lit, tokens) check_trace_n(STR(lit), 0, tokens)
#define REFUSES(lit, msg)    check_trace_n(STR(lit), -1, msg)

TEST(json_takes_every_kind_of_value_at_the_top)
{
	ACCEPTS("null", "<0>");
	ACCEPTS("true", "<T>");
	ACCEPTS("false", "<F>");
	ACCEPTS("0", "0<N>");
	ACCEPTS("\"\"", "<S>");
	ACCEPTS("[]", "[]");
	ACCEPTS("{}", "{}");
	ACCEPTS(" \t\r\n[ \t\r\n] \t\r\n", "[]");
}

TEST(json_takes_nested_structures)
{
	ACCEPTS("{\"a\":[1,{\"b\":null},[[]]],\"\":\"x\"}", "{a<K>[1<N>{b<K><0>}[[]]]<K>x<S>}");
	ACCEPTS("[true,false,null,\"s\",-1]", "[<T><F><0>s<S>-1<N>]");
	ACCEPTS("{ \"a\" : 1 , \"b\" : 2 }", "{a<K>1<N>b<K>2<N>}");
}

TEST(json_takes_every_form_of_number)
{
	ACCEPTS("[0,-0,10,1.5,-0.25,1e3,1E+3,1e-3,0e0,123456789012345678901234567890]",
		"[0<N>-0<N>10<N>1.5<N>-0.25<N>1e3<N>1E+3<N>1e-3<N>0e0<N>123456789012345678901234567890<N>]");
}

TEST(json_refuses_malformed_numbers)
{
	REFUSES("01", "a number must not begin with 0 at line 1 column 1");
	REFUSES("[-01]", "a number must not begin with 0 at line 1 column 3");
	REFUSES("-", "expected a digit but the text ends at line 1 column 2");
	REFUSES("[-]", "expected a digit but found ']' at line 1 column 3");
	REFUSES("+1", "expected a value but found '+' at line 1 column 1");
	REFUSES(".5", "expected a value but found '.' at line 1 column 1");
	REFUSES("1.", "expected a digit but the text ends at line 1 column 3");
	REFUSES("[1.e3]", "expected a digit but found 'e' at line 1 column 4");
	REFUSES("1e", "expected a digit or a sign but the text ends at line 1 column 3");
	REFUSES("[1e+]", "expected a digit but found ']' at line 1 column 5");
	REFUSES("0x10", "expected the end of the text but found 'x' at line 1 column 2");
	REFUSES("1 2", "expected the end of the text but found '2' at line 1 column 3");
	REFUSES("NaN", "expected a value but found 'N' at line 1 column 1");
	REFUSES("-Infinity", "expected a digit but found 'I' at line 1 column 2");
}

TEST(json_number_length_is_bounded)
{
	char text[JSON_NUMBER_MAX + 2];
	memset(text, '7', sizeof text);
	auto_buf struct buf out = {0};
	CHECK_INT(trace(str_n(text, JSON_NUMBER_MAX), 10, 7, &out), 0);
	CHECK_INT(trace(str_n(text, JSON_NUMBER_MAX + 1), 10, 7, &out), -1);
	CHECK_STR(buf_str(&out), "a number longer than 63 characters at line 1 column 1");
}

TEST(json_refuses_malformed_structure)
{
	REFUSES("", "expected a value but the text ends at line 1 column 1");
	REFUSES("  \n ", "expected a value but the text ends at line 2 column 2");
	REFUSES("[1,]", "expected a value but found ']' at line 1 column 4");
	REFUSES("[,1]", "expected a value or ']' but found ',' at line 1 column 2");
	REFUSES("[1 2]", "expected ',' or ']' but found '2' at line 1 column 4");
	REFUSES("[1}", "expected ',' or ']' but found '}' at line 1 column 3");
	REFUSES("[", "expected a value or ']' but the text ends at line 1 column 2");
	REFUSES("[1", "expected ',' or ']' but the text ends at line 1 column 3");
	REFUSES("{", "expected a key in double quotes or '}' but the text ends at line 1 column 2");
	REFUSES("{\"a\":1,}", "expected a key in double quotes but found '}' at line 1 column 8");
	REFUSES("{a:1}", "expected a key in double quotes or '}' but found 'a' at line 1 column 2");
	REFUSES("{'a':1}", "expected a key in double quotes or '}' but found ''' at line 1 column 2");
	REFUSES("{\"a\" 1}", "expected ':' after the key but found '1' at line 1 column 6");
	REFUSES("{\"a\":}", "expected a value but found '}' at line 1 column 6");
	REFUSES("{\"a\":1]", "expected ',' or '}' but found ']' at line 1 column 7");
	REFUSES("{1:2}", "expected a key in double quotes or '}' but found '1' at line 1 column 2");
	REFUSES("]", "expected a value but found ']' at line 1 column 1");
	REFUSES("{} x", "expected the end of the text but found 'x' at line 1 column 4");
	REFUSES("[1,\n 2,\n /* no */ 3]", "expected a value but found '/' at line 3 column 2");
	REFUSES("\xef\xbb\xbf{}", "expected a value but found byte 0xef at line 1 column 1");
	REFUSES("[1]\0", "expected the end of the text but found byte 0x00 at line 1 column 4");
	REFUSES("[\f]", "expected a value or ']' but found byte 0x0c at line 1 column 2");
	REFUSES("[\xc2\xa0]", "expected a value or ']' but found byte 0xc2 at line 1 column 2");
}

TEST(json_refuses_malformed_literals)
{
	REFUSES("nul", "expected true, false or null but the text ends at line 1 column 4");
	REFUSES("[nulL]", "expected true, false or null but found 'L' at line 1 column 5");
	REFUSES("True", "expected a value but found 'T' at line 1 column 1");
	REFUSES("truee", "expected the end of the text but found 'e' at line 1 column 5");
}

TEST(json_decodes_escapes)
{
	ACCEPTS("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t<S>");
	ACCEPTS("\"\\u0041\\u00e4\\u20AC\\uFFFF\"", "A\xc3\xa4\xe2\x82\xac\xef\xbf\xbf<S>");
	ACCEPTS("\"\\ud83d\\ude80\\uDBFF\\uDFFF\"", "\xf0\x9f\x9a\x80\xf4\x8f\xbf\xbf<S>");
	ACCEPTS("{\"a\\u0062c\":1}", "{abc<K>1<N>}");
	REFUSES("\"\\x\"", "expected one of \" \\ / b f n r t u after the backslash but found 'x' at line 1 column 3");
	REFUSES("\"\\u12g4\"", "expected four hexadecimal digits after \\u but found 'g' at line 1 column 6");
	REFUSES("\"\\u12", "expected four hexadecimal digits after \\u but the text ends at line 1 column 6");
	REFUSES("\"\\", "expected one of \" \\ / b f n r t u after the backslash but the text ends at line 1 column 3");
}

TEST(json_refuses_lone_surrogates)
{
	REFUSES("\"\\udc00\"", "a lone surrogate at line 1 column 2");
	REFUSES("\"\\ud800\"", "expected the low half of a surrogate pair but found '\"' at line 1 column 8");
	REFUSES("\"\\ud800x\"", "expected the low half of a surrogate pair but found 'x' at line 1 column 8");
	REFUSES("\"\\ud800\\n\"", "expected the low half of a surrogate pair but found 'n' at line 1 column 9");
	REFUSES("\"\\ud800\\u0041\"", "expected the low half of a surrogate pair at line 1 column 8");
	REFUSES("\"\\ud800\\ud800\"", "expected the low half of a surrogate pair at line 1 column 8");
	/* Written as UTF-8 instead of escapes. */
	REFUSES("\"\xed\xa0\x80\"", "malformed UTF-8 in a string at line 1 column 2");
}

TEST(json_refuses_control_characters_and_malformed_utf8_in_strings)
{
	ACCEPTS("\"\x7f\"", "\x7f<S>");
	ACCEPTS("\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x9a\x80 12345678\"",
		"\xc3\xa4\xe2\x82\xac\xf0\x9f\x9a\x80 12345678<S>");
	REFUSES("\"a\nb\"", "control character 0x0a in a string must be escaped at line 1 column 3");
	REFUSES("\"12345678\x1f\"", "control character 0x1f in a string must be escaped at line 1 column 10");
	REFUSES("\"\0\"", "control character 0x00 in a string must be escaped at line 1 column 2");
	REFUSES("\"\x80\"", "malformed UTF-8 in a string at line 1 column 2");
	REFUSES("\"ab\xc0\x80\"", "malformed UTF-8 in a string at line 1 column 4");
	REFUSES("\"\xe2\x82\"", "malformed UTF-8 in a string at line 1 column 2");
	REFUSES("\"\xf4\x90\x80\x80\"", "malformed UTF-8 in a string at line 1 column 2");
	REFUSES("\"\xff\"", "malformed UTF-8 in a string at line 1 column 2");
	REFUSES("\"\xe2\x82", "expected the end of the string but the text ends at line 1 column 4");
	REFUSES("\"abc", "expected the end of the string but the text ends at line 1 column 5");
}

/* Every byte at every place of an eight-byte step: the fast scanner must agree with the rule. */
TEST(json_scanner_finds_every_special_byte_at_every_place)
{
	for (int c = 0; c < 256; c++)
		for (size_t place = 0; place < 24; place++) {
			char text[27];
			memset(text, 'x', sizeof text);
			text[0] = text[25] = '"';
			text[26] = ' ';
			text[1 + place] = (char)c;
			auto_buf struct buf out = {0};
			bool plain = c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
			CHECK_INT(trace(str_n(text, sizeof text), sizeof text, 1, &out) == 0, plain);
			buf_clear(&out);
			json_put_piece(&out, str_n(text + 1, 24), true);
			CHECK((buf_size(&out) == 24) == plain);
		}
}

TEST(json_depth_is_taken_at_the_limit_and_refused_past_it)
{
	auto_buf struct buf text = {0}, out = {0};
	for (int i = 0; i < JSON_DEPTH_MAX; i++)
		buf_add_c(&text, i % 2 ? "{\"a\":" : "[");
	buf_add_c(&text, "1");
	for (int i = JSON_DEPTH_MAX - 1; i >= 0; i--)
		buf_add_c(&text, i % 2 ? "}" : "]");
	CHECK_INT(trace(buf_str(&text), 1, 5, &out), 0);
	struct json_doc *d = json_parse(buf_str(&text), NULL);
	CHECK(d);
	json_free(d);
	auto_buf struct buf deeper = {0};
	buf_printf(&deeper, "[%s]", buf_cstr(&text));
	CHECK_INT(trace(buf_str(&deeper), 1, 5, &out), -1);
	CHECK(strstr(buf_cstr(&out), "nesting deeper than 64 levels at line 1 column "));
	CHECK(!json_parse(buf_str(&deeper), NULL));
}

enum { TOO_LARGE = 70 }; /* a code of the callback's own */

static bool stop_at_second(void *arg, enum json_token token, struct str text, struct err *e)
{
	(void)token, (void)text;
	if (++*(int *)arg < 2)
		return true;
	err_set(e, TOO_LARGE, "enough");
	return false;
}

TEST(json_callback_ends_the_parse_with_its_own_error)
{
	int calls = 0;
	struct json_parser p;
	struct err e = {0};
	json_parser_init(&p, stop_at_second, &calls);
	CHECK_INT(json_feed(&p, STR("[1,2,3]"), &e), -1);
	CHECK_INT(e.code, TOO_LARGE);
	CHECK_INT(calls, 2);
	CHECK_INT(json_feed(&p, STR("4"), &e), -1);
	CHECK_INT(json_finish(&p, &e), -1);
	CHECK_INT(calls, 2);
}

/* ---- tree ---- */

TEST(json_tree_keeps_order_types_and_text)
{
	struct err e;
	auto_json struct json_doc *d =
		json_parse(STR("{\"z\":[1,\"b\\u0000c\",true,null,{}],\"a\":-2.50,\"\":{}}"), &e);
	CHECK(d);
	const struct json *root = json_root(d), *z = json_get(root, "z");
	CHECK_INT(root->type, JSON_T_OBJECT);
	CHECK_INT(root->count, 3);
	CHECK(root->first == z);
	CHECK_INT(z->count, 5);
	CHECK_STR(z->first->text, "1");
	CHECK_MEM(z->first->next->text.p, z->first->next->text.n, "b\0c", 3);
	CHECK_INT(z->first->next->text.p[3], 0);
	CHECK(z->first->next->next->boolean);
	CHECK_STR(json_get(root, "a")->text, "-2.50");
	CHECK_INT(json_get(root, "")->type, JSON_T_OBJECT);
	CHECK(!json_get(root, "b") && !json_get(z, "z") && !json_get(NULL, "z"));
	CHECK(json_is_null(NULL) && json_is_null(json_get(root, "b")) && !json_is_null(z));
	size_t n = 0;
	json_each(child, z) n += child->key.n == 0;
	CHECK_INT(n, 5);
}

TEST(json_tree_refuses_duplicate_keys_in_one_object_only)
{
	struct err e;
	struct json_doc *d = json_parse(STR("{\"a\":{\"a\":1},\"b\":[{\"a\":1},{\"a\":2}]}"), &e);
	CHECK(d);
	json_free(d);
	CHECK(!json_parse(STR("{\"a\":1,\n \"b\":2, \"\\u0061\":3}"), &e));
	CHECK_INT(e.code, ERR_BAD_JSON);
	CHECK_CSTR(e.msg, "key 'a' is given twice in the object that ends at line 2 column 19");
	CHECK(!json_parse(STR("{\"\":1,\"\":2}"), NULL));
	d = json_parse(STR("{\"a\":1,\"a\\u0000\":2}"), &e);
	CHECK(d);
	json_free(d);
}

static void put_many_members(struct buf *b, int n, int repeated)
{
	buf_add_c(b, "{");
	for (int i = 0; i < n; i++)
		buf_printf(b, "%s\"k%d\":0", i ? "," : "", i == n - 1 && repeated >= 0 ? repeated : i);
	buf_add_c(b, "}");
}

TEST(json_tree_finds_duplicates_among_any_number_of_keys)
{
	struct err e;
	for (int n = 2; n < 40; n++)
		for (int repeated = -1; repeated < n - 1; repeated++) {
			auto_buf struct buf text = {0};
			put_many_members(&text, n, repeated);
			auto_json struct json_doc *d = json_parse(buf_str(&text), &e);
			CHECK_INT(d != NULL, repeated < 0);
		}
}

TEST(json_tree_takes_as_many_nodes_as_the_limit_and_no_more)
{
	struct err e;
	auto_buf struct buf text = {0};
	put_many_members(&text, JSON_NODES_MAX - 1, -1);
	struct json_doc *d = json_parse(buf_str(&text), &e);
	CHECK(d);
	CHECK_INT(json_root(d)->count, JSON_NODES_MAX - 1);
	json_free(d);
	buf_clear(&text);
	put_many_members(&text, JSON_NODES_MAX, -1);
	CHECK(!json_parse(buf_str(&text), &e));
	CHECK_INT(e.code, ERR_BAD_JSON);
	CHECK(strstr(e.msg, "more than 65536 values at line 1 column "));
}

/* ---- typed readers ---- */

static const char *reading(const char *text, const char *kind, void *ret)
{
	static struct err e;
	e = (struct err){.msg = "fine"};
	static struct json_doc *kept; /* until the next call: *ret may point into it */
	json_free(kept);
	kept = json_parse(str_of(text), &e);
	CHECK(kept);
	const struct json *o = json_root(kept);
	int r = strcmp(kind, "str") == 0      ? json_read_str(o, "f", ret, &e)
		: strcmp(kind, "cstr") == 0   ? json_read_cstr(o, "f", ret, &e)
		: strcmp(kind, "u64") == 0    ? json_read_u64(o, "f", 3, 1000, ret, &e)
		: strcmp(kind, "double") == 0 ? json_read_double(o, "f", ret, &e)
					      : json_read_bool(o, "f", ret, &e);
	CHECK_INT(r, strcmp(e.msg, "fine") == 0 ? 0 : -1);
	CHECK(r == 0 || (e.code == ERR_BAD_FIELD && strcmp(e.field, "f") == 0));
	return e.msg;
}

TEST(json_readers_leave_the_value_alone_when_the_member_is_missing_or_null)
{
	struct str s = STR("kept");
	const char *c = "kept", *texts[] = {"{}", "{\"f\":null}", "[1]", "7"};
	uint64_t u = 7;
	double d = 7;
	bool b = true;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		CHECK_CSTR(reading(texts[i], "str", &s), "fine");
		CHECK_CSTR(reading(texts[i], "cstr", &c), "fine");
		CHECK_CSTR(reading(texts[i], "u64", &u), "fine");
		CHECK_CSTR(reading(texts[i], "double", &d), "fine");
		CHECK_CSTR(reading(texts[i], "bool", &b), "fine");
	}
	CHECK_STR(s, "kept");
	CHECK_CSTR(c, "kept");
	CHECK(u == 7 && d > 6.9 && d < 7.1 && b);
}

TEST(json_read_str_and_cstr)
{
	struct str s;
	const char *c;
	CHECK_CSTR(reading("{\"f\":\"a\\u0000b\"}", "str", &s), "fine");
	CHECK_MEM(s.p, s.n, "a\0b", 3);
	CHECK_CSTR(reading("{\"f\":\"a\\u0000b\"}", "cstr", &c), "field 'f' must not hold a NUL character");
	CHECK_CSTR(reading("{\"f\":\"\"}", "cstr", &c), "fine");
	CHECK_CSTR(c, "");
	CHECK_CSTR(reading("{\"f\":1}", "str", &s), "field 'f' must be a string");
	CHECK_CSTR(reading("{\"f\":[\"a\"]}", "cstr", &c), "field 'f' must be a string");
}

TEST(json_read_u64_takes_whole_numbers_in_range)
{
	uint64_t u = 0;
	static const char *const good[] = {"30", "30.0", "3e1", "3.0E+1", "300e-1"};
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		char text[64];
		snprintf(text, sizeof text, "{\"f\":%s}", good[i]);
		CHECK_CSTR(reading(text, "u64", &u), "fine");
		CHECK_INT(u, 30);
	}
	CHECK_CSTR(reading("{\"f\":3}", "u64", &u), "fine");
	CHECK_CSTR(reading("{\"f\":1000}", "u64", &u), "fine");
	CHECK_INT(u, 1000);
	static const char *const out[] = {"2", "1001", "-5", "-0", "1e300", "1e999", "-1e999", "18446744073709551616"};
	for (size_t i = 0; i < ARRAY_LEN(out); i++) {
		char text[64];
		snprintf(text, sizeof text, "{\"f\":%s}", out[i]);
		CHECK_CSTR(reading(text, "u64", &u), "field 'f' must be between 3 and 1000");
	}
	CHECK_CSTR(reading("{\"f\":3.5}", "u64", &u), "field 'f' must be a whole number");
	CHECK_CSTR(reading("{\"f\":-3.5}", "u64", &u), "field 'f' must be a whole number");
	CHECK_CSTR(reading("{\"f\":\"3\"}", "u64", &u), "field 'f' must be a whole number");
	CHECK_INT(u, 1000);
}

TEST(json_read_u64_keeps_all_bits)
{
	auto_json struct json_doc *d = json_parse(STR("{\"f\":18446744073709551615,\"g\":9007199254740993}"), NULL);
	uint64_t u = 0;
	CHECK_INT(json_read_u64(json_root(d), "f", 0, UINT64_MAX, &u, NULL), 0);
	CHECK(u == UINT64_MAX);
	CHECK_INT(json_read_u64(json_root(d), "g", 0, UINT64_MAX, &u, NULL), 0);
	CHECK(u == 9007199254740993ull);
}

TEST(json_read_double_and_bool)
{
	double d = 0;
	bool b = false;
	CHECK_CSTR(reading("{\"f\":-2.5e-1}", "double", &d), "fine");
	CHECK(d == -0.25);
	CHECK_CSTR(reading("{\"f\":1e999}", "double", &d), "field 'f' is out of range");
	CHECK_CSTR(reading("{\"f\":true}", "double", &d), "field 'f' must be a number");
	CHECK_CSTR(reading("{\"f\":true}", "bool", &b), "fine");
	CHECK(b);
	CHECK_CSTR(reading("{\"f\":0}", "bool", &b), "field 'f' must be true or false");
	CHECK_CSTR(reading("{\"f\":\"true\"}", "bool", &b), "field 'f' must be true or false");
}

/* ---- writer ---- */

static void check_put(struct str s, const char *want)
{
	auto_buf struct buf b = {0};
	json_put_str(&b, s);
	CHECK_STR(buf_str(&b), want);
	auto_json struct json_doc *d = json_parse(buf_str(&b), NULL);
	CHECK(d);
	CHECK(!str_is_utf8(s) || str_eq(json_root(d)->text, s));
	/* In two pieces, cut anywhere, with what was left out given again. */
	for (size_t cut = 0; cut <= s.n; cut++) {
		auto_buf struct buf p = {0};
		buf_add_byte(&p, '"');
		size_t left = json_put_piece(&p, str_n(s.p, cut), false);
		CHECK(left <= 3 && left <= cut);
		CHECK_INT(json_put_piece(&p, str_skip(s, cut - left), true), 0);
		buf_add_byte(&p, '"');
		CHECK_STR(buf_str(&p), want);
	}
}

TEST(json_put_escapes_what_must_be)
{
	check_put(STR(""), "\"\"");
	check_put(STR("plain text, long enough for two steps"), "\"plain text, long enough for two steps\"");
	check_put(STR("a\"b\\c/\b\f\n\r\t\x7f"), "\"a\\\"b\\\\c/\\b\\f\\n\\r\\t\x7f\"");
	check_put(STR("\0\x01\x1f"), "\"\\u0000\\u0001\\u001f\"");
	check_put(STR("\xc3\xa4\xe2\x82\xac\xf0\x9f\x9a\x80"), "\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x9a\x80\"");
}

#define FFFD "\xef\xbf\xbd"

TEST(json_put_replaces_each_maximal_malformed_piece)
{
	check_put(STR("\xff"), "\"" FFFD "\"");
	check_put(STR("a\x80\x80z"), "\"a" FFFD FFFD "z\"");
	check_put(STR("\xe2\x82z"), "\"" FFFD "z\"");
	check_put(STR("\xe2\x82"), "\"" FFFD "\"");
	check_put(STR("\xe2\x82\xe2\x82\xac"), "\"" FFFD "\xe2\x82\xac\"");
	check_put(STR("\xf0\x9f\x9a"), "\"" FFFD "\"");
	check_put(STR("\xf0\x80\x80"), "\"" FFFD FFFD FFFD "\"");
	check_put(STR("\xc0\xaf"), "\"" FFFD FFFD "\"");
	check_put(STR("\xed\xa0\x80"), "\"" FFFD FFFD FFFD "\"");
	check_put(STR("\xf4\x90\x80\x80"), "\"" FFFD FFFD FFFD FFFD "\"");
	/* Unicode's own example (chapter 3, table 3-8). */
	check_put(STR("a\xf1\x80\x80\xe1\x80\xc2"
		      "b\x80"
		      "c\x80\xbf"
		      "d"),
		"\"a" FFFD FFFD FFFD "b" FFFD "c" FFFD FFFD "d\"");
}

TEST(json_put_stops_at_the_buffers_maximum)
{
	struct buf b = {.max = 8};
	json_put_str(&b, STR("\n\n\n\n\n\n\n\n\n\n"));
	CHECK(b.failed);
	CHECK(buf_size(&b) <= 8);
	buf_free(&b);
}

TEST(json_writer_sets_commas)
{
	auto_buf struct buf b = {0};
	struct json_writer w = json_writer(&b);
	json_object_begin(&w);
	json_member_str(&w, "s", STR("x\n"));
	json_member_cstr(&w, "c", "y");
	json_member_cstr(&w, "none", NULL);
	json_member_u64(&w, "u", UINT64_MAX);
	json_member_i64(&w, "i", INT64_MIN);
	json_member_bool(&w, "t", true);
	json_member_double(&w, "d", 0.1);
	json_key(&w, "a");
	json_array_begin(&w);
	json_array_begin(&w);
	json_array_end(&w);
	json_object_begin(&w);
	json_object_end(&w);
	json_null(&w);
	json_raw(&w, STR("[1]"));
	json_bool(&w, false);
	json_array_end(&w);
	json_member_u64(&w, "end", 0);
	json_object_end(&w);
	CHECK_STR(buf_str(&b),
		"{\"s\":\"x\\n\",\"c\":\"y\",\"none\":null,\"u\":18446744073709551615,\"i\":-9223372036854775808,"
		"\"t\":true,\"d\":0.1,\"a\":[[],{},null,[1],false],\"end\":0}");
	auto_json struct json_doc *d = json_parse(buf_str(&b), NULL);
	CHECK(d);
}

TEST(json_writer_makes_an_object_with_one_list)
{
	auto_buf struct buf b = {0};
	struct json_writer w = json_writer(&b);
	json_array_begin(&w);
	for (int n = 0; n < 3; n++) {
		json_list_begin(&w, "items");
		for (int i = 0; i < n; i++)
			json_u64(&w, (uint64_t)i);
		json_list_end(&w);
	}
	json_array_end(&w);
	CHECK_STR(buf_str(&b), "[{\"items\":[]},{\"items\":[0]},{\"items\":[0,1]}]");
}

TEST(json_writer_doubles_read_back_as_the_same_number)
{
	const double values[] = {0, -0.0, 1, 0.1, 1.0 / 3, 1e21, 5e-324, DBL_MAX, -DBL_MIN, 123456789.125, 1e-7};
	for (size_t i = 0; i < ARRAY_LEN(values); i++) {
		auto_buf struct buf b = {0};
		struct json_writer w = json_writer(&b);
		json_object_begin(&w);
		json_member_double(&w, "f", values[i]);
		json_object_end(&w);
		auto_json struct json_doc *d = json_parse(buf_str(&b), NULL);
		CHECK(d);
		double back = 42;
		CHECK_INT(json_read_double(json_root(d), "f", &back, NULL), 0);
		CHECK_MEM((const char *)&back, sizeof back, (const char *)&values[i], sizeof back);
	}
	auto_buf struct buf b = {0};
	struct json_writer w = json_writer(&b);
	json_array_begin(&w);
	json_double(&w, (double)NAN);
	json_double(&w, -(double)INFINITY);
	json_array_end(&w);
	CHECK_STR(buf_str(&b), "[null,null]");
}

TEST(a_tree_is_written_as_the_text_it_came_from)
{
	static const char text[] = "{\"a\":[1,2.50,-0,true,null,\"\\u0001\"],\"b\":{\"c\":{},\"d\":[]}}";
	struct err e;
	struct json_doc *d = json_parse(str_of(text), &e);
	auto_buf struct buf b = {0};
	CHECK(d != NULL);
	json_put_tree(&b, json_root(d));
	CHECK_STR(buf_str(&b), text);
	json_free(d);
}

TEST_MAIN()
