/*
 * One request on a connection that atolld has opened. atolld has checked the head strictly and written it anew, so that
 * a simple reader is enough; it still refuses what it does not understand.
 */
#include <ctype.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "images/images.h"
#include "proto/error_json.h"

enum { PIECE = 1 << 17 };

/* More input; 0 at the end. */
static ssize_t fill(struct conn *c)
{
	char *room = buf_room(&c->in, PIECE);
	ssize_t n = room ? read(c->fd, room, PIECE) : -1;
	if (n > 0)
		buf_commit(&c->in, (size_t)n);
	return n;
}

/* A line without its end; false when the connection ended or the line is too long. */
static bool read_line(struct conn *c, struct buf *ret)
{
	buf_clear(ret);
	for (;;) {
		struct str s = buf_str(&c->in);
		ssize_t end = str_index(s, '\n');
		if (end >= 0) {
			size_t n = (size_t)end;
			buf_add(ret, s.p, n && s.p[n - 1] == '\r' ? n - 1 : n);
			buf_consume(&c->in, n + 1);
			return true;
		}
		if (s.n > SERVICE_HEAD_MAX || fill(c) <= 0)
			return false;
	}
}

static int read_header(struct conn *c, struct str line, struct err *e)
{
	struct str value, name = str_split(line, ':', &value);
	value = str_trim(value);
	if (str_eq_nocase(name, STR("content-length")) && !str_to_u64(value, SERVICE_UPLOAD_MAX, &c->left))
		return err_set(e, ERRC_PAYLOAD_TOO_LARGE, "the body is larger than %llu bytes", SERVICE_UPLOAD_MAX);
	if (str_eq_nocase(name, STR(IMAGE_OWNER_HEADER)))
		snprintf(c->owner, sizeof c->owner, "%.*s", STR_ARG(value));
	if (str_eq_nocase(name, STR("transfer-encoding")))
		c->chunked = true;
	return 0;
}

int conn_read_head(struct conn *c, struct err *e)
{
	auto_buf struct buf line = {0};
	struct str rest, query;
	if (!read_line(c, &line))
		return err_set(e, ERRC_INVALID_REQUEST, "no request");
	struct str method = str_split(buf_str(&line), ' ', &rest), target = str_split(rest, ' ', &rest);
	if (method.n >= sizeof c->method || !target.n || target.p[0] != '/')
		return err_set(e, ERRC_INVALID_REQUEST, "a malformed request");
	snprintf(c->method, sizeof c->method, "%.*s", STR_ARG(method));
	struct str path = str_split(target, '?', &query);
	c->path = str_dup(path);
	c->query = str_dup(query);
	while (read_line(c, &line)) {
		if (!buf_size(&line))
			return 0;
		if (read_header(c, buf_str(&line), e) < 0)
			return -1;
	}
	return err_set(e, ERRC_INVALID_REQUEST, "the head is cut off");
}

/* ---- the body ---- */

static int next_chunk(struct conn *c, struct err *e)
{
	auto_buf struct buf line = {0};
	char *end;
	if (!read_line(c, &line) || (!buf_size(&line) && !read_line(c, &line)))
		return err_set(e, ERRC_INVALID_REQUEST, "the body is cut off");
	c->left = strtoull(buf_cstr(&line), &end, 16);
	if (end == buf_cstr(&line) || c->left > SERVICE_UPLOAD_MAX)
		return err_set(e, ERRC_INVALID_REQUEST, "a malformed chunk");
	if (c->left)
		return 1;
	while (read_line(c, &line) && buf_size(&line))
		;
	return 0;
}

/* A piece of the body, borrowed until the next call. 1, 0 at its end, -1. */
static int next_piece(struct conn *c, struct str *ret, struct err *e)
{
	if (c->ended)
		return 0;
	if (!c->left) {
		int r = c->chunked ? next_chunk(c, e) : 0;
		c->ended = r <= 0;
		if (r <= 0)
			return r;
	}
	if (!buf_size(&c->in) && fill(c) <= 0)
		return err_set(e, ERRC_INVALID_REQUEST, "the body is cut off");
	struct str s = buf_str(&c->in);
	*ret = str_n(s.p, s.n < c->left ? s.n : (size_t)c->left);
	return 1;
}

static void drop_piece(struct conn *c, size_t n)
{
	c->left -= n;
	buf_consume(&c->in, n);
}

int conn_body_to(struct conn *c, int fd, uint64_t max, struct err *e)
{
	struct str piece = STR_NULL;
	uint64_t total = 0;
	int r;
	while ((r = next_piece(c, &piece, e)) > 0) {
		total += piece.n;
		if (total > max)
			return err_set(e, ERRC_PAYLOAD_TOO_LARGE, "the body is larger than %llu bytes",
				(unsigned long long)max);
		int w = fd_write_full(fd, piece.p, piece.n);
		if (w < 0)
			return err_os(e, w == -ENOSPC ? ERRC_NO_SPACE : ERRC_FILESYSTEM_ERROR, -w, "keep the upload");
		drop_piece(c, piece.n);
	}
	return r;
}

int conn_body_begin(struct conn *c, size_t n, struct buf *ret, struct err *e)
{
	struct str piece = STR_NULL;
	while (n) {
		int r = next_piece(c, &piece, e);
		if (r <= 0)
			return r < 0 ? -1 : err_set(e, ERRC_INVALID_REQUEST, "the body is cut off");
		size_t part = piece.n < n ? piece.n : n;
		buf_add(ret, piece.p, part);
		drop_piece(c, part);
		n -= part;
	}
	return 0;
}

struct json_doc *conn_json(struct conn *c, struct err *e)
{
	auto_buf struct buf text = {.max = SERVICE_JSON_MAX};
	struct str piece = STR_NULL;
	int r;
	while ((r = next_piece(c, &piece, e)) > 0) {
		if (!buf_add_str(&text, piece)) {
			err_set(e, ERRC_PAYLOAD_TOO_LARGE, "the body is larger than %u bytes", SERVICE_JSON_MAX);
			return NULL;
		}
		drop_piece(c, piece.n);
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

int conn_param(const struct conn *c, const char *name, struct buf *ret, struct err *e)
{
	int r = http_query_get(str_of(c->query), str_of(name), ret, e);
	if (r > 0 && memchr(buf_str(ret).p, 0, buf_size(ret)))
		return err_field(e, name, "field '%s' must not hold NUL", name);
	return r < 0 ? -1 : 0;
}

/* ---- the answer ---- */

static void put(struct conn *c, struct str bytes)
{
	if (fd_write_full(c->fd, bytes.p, bytes.n) < 0)
		_exit(3); /* the client is gone; our parent destroys the box */
}

void conn_answer(struct conn *c, int status, struct str json)
{
	auto_buf struct buf out = {0};
	buf_printf(&out,
		"HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n",
		status, http_status_text(status), json.n);
	buf_add_str(&out, json);
	put(c, buf_str(&out));
	c->begun = true;
}

void conn_begin(struct conn *c, const char *content_type)
{
	auto_buf struct buf out = {0};
	buf_printf(&out,
		"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n",
		content_type);
	put(c, buf_str(&out));
	c->begun = true;
}

void conn_write(struct conn *c, struct str bytes)
{
	auto_buf struct buf head = {0};
	if (!bytes.n)
		return;
	buf_printf(&head, "%zx\r\n", bytes.n);
	put(c, buf_str(&head));
	put(c, bytes);
	put(c, STR("\r\n"));
}

void conn_end(struct conn *c)
{
	put(c, STR("0\r\n\r\n"));
}

void conn_event(struct conn *c, struct buf *json)
{
	auto_buf struct buf out = {0};
	if (!c->begun)
		conn_begin(c, "text/event-stream");
	c->events = true;
	buf_printf(&out, "data: %s\n\n", buf_cstr(json));
	conn_write(c, buf_str(&out));
}

void conn_fail(struct conn *c, const struct err *e)
{
	auto_buf struct buf out = {0}, context = {0};
	if (*e->field)
		error_json_field(&context, e, NULL);
	struct error_json j = {.err = e, .context = buf_str(&context)};
	if (!c->begun) {
		error_json(&out, &j);
		return conn_answer(c, error_json_status(&j), buf_str(&out));
	}
	struct json_writer w = json_writer(&out);
	json_object_begin(&w);
	json_member_cstr(&w, "type", "error");
	json_member_cstr(&w, "code", errc_info(e->code)->code);
	json_member_cstr(&w, "message", e->msg);
	json_member_cstr(&w, "suggestion", errc_info(e->code)->suggestion);
	json_object_end(&w);
	if (!c->events)
		_exit(4); /* half an archive has left: cut it off, so that it does not look complete */
	conn_event(c, &out);
	conn_end(c);
}

static void on_watch(struct loop_io *io, uint32_t events)
{
	(void)io;
	if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
		_exit(3);
}

void conn_watch(struct conn *c, struct loop *l)
{
	/* A build that pulls its base has a loop of its own already. */
	if (!c->watch.loop)
		loop_add(l, &c->watch, c->fd, EPOLLRDHUP, on_watch);
}
