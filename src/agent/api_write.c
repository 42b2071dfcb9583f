#include <stdio.h>

#include "agent/api.h"
#include "agent/path.h"
#include "agent/spool.h"
#include "agent/store.h"
#include "base/base64.h"
#include "base/fd.h"
#include "base/limits.h"

/*
 * Contents in: POST /api/write (JSON) and PUT /api/file?path= (raw bytes). Both in constant memory, whatever the size.
 *
 * The JSON body is parsed while it arrives. Its members may come in any order, and upstream's client sends `encoding`
 * after `content`: so the decoded text is gathered first, in memory while it is short, in an unnamed file once it is
 * long, and goes to its place when the whole body has been seen to be good. A long text whose path is known already
 * goes straight beside its target and only has to be renamed.
 */

enum field { F_NONE, F_PATH, F_CONTENT, F_ENCODING, F_SESSION };
static const char *const field_names[] = {"", "path", "content", "encoding", "sessionId"};

struct write {
	struct http_exchange *x;
	const struct route *route;
	struct json_parser parser;
	int depth;
	struct buf key;
	enum field field;
	bool have[ARRAY_LEN(field_names)];
	struct buf path, encoding, session;
	struct buf content; /* what is not spilled yet: at most WRITE_SPILL */
	struct store direct;
	int spill; /* or an unnamed file; -1 */
};

static void write_free(struct write *w)
{
	buf_free(&w->key);
	buf_free(&w->path);
	buf_free(&w->encoding);
	buf_free(&w->session);
	buf_free(&w->content);
	store_abort(&w->direct);
	fd_close(&w->spill);
	free(w);
}

static void fail(struct write *w, const struct err *e)
{
	static const struct http_exchange_ops no_ops;
	struct request r = {.x = w->x, .route = w->route};
	const char *path = buf_size(&w->path) ? buf_cstr(&w->path) : "";
	http_exchange_set(w->x, &no_ops, NULL);
	if (e->code == ERRC_VALIDATION_FAILED || e->code == ERRC_INVALID_JSON)
		request_fail(&r, e, STR_NULL);
	else
		request_fail_file(&r, e, path, NULL);
	write_free(w);
}

static int absolute_path(struct write *w, char **ret, struct err *e)
{
	struct str session = buf_size(&w->session) ? buf_str(&w->session) : STR("default");
	return path_absolute(buf_str(&w->path), session, "path", ret, e);
}

/* ---- gathering ---- */

static int open_spill(struct write *w, struct err *e)
{
	if (w->direct.fd >= 0 || w->spill >= 0)
		return 0;
	if (w->have[F_PATH]) {
		auto_free char *path = NULL;
		return absolute_path(w, &path, e) < 0 ? -1 : store_open(&w->direct, path, e);
	}
	w->spill = spool_tmpfile();
	if (w->spill < 0)
		return err_os(e, errc_from_file_errno(-w->spill), -w->spill, "make a temporary file");
	return 0;
}

static int spill(struct write *w, struct err *e)
{
	if (open_spill(w, e) < 0)
		return -1;
	int r = fd_write_full(
		w->direct.fd >= 0 ? w->direct.fd : w->spill, buf_str(&w->content).p, buf_size(&w->content));
	buf_clear(&w->content);
	return r < 0 ? err_os(e, errc_from_file_errno(-r), -r, "write '%.150s'",
			       buf_size(&w->path) ? buf_cstr(&w->path) : "")
		     : 0;
}

static struct buf *field_buf(struct write *w)
{
	switch (w->field) {
	case F_PATH:
		return &w->path;
	case F_ENCODING:
		return &w->encoding;
	case F_SESSION:
		return &w->session;
	case F_CONTENT:
		return &w->content;
	case F_NONE:
		break;
	}
	return NULL;
}

static bool take_text(struct write *w, struct str text, struct err *e)
{
	struct buf *b = w->depth == 1 ? field_buf(w) : NULL;
	if (!b)
		return true;
	if (w->field == F_CONTENT && buf_size(b) + text.n > WRITE_SPILL && spill(w, e) < 0)
		return false;
	if (buf_add_str(b, text))
		return true;
	return err_set(e, ERRC_VALIDATION_FAILED, "field '%s' is too long", field_names[w->field]) == 0;
}

static enum field field_of(struct str key)
{
	for (size_t i = 1; i < ARRAY_LEN(field_names); i++)
		if (str_eq_c(key, field_names[i]))
			return (enum field)i;
	return F_NONE;
}

static bool end_key(struct write *w, struct err *e)
{
	if (w->depth != 1)
		return true;
	w->field = field_of(buf_str(&w->key));
	buf_clear(&w->key);
	if (w->field != F_NONE && w->have[w->field])
		return err_set(e, ERRC_INVALID_JSON, "duplicate key '%s'", field_names[w->field]) == 0;
	return true;
}

/* A value that is no string: null counts as missing, anything else is a mistake. */
static bool other_value(struct write *w, enum json_token token, struct err *e)
{
	if (w->depth > 1 || w->field == F_NONE || token == JSON_NULL)
		return true;
	return err_set(e, ERRC_VALIDATION_FAILED, "field '%s' must be a string", field_names[w->field]) == 0;
}

static bool on_token(void *arg, enum json_token token, struct str text, struct err *e)
{
	struct write *w = arg;
	switch (token) {
	case JSON_KEY_CHUNK:
		if (w->depth == 1 && buf_size(&w->key) + text.n <= 64)
			buf_add_str(&w->key, text);
		return true;
	case JSON_KEY_END:
		return end_key(w, e);
	case JSON_STRING_CHUNK:
		if (w->depth == 0)
			break;
		return take_text(w, text, e);
	case JSON_STRING_END:
		if (w->depth == 1)
			w->have[w->field] = true;
		if (w->depth == 0)
			break;
		return true;
	case JSON_OBJECT_BEGIN:
		if (w->depth++ == 0)
			return true;
		w->depth--;
		if (!other_value(w, token, e))
			return false;
		w->depth++;
		return true;
	case JSON_ARRAY_BEGIN:
		if (w->depth == 0 || !other_value(w, token, e))
			break;
		w->depth++;
		return true;
	case JSON_OBJECT_END:
	case JSON_ARRAY_END:
		w->depth--;
		return true;
	case JSON_NUMBER:
	case JSON_TRUE:
	case JSON_FALSE:
	case JSON_NULL:
		if (w->depth == 0 || !other_value(w, token, e))
			break;
		return true;
	}
	if (!e->code)
		err_set(e, ERRC_INVALID_JSON, "the body must be a JSON object");
	return false;
}

/* ---- putting it in place ---- */

static int bad_base64(struct err *e)
{
	return err_set(e, ERRC_VALIDATION_FAILED, "field 'content' is not valid base64");
}

static int put_piece(struct store *to, struct base64_decoder *d, bool base64, struct str piece, struct err *e)
{
	if (!base64)
		return store_write(to, piece, e);
	auto_buf struct buf bytes = {0};
	if (!base64_decode(d, piece, &bytes))
		return bad_base64(e);
	return store_write(to, buf_str(&bytes), e);
}

/* What was spilled, then what is in memory. */
static int put_all(struct write *w, int from, struct store *to, bool base64, struct err *e)
{
	struct base64_decoder d = {0};
	char piece[32768];
	ssize_t n = 0;
	for (off_t at = 0; from >= 0 && (n = pread(from, piece, sizeof piece, at)) > 0; at += n)
		if (put_piece(to, &d, base64, str_n(piece, (size_t)n), e) < 0)
			return -1;
	if (n < 0)
		return err_os(e, ERRC_FILESYSTEM_ERROR, errno, "read a temporary file");
	if (put_piece(to, &d, base64, buf_str(&w->content), e) < 0)
		return -1;
	return base64 && !base64_finish(&d) ? bad_base64(e) : 0;
}

static int finish(struct write *w, struct err *e)
{
	bool base64 = str_eq_c(buf_str(&w->encoding), "base64");
	struct str encoding = buf_str(&w->encoding);
	auto_free char *path = NULL;
	if (!w->have[F_PATH])
		return err_set(e, ERRC_VALIDATION_FAILED, "field 'path' is missing");
	if (!w->have[F_CONTENT])
		return err_set(e, ERRC_VALIDATION_FAILED, "field 'content' is missing");
	if (encoding.n && !base64 && !str_eq_c(encoding, "utf-8") && !str_eq_c(encoding, "utf8"))
		return err_set(e, ERRC_VALIDATION_FAILED, "field 'encoding' must be 'utf-8', 'utf8' or 'base64'");
	if (absolute_path(w, &path, e) < 0)
		return -1;
	if (w->direct.fd >= 0 && !base64)
		return store_write(&w->direct, buf_str(&w->content), e) < 0 ? -1 : store_finish(&w->direct, e);
	struct store to;
	if (store_open(&to, path, e) < 0)
		return -1;
	/* The direct file was opened for writing only: its text is read back through its name. */
	auto_fd int back = w->direct.fd >= 0 ? path_open_regular(w->direct.temp, 0) : -1;
	if (put_all(w, back >= 0 ? back : w->spill, &to, base64, e) == 0)
		return store_finish(&to, e);
	store_abort(&to);
	return -1;
}

static void on_body(struct http_exchange *x, struct str chunk)
{
	struct write *w = http_exchange_arg(x);
	struct err e = {0};
	if (json_feed(&w->parser, chunk, &e) < 0)
		fail(w, &e);
}

static void on_body_end(struct http_exchange *x)
{
	static const struct http_exchange_ops no_ops;
	struct write *w = http_exchange_arg(x);
	struct err e = {0};
	if (json_finish(&w->parser, &e) < 0 || finish(w, &e) < 0)
		return fail(w, &e);
	http_exchange_set(x, &no_ops, NULL);
	struct request r = {.x = x, .route = w->route};
	request_written(&r, buf_cstr(&w->path));
	write_free(w);
}

static void on_close(struct http_exchange *x, bool complete)
{
	(void)complete;
	write_free(http_exchange_arg(x));
}

void request_written(const struct request *r, const char *path)
{
	auto_buf struct buf b = {0};
	struct json_writer w = json_writer(&b);
	json_object_begin(&w);
	json_member_bool(&w, "success", true);
	json_member_cstr(&w, "path", path);
	json_member_now(&w);
	json_object_end(&w);
	request_json(r, buf_str(&b));
}

void api_write(struct request *r)
{
	static const struct http_exchange_ops ops = {
		.on_body = on_body, .on_body_end = on_body_end, .on_close = on_close};
	struct write *w = xcalloc(1, sizeof *w);
	*w = (struct write){.x = r->x,
		.route = r->route,
		.path = {.max = AGENT_PATH_MAX + 1},
		.encoding = {.max = 64},
		.session = {.max = SESSION_ID_MAX},
		.direct = STORE_INIT,
		.spill = -1};
	json_parser_init(&w->parser, on_token, w);
	http_exchange_set(r->x, &ops, w);
}
