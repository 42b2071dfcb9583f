/*
 * The push tokenizer: a state machine over bytes. Between two pieces it holds its state, the nesting stack and at most
 * one unfinished number, escape or UTF-8 sequence. Every function below takes the piece from p->at on and moves it.
 */
#include "base/json.h"

#include <stdio.h>

#include "base/json_scan.h"
#include "base/limits.h"

enum state {
	S_VALUE,
	S_VALUE_OR_END, /* behind '[' */
	S_KEY,
	S_KEY_OR_END, /* behind '{' */
	S_COLON,
	S_AFTER, /* behind a value */
	S_STRING,
	S_UTF8,
	S_ESCAPE,
	S_HEX,
	S_LOW_BACKSLASH, /* behind a high surrogate: the low one must follow */
	S_LOW_U,
	S_NUMBER,
	S_LITERAL,
};

enum number_state { N_MINUS, N_ZERO, N_INT, N_DOT, N_FRAC, N_E, N_E_SIGN, N_EXP };

void json_parser_init(struct json_parser *p, json_on_token on_token, void *arg)
{
	*p = (struct json_parser){.on_token = on_token, .arg = arg, .line = 1, .state = S_VALUE, .piece = "", .at = ""};
}

static uint64_t position(const struct json_parser *p)
{
	return p->offset + (uint64_t)(p->at - p->piece);
}

void json_where(const struct json_parser *p, uint64_t *ret_line, uint64_t *ret_column)
{
	*ret_line = p->line;
	*ret_column = position(p) - p->line_start + 1;
}

/* `back`: how many bytes before the current one the mistake began. */
static bool json_fail(struct json_parser *p, uint64_t back, struct err *e, const char *what)
{
	uint64_t line, column;
	json_where(p, &line, &column);
	p->failed = true;
	err_set(e, ERR_BAD_JSON, "%s at line %llu column %llu", what, (unsigned long long)line,
		(unsigned long long)(column - back));
	return false;
}

/* "expected … but found …", the latter being the current byte or, without one, the end of the text. */
static bool fail_expected(struct json_parser *p, struct err *e, const char *expected, bool at_end)
{
	char what[160], found[32] = "the text ends";
	unsigned char c = at_end ? 0 : (unsigned char)*p->at;
	if (!at_end && c > 0x20 && c < 0x7f)
		snprintf(found, sizeof found, "found '%c'", c);
	else if (!at_end)
		snprintf(found, sizeof found, "found byte 0x%02x", c);
	snprintf(what, sizeof what, "expected %s but %s", expected, found);
	return json_fail(p, 0, e, what);
}

static bool emit(struct json_parser *p, enum json_token token, struct str text, struct err *e)
{
	if (!p->on_token || p->on_token(p->arg, token, text, e))
		return true;
	p->failed = true;
	return false;
}

static bool emit_chunk(struct json_parser *p, struct str text, struct err *e)
{
	return text.n == 0 || emit(p, p->in_key ? JSON_KEY_CHUNK : JSON_STRING_CHUNK, text, e);
}

/* ---- structure ---- */

static bool in_object(const struct json_parser *p)
{
	return p->depth && p->stack[p->depth - 1] == '{';
}

static const char *expectation(const struct json_parser *p)
{
	switch ((enum state)p->state) {
	case S_VALUE:
		return "a value";
	case S_VALUE_OR_END:
		return "a value or ']'";
	case S_KEY:
		return "a key in double quotes";
	case S_KEY_OR_END:
		return "a key in double quotes or '}'";
	case S_COLON:
		return "':' after the key";
	case S_AFTER:
		return !p->depth ? "the end of the text" : in_object(p) ? "',' or '}'" : "',' or ']'";
	case S_ESCAPE:
		return "one of \" \\ / b f n r t u after the backslash";
	case S_HEX:
		return "four hexadecimal digits after \\u";
	case S_LOW_BACKSLASH:
	case S_LOW_U:
		return "the low half of a surrogate pair";
	case S_LITERAL:
		return "true, false or null";
	case S_NUMBER:
		return p->number_state == N_E ? "a digit or a sign" : "a digit";
	case S_STRING:
	case S_UTF8:
		break;
	}
	return "the end of the string";
}

static bool open_level(struct json_parser *p, struct err *e)
{
	if (p->depth == JSON_DEPTH_MAX) {
		char what[64];
		snprintf(what, sizeof what, "nesting deeper than %d levels", JSON_DEPTH_MAX);
		return json_fail(p, 0, e, what);
	}
	char c = *p->at;
	p->stack[p->depth++] = (unsigned char)c;
	p->state = c == '{' ? S_KEY_OR_END : S_VALUE_OR_END;
	return emit(p, c == '{' ? JSON_OBJECT_BEGIN : JSON_ARRAY_BEGIN, STR_NULL, e);
}

static bool close_level(struct json_parser *p, struct err *e)
{
	bool object = in_object(p);
	p->depth--;
	p->state = S_AFTER;
	return emit(p, object ? JSON_OBJECT_END : JSON_ARRAY_END, STR_NULL, e);
}

static void begin_string(struct json_parser *p, bool key)
{
	p->in_key = key;
	p->state = S_STRING;
}

static void begin_number(struct json_parser *p)
{
	char c = *p->at;
	p->number_state = c == '-' ? N_MINUS : c == '0' ? N_ZERO : N_INT;
	p->pending[0] = c;
	p->pending_len = 1;
	p->state = S_NUMBER;
}

static bool begin_value(struct json_parser *p, struct err *e)
{
	char c = *p->at;
	if (c == '{' || c == '[')
		return open_level(p, e);
	if (c == '"') {
		begin_string(p, false);
	} else if (c == '-' || (c >= '0' && c <= '9')) {
		begin_number(p);
	} else if (c == 't' || c == 'f' || c == 'n') {
		p->literal = c == 't' ? "rue" : c == 'f' ? "alse" : "ull";
		p->code = (uint32_t)(c == 't' ? JSON_TRUE : c == 'f' ? JSON_FALSE : JSON_NULL);
		p->state = S_LITERAL;
	} else {
		return fail_expected(p, e, expectation(p), false);
	}
	return true;
}

static bool after_value(struct json_parser *p, struct err *e)
{
	char c = *p->at;
	if (p->depth && c == ',') {
		p->state = in_object(p) ? S_KEY : S_VALUE;
		return true;
	}
	if (p->depth && c == (in_object(p) ? '}' : ']'))
		return close_level(p, e);
	return fail_expected(p, e, expectation(p), false);
}

/* One byte between the values; blanks are passed over. */
static bool take_structure(struct json_parser *p, struct err *e)
{
	char c = *p->at;
	bool ok = true;
	if (c == '\n') {
		p->line++;
		p->line_start = position(p) + 1;
	} else if (c == ' ' || c == '\t' || c == '\r') {
		ok = true;
	} else if (p->state == S_AFTER) {
		ok = after_value(p, e);
	} else if (p->state == S_COLON && c == ':') {
		p->state = S_VALUE;
	} else if ((p->state == S_KEY || p->state == S_KEY_OR_END) && c == '"') {
		begin_string(p, true);
	} else if ((p->state == S_KEY_OR_END && c == '}') || (p->state == S_VALUE_OR_END && c == ']')) {
		ok = close_level(p, e);
	} else if (p->state == S_VALUE || p->state == S_VALUE_OR_END) {
		ok = begin_value(p, e);
	} else {
		ok = fail_expected(p, e, expectation(p), false);
	}
	p->at++;
	return ok;
}

/* ---- numbers and literals ---- */

/* The state that follows `n` on c, or -1 when the number cannot go on with c. */
static int number_next(enum number_state n, char c)
{
	bool digit = c >= '0' && c <= '9', e = c == 'e' || c == 'E';
	switch (n) {
	case N_MINUS:
		return c == '0' ? N_ZERO : digit ? N_INT : -1;
	case N_ZERO:
		return c == '.' ? N_DOT : e ? N_E : -1;
	case N_INT:
		return digit ? N_INT : c == '.' ? N_DOT : e ? N_E : -1;
	case N_DOT:
		return digit ? N_FRAC : -1;
	case N_FRAC:
		return digit ? N_FRAC : e ? N_E : -1;
	case N_E:
		return digit ? N_EXP : c == '+' || c == '-' ? N_E_SIGN : -1;
	case N_E_SIGN:
	case N_EXP:
		return digit ? N_EXP : -1;
	}
	return -1;
}

static bool number_complete(const struct json_parser *p)
{
	enum number_state n = (enum number_state)p->number_state;
	return n == N_ZERO || n == N_INT || n == N_FRAC || n == N_EXP;
}

static bool end_number(struct json_parser *p, struct err *e)
{
	p->state = S_AFTER;
	return emit(p, JSON_NUMBER, str_n(p->pending, p->pending_len), e);
}

static bool take_number(struct json_parser *p, const char *end, struct err *e)
{
	for (; p->at < end; p->at++) {
		int next = number_next((enum number_state)p->number_state, *p->at);
		if (next < 0 && p->number_state == N_ZERO && *p->at >= '0' && *p->at <= '9')
			return json_fail(p, 1, e, "a number must not begin with 0");
		if (next < 0)
			return number_complete(p) ? end_number(p, e) : fail_expected(p, e, expectation(p), false);
		if (p->pending_len == JSON_NUMBER_MAX) {
			char what[64];
			snprintf(what, sizeof what, "a number longer than %d characters", JSON_NUMBER_MAX);
			return json_fail(p, p->pending_len, e, what);
		}
		p->pending[p->pending_len++] = *p->at;
		p->number_state = (unsigned char)next;
	}
	return true;
}

static bool take_literal(struct json_parser *p, const char *end, struct err *e)
{
	for (; *p->literal; p->literal++, p->at++) {
		if (p->at == end)
			return true;
		if (*p->at != *p->literal)
			return fail_expected(p, e, expectation(p), false);
	}
	p->state = S_AFTER;
	return emit(p, (enum json_token)p->code, STR_NULL, e);
}

/* ---- strings ---- */

/* The character that the letter behind a backslash stands for. */
static const char plain_escapes[256] = {
	['"'] = '"', ['\\'] = '\\', ['/'] = '/', ['b'] = '\b', ['f'] = '\f', ['n'] = '\n', ['r'] = '\r', ['t'] = '\t'};

static bool end_string(struct json_parser *p, struct err *e)
{
	p->state = p->in_key ? S_COLON : S_AFTER;
	return emit(p, p->in_key ? JSON_KEY_END : JSON_STRING_END, STR_NULL, e);
}

/* A sequence that the piece cuts, or a malformed one: byte by byte, to tell where. */
static bool take_utf8(struct json_parser *p, struct err *e)
{
	p->pending[p->pending_len++] = *p->at;
	int len = str_utf8_len(str_n(p->pending, p->pending_len));
	if (len == 0)
		return json_fail(p, p->pending_len - 1, e, "malformed UTF-8 in a string");
	p->at++;
	if (len < 0)
		return true;
	p->state = S_STRING;
	return emit_chunk(p, str_n(p->pending, (size_t)len), e);
}

static size_t encode_utf8(uint32_t c, char ret[4])
{
	if (c < 0x80) {
		ret[0] = (char)c;
		return 1;
	}
	size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
	for (size_t i = n - 1; i > 0; i--, c >>= 6)
		ret[i] = (char)(0x80 | (c & 0x3f));
	ret[0] = (char)(c | (0xf00u >> n));
	return n;
}

static bool emit_code(struct json_parser *p, uint32_t code, struct err *e)
{
	char utf8[4];
	p->state = S_STRING;
	return emit_chunk(p, str_n(utf8, encode_utf8(code, utf8)), e);
}

static bool end_escape(struct json_parser *p, struct err *e)
{
	bool is_high = (p->code & 0xfc00) == 0xd800, is_low = (p->code & 0xfc00) == 0xdc00;
	if (p->high ? !is_low : is_low)
		return json_fail(p, 6, e, p->high ? "expected the low half of a surrogate pair" : "a lone surrogate");
	if (is_high) {
		p->high = p->code;
		p->state = S_LOW_BACKSLASH;
		return true;
	}
	uint32_t code = p->high ? 0x10000 + ((p->high & 0x3ff) << 10) + (p->code & 0x3ff) : p->code;
	p->high = 0;
	return emit_code(p, code, e);
}

static bool take_hex(struct json_parser *p, struct err *e)
{
	char c = *p->at;
	uint32_t lower = (uint32_t)(c | 0x20);
	bool digit = c >= '0' && c <= '9';
	if (!digit && (lower < 'a' || lower > 'f'))
		return fail_expected(p, e, expectation(p), false);
	p->code = p->code * 16 + (digit ? (uint32_t)(c - '0') : lower - 'a' + 10);
	p->at++;
	return ++p->digits < 4 || end_escape(p, e);
}

static bool take_escape(struct json_parser *p, struct err *e)
{
	char plain = plain_escapes[(unsigned char)*p->at];
	if (p->state == S_LOW_BACKSLASH && *p->at == '\\') {
		p->state = S_LOW_U;
	} else if (p->state != S_LOW_BACKSLASH && *p->at == 'u') {
		p->state = S_HEX;
		p->code = 0;
		p->digits = 0;
	} else if (p->state == S_ESCAPE && plain) {
		p->at++;
		p->state = S_STRING;
		return emit_chunk(p, str_n(&plain, 1), e);
	} else {
		return fail_expected(p, e, expectation(p), false);
	}
	p->at++;
	return true;
}

static bool take_string(struct json_parser *p, const char *end, struct err *e)
{
	struct str rest = str_n(p->at, (size_t)(end - p->at));
	struct str chunk = str_n(rest.p, json_literal_len(rest));
	if (!emit_chunk(p, chunk, e))
		return false;
	p->at += chunk.n;
	if (p->at == end)
		return true;
	unsigned char c = (unsigned char)*p->at;
	if (c >= 0x80) {
		p->state = S_UTF8;
		p->pending_len = 0;
		return true;
	}
	if (c < 0x20) {
		char what[96];
		snprintf(what, sizeof what, "control character 0x%02x in a string must be escaped", c);
		return json_fail(p, 0, e, what);
	}
	p->at++;
	if (c == '"')
		return end_string(p, e);
	p->state = S_ESCAPE;
	return p->at == end || take_escape(p, e);
}

/* ---- driver ---- */

static bool take_some(struct json_parser *p, const char *end, struct err *e)
{
	switch ((enum state)p->state) {
	case S_STRING:
		return take_string(p, end, e);
	case S_UTF8:
		return take_utf8(p, e);
	case S_ESCAPE:
	case S_LOW_BACKSLASH:
	case S_LOW_U:
		return take_escape(p, e);
	case S_HEX:
		return take_hex(p, e);
	case S_NUMBER:
		return take_number(p, end, e);
	case S_LITERAL:
		return take_literal(p, end, e);
	case S_VALUE:
	case S_VALUE_OR_END:
	case S_KEY:
	case S_KEY_OR_END:
	case S_COLON:
	case S_AFTER:
		break;
	}
	return take_structure(p, e);
}

static int fail_again(struct err *e)
{
	return err_set(e, ERR_BAD_JSON, "the JSON text was refused before");
}

int json_feed(struct json_parser *p, struct str bytes, struct err *e)
{
	if (p->failed)
		return fail_again(e);
	if (bytes.n == 0)
		return 0;
	const char *end = bytes.p + bytes.n;
	p->piece = p->at = bytes.p;
	while (p->at < end)
		if (!take_some(p, end, e))
			return -1;
	p->offset += bytes.n;
	p->piece = p->at = ""; /* the caller's bytes may be gone by the next call */
	return 0;
}

int json_finish(struct json_parser *p, struct err *e)
{
	if (p->failed)
		return fail_again(e);
	if (p->state == S_NUMBER && number_complete(p) && !end_number(p, e))
		return -1;
	if (p->state == S_AFTER && p->depth == 0)
		return 0;
	fail_expected(p, e, expectation(p), true);
	return -1;
}
