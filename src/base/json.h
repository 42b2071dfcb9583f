/*
 * json.h - strict JSON (RFC 8259): a push tokenizer, a bounded tree on top of it, and a writer.
 *
 * The tokenizer takes bytes in pieces of any size and holds no more than one number or one UTF-8 sequence: a string of
 * a gigabyte passes through in constant memory as chunks. It refuses what the RFC refuses: comments, trailing commas,
 * leading zeros, control characters and malformed UTF-8 in strings, lone surrogates, anything but white space after the
 * value, nesting past JSON_DEPTH_MAX, numbers longer than JSON_NUMBER_MAX. Errors name line and column (both from 1,
 * columns in bytes).
 *
 * The tree is for requests: objects with few members, looked up by name. It lives in one arena and is freed whole.
 * A duplicate key is an error (INVALID_JSON): two parsers that disagree on which one counts are an attack surface.
 *
 * Strings may hold NUL (as \u0000): callers that pass them to the kernel must check (json_read_cstr does).
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/limits.h"
#include "base/str.h"

/* ---- push tokenizer ---- */

enum json_token {
	JSON_OBJECT_BEGIN,
	JSON_OBJECT_END,
	JSON_ARRAY_BEGIN,
	JSON_ARRAY_END,
	JSON_KEY_CHUNK,	   /* text: a decoded piece of a key … */
	JSON_KEY_END,	   /* … and its end (a key may come in any number of chunks, also none) */
	JSON_STRING_CHUNK, /* the same for string values */
	JSON_STRING_END,
	JSON_NUMBER, /* text: the literal, as written */
	JSON_TRUE,
	JSON_FALSE,
	JSON_NULL,
};

/* Return false to stop: json_feed then fails with the error that the callback left in *e. */
typedef bool (*json_on_token)(void *arg, enum json_token token, struct str text, struct err *e);

struct json_parser {
	json_on_token on_token;
	void *arg;
	/* Where we are: bytes before this piece, the piece, and where the current line began. json_where() reads them.
	 */
	uint64_t offset, line, line_start;
	const char *piece, *at;
	int depth;
	unsigned char stack[JSON_DEPTH_MAX]; /* '{' or '[' per level */
	unsigned char state, number_state;
	bool failed, in_key;
	char pending[JSON_NUMBER_MAX + 1]; /* a number or UTF-8 sequence that is not complete yet */
	size_t pending_len;
	const char *literal; /* the rest of true, false or null that must follow */
	uint32_t code, high; /* \u escape: its value so far, the high surrogate before it */
	int digits;
};

/* Without on_token the text is checked, no more. */
void json_parser_init(struct json_parser *p, json_on_token on_token, void *arg);
/* 0, or -1 with INVALID_JSON "… at line 3 column 7". After a failure every call fails. */
int json_feed(struct json_parser *p, struct str bytes, struct err *e);
/* Ends the input: fails when the value is not complete. */
int json_finish(struct json_parser *p, struct err *e);
/* Where the tokenizer stands, at the end of the current token or just behind it: for the errors of callbacks. */
void json_where(const struct json_parser *p, uint64_t *ret_line, uint64_t *ret_column);

/* ---- tree ---- */

enum json_type { JSON_T_NULL, JSON_T_BOOL, JSON_T_NUMBER, JSON_T_STRING, JSON_T_ARRAY, JSON_T_OBJECT };

struct json {
	enum json_type type;
	bool boolean;
	struct str key;	    /* when a member of an object */
	struct str text;    /* string (decoded) or number literal; a NUL stands behind it */
	struct json *first; /* children */
	struct json *next;  /* sibling */
	size_t count;	    /* children */
};

struct json_doc;
/* Parses a whole text; nothing of it is referenced afterwards. At most JSON_NODES_MAX nodes. NULL on failure. */
struct json_doc *json_parse(struct str text, struct err *e);
const struct json *json_root(const struct json_doc *d);
/* The same for the owner of the document, who may change keys; texts that they point to must outlive it. */
struct json *json_edit(struct json_doc *d);
void json_free(struct json_doc *d); /* NULL is fine */
/* Overwrites all texts of a tree that holds secrets and is not read any more. */
void json_wipe(struct json_doc *d);
static inline void guard_json(struct json_doc **d)
{
	json_free(*d);
}
#define auto_json                                                                                                      \
	__attribute__((cleanup(guard_json), unused)) /* some documents only keep what points into them alive */

#define json_each(it, parent) for (const struct json *it = (parent) ? (parent)->first : NULL; it; it = it->next)

/* All accept a NULL node and then answer as for a missing member. */
const struct json *json_get(const struct json *object, const char *key);
bool json_is_null(const struct json *j); /* missing or null */

/* Typed reading of a member with one sentence per mistake: "field 'timeout' must be a whole number".
 * A missing or null member is not an error: *ret stays as it is and 0 is returned. Errors are VALIDATION_FAILED. */
int json_read_str(const struct json *object, const char *key, struct str *ret, struct err *e);
int json_read_cstr(const struct json *object, const char *key, const char **ret, struct err *e); /* refuses NUL bytes */
/* 30, 30.0 and 3e1 are the same number to every client, so also here. */
int json_read_u64(const struct json *object, const char *key, uint64_t min, uint64_t max, uint64_t *ret, struct err *e);
int json_read_double(const struct json *object, const char *key, double *ret, struct err *e);
int json_read_bool(const struct json *object, const char *key, bool *ret, struct err *e);

/* ---- writer: straight into a buffer ---- */

/* With quotes and escapes. Malformed UTF-8 becomes U+FFFD, one for each maximal bad piece. */
void json_put_str(struct buf *b, struct str s);
void json_put_cstr(struct buf *b, const char *c);
/* A tree as text again: the same value, without the white space. */
void json_put_tree(struct buf *b, const struct json *j);
/* A JSON text (well-formed UTF-8) again, with \u escapes for everything past ASCII: for readers that decode pieces. */
void json_put_ascii(struct buf *b, struct str text);
/* The inside of a string literal only, for strings that come in pieces. Returns how many bytes at the end of `s` were
 * left out because they may begin a UTF-8 sequence that the next piece completes (0..3); with `final` none are. */
size_t json_put_piece(struct buf *b, struct str s, bool final);

/* An object or array with commas set right:
 *	struct json_writer w = json_writer(&buf);
 *	json_object_begin(&w); json_member_str(&w, "id", id); json_object_end(&w);
 */
struct json_writer {
	struct buf *out;
	bool comma;
};
static inline struct json_writer json_writer(struct buf *out)
{
	return (struct json_writer){.out = out};
}
void json_object_begin(struct json_writer *w);
void json_object_end(struct json_writer *w);
void json_array_begin(struct json_writer *w);
void json_array_end(struct json_writer *w);
void json_key(struct json_writer *w, const char *key); /* then exactly one value */
/* An object with one list: {"key":[…]}. */
void json_list_begin(struct json_writer *w, const char *key);
void json_list_end(struct json_writer *w);
void json_str(struct json_writer *w, struct str s);
void json_cstr(struct json_writer *w, const char *c); /* NULL writes null */
void json_u64(struct json_writer *w, uint64_t v);
void json_i64(struct json_writer *w, int64_t v);
void json_double(struct json_writer *w, double v); /* NaN and infinities write null */
void json_bool(struct json_writer *w, bool v);
void json_null(struct json_writer *w);
void json_raw(struct json_writer *w, struct str literal); /* a complete JSON value made elsewhere */
void json_member_str(struct json_writer *w, const char *key, struct str s);
void json_member_cstr(struct json_writer *w, const char *key, const char *c);
void json_member_u64(struct json_writer *w, const char *key, uint64_t v);
void json_member_i64(struct json_writer *w, const char *key, int64_t v);
void json_member_double(struct json_writer *w, const char *key, double v);
void json_member_bool(struct json_writer *w, const char *key, bool v);
