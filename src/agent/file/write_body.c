#include "agent/file/write_body.h"

#include <stdio.h>

#include "agent/file/path.h"
#include "agent/limits.h"
#include "agent/proc/spool.h"
#include "base/fd.h"

static const char *const field_names[WRITE_FIELDS] = {"", "path", "content", "encoding", "sessionId"};
/* What people write instead. */
static const struct {
	const char *name;
	enum write_field field;
} spellings[] = {{"file", WRITE_PATH}, {"filePath", WRITE_PATH}, {"file_path", WRITE_PATH}, {"filename", WRITE_PATH},
	{"contents", WRITE_CONTENT}, {"data", WRITE_CONTENT}, {"text", WRITE_CONTENT}, {"session", WRITE_SESSION},
	{"session_id", WRITE_SESSION}};
enum { DIRECT_MIN = 16 * KIB };

void write_body_free(struct write_body *w)
{
	buf_free(&w->key);
	buf_free(&w->path);
	buf_free(&w->encoding);
	buf_free(&w->session);
	buf_free(&w->content);
	file_replace_abort(&w->to);
	file_replace_abort(&w->spill);
}

static int absolute_path(struct write_body *w, char **ret, struct err *e)
{
	struct str session = buf_size(&w->session) ? buf_str(&w->session) : STR("default");
	return path_absolute(buf_str(&w->path), session, "path", ret, e);
}

static bool is_base64(const struct write_body *w)
{
	return w->have[WRITE_ENCODING] && str_eq_c(buf_str(&w->encoding), "base64");
}

static int bad_base64(struct write_body *w, struct err *e)
{
	w->bad_base64 = true;
	return err_field(e, "content", "field 'content' is not valid base64");
}

/* ---- gathering ---- */

static struct file_replace *gathered(struct write_body *w)
{
	return w->to.fd >= 0 ? &w->to : &w->spill;
}

static int open_target(struct write_body *w, struct err *e)
{
	auto_free char *path = NULL;
	return absolute_path(w, &path, e) < 0 ? -1 : file_replace_open(&w->to, path, e);
}

/* Called when the content no longer fits into memory. */
static int begin_spill(struct write_body *w, struct err *e)
{
	bool absolute = buf_size(&w->path) && buf_str(&w->path).p[0] == '/';
	w->decoded = is_base64(w);
	if (w->have[WRITE_PATH] && (absolute || w->have[WRITE_SESSION]))
		return open_target(w, e);
	int fd = spool_tmpfile();
	if (fd < 0)
		return err_os(e, errc_from_file_errno(-fd), -fd, "make a temporary file");
	w->spill.fd = fd;
	w->spill.target = xstrdup("a temporary file");
	return 0;
}

static int spill(struct write_body *w, struct str text, struct err *e)
{
	if (!w->decoded)
		return file_replace_write(gathered(w), text, e);
	auto_buf struct buf bytes = {0};
	if (!base64_decode(&w->decoder, text, &bytes))
		return bad_base64(w, e);
	return file_replace_write(gathered(w), buf_str(&bytes), e);
}

static int take_content(struct write_body *w, struct str text, struct err *e)
{
	/* Once the content is on disk, long pieces are written without a copy in memory. */
	bool direct = text.n >= DIRECT_MIN && gathered(w)->fd >= 0;
	if (!direct && buf_size(&w->content) + text.n <= WRITE_SPILL) {
		buf_add_str(&w->content, text);
		return 0;
	}
	if (gathered(w)->fd < 0 && begin_spill(w, e) < 0)
		return -1;
	if (spill(w, buf_str(&w->content), e) < 0)
		return -1;
	buf_clear(&w->content);
	if (text.n >= DIRECT_MIN)
		return spill(w, text, e);
	buf_add_str(&w->content, text);
	return 0;
}

static bool take_text(struct write_body *w, struct str text, struct err *e)
{
	struct buf *const into[WRITE_FIELDS] = {NULL, &w->path, NULL, &w->encoding, &w->session};
	if (w->field == WRITE_CONTENT)
		return take_content(w, text, e) == 0;
	if (w->field == WRITE_NONE || buf_add_str(into[w->field], text))
		return true;
	return err_field(e, field_names[w->field], "field '%s' is too long", field_names[w->field]) == 0;
}

/* ---- tokens ---- */

/* A field that was there before is not given again under another name. */
static enum write_field meant(const struct write_body *w, struct str key)
{
	for (size_t i = 0; i < ARRAY_LEN(spellings); i++)
		if (str_eq_c(key, spellings[i].name) && !w->seen[spellings[i].field])
			return spellings[i].field;
	return WRITE_NONE;
}

static enum write_field field_of(struct write_body *w, struct str key)
{
	for (int i = 1; i < WRITE_FIELDS; i++)
		if (str_eq_c(key, field_names[i]))
			return (enum write_field)i;
	enum write_field field = meant(w, key);
	if (w->found_n < FIELD_WARNINGS_MAX) {
		struct field_found *f = &w->found[w->found_n++];
		snprintf(f->name, sizeof f->name, "%.*s", STR_ARG(key));
		f->right = field == WRITE_NONE ? NULL : field_names[field];
	}
	return field;
}

static bool end_key(struct write_body *w, struct err *e)
{
	w->field = field_of(w, buf_str(&w->key));
	buf_clear(&w->key);
	if (w->field != WRITE_NONE && w->seen[w->field])
		return err_set(e, ERRC_INVALID_JSON, "duplicate key '%s'", field_names[w->field]) == 0;
	w->seen[w->field] = true;
	return true;
}

/* A name that is cut is longer than any field's. */
static void take_key(struct write_body *w, struct str text)
{
	size_t room = FIELD_SHOWN_MAX - buf_size(&w->key);
	buf_add_str(&w->key, str_n(text.p, text.n < room ? text.n : room));
}

/* A member that is not a string: null counts as missing; other values are errors in known fields. */
static bool other_value(struct write_body *w, enum json_token token, struct err *e)
{
	if (w->field == WRITE_NONE || token == JSON_NULL)
		return true;
	return err_field(e, field_names[w->field], "field '%s' must be a string", field_names[w->field]) == 0;
}

static bool on_member(struct write_body *w, enum json_token token, struct str text, struct err *e)
{
	switch (token) {
	case JSON_KEY_CHUNK:
		take_key(w, text);
		return true;
	case JSON_KEY_END:
		return end_key(w, e);
	case JSON_STRING_CHUNK:
		return take_text(w, text, e);
	case JSON_STRING_END:
		w->have[w->field] = true;
		return true;
	case JSON_OBJECT_BEGIN:
	case JSON_ARRAY_BEGIN:
	case JSON_NUMBER:
	case JSON_TRUE:
	case JSON_FALSE:
	case JSON_NULL:
		return other_value(w, token, e);
	case JSON_OBJECT_END:
	case JSON_ARRAY_END:
		break;
	}
	return true;
}

static bool on_token(void *arg, enum json_token token, struct str text, struct err *e)
{
	struct write_body *w = arg;
	bool begins = token == JSON_OBJECT_BEGIN || token == JSON_ARRAY_BEGIN;
	if (w->depth == 0 && token != JSON_OBJECT_BEGIN)
		return err_set(e, ERRC_INVALID_JSON, "the body must be a JSON object") == 0;
	if (w->depth == 1 && !on_member(w, token, text, e))
		return false;
	w->depth += begins;
	w->depth -= token == JSON_OBJECT_END || token == JSON_ARRAY_END;
	return true;
}

void write_body_init(struct write_body *w)
{
	*w = (struct write_body){.key = {.max = FIELD_SHOWN_MAX},
		.path = {.max = AGENT_PATH_MAX + 1},
		.encoding = {.max = 16},
		.session = {.max = SESSION_ID_MAX},
		.to = FILE_REPLACE_INIT,
		.spill = FILE_REPLACE_INIT};
	json_parser_init(&w->parser, on_token, w);
}

int write_body_feed(struct write_body *w, struct str piece, struct err *e)
{
	return json_feed(&w->parser, piece, e);
}

int write_body_end(struct write_body *w, struct err *e)
{
	struct str encoding = buf_str(&w->encoding);
	if (json_finish(&w->parser, e) < 0)
		return -1;
	if (!w->have[WRITE_PATH])
		return err_field(e, "path", "field 'path' is missing");
	if (!w->have[WRITE_CONTENT])
		return err_field(e, "content", "field 'content' is missing");
	if (encoding.n && !is_base64(w) && !str_eq_c(encoding, "utf-8") && !str_eq_c(encoding, "utf8"))
		return err_field(e, "encoding", "field 'encoding' must be 'utf-8', 'utf8' or 'base64'");
	return w->to.fd < 0 ? open_target(w, e) : 0;
}

/* ---- putting it in place ---- */

/* True when the part on disk is in its place and decoded, or when no part is on disk. */
static bool disk_part_ready(const struct write_body *w)
{
	return w->spill.fd < 0 && (w->decoded || !is_base64(w));
}

static int put(struct write_body *w, struct str bytes, struct err *e)
{
	struct file_replace at = {.fd = w->to.fd, .target = w->to.target, .size = w->put};
	if (file_replace_write(&at, bytes, e) < 0)
		return -1;
	w->put = at.size;
	return 0;
}

static int convert(struct write_body *w, struct str text, struct err *e)
{
	if (w->decoded || !is_base64(w))
		return put(w, text, e);
	auto_buf struct buf bytes = {0};
	if (!base64_decode(&w->decoder, text, &bytes))
		return bad_base64(w, e);
	return put(w, buf_str(&bytes), e);
}

/* Decodes or copies the part on disk. Source and target may be one file: decoded text is shorter, so writing never
 * overtakes reading. 1 while there is more. */
static int convert_some(struct write_body *w, struct err *e)
{
	const struct file_replace *source = w->spill.fd >= 0 ? &w->spill : &w->to;
	char piece[32 * KIB];
	for (uint64_t end = w->from + WRITE_STEP; w->from < source->size;) {
		if (w->from >= end)
			return 1;
		uint64_t left = source->size - w->from;
		ssize_t n = pread(source->fd, piece, left < sizeof piece ? (size_t)left : sizeof piece, (off_t)w->from);
		if (n <= 0)
			return err_os(e, ERRC_FILESYSTEM_ERROR, n ? errno : EIO, "read a temporary file");
		w->from += (uint64_t)n;
		if (convert(w, str_n(piece, (size_t)n), e) < 0)
			return -1;
	}
	return 0;
}

/* Writes the part that is still in memory. */
static int put_tail(struct write_body *w, struct err *e)
{
	struct str tail = buf_str(&w->content);
	if (disk_part_ready(w))
		w->put = w->to.size;
	if (!is_base64(w))
		return put(w, tail, e);
	auto_buf struct buf bytes = {0};
	if (!base64_decode(&w->decoder, tail, &bytes) || !base64_finish(&w->decoder))
		return bad_base64(w, e);
	return put(w, buf_str(&bytes), e);
}

int write_body_step(struct write_body *w, struct err *e)
{
	int more = disk_part_ready(w) ? 0 : convert_some(w, e);
	if (more)
		return more;
	if (put_tail(w, e) < 0)
		return -1;
	if (w->put < w->to.size && ftruncate(w->to.fd, (off_t)w->put) < 0)
		return err_os(e, errc_from_file_errno(errno), errno, "write '%.150s'", buf_cstr(&w->path));
	w->to.size = w->put;
	return file_replace_finish(&w->to, e);
}
