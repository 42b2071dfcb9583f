#include "http/client/call.h"
#include "http/limits.h"

static bool target_ok(struct str t)
{
	for (size_t i = 0; i < t.n; i++)
		if (t.p[i] <= 0x20 || t.p[i] >= 0x7f)
			return false;
	bool form = str_starts(t, STR("/")) || str_starts(t, STR("http://")) || str_eq(t, STR("*"));
	return form && t.n <= HTTP_TARGET_MAX;
}

static bool is_own(struct str name)
{
	static const struct str own[] = {
		STR("Host"), STR("Content-Length"), STR("Transfer-Encoding"), STR("Connection")};
	for (size_t i = 0; i < ARRAY_LEN(own); i++)
		if (str_eq_nocase(name, own[i]))
			return true;
	return false;
}

static int render_headers(struct buf *b, const struct http_call_options *o, struct err *e)
{
	for (size_t i = 0; i < o->headers_n; i++) {
		struct str name = o->headers[i].name, value = o->headers[i].value;
		if (!http_name_ok(name) || !http_value_ok(value) || is_own(name))
			return err_set(e, ERRC_INVALID_REQUEST, "the header '%.*s' cannot be sent", STR_ARG(name));
		http_put_header(b, name, value);
	}
	return 0;
}

int call_render(struct http_call *c, const struct http_call_options *o, struct err *e)
{
	struct buf *b = &c->head;
	struct str method = o->method.n ? o->method : STR("GET");
	struct str target = o->target.n ? o->target : STR("/");
	struct str host = o->host.p ? o->host : STR("localhost");
	/* A proxied head goes out with added headers: allow twice the size of an incoming head. */
	b->max = 2 * HTTP_HEAD_MAX;
	b->wipe = o->wipe;
	if (!http_name_ok(method) || !target_ok(target) || !http_value_ok(host))
		return err_set(e, ERRC_INVALID_REQUEST, "the request line cannot be sent");
	buf_add_str(b, method);
	buf_add_byte(b, ' ');
	buf_add_str(b, target);
	buf_add_c(b, " HTTP/1.1\r\n");
	http_put_header(b, STR("Host"), host);
	if (render_headers(b, o, e) < 0)
		return -1;
	bool wants_length = !str_eq(method, STR("GET")) && !str_eq(method, STR("HEAD")) && !o->upgrade;
	if (o->content_length < 0)
		http_put_header(b, STR("Transfer-Encoding"), STR("chunked"));
	else if (o->content_length > 0 || wants_length)
		buf_printf(b, "Content-Length: %lld\r\n", (long long)o->content_length);
	if (o->te_trailers && !o->upgrade)
		buf_add_c(b, "TE: trailers\r\nConnection: TE\r\n");
	if (o->upgrade)
		http_put_header(b, STR("Connection"), STR("upgrade"));
	buf_add_c(b, "\r\n");
	if (b->failed)
		return err_set(e, ERRC_HEADERS_TOO_LARGE, "the request's head is too long");
	c->method = str_n(b->p, method.n);
	c->to_head = str_eq(method, STR("HEAD"));
	return 0;
}
