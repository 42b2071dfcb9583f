#include <llhttp.h>

#include "http/parse/head.h"

/* The parts of one head, as llhttp reports them. */
struct split {
	llhttp_t parser;
	struct http_header *v;
	size_t n, max;
	struct str url, reason;
	bool in_value, complete;
};

void head_mem_free(struct head_mem *m)
{
	free(m->p);
	*m = (struct head_mem){0};
}

/* Adds a piece to a span. Pieces of one buffer always touch; a gap would mean that llhttp folded lines. */
static int extend(struct str *s, const char *p, size_t n)
{
	if (s->p && s->p + s->n != p)
		return -1;
	*s = str_n(s->p ? s->p : p, s->n + n);
	return 0;
}

static int on_url(llhttp_t *l, const char *p, size_t n)
{
	return extend(&container_of(l, struct split, parser)->url, p, n);
}

static int on_status(llhttp_t *l, const char *p, size_t n)
{
	return extend(&container_of(l, struct split, parser)->reason, p, n);
}

static int on_field(llhttp_t *l, const char *p, size_t n)
{
	struct split *s = container_of(l, struct split, parser);
	if (s->in_value || s->n == 0) {
		if (s->n == s->max)
			return -1;
		s->v[s->n++] = (struct http_header){0};
		s->in_value = false;
	}
	return extend(&s->v[s->n - 1].name, p, n);
}

static int on_value(llhttp_t *l, const char *p, size_t n)
{
	struct split *s = container_of(l, struct split, parser);
	s->in_value = true;
	return s->n ? extend(&s->v[s->n - 1].value, p, n) : -1;
}

static int on_complete(llhttp_t *l)
{
	container_of(l, struct split, parser)->complete = true;
	return 0;
}

static const llhttp_settings_t settings = {
	.on_url = on_url,
	.on_status = on_status,
	.on_header_field = on_field,
	.on_header_value = on_value,
	.on_headers_complete = on_complete,
};

/* Copies the head into m, room for the header list behind it, and runs llhttp over the copy. */
static int split_head(struct split *s, struct head_mem *m, const struct head_scan *scan, struct str head,
	llhttp_type_t type, struct err *e)
{
	size_t text = (head.n + 15) & ~(size_t)15, need = text + scan->lines * sizeof(struct http_header);
	if (need > m->cap) {
		free(m->p);
		m->cap = need < 1024 ? 1024 : need;
		m->p = xmalloc(m->cap);
	}
	memcpy(m->p, head.p, head.n);
	*s = (struct split){.v = (struct http_header *)(void *)(m->p + text), .max = scan->lines};
	llhttp_init(&s->parser, type, &settings);
	llhttp_errno_t r = llhttp_execute(&s->parser, m->p, head.n);
	if (r == HPE_INVALID_METHOD)
		return err_set(e, ERRC_NOT_IMPLEMENTED, "the method is not known");
	if ((r != HPE_OK && r != HPE_PAUSED_UPGRADE) || !s->complete || s->n != scan->lines)
		return err_set(e, ERRC_INVALID_REQUEST, "malformed head: %s",
			s->parser.reason ? s->parser.reason : "it does not end where it should");
	for (size_t i = 0; i < s->n; i++)
		s->v[i].value = str_trim(s->v[i].value);
	return 0;
}

/* The framing that all headers together announce. */
struct framing {
	int64_t length; /* -1: no Content-Length */
	bool chunked, te, close, keep_alive, upgrade;
	size_t hosts;
	struct str host, expect;
};

static int read_length(struct framing *f, struct str v, struct err *e)
{
	uint64_t n;
	if (f->length >= 0)
		return err_set(e, ERRC_INVALID_REQUEST, "more than one Content-Length");
	if (!str_to_u64(v, INT64_MAX, &n))
		return err_set(e, ERRC_INVALID_REQUEST, "Content-Length is not a number of bytes");
	f->length = (int64_t)n;
	return 0;
}

static int read_encoding(struct framing *f, struct str v, struct err *e)
{
	if (f->te || !str_eq_nocase(v, STR("chunked")))
		return err_set(e, ERRC_INVALID_REQUEST, "the only Transfer-Encoding understood is one 'chunked'");
	f->te = f->chunked = true;
	return 0;
}

static void read_connection(struct framing *f, struct str v)
{
	while (v.n) {
		struct str item = str_trim(str_split(v, ',', &v));
		f->close |= str_eq_nocase(item, STR("close"));
		f->keep_alive |= str_eq_nocase(item, STR("keep-alive"));
		f->upgrade |= str_eq_nocase(item, STR("upgrade"));
	}
}

/* A value without a word asks for nothing: s3fs, told to send no Expect, sends "Expect::". */
static struct str expectation(struct str value)
{
	for (size_t i = 0; i < value.n; i++)
		if (value.p[i] != ':' && value.p[i] != ' ' && value.p[i] != '\t')
			return value;
	return STR_NULL;
}

static int read_framing(const struct http_headers *h, int minor, struct framing *f, struct err *e)
{
	bool upgrade = false;
	*f = (struct framing){.length = -1};
	for (size_t i = 0; i < h->n; i++) {
		struct str name = h->v[i].name, v = h->v[i].value;
		int r = 0;
		/* The lengths of the names tell them apart almost always: compare text only then. */
		if (name.n == 14 && str_eq_nocase(name, STR("Content-Length")))
			r = read_length(f, v, e);
		else if (name.n == 17 && str_eq_nocase(name, STR("Transfer-Encoding")))
			r = read_encoding(f, v, e);
		else if (name.n == 10 && str_eq_nocase(name, STR("Connection")))
			read_connection(f, v);
		else if (name.n == 4 && str_eq_nocase(name, STR("Host")))
			f->hosts++, f->host = v;
		else if (name.n == 7 && str_eq_nocase(name, STR("Upgrade")))
			upgrade = v.n > 0;
		else if (name.n == 6 && str_eq_nocase(name, STR("Expect")))
			f->expect = expectation(v);
		if (r < 0)
			return r;
	}
	f->upgrade &= upgrade && minor >= 1;
	if (f->te && f->length >= 0)
		return err_set(e, ERRC_INVALID_REQUEST, "both Content-Length and Transfer-Encoding");
	if (f->te && minor == 0)
		return err_set(e, ERRC_INVALID_REQUEST, "Transfer-Encoding in HTTP/1.0");
	return 0;
}

/* reg-name, IPv4 or [IPv6], then maybe a port: no user, path or blank can hide in it. */
static bool host_ok(struct str host)
{
	for (size_t i = 0; i < host.n; i++) {
		unsigned char c = (unsigned char)host.p[i];
		bool alnum = (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
		if (!alnum && (c < 0x21 || c > 0x7e || !strchr("-._~%!$&'()*+;=:[]", c)))
			return false;
	}
	return host.n <= 255;
}

/* Origin form, absolute form with http (whose authority then counts instead of Host), "*" for OPTIONS. */
static int read_target(struct http_request *r, struct err *e)
{
	struct str t = r->target;
	if (str_starts(t, STR("http://"))) {
		struct str rest = str_skip(t, 7);
		size_t n = 0;
		while (n < rest.n && rest.p[n] != '/' && rest.p[n] != '?')
			n++;
		r->host = str_n(rest.p, n);
		r->absolute = true;
		t = str_skip(rest, n);
		if (n == 0)
			return err_set(e, ERRC_INVALID_REQUEST, "the request target names no host");
		if (t.n == 0)
			t = STR("/");
	}
	bool star = str_eq(t, STR("*")) && r->method == HTTP_M_OPTIONS;
	if (!star && t.p[0] != '/')
		return err_set(e, ERRC_INVALID_REQUEST, "the request target does not begin with '/'");
	if (str_index(t, '#') >= 0)
		return err_set(e, ERRC_INVALID_REQUEST, "the request target holds a fragment");
	ssize_t q = str_index(t, '?');
	r->target = t;
	r->path = q < 0 ? t : str_n(t.p, (size_t)q);
	r->query = q < 0 ? STR_NULL : str_skip(t, (size_t)q + 1);
	return 0;
}

static int check_request(struct http_request *r, const struct framing *f, struct err *e)
{
	if (r->method == HTTP_M_CONNECT)
		return err_set(e, ERRC_METHOD_NOT_ALLOWED, "CONNECT is not offered here");
	if (f->hosts > 1 || (f->hosts == 0 && r->minor >= 1))
		return err_set(e, ERRC_INVALID_REQUEST, f->hosts ? "more than one Host" : "no Host header");
	if (read_target(r, e) < 0)
		return -1;
	if (!host_ok(r->host) || !host_ok(f->host))
		return err_set(e, ERRC_INVALID_REQUEST, "the host is malformed");
	if (f->expect.p && r->minor >= 1 && !str_eq_nocase(f->expect, STR("100-continue")))
		return err_set(e, ERRC_EXPECTATION_FAILED, "the expectation is not known");
	return 0;
}

int head_parse_request(
	struct head_mem *m, const struct head_scan *scan, struct str head, struct http_request *ret, struct err *e)
{
	struct split s;
	struct framing f;
	if (split_head(&s, m, scan, head, HTTP_REQUEST, e) < 0)
		return -1;
	struct http_request r = {
		.target = s.url,
		.headers = {s.v, s.n},
		.minor = s.parser.http_minor,
	};
	/* The copy begins with the method, maybe behind one empty line. */
	struct str line = str_n(m->p, head.n), rest;
	r.method_text = str_split(m->p[0] == '\r' ? str_skip(line, 2) : line, ' ', &rest);
	r.method = http_method_of(r.method_text);
	if (read_framing(&r.headers, r.minor, &f, e) < 0)
		return -1;
	r.host = f.host;
	if (check_request(&r, &f, e) < 0)
		return -1;
	r.content_length = f.chunked ? -1 : f.length > 0 ? f.length : 0;
	r.keep_alive = r.minor >= 1 ? !f.close : f.keep_alive && !f.close;
	r.expect_continue = f.expect.p && r.minor >= 1 && r.content_length != 0;
	r.upgrade = f.upgrade && r.content_length == 0;
	r.upgrade_behind = f.upgrade && r.content_length != 0;
	*ret = r;
	return 0;
}

int head_parse_response(struct head_mem *m, const struct head_scan *scan, struct str head, bool to_head,
	struct http_response *ret, struct err *e)
{
	struct split s;
	struct framing f;
	if (split_head(&s, m, scan, head, HTTP_RESPONSE, e) < 0)
		return -1;
	struct http_response r = {
		.status = s.parser.status_code,
		.reason = s.reason,
		.headers = {s.v, s.n},
		.minor = s.parser.http_minor,
	};
	if (r.status < 100 || r.status > 599)
		return err_set(e, ERRC_INVALID_REQUEST, "the status is out of range");
	if (r.status < 200 && r.minor == 0)
		return err_set(e, ERRC_INVALID_REQUEST, "an interim answer in HTTP/1.0");
	if (read_framing(&r.headers, r.minor, &f, e) < 0)
		return -1;
	bool no_body = to_head || r.status < 200 || r.status == 204 || r.status == 304;
	if ((r.status < 200 || r.status == 204) && (f.te || f.length > 0))
		return err_set(e, ERRC_INVALID_REQUEST, "a body is announced where none is allowed");
	r.chunked = !no_body && f.chunked;
	r.content_length = no_body ? 0 : f.length;
	r.keep_alive = (r.minor >= 1 ? !f.close : f.keep_alive && !f.close) && (no_body || f.chunked || f.length >= 0);
	r.upgrade = r.status == 101;
	*ret = r;
	return 0;
}
