#include <assert.h>
#include <stdio.h>

#include "agent/api.h"
#include "agent/file/archive.h"
#include "agent/file/path.h"
#include "agent/file/range.h"
#include "agent/file/source.h"
#include "agent/limits.h"
#include "agent/request/pump.h"
#include "base/base64.h"
#include "http/limits.h"
#include "http/sse.h"

/*
 * Reads a file: POST /api/read (one JSON answer, at most READ_MAX of content), POST /api/read/stream (SSE, any size)
 * and GET /api/file?path= (raw bytes, any size). All three read the file in pieces while the client takes them.
 */

enum { STEP = 48 * KIB, WHOLE_MAX = 16 * KIB }; /* STEP: a multiple of 3, for base64 */
static_assert(STEP % 3 == 0 && FILE_CHUNK % 3 == 0, "pieces of base64 must join");

struct reading {
	struct pump pump;
	struct source s;
	uint64_t at;
	uint64_t end; /* of GET /api/file */
	bool base64;
};

static struct reading *reading_new(struct source *s, bool base64)
{
	struct reading *r = xcalloc(1, sizeof *r);
	r->s = *s;
	r->base64 = base64;
	s->content = SPOOL_INIT;
	return r;
}

static void reading_free(struct pump *p)
{
	struct reading *r = container_of(p, struct reading, pump);
	source_free(&r->s);
	free(r);
}

/* The buffer in which pieces are encoded, one at a time. It is kept because allocating it for each piece would cost
 * more than all other work. */
static struct buf *scratch(void)
{
	static struct buf b;
	b.off = b.len = 0;
	return &b;
}

/* Appends the next piece, encoded. Returns how many bytes of the file it used: 0 at the end, -errno. A text is never
 * cut inside a character, base64 never inside a group; left-over bytes are read again. */
static ssize_t put_piece(struct buf *out, struct source *s, uint64_t at, bool base64, size_t step)
{
	char raw[FILE_CHUNK];
	ssize_t n = source_read(s, at, raw, step < sizeof raw ? step : sizeof raw);
	if (n <= 0)
		return n;
	bool last = at + (uint64_t)n >= source_size(s);
	size_t got = (size_t)n, used = got;
	if (base64) {
		used -= last ? 0 : got % 3;
		base64_append(out, str_n(raw, used ? used : got));
	} else {
		used -= json_put_piece(out, str_n(raw, got), last);
		if (!used)
			json_put_piece(out, str_n(raw, got), true);
	}
	if (used)
		return (ssize_t)used;
	/* Less than a character or group before the announced end: the file has shrunk, and ends here now. */
	s->content.size = at + got;
	return n;
}

/* ---- POST /api/read ---- */

static int read_encoding(const struct agent_request *r, const struct source *s, bool *ret_base64, struct err *e)
{
	struct str encoding = STR_NULL;
	if (json_read_str(r->body, "encoding", &encoding, e) < 0)
		return -1;
	*ret_base64 = encoding.n ? str_eq_c(encoding, "base64") : !s->text;
	if (encoding.n && !*ret_base64 && !str_eq_c(encoding, "utf-8") && !str_eq_c(encoding, "utf8"))
		return err_field(e, "encoding", "field 'encoding' must be 'utf-8', 'utf8' or 'base64'");
	return 0;
}

static void put_answer_start(struct buf *b, const struct source *s, const char *path, bool base64)
{
	struct json_writer w = json_writer(b);
	json_object_begin(&w);
	json_member_bool(&w, "success", true);
	json_member_cstr(&w, "path", path);
	json_member_cstr(&w, "encoding", base64 ? "base64" : "utf-8");
	json_member_bool(&w, "isBinary", !s->text);
	json_member_cstr(&w, "mimeType", s->mime);
	json_key(&w, "content");
	buf_add_byte(b, '"');
}

/* The length comes last: a file may shrink while it is read. */
static void put_answer_end(struct buf *b, uint64_t size)
{
	buf_add_byte(b, '"');
	struct json_writer w = {.out = b, .comma = true};
	json_member_u64(&w, "size", size);
	json_member_now(&w);
	json_object_end(&w);
}

static enum pump_state next_content(struct pump *p)
{
	struct reading *r = container_of(p, struct reading, pump);
	struct buf *piece = scratch();
	ssize_t n = put_piece(piece, &r->s, r->at, r->base64, STEP);
	if (n < 0)
		return PUMP_BROKEN;
	r->at += (uint64_t)n;
	bool end = n == 0 || r->at >= source_size(&r->s);
	if (end)
		put_answer_end(piece, r->at);
	pump_write(p, buf_str(piece));
	return end ? PUMP_END : PUMP_MORE;
}

static void answer_whole(const struct agent_request *r, struct source *s, struct buf *b, const char *path, bool base64)
{
	ssize_t n;
	uint64_t at = 0;
	while ((n = put_piece(b, s, at, base64, STEP)) > 0)
		at += (uint64_t)n;
	put_answer_end(b, at);
	if (n < 0)
		agent_request_fail_errno(r, (int)-n, "read", path);
	else
		agent_request_json(r, buf_str(b));
}

static void answer_read(const struct agent_request *r, struct source *s, const char *path, bool base64)
{
	auto_buf struct buf b = {0};
	put_answer_start(&b, s, path, base64);
	if (source_size(s) <= WHOLE_MAX)
		return answer_whole(r, s, &b, path, base64);
	http_respond_header(r->x, STR("Content-Type"), STR("application/json"));
	http_respond_begin(r->x, 200, HTTP_CHUNKED);
	http_respond_write(r->x, buf_str(&b));
	pump_start(&reading_new(s, base64)->pump, r->x, next_content, reading_free);
}

static void fail_open(const struct agent_request *r, const struct err *e, const char *path)
{
	char extra[32];
	snprintf(extra, sizeof extra, "\"maxSize\":%u", READ_MAX);
	agent_request_fail_file(r, e, path, e->code == ERRC_FILE_TOO_LARGE ? extra : NULL);
}

static void fail_too_large(const struct agent_request *r, const char *path, uint64_t encoded)
{
	struct err e;
	char extra[96];
	snprintf(extra, sizeof extra, "\"maxSize\":%u,\"actualSize\":%llu", READ_MAX, (unsigned long long)encoded);
	err_set(&e, ERRC_FILE_TOO_LARGE, "'%.120s' has %llu bytes (encoded); at most %u can be read at once", path,
		(unsigned long long)encoded, READ_MAX);
	agent_request_fail_file(r, &e, path, extra);
}

void api_read(struct agent_request *r)
{
	auto_free char *path = NULL;
	const char *shown = agent_request_given(r, "path");
	struct source s = {.content = SPOOL_INIT};
	bool base64;
	struct err e;
	if (agent_request_path(r, "path", &path, &e) < 0)
		return agent_request_refuse(r, &e);
	if (source_open(&s, path, shown, &e) < 0)
		return fail_open(r, &e, shown);
	if (read_encoding(r, &s, &base64, &e) < 0) {
		agent_request_refuse(r, &e);
	} else {
		uint64_t encoded = base64 ? base64_len(source_size(&s)) : source_size(&s);
		if (encoded > READ_MAX)
			fail_too_large(r, shown, encoded);
		else
			answer_read(r, &s, shown, base64);
	}
	source_free(&s);
}

/* ---- POST /api/read/stream ---- */

static void send_metadata(struct http_exchange *x, const struct source *s)
{
	auto_buf struct buf b = {0};
	struct json_writer w = json_writer(&b);
	json_object_begin(&w);
	json_member_cstr(&w, "type", "metadata");
	json_member_cstr(&w, "mimeType", s->mime);
	json_member_u64(&w, "size", source_size(s));
	json_member_bool(&w, "isBinary", !s->text);
	json_member_cstr(&w, "encoding", s->text ? "utf-8" : "base64");
	json_object_end(&w);
	sse_send(x, NULL, STR_NULL, buf_str(&b));
}

static void put_error_event(struct buf *b, const struct err *e)
{
	struct json_writer w = json_writer(b);
	json_object_begin(&w);
	json_member_cstr(&w, "type", "error");
	json_member_cstr(&w, "error", e->msg);
	json_member_cstr(&w, "code", errc_info(e->code)->code);
	json_object_end(&w);
}

/* Writes the event in its final form. JSON has no line breaks, so no search for them is needed. */
static enum pump_state next_event(struct pump *p)
{
	struct reading *r = container_of(p, struct reading, pump);
	struct buf *b = scratch();
	buf_add_c(b, "data: {\"type\":\"chunk\",\"data\":\"");
	ssize_t n = put_piece(b, &r->s, r->at, r->base64, FILE_CHUNK);
	if (n > 0) {
		buf_add_c(b, "\"}\n\n");
		pump_write(p, buf_str(b));
		r->at += (uint64_t)n;
		return PUMP_MORE;
	}
	b = scratch();
	if (n < 0) {
		struct err e;
		err_os(&e, errc_from_file_errno((int)-n), (int)-n, "read");
		put_error_event(b, &e);
	} else {
		buf_printf(b, "{\"type\":\"complete\",\"bytesRead\":%llu}", (unsigned long long)r->at);
	}
	pump_event(p, buf_str(b));
	return PUMP_END;
}

void api_read_stream(struct agent_request *r)
{
	auto_free char *path = NULL;
	struct source s;
	struct err e;
	if (agent_request_path(r, "path", &path, &e) < 0)
		return agent_request_refuse(r, &e);
	int opened = source_open(&s, path, agent_request_given(r, "path"), &e);
	sse_begin(r->x);
	if (opened < 0) {
		/* Upstream's client looks for errors inside the stream. */
		auto_buf struct buf b = {0};
		put_error_event(&b, &e);
		sse_send(r->x, NULL, STR_NULL, buf_str(&b));
		return http_respond_end(r->x);
	}
	send_metadata(r->x, &s);
	pump_start(&reading_new(&s, !s.text)->pump, r->x, next_event, reading_free);
}

/* ---- GET /api/file ---- */

static enum pump_state next_raw(struct pump *p)
{
	struct reading *r = container_of(p, struct reading, pump);
	char raw[HTTP_READ_CHUNK];
	uint64_t left = r->end - r->at;
	ssize_t n = source_read(&r->s, r->at, raw, left < sizeof raw ? (size_t)left : sizeof raw);
	/* A file that has shrunk cannot be sent as announced. */
	if (n < 0 || (n == 0 && r->at < r->end))
		return PUMP_BROKEN;
	r->at += (uint64_t)n;
	if (n)
		pump_write(p, str_n(raw, (size_t)n));
	return r->at == r->end ? PUMP_END : PUMP_MORE;
}

/* A client that has an older version (If-Range) gets the whole file: there are no versions here. */
static enum range_kind wanted_part(const struct agent_request *r, const struct source *s, struct range *ret)
{
	const struct http_headers *h = &http_request(r->x)->headers;
	*ret = (struct range){0, source_size(s)};
	if (http_header_value(h, STR("if-range")).p)
		return RANGE_WHOLE;
	return range_read(http_header_value(h, STR("range")), source_size(s), ret);
}

static void fail_range(const struct agent_request *r, struct source *s)
{
	char text[64];
	snprintf(text, sizeof text, "bytes */%llu", (unsigned long long)source_size(s));
	source_free(s);
	http_respond_header(r->x, STR("Content-Range"), str_of(text));
	http_respond(r->x, 416, NULL, STR(""));
}

static void say_part(const struct agent_request *r, const struct range *part, uint64_t size)
{
	char text[96];
	snprintf(text, sizeof text, "bytes %llu-%llu/%llu", (unsigned long long)part->from,
		(unsigned long long)(part->from + part->n - 1), (unsigned long long)size);
	http_respond_header(r->x, STR("Content-Range"), str_of(text));
}

void api_file_get(struct agent_request *r)
{
	auto_free char *path = NULL, *shown = NULL;
	struct source s;
	struct err e;
	if (archive_wanted(r))
		return archive_send(r);
	if (agent_request_query_path(r, &path, &shown, &e) < 0)
		return agent_request_refuse(r, &e);
	if (source_open(&s, path, shown, &e) < 0)
		return fail_open(r, &e, shown);
	struct range part;
	enum range_kind kind = wanted_part(r, &s, &part);
	if (kind == RANGE_NONE)
		return fail_range(r, &s);
	http_respond_header(r->x, STR("Content-Type"), str_of(s.mime));
	http_respond_header(r->x, STR("Accept-Ranges"), STR("bytes"));
	if (kind == RANGE_PART)
		say_part(r, &part, source_size(&s));
	http_respond_begin(r->x, kind == RANGE_PART ? 206 : 200, (int64_t)part.n);
	if (http_request(r->x)->method == HTTP_M_HEAD) {
		source_free(&s);
		return http_respond_end(r->x);
	}
	struct reading *reading = reading_new(&s, false);
	reading->at = part.from;
	reading->end = part.from + part.n;
	pump_start(&reading->pump, r->x, next_raw, reading_free);
}
