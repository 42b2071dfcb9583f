#include "http/limits.h"
#include "http/parse/head.h"

enum state {
	S_START,
	S_START_LF, /* after a CR before the request line: one empty line is skipped (RFC 9112, 2.2) */
	S_METHOD,
	S_TARGET,
	S_VERSION,
	S_STATUS,
	S_REASON,
	S_LINE_LF,
	S_FIELD, /* first byte of a header line or of the empty line */
	S_NAME,
	S_VALUE,
	S_END_LF,
};

enum { C_TOKEN = 1, C_VALUE = 2, C_TARGET = 4, C_METHOD = 8, METHOD_MAX = 32 };

/* Controls, blank and DEL are 0 except where a value may hold them. */
#define TOKENS                                                                                                         \
	['!'] = 7, ['#'] = 7, ['$'] = 7, ['%'] = 7, ['&'] = 7, ['\''] = 7, ['*'] = 7, ['+'] = 7, ['-'] = 15,           \
	['.'] = 7, ['^'] = 7, ['_'] = 7, ['`'] = 7, ['|'] = 7, ['~'] = 7, ['0' ... '9'] = 7, ['A' ... 'Z'] = 15,       \
	['a' ... 'z'] = 7
static const unsigned char class_of[256] = {
	TOKENS,
	['\t'] = C_VALUE,
	[' '] = C_VALUE,
	['"'] = 6,
	['('] = 6,
	[')'] = 6,
	[','] = 6,
	['/'] = 6,
	[':'] = 6,
	[';'] = 6,
	['<'] = 6,
	['='] = 6,
	['>'] = 6,
	['?'] = 6,
	['@'] = 6,
	['['] = 6,
	['\\'] = 6,
	[']'] = 6,
	['{'] = 6,
	['}'] = 6,
	[0x80 ... 0xff] = C_VALUE,
};

static ssize_t bad(struct err *e, const char *what)
{
	return err_set(e, ERRC_INVALID_REQUEST, "%s", what);
}

/* "HTTP/1.1", as far as it has come; digits may be any, so that other versions get the right answer. */
static bool version_so_far(const char *p, size_t n)
{
	static const char form[] = "HTTP/#.#";
	if (n > sizeof form - 1)
		return false;
	for (size_t i = 0; i < n; i++)
		if (form[i] == '#' ? p[i] < '0' || p[i] > '9' : p[i] != form[i])
			return false;
	return true;
}

static bool version_odd(const char *p)
{
	return p[5] != '1' || (p[7] != '0' && p[7] != '1');
}

/* The byte that ends a version: everything of it has been seen. */
static ssize_t end_version(struct head_scan *s, const char *line, size_t n, struct err *e)
{
	if (n != 8)
		return bad(e, "the HTTP version is malformed");
	s->version_odd = version_odd(line);
	return 0;
}

static ssize_t step_request_line(struct head_scan *s, const char *p, unsigned char c, struct err *e)
{
	size_t n = s->at - s->token;
	switch (s->state) {
	case S_METHOD:
		if (c == ' ' && n) {
			s->state = S_TARGET;
			s->token = s->at + 1;
			return 0;
		}
		return class_of[c] & C_METHOD && n < METHOD_MAX ? 0 : bad(e, "the method is malformed");
	case S_TARGET:
		if (c == ' ' && n) {
			s->state = S_VERSION;
			s->token = s->at + 1;
			return 0;
		}
		if (c == '\r' || c == '\n')
			return bad(e, "the request line has no HTTP version");
		if (n >= HTTP_TARGET_MAX)
			return err_set(
				e, ERRC_URI_TOO_LONG, "the request target is longer than %u bytes", HTTP_TARGET_MAX);
		return class_of[c] & C_TARGET ? 0 : bad(e, "the request target holds a byte that is not allowed");
	default: /* S_VERSION */
		if (c == '\r') {
			s->state = S_LINE_LF;
			return end_version(s, p + s->token, n, e);
		}
		return version_so_far(p + s->token, n + 1) ? 0 : bad(e, "the HTTP version is malformed");
	}
}

static ssize_t step_status_line(struct head_scan *s, const char *p, unsigned char c, struct err *e)
{
	size_t n = s->at - s->token;
	switch (s->state) {
	case S_VERSION:
		if (c == ' ') {
			s->state = S_STATUS;
			s->token = s->at + 1;
			return end_version(s, p + s->token - n - 1, n, e);
		}
		return version_so_far(p + s->token, n + 1) ? 0 : bad(e, "the HTTP version is malformed");
	case S_STATUS:
		if (n < 3)
			return c >= '0' && c <= '9' ? 0 : bad(e, "the status is malformed");
		s->state = c == '\r' ? S_LINE_LF : S_REASON;
		return c == '\r' || c == ' ' ? 0 : bad(e, "the status is malformed");
	default: /* S_REASON */
		if (c == '\r') {
			s->state = S_LINE_LF;
			return 0;
		}
		return class_of[c] & C_VALUE ? 0 : bad(e, "the reason phrase holds a byte that is not allowed");
	}
}

static ssize_t step_field(struct head_scan *s, unsigned char c, struct err *e)
{
	switch (s->state) {
	case S_FIELD:
		if (c == '\r') {
			s->state = S_END_LF;
			return 0;
		}
		if (c == ' ' || c == '\t')
			return bad(e, "a folded header line is not allowed");
		if (++s->lines > HTTP_HEADERS_MAX)
			return err_set(e, ERRC_HEADERS_TOO_LARGE, "more than %d headers", HTTP_HEADERS_MAX);
		s->state = S_NAME;
		return class_of[c] & C_TOKEN ? 0 : bad(e, "a header line begins with a byte that is not allowed");
	case S_NAME:
		if (c == ':') {
			s->state = S_VALUE;
			return 0;
		}
		return class_of[c] & C_TOKEN ? 0 : bad(e, "a header name holds a byte that is not allowed");
	default: /* S_VALUE */
		if (c == '\r') {
			s->state = S_LINE_LF;
			return 0;
		}
		return class_of[c] & C_VALUE ? 0 : bad(e, "a header value holds a byte that is not allowed");
	}
}

static ssize_t step_start(struct head_scan *s, enum head_kind kind, unsigned char c, struct err *e)
{
	if (kind == HEAD_RESPONSE) {
		s->state = S_VERSION;
		return c == 'H' ? 0 : bad(e, "this is not HTTP");
	}
	if (c == '\r' && s->at == 0) {
		s->state = S_START_LF;
		return 0;
	}
	s->state = S_METHOD;
	s->token = s->at;
	return c >= 'A' && c <= 'Z' ? 0 : bad(e, "this is not HTTP, or the method is malformed");
}

/* 0: go on, 1: the head ends with this byte, -1: refused. */
static ssize_t step(struct head_scan *s, enum head_kind kind, const char *p, struct err *e)
{
	unsigned char c = (unsigned char)p[s->at];
	switch (s->state) {
	case S_START:
		return step_start(s, kind, c, e);
	case S_START_LF:
		s->state = S_START;
		return c == '\n' ? 0 : bad(e, "a CR without LF");
	case S_METHOD:
	case S_TARGET:
		return step_request_line(s, p, c, e);
	case S_VERSION:
		return kind == HEAD_REQUEST ? step_request_line(s, p, c, e) : step_status_line(s, p, c, e);
	case S_STATUS:
	case S_REASON:
		return step_status_line(s, p, c, e);
	case S_LINE_LF:
		if (s->version_odd)
			return err_set(
				e, ERRC_HTTP_VERSION_NOT_SUPPORTED, "only HTTP/1.1 and HTTP/1.0 are spoken here");
		s->state = S_FIELD;
		return c == '\n' ? 0 : bad(e, "a CR without LF");
	case S_FIELD:
	case S_NAME:
	case S_VALUE:
		return step_field(s, c, e);
	case S_END_LF:
		return c == '\n' ? 1 : bad(e, "a CR without LF");
	}
	return bad(e, "unreachable");
}

ssize_t head_scan(struct head_scan *s, enum head_kind kind, struct str in, struct err *e)
{
	while (s->at < in.n) {
		if (s->at >= HTTP_HEAD_MAX)
			return err_set(e, ERRC_HEADERS_TOO_LARGE, "the head is longer than %u bytes", HTTP_HEAD_MAX);
		/* Most bytes of a head are inside values: pass over them without a dispatch for each. */
		if (s->state == S_VALUE)
			while (s->at + 1 < in.n && class_of[(unsigned char)in.p[s->at]] & C_VALUE)
				s->at++;
		ssize_t r = step(s, kind, in.p, e);
		s->at++;
		if (r)
			return r < 0 ? r : (ssize_t)s->at;
	}
	return 0;
}
