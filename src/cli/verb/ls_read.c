#include <stdio.h>
#include <string.h>

#include "cli/verb/ls.h"

enum { FIELD_MAX = 8192 };

/* {"files":[{"name":…,"permissions":{…}},…]}: an entry is an object at depth 3, its members count there only. */
enum { DEPTH_ENTRY = 3 };

struct ls_reader {
	struct json_parser parser;
	struct ls_list *list;
	struct ls_entry entry;
	struct buf key, value;
	int depth;
	bool in_files; /* the array at depth 2 is "files" */
};

static int begin_level(struct ls_reader *r)
{
	if (r->depth == 1)
		r->in_files = str_eq_c(buf_str(&r->key), "files");
	r->depth++;
	buf_clear(&r->key);
	return 0;
}

/* These texts come from the box, too. */
static void clean(struct ls_entry *n)
{
	cli_clean(n->mode);
	cli_clean(n->modified);
	n->type = n->type == 'f' || n->type == 'd' || n->type == 'l' ? n->type : 'o';
}

static int keep_entry(struct ls_reader *r, struct err *e)
{
	struct ls_list *l = r->list;
	if (l->n == LS_ENTRIES_MAX)
		return err_set(
			e, ERRC_PAYLOAD_TOO_LARGE, "more than %d entries; list a part, or use --json", LS_ENTRIES_MAX);
	if (!r->entry.path)
		return err_set(e, ERRC_UNKNOWN_ERROR, "the box sent a file without a name");
	clean(&r->entry);
	if ((l->n & (l->n - 1)) == 0)
		l->v = xrealloc(l->v, (l->n ? l->n * 2 : 1) * sizeof *l->v);
	l->v[l->n++] = r->entry;
	r->entry = (struct ls_entry){0};
	return 0;
}

static int end_level(struct ls_reader *r, struct err *e)
{
	bool entry = r->depth == DEPTH_ENTRY && r->in_files;
	r->depth--;
	return entry ? keep_entry(r, e) : 0;
}

static void take_member(struct ls_reader *r)
{
	struct str key = buf_str(&r->key), value = buf_str(&r->value);
	struct ls_entry *n = &r->entry;
	if (str_eq_c(key, "relativePath") && !n->path)
		n->path = str_dup(value);
	else if (str_eq_c(key, "type"))
		n->type = value.n ? value.p[0] == 's' ? 'l' : value.p[0] : 'o';
	else if (str_eq_c(key, "size"))
		str_to_u64(value, UINT64_MAX, &n->size);
	else if (str_eq_c(key, "mode"))
		snprintf(n->mode, sizeof n->mode, "%.*s", STR_ARG(value));
	else if (str_eq_c(key, "modifiedAt"))
		snprintf(n->modified, sizeof n->modified, "%.*s", STR_ARG(value));
}

static bool on_token(void *arg, enum json_token token, struct str text, struct err *e)
{
	struct ls_reader *r = arg;
	switch (token) {
	case JSON_OBJECT_BEGIN:
	case JSON_ARRAY_BEGIN:
		return begin_level(r) == 0;
	case JSON_OBJECT_END:
	case JSON_ARRAY_END:
		return end_level(r, e) == 0;
	case JSON_KEY_CHUNK:
		return buf_add_str(&r->key, text) ||
		       err_set(e, ERRC_PAYLOAD_TOO_LARGE, "the box sent a key that is too long") == 0;
	case JSON_STRING_CHUNK:
		return buf_add_str(&r->value, text) ||
		       err_set(e, ERRC_PAYLOAD_TOO_LARGE, "the box sent a name that is too long") == 0;
	case JSON_NUMBER:
		buf_add_str(&r->value, text);
		break;
	case JSON_KEY_END:
		buf_clear(&r->value);
		return true;
	case JSON_STRING_END:
	case JSON_TRUE:
	case JSON_FALSE:
	case JSON_NULL:
		break;
	}
	if (r->depth == DEPTH_ENTRY && r->in_files)
		take_member(r);
	buf_clear(&r->key);
	buf_clear(&r->value);
	return true;
}

static int on_piece(void *arg, struct str piece, struct err *e)
{
	struct ls_reader *r = arg;
	return json_feed(&r->parser, piece, e);
}

void ls_request(struct buf *to, const struct ls_query *q)
{
	struct json_writer w = json_writer(to);
	json_object_begin(&w);
	json_member_cstr(&w, "path", q->path);
	json_key(&w, "options");
	json_object_begin(&w);
	json_member_bool(&w, "recursive", q->recursive);
	json_member_bool(&w, "includeHidden", q->hidden);
	json_object_end(&w);
	json_object_end(&w);
}

int ls_read(struct client *cl, const char *id, const struct ls_query *q, struct ls_list *ret, struct err *e)
{
	auto_buf struct buf body = {0};
	struct ls_reader r = {.list = ret, .key = {.max = FIELD_MAX}, .value = {.max = FIELD_MAX}};
	json_parser_init(&r.parser, on_token, &r);
	ls_request(&body, q);
	int n = api_fetch(cl, &(struct api_request){id, "POST", "/api/list-files", buf_str(&body)}, on_piece, &r, e);
	if (n == 0 && json_finish(&r.parser, e) < 0)
		n = err_wrap(e, "the listing of '%s' is not complete", q->path);
	free(r.entry.path);
	buf_free(&r.key);
	buf_free(&r.value);
	return n;
}

void ls_free(struct ls_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->v[i].path);
	free(l->v);
	*l = (struct ls_list){0};
}
