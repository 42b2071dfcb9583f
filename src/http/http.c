#include "http/http.h"

#include "http/limits.h"
#include <time.h>

static const struct {
	struct str text;
	enum http_method method;
	bool idempotent;
} methods[] = {
	{STR("GET"), HTTP_M_GET, true},
	{STR("HEAD"), HTTP_M_HEAD, true},
	{STR("POST"), HTTP_M_POST, false},
	{STR("PUT"), HTTP_M_PUT, true},
	{STR("DELETE"), HTTP_M_DELETE, true},
	{STR("PATCH"), HTTP_M_PATCH, false},
	{STR("OPTIONS"), HTTP_M_OPTIONS, true},
	{STR("CONNECT"), HTTP_M_CONNECT, false},
	{STR("TRACE"), HTTP_M_TRACE, true},
};

enum http_method http_method_of(struct str text)
{
	for (size_t i = 0; i < ARRAY_LEN(methods); i++)
		if (str_eq(text, methods[i].text))
			return methods[i].method;
	return HTTP_M_OTHER;
}

bool http_method_idempotent(struct str text)
{
	for (size_t i = 0; i < ARRAY_LEN(methods); i++)
		if (str_eq(text, methods[i].text))
			return methods[i].idempotent;
	return false;
}

const struct http_header *http_header_find(const struct http_headers *h, struct str name)
{
	for (size_t i = 0; i < h->n; i++)
		if (str_eq_nocase(h->v[i].name, name))
			return &h->v[i];
	return NULL;
}

struct str http_header_value(const struct http_headers *h, struct str name)
{
	const struct http_header *f = http_header_find(h, name);
	return f ? f->value : STR_NULL;
}

bool http_header_has_token(const struct http_headers *h, struct str name, struct str token)
{
	for (size_t i = 0; i < h->n; i++) {
		if (!str_eq_nocase(h->v[i].name, name))
			continue;
		struct str rest = h->v[i].value;
		while (rest.n) {
			struct str item = str_trim(str_split(rest, ',', &rest));
			if (str_eq_nocase(item, token))
				return true;
		}
	}
	return false;
}

static bool is_tchar(unsigned char c)
{
	if ((c | 0x20) >= 'a' && (c | 0x20) <= 'z')
		return true;
	return (c >= '0' && c <= '9') || (c && strchr("!#$%&'*+-.^_`|~", c));
}

bool http_name_ok(struct str name)
{
	for (size_t i = 0; i < name.n; i++)
		if (!is_tchar((unsigned char)name.p[i]))
			return false;
	return name.n > 0;
}

bool http_value_ok(struct str value)
{
	for (size_t i = 0; i < value.n; i++) {
		unsigned char c = (unsigned char)value.p[i];
		if ((c < 0x20 && c != '\t') || c == 0x7f)
			return false;
	}
	return str_trim(value).n == value.n;
}

static const struct {
	int status;
	const char *text;
} texts[] = {
	{100, "Continue"},
	{101, "Switching Protocols"},
	{102, "Processing"},
	{103, "Early Hints"},
	{200, "OK"},
	{201, "Created"},
	{202, "Accepted"},
	{203, "Non-Authoritative Information"},
	{204, "No Content"},
	{205, "Reset Content"},
	{206, "Partial Content"},
	{207, "Multi-Status"},
	{300, "Multiple Choices"},
	{301, "Moved Permanently"},
	{302, "Found"},
	{303, "See Other"},
	{304, "Not Modified"},
	{307, "Temporary Redirect"},
	{308, "Permanent Redirect"},
	{400, "Bad Request"},
	{401, "Unauthorized"},
	{402, "Payment Required"},
	{403, "Forbidden"},
	{404, "Not Found"},
	{405, "Method Not Allowed"},
	{406, "Not Acceptable"},
	{407, "Proxy Authentication Required"},
	{408, "Request Timeout"},
	{409, "Conflict"},
	{410, "Gone"},
	{411, "Length Required"},
	{412, "Precondition Failed"},
	{413, "Content Too Large"},
	{414, "URI Too Long"},
	{415, "Unsupported Media Type"},
	{416, "Range Not Satisfiable"},
	{417, "Expectation Failed"},
	{418, "I'm a teapot"},
	{421, "Misdirected Request"},
	{422, "Unprocessable Content"},
	{423, "Locked"},
	{424, "Failed Dependency"},
	{425, "Too Early"},
	{426, "Upgrade Required"},
	{428, "Precondition Required"},
	{429, "Too Many Requests"},
	{431, "Request Header Fields Too Large"},
	{451, "Unavailable For Legal Reasons"},
	{500, "Internal Server Error"},
	{501, "Not Implemented"},
	{502, "Bad Gateway"},
	{503, "Service Unavailable"},
	{504, "Gateway Timeout"},
	{505, "HTTP Version Not Supported"},
	{507, "Insufficient Storage"},
	{511, "Network Authentication Required"},
};

const char *http_status_text(int status)
{
	if (status == 200)
		return "OK";
	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		if (texts[i].status == status)
			return texts[i].text;
	return "Unknown";
}

struct str http_date(void)
{
	static char text[32];
	static time_t made;
	static size_t len;
	/* The coarse clock moves in 4 ms steps and costs no more than a load. */
	struct timespec ts;
	clock_gettime(CLOCK_REALTIME_COARSE, &ts);
	if (ts.tv_sec != made) {
		struct tm tm;
		gmtime_r(&ts.tv_sec, &tm);
		len = strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &tm);
		made = ts.tv_sec;
	}
	return str_n(text, len);
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)(c | 0x20);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int decode(struct str s, bool form, struct buf *out, struct err *e)
{
	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i];
		if (c == '%') {
			int high = i + 2 < s.n ? hex_digit(s.p[i + 1]) : -1;
			int low = high >= 0 ? hex_digit(s.p[i + 2]) : -1;
			if (low < 0)
				return err_set(e, ERRC_VALIDATION_FAILED, "bad percent escape in '%.*s'", STR_ARG(s));
			c = (char)(high << 4 | low);
			if (c == 0)
				return err_set(e, ERRC_VALIDATION_FAILED, "%%00 is not allowed here");
			i += 2;
		} else if (c == '+' && form) {
			c = ' ';
		}
		if (!buf_add_byte(out, c))
			return err_set(e, ERRC_VALIDATION_FAILED, "the decoded text is too long");
	}
	return 0;
}

int http_percent_decode(struct str s, struct buf *out, struct err *e)
{
	return decode(s, false, out, e);
}

int http_query_get(struct str query, struct str name, struct buf *out, struct err *e)
{
	while (query.n) {
		struct str value;
		struct str key = str_split(str_split(query, '&', &query), '=', &value);
		auto_buf struct buf plain = {.max = HTTP_TARGET_MAX};
		if (decode(key, true, &plain, NULL) < 0 || !str_eq(buf_str(&plain), name))
			continue;
		if (decode(value, true, out, e) < 0)
			return err_wrap(e, "parameter '%.*s'", STR_ARG(name));
		return 1;
	}
	return 0;
}

bool http_path_next(struct str *path, struct str *ret_segment)
{
	struct str p = *path;
	if (p.n && p.p[0] == '/')
		p = str_skip(p, 1);
	if (!p.n)
		return false;
	ssize_t slash = str_index(p, '/');
	size_t n = slash < 0 ? p.n : (size_t)slash;
	*ret_segment = str_n(p.p, n);
	*path = str_skip(p, n);
	return true;
}

void http_put_header(struct buf *b, struct str name, struct str value)
{
	buf_add_str(b, name);
	buf_add(b, ": ", 2);
	buf_add_str(b, value);
	buf_add(b, "\r\n", 2);
}

void http_percent_encode(struct buf *out, struct str s)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/";
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] && strchr(plain, s.p[i]))
			buf_add_byte(out, s.p[i]);
		else
			buf_printf(out, "%%%02X", (unsigned char)s.p[i]);
}
