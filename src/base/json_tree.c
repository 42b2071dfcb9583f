/*
 * The tree: nodes in blocks that double in size, all text in one block that the source's length bounds (a decoded
 * string and its NUL are never longer than the literal with its quotes; a number's NUL takes the place of the comma,
 * bracket or end behind it).
 */
#include "base/json.h"

#include "base/limits.h"
#include <float.h>
#include <math.h>
#include <stdio.h>

enum { FIRST_BLOCK = 32, PAIRWISE_MAX = 8 };

struct block {
	struct block *older;
	size_t used, cap;
	struct json nodes[];
};

struct json_doc {
	struct json *root;
	struct block *blocks;
	size_t node_count;
	char *text;
	size_t text_len, text_cap;
};

struct builder {
	struct json_parser parser;
	struct json_doc *doc;
	struct json *open[JSON_DEPTH_MAX]; /* the objects and arrays around the current value … */
	struct json *last[JSON_DEPTH_MAX]; /* … and the last child of each */
	int depth;
	size_t begun; /* where the current key or string begins in doc->text */
	struct str key;
};

void json_free(struct json_doc *d)
{
	if (!d)
		return;
	for (struct block *b = d->blocks; b;) {
		struct block *older = b->older;
		free(b);
		b = older;
	}
	free(d->text);
	free(d);
}

void json_wipe(struct json_doc *d)
{
	explicit_bzero(d->text, d->text_cap);
}

const struct json *json_root(const struct json_doc *d)
{
	return d->root;
}

struct json *json_edit(struct json_doc *d)
{
	return d->root;
}

static struct json *new_node(struct json_doc *d)
{
	struct block *b = d->blocks;
	if (!b || b->used == b->cap) {
		size_t cap = b ? b->cap * 2 : FIRST_BLOCK;
		b = xmalloc(sizeof *b + cap * sizeof b->nodes[0]);
		*b = (struct block){.older = d->blocks, .cap = cap};
		d->blocks = b;
	}
	d->node_count++;
	return &b->nodes[b->used++];
}

static void add_text(struct json_doc *d, struct str s)
{
	INVARIANT(s.n <= d->text_cap - d->text_len);
	memcpy(d->text + d->text_len, s.p, s.n);
	d->text_len += s.n;
}

static struct str end_text(struct builder *b)
{
	struct json_doc *d = b->doc;
	struct str s = str_n(d->text + b->begun, d->text_len - b->begun);
	add_text(d, str_n("", 1));
	b->begun = d->text_len;
	return s;
}

static bool refuse(struct builder *b, struct err *e, const char *what)
{
	uint64_t line, column;
	json_where(&b->parser, &line, &column);
	err_set(e, ERR_BAD_JSON, "%s at line %llu column %llu", what, (unsigned long long)line,
		(unsigned long long)column);
	return false;
}

/* Hangs a new value into the tree. NULL with *e set when there are too many. */
static struct json *add_value(struct builder *b, enum json_type type, struct err *e)
{
	if (b->doc->node_count == JSON_NODES_MAX) {
		char what[64];
		snprintf(what, sizeof what, "more than %d values", JSON_NODES_MAX);
		refuse(b, e, what);
		return NULL;
	}
	struct json *j = new_node(b->doc);
	*j = (struct json){.type = type, .key = b->key};
	b->key = STR_NULL;
	if (!b->depth) {
		b->doc->root = j;
		return j;
	}
	struct json *parent = b->open[b->depth - 1], **last = &b->last[b->depth - 1];
	if (*last)
		(*last)->next = j;
	else
		parent->first = j;
	*last = j;
	parent->count++;
	return j;
}

static int compare_keys(const void *a, const void *b)
{
	struct str x = (*(const struct json *const *)a)->key, y = (*(const struct json *const *)b)->key;
	if (x.n != y.n)
		return x.n < y.n ? -1 : 1;
	return memcmp(x.p, y.p, x.n);
}

/* Sorting bounds the work for an object of 65,536 members; the few of a usual request are compared pairwise. */
static const struct json *find_duplicate(const struct json *object)
{
	if (object->count <= PAIRWISE_MAX) {
		json_each(a, object) for (const struct json *b = a->next; b;
					  b = b->next) if (str_eq(a->key, b->key)) return b;
		return NULL;
	}
	auto_free const struct json **members = xmalloc(object->count * sizeof *members);
	size_t n = 0;
	json_each(j, object) members[n++] = j;
	qsort(members, n, sizeof *members, compare_keys);
	for (size_t i = 1; i < n; i++)
		if (str_eq(members[i - 1]->key, members[i]->key))
			return members[i];
	return NULL;
}

static bool close_object(struct builder *b, struct err *e)
{
	const struct json *twice = find_duplicate(b->open[--b->depth]);
	if (!twice)
		return true;
	char what[128];
	snprintf(what, sizeof what, "key '%.64s' is given twice in the object that ends", twice->key.p);
	return refuse(b, e, what);
}

static bool open_value(struct builder *b, enum json_type type, struct err *e)
{
	struct json *j = add_value(b, type, e);
	if (!j)
		return false;
	b->open[b->depth] = j;
	b->last[b->depth++] = NULL;
	return true;
}

static bool add_text_value(struct builder *b, enum json_type type, struct err *e)
{
	struct str text = end_text(b);
	struct json *j = add_value(b, type, e);
	if (j)
		j->text = text;
	return j != NULL;
}

static bool add_bool(struct builder *b, bool value, struct err *e)
{
	struct json *j = add_value(b, JSON_T_BOOL, e);
	if (j)
		j->boolean = value;
	return j != NULL;
}

static bool build(void *arg, enum json_token token, struct str text, struct err *e)
{
	struct builder *b = arg;
	switch (token) {
	case JSON_OBJECT_BEGIN:
		return open_value(b, JSON_T_OBJECT, e);
	case JSON_ARRAY_BEGIN:
		return open_value(b, JSON_T_ARRAY, e);
	case JSON_OBJECT_END:
		return close_object(b, e);
	case JSON_ARRAY_END:
		b->depth--;
		return true;
	case JSON_KEY_CHUNK:
	case JSON_STRING_CHUNK:
		add_text(b->doc, text);
		return true;
	case JSON_KEY_END:
		b->key = end_text(b);
		return true;
	case JSON_STRING_END:
		return add_text_value(b, JSON_T_STRING, e);
	case JSON_NUMBER:
		add_text(b->doc, text);
		return add_text_value(b, JSON_T_NUMBER, e);
	case JSON_TRUE:
	case JSON_FALSE:
		return add_bool(b, token == JSON_TRUE, e);
	case JSON_NULL:
		return add_value(b, JSON_T_NULL, e) != NULL;
	}
	return false;
}

struct json_doc *json_parse(struct str text, struct err *e)
{
	struct json_doc *d = xcalloc(1, sizeof *d);
	d->text_cap = text.n + 1;
	d->text = xmalloc(d->text_cap);
	struct builder b = {.doc = d};
	json_parser_init(&b.parser, build, &b);
	if (json_feed(&b.parser, text, e) == 0 && json_finish(&b.parser, e) == 0)
		return d;
	json_wipe(d); /* what was read so far may be a secret */
	json_free(d);
	return NULL;
}

const struct json *json_get(const struct json *object, const char *key)
{
	if (!object || object->type != JSON_T_OBJECT)
		return NULL;
	struct str name = str_of(key);
	json_each(j, object) if (str_eq(j->key, name)) return j;
	return NULL;
}

bool json_is_null(const struct json *j)
{
	return !j || j->type == JSON_T_NULL;
}

/* The member when it is there and of the right type. NULL with *ret 0 when it is missing, with -1 when it is wrong. */
static const struct json *read_member(
	const struct json *object, const char *key, enum json_type type, const char *type_name, int *ret, struct err *e)
{
	const struct json *j = json_get(object, key);
	*ret = 0;
	if (json_is_null(j))
		return NULL;
	if (j->type == type)
		return j;
	*ret = err_field(e, key, "field '%s' must be %s", key, type_name);
	return NULL;
}

int json_read_str(const struct json *object, const char *key, struct str *ret, struct err *e)
{
	int r;
	const struct json *j = read_member(object, key, JSON_T_STRING, "a string", &r, e);
	if (j)
		*ret = j->text;
	return r;
}

int json_read_cstr(const struct json *object, const char *key, const char **ret, struct err *e)
{
	struct str s = STR_NULL;
	if (json_read_str(object, key, &s, e) < 0)
		return -1;
	if (str_index(s, 0) >= 0)
		return err_field(e, key, "field '%s' must not hold a NUL character", key);
	if (s.p)
		*ret = s.p;
	return 0;
}

/* -1: not whole; 0: whole, but no uint64_t; 1: *ret is it. A double holds whole numbers exactly up to 2^53. */
static int whole_number(struct str literal, uint64_t *ret)
{
	if (str_to_u64(literal, UINT64_MAX, ret))
		return 1;
	double d = strtod(literal.p, NULL), size = d < 0 ? -d : d, exact = (double)(1ull << DBL_MANT_DIG);
	if (size < exact && (double)(uint64_t)size != size)
		return -1;
	if (d < 0 || size > exact)
		return 0;
	*ret = (uint64_t)d;
	return 1;
}

int json_read_u64(const struct json *object, const char *key, uint64_t min, uint64_t max, uint64_t *ret, struct err *e)
{
	int r;
	const struct json *j = read_member(object, key, JSON_T_NUMBER, "a whole number", &r, e);
	if (!j)
		return r;
	uint64_t v = 0;
	int whole = whole_number(j->text, &v);
	if (whole < 0)
		return err_field(e, key, "field '%s' must be a whole number", key);
	if (whole == 0 || v < min || v > max)
		return err_field(e, key, "field '%s' must be between %llu and %llu", key, (unsigned long long)min,
			(unsigned long long)max);
	*ret = v;
	return 0;
}

int json_read_double(const struct json *object, const char *key, double *ret, struct err *e)
{
	int r;
	const struct json *j = read_member(object, key, JSON_T_NUMBER, "a number", &r, e);
	if (!j)
		return r;
	double d = strtod(j->text.p, NULL);
	if (!isfinite(d))
		return err_field(e, key, "field '%s' is out of range", key);
	*ret = d;
	return 0;
}

int json_read_bool(const struct json *object, const char *key, bool *ret, struct err *e)
{
	int r;
	const struct json *j = read_member(object, key, JSON_T_BOOL, "true or false", &r, e);
	if (j)
		*ret = j->boolean;
	return r;
}

static void put_children(struct buf *b, const struct json *j, char open, char close)
{
	buf_add_byte(b, open);
	for (const struct json *c = j->first; c; c = c->next) {
		if (c != j->first)
			buf_add_byte(b, ',');
		if (j->type == JSON_T_OBJECT) {
			json_put_str(b, c->key);
			buf_add_byte(b, ':');
		}
		json_put_tree(b, c);
	}
	buf_add_byte(b, close);
}

void json_put_tree(struct buf *b, const struct json *j)
{
	switch (j->type) {
	case JSON_T_NULL:
		buf_add_c(b, "null");
		break;
	case JSON_T_BOOL:
		buf_add_c(b, j->boolean ? "true" : "false");
		break;
	case JSON_T_NUMBER:
		buf_add_str(b, j->text);
		break;
	case JSON_T_STRING:
		json_put_str(b, j->text);
		break;
	case JSON_T_ARRAY:
		put_children(b, j, '[', ']');
		break;
	case JSON_T_OBJECT:
		put_children(b, j, '{', '}');
		break;
	}
}
