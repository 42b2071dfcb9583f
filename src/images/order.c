/*
 * The job that atolld has ordered: its description, the body of its request, and the lines that answer it.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/disk.h"
#include "base/fd.h"
#include "images/images.h"

enum { PIECE = 1 << 17, FD_TEXT = 3, FD_DOORS = 4, FD_MOVER = 5, FD_HIGH = 16 };

struct order the_order;
static int lines = -1; /* where the answer goes */

/* ---- the description ---- */

/* Out of the way of programs that this one executes. */
static int take_over(int fd, const char *instead)
{
	int kept = fcntl(fd, F_DUPFD_CLOEXEC, FD_HIGH);
	auto_fd int null = open(instead, O_RDWR);
	if (kept < 0 || null < 0 || dup2(null, fd) < 0)
		_exit(1);
	return kept;
}

static const char *text_of(const struct order *o, const char *name)
{
	const char *text = NULL;
	struct err ignored;
	return json_read_cstr(json_root(o->doc), name, &text, &ignored) == 0 && text ? text : "";
}

int order_read(struct order *o, struct err *e)
{
	auto_buf struct buf text = {.max = SERVICE_JSON_MAX};
	*o = (struct order){.body = take_over(STDIN_FILENO, "/dev/null"), .in = {.max = PIECE}};
	lines = take_over(STDOUT_FILENO, "/dev/null");
	for (int fd = FD_TEXT; fd <= FD_MOVER; fd++)
		fcntl(fd, F_SETFD, FD_CLOEXEC);
	o->doors = FD_DOORS;
	o->mover = FD_MOVER;
	if (fd_read_file(AT_FDCWD, "/proc/self/fd/3", SERVICE_JSON_MAX, &text) < 0)
		return err_set(e, ERRC_INTERNAL_ERROR, "the job has no description");
	o->doc = json_parse(buf_str(&text), e);
	if (!o->doc)
		return -1;
	o->state = text_of(o, "state");
	o->run = text_of(o, "run");
	o->owner = text_of(o, "owner");
	o->digits = text_of(o, "digits");
	const struct json *ref = json_get(json_root(o->doc), "ref");
	o->ref = ref && ref->type == JSON_T_STRING ? ref->text : STR("");
	if (json_read_u64(json_root(o->doc), "length", 0, INT64_MAX, &o->length, e) < 0 ||
		json_read_u64(json_root(o->doc), "pid", 0, INT32_MAX, &o->pid, e) < 0)
		return -1;
	return 0;
}

int order_param(const struct order *o, const char *name, struct buf *ret, struct err *e)
{
	const struct json *value = json_get(json_get(json_root(o->doc), "parameters"), name);
	if (!value || value->type != JSON_T_STRING)
		return 0;
	buf_add_str(ret, value->text);
	if (memchr(value->text.p, 0, value->text.n))
		return err_field(e, name, "field '%s' must not hold NUL", name);
	return 0;
}

/* ---- the body ---- */

/* A piece of the body, borrowed until the next call. 1, 0 at its end, -1. */
static int next_piece(struct order *o, struct str *ret, struct err *e)
{
	while (!buf_size(&o->in)) {
		ssize_t n = read(o->body, buf_room(&o->in, PIECE), PIECE);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_os(e, ERRC_INVALID_REQUEST, errno, "read the body");
		if (n == 0)
			return o->got < o->length ? err_set(e, ERRC_INVALID_REQUEST, "the body is cut off") : 0;
		o->got += (uint64_t)n;
		buf_commit(&o->in, (size_t)n);
	}
	*ret = buf_str(&o->in);
	return 1;
}

static int refuse_length(struct err *e)
{
	return err_set(e, ERRC_PAYLOAD_TOO_LARGE, "the body is larger than %llu bytes", SERVICE_UPLOAD_MAX);
}

int order_body_to(struct order *o, int fd, struct err *e)
{
	struct str piece = STR_NULL;
	struct disk_guard disk = {0};
	uint64_t total = 0;
	int r;
	if (o->length > SERVICE_UPLOAD_MAX)
		return refuse_length(e);
	while ((r = next_piece(o, &piece, e)) > 0) {
		total += piece.n;
		if (!disk_takes(&disk, fd, piece.n))
			return err_set(e, ERRC_NO_SPACE, "keep the upload: the disk has no room besides its reserve");
		if (total > SERVICE_UPLOAD_MAX)
			return refuse_length(e);
		int w = fd_write_full(fd, piece.p, piece.n);
		if (w < 0)
			return err_os(e, w == -ENOSPC ? ERRC_NO_SPACE : ERRC_FILESYSTEM_ERROR, -w, "keep the upload");
		buf_consume(&o->in, piece.n);
	}
	return r;
}

int order_body_begin(struct order *o, size_t n, struct buf *ret, struct err *e)
{
	struct str piece = STR_NULL;
	while (n) {
		int r = next_piece(o, &piece, e);
		if (r <= 0)
			return r < 0 ? -1 : err_set(e, ERRC_INVALID_REQUEST, "the body is cut off");
		size_t part = piece.n < n ? piece.n : n;
		buf_add(ret, piece.p, part);
		buf_consume(&o->in, part);
		n -= part;
	}
	return 0;
}

struct json_doc *order_json(struct order *o, struct err *e)
{
	auto_buf struct buf text = {.max = SERVICE_JSON_MAX};
	struct str piece = STR_NULL;
	int r;
	while ((r = next_piece(o, &piece, e)) > 0) {
		if (!buf_add_str(&text, piece)) {
			err_set(e, ERRC_PAYLOAD_TOO_LARGE, "the body is larger than %u bytes", SERVICE_JSON_MAX);
			return NULL;
		}
		buf_consume(&o->in, piece.n);
	}
	if (r < 0)
		return NULL;
	struct json_doc *doc = json_parse(buf_size(&text) ? buf_str(&text) : STR("{}"), e);
	if (doc && json_root(doc)->type != JSON_T_OBJECT) {
		json_free(doc);
		err_set(e, ERRC_VALIDATION_FAILED, "the body must be a JSON object");
		return NULL;
	}
	return doc;
}

/* ---- the answer ---- */

static void put(struct str bytes)
{
	if (fd_write_full(lines, bytes.p, bytes.n) < 0)
		_exit(1); /* the daemon is gone */
}

static void put_line(struct buf *line)
{
	buf_add_byte(line, '\n');
	put(buf_str(line));
}

void tell_bytes(struct str bytes)
{
	auto_buf struct buf line = {0};
	if (!bytes.n)
		return;
	buf_printf(&line, "{\"bytes\":%zu}", bytes.n);
	put_line(&line);
	put(bytes);
}

void tell_answer(int status, struct str json)
{
	auto_buf struct buf line = {0};
	buf_printf(&line, "{\"answer\":{\"status\":%d,\"size\":%zu}}", status, json.n);
	put_line(&line);
	tell_bytes(json);
}

void tell_stream(const char *content_type)
{
	auto_buf struct buf line = {0};
	buf_printf(&line, "{\"answer\":{\"status\":200,\"type\":\"%s\"}}", content_type);
	put_line(&line);
}

void tell_event(struct buf *json)
{
	auto_buf struct buf line = {0};
	buf_printf(&line, "{\"event\":%s}", buf_cstr(json));
	put_line(&line);
}

void tell_end(const struct err *e)
{
	auto_buf struct buf line = {0};
	struct json_writer w = json_writer(&line);
	json_object_begin(&w);
	if (e) {
		json_key(&w, "error");
		json_object_begin(&w);
		json_member_cstr(&w, "code", errc_info(e->code)->code);
		json_member_cstr(&w, "message", e->msg);
		if (*e->field)
			json_member_cstr(&w, "field", e->field);
		json_object_end(&w);
	} else {
		json_member_bool(&w, "done", true);
	}
	json_object_end(&w);
	put_line(&line);
}
