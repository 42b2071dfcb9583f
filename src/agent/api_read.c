#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "agent/api.h"
#include "agent/mime.h"
#include "agent/path.h"
#include "agent/reply.h"
#include "base/base64.h"
#include "base/fd.h"
#include "base/limits.h"
#include "http/sse.h"

/*
 * Contents out: POST /api/read (one JSON answer, at most READ_MAX of content), POST /api/read/stream (SSE, any size)
 * and GET /api/file?path= (raw bytes, any size). All of them read the file in pieces while the client takes them.
 */

struct source {
	int fd;
	char *path; /* as given */
	uint64_t size;
	const char *mime;
	bool text;
};

static void source_free(struct source *s)
{
	fd_close(&s->fd);
	free(take_ptr(&s->path));
}

/* 0, or a positive errno. */
static int source_open(struct source *s, const char *path)
{
	*s = (struct source){.fd = -1, .path = xstrdup(path)};
	int fd = path_open_regular(path, O_RDONLY);
	if (fd < 0)
		return -fd;
	s->fd = fd;
	struct stat st;
	char head[MIME_SNIFF];
	if (fstat(fd, &st) < 0)
		return errno;
	ssize_t n = pread(fd, head, sizeof head, 0);
	if (n < 0)
		return errno;
	s->size = (uint64_t)st.st_size;
	s->mime = mime_of_file(str_of(path), str_n(head, (size_t)n), (uint64_t)n == s->size);
	s->text = mime_is_text(s->mime);
	return 0;
}

static void fail_open(const struct request *r, int os, const char *path)
{
	struct err e;
	if (os == EINVAL)
		err_set(&e, ERRC_FILESYSTEM_ERROR, "read '%.150s': not a regular file", path);
	else
		err_os(&e, errc_from_file_errno(os), os, "read '%.150s'", path);
	request_fail_file(r, &e, path, NULL);
}

/* ---- POST /api/read ---- */

static int read_encoding(const struct request *r, const struct source *s, bool *ret_base64, struct err *e)
{
	struct str encoding = STR_NULL;
	if (json_read_str(r->body, "encoding", &encoding, e) < 0)
		return -1;
	*ret_base64 = encoding.n ? str_eq_c(encoding, "base64") : !s->text;
	if (encoding.n && !*ret_base64 && !str_eq_c(encoding, "utf-8") && !str_eq_c(encoding, "utf8"))
		return err_set(e, ERRC_VALIDATION_FAILED, "field 'encoding' must be 'utf-8', 'utf8' or 'base64'");
	return 0;
}

static void answer_read(const struct request *r, struct source *s, bool base64)
{
	struct reply *p = reply_new();
	struct json_writer w = json_writer(reply_text(p));
	json_object_begin(&w);
	json_member_bool(&w, "success", true);
	json_member_cstr(&w, "path", s->path);
	json_member_cstr(&w, "encoding", base64 ? "base64" : "utf-8");
	json_member_bool(&w, "isBinary", !s->text);
	json_member_cstr(&w, "mimeType", s->mime);
	json_member_u64(&w, "size", s->size);
	json_member_now(&w);
	json_key(&w, "content");
	struct spool content = {.fd = take_fd(&s->fd), .size = s->size};
	reply_add_spool(p, &content, base64);
	buf_add_byte(reply_text(p), '}');
	reply_send(p, r->x, 200);
}

void api_read(struct request *r)
{
	auto_free char *path = NULL;
	struct source s;
	bool base64;
	struct err e;
	if (request_path(r, "path", &path, &e) < 0)
		return request_invalid(r, "path", e.msg);
	int os = source_open(&s, path);
	if (os) {
		fail_open(r, os, path);
	} else if (read_encoding(r, &s, &base64, &e) < 0) {
		request_invalid(r, "encoding", e.msg);
	} else if ((base64 ? base64_len(s.size) : s.size) > READ_MAX) {
		uint64_t encoded = base64 ? base64_len(s.size) : s.size;
		char extra[96];
		snprintf(extra, sizeof extra, "\"maxSize\":%u,\"actualSize\":%llu", READ_MAX,
			(unsigned long long)encoded);
		err_set(&e, ERRC_FILE_TOO_LARGE, "'%.120s' has %llu bytes; at most %u can be read at once", path,
			(unsigned long long)encoded, READ_MAX);
		request_fail_file(r, &e, path, extra);
	} else {
		answer_read(r, &s, base64);
	}
	source_free(&s);
}

/* ---- streams ---- */

struct stream {
	struct source s;
	uint64_t at;
	void (*pour)(struct http_exchange *x, struct stream *st);
};

static void stream_writable(struct http_exchange *x)
{
	struct stream *st = http_exchange_arg(x);
	st->pour(x, st);
}

static void stream_close(struct http_exchange *x, bool complete)
{
	(void)complete;
	struct stream *st = http_exchange_arg(x);
	source_free(&st->s);
	free(st);
}

static const struct http_exchange_ops stream_ops = {.on_writable = stream_writable, .on_close = stream_close};

static struct stream *stream_new(
	const struct request *r, struct source *s, void (*pour)(struct http_exchange *x, struct stream *st))
{
	struct stream *st = xcalloc(1, sizeof *st);
	*st = (struct stream){.s = *s, .pour = pour};
	http_exchange_set(r->x, &stream_ops, st);
	return st;
}

static void send_event(struct http_exchange *x, struct buf *json)
{
	sse_send(x, NULL, STR_NULL, buf_str(json));
}

static void send_metadata(struct http_exchange *x, const struct source *s)
{
	auto_buf struct buf b = {0};
	struct json_writer w = json_writer(&b);
	json_object_begin(&w);
	json_member_cstr(&w, "type", "metadata");
	json_member_cstr(&w, "mimeType", s->mime);
	json_member_u64(&w, "size", s->size);
	json_member_bool(&w, "isBinary", !s->text);
	json_member_cstr(&w, "encoding", s->text ? "utf-8" : "base64");
	json_object_end(&w);
	send_event(x, &b);
}

/* One chunk of a text never ends inside a character: what is cut is read again with the next. */
static ssize_t send_chunk(struct http_exchange *x, struct stream *st)
{
	char raw[FILE_CHUNK];
	ssize_t n = pread(st->s.fd, raw, sizeof raw, (off_t)st->at);
	if (n <= 0)
		return n;
	auto_buf struct buf b = {0};
	buf_add_c(&b, "{\"type\":\"chunk\",\"data\":\"");
	size_t left = 0;
	if (st->s.text)
		left = json_put_piece(&b, str_n(raw, (size_t)n), st->at + (uint64_t)n >= st->s.size);
	else
		base64_append(&b, str_n(raw, (size_t)n));
	buf_add_c(&b, "\"}");
	send_event(x, &b);
	return n - (ssize_t)left;
}

static void pour_events(struct http_exchange *x, struct stream *st)
{
	ssize_t n = 1;
	while (http_respond_pending(x) < HTTP_OUT_HIGH && (n = send_chunk(x, st)) > 0)
		st->at += (uint64_t)n;
	if (n > 0)
		return;
	auto_buf struct buf b = {0};
	if (n < 0)
		buf_printf(&b, "{\"type\":\"error\",\"error\":\"read failed: %s\"}", strerror(errno));
	else
		buf_printf(&b, "{\"type\":\"complete\",\"bytesRead\":%llu}", (unsigned long long)st->at);
	send_event(x, &b);
	http_respond_end(x);
}

void api_read_stream(struct request *r)
{
	auto_free char *path = NULL;
	struct source s;
	struct err e;
	if (request_path(r, "path", &path, &e) < 0)
		return request_invalid(r, "path", e.msg);
	int os = source_open(&s, path);
	sse_begin(r->x);
	if (os) {
		/* Upstream's client looks for errors inside the stream. */
		auto_buf struct buf b = {0};
		struct json_writer w = json_writer(&b);
		err_os(&e, errc_from_file_errno(os), os, "read '%.150s'", path);
		json_object_begin(&w);
		json_member_cstr(&w, "type", "error");
		json_member_cstr(&w, "error", e.msg);
		json_member_cstr(&w, "code", errc_info(e.code)->code);
		json_object_end(&w);
		send_event(r->x, &b);
		http_respond_end(r->x);
		return source_free(&s);
	}
	send_metadata(r->x, &s);
	struct stream *st = stream_new(r, &s, pour_events);
	pour_events(r->x, st);
}

static void pour_raw(struct http_exchange *x, struct stream *st)
{
	static char raw[HTTP_READ_CHUNK];
	bool room = true;
	while (room && st->at < st->s.size) {
		uint64_t left = st->s.size - st->at;
		ssize_t n = pread(st->s.fd, raw, left < sizeof raw ? (size_t)left : sizeof raw, (off_t)st->at);
		/* A file that has shrunk cannot be sent as announced. */
		if (n <= 0)
			return http_abort(x);
		st->at += (uint64_t)n;
		room = http_respond_write(x, str_n(raw, (size_t)n));
	}
	if (st->at == st->s.size)
		http_respond_end(x);
}

void api_file_get(struct request *r)
{
	auto_buf struct buf mem = {0}, session_mem = {0};
	auto_free char *path = NULL;
	struct str session, given = request_query(r, STR("path"), &mem);
	struct source s;
	struct err e;
	if (request_session(r, &session_mem, &session, &e) < 0 || path_absolute(given, session, "path", &path, &e) < 0)
		return request_invalid(r, "path", e.msg);
	int os = source_open(&s, path);
	if (os) {
		fail_open(r, os, path);
		return source_free(&s);
	}
	http_respond_header(r->x, STR("Content-Type"), str_of(s.mime));
	http_respond_begin(r->x, 200, (int64_t)s.size);
	struct stream *st = stream_new(r, &s, pour_raw);
	pour_raw(r->x, st);
}
