#include "daemon/serve/assets.h"

#include "daemon/route/handlers.h"
#include "daemon/route/request.h"

/* Frames are previews, which are origins of their own below the preview domain. */
static void put_policy(struct daemon_request *r)
{
	auto_buf struct buf policy = {0};
	const struct config *c = &r->daemon->config;
	buf_printf(&policy,
		"default-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
		"connect-src 'self'; frame-src 'self' blob: http://*.%s https://*.%s; object-src 'none'; base-uri "
		"'none'; "
		"form-action 'none'; frame-ancestors 'none'",
		c->preview_domain, c->preview_domain);
	http_respond_header(r->x, STR("Content-Security-Policy"), buf_str(&policy));
	http_respond_header(r->x, STR("X-Content-Type-Options"), STR("nosniff"));
	http_respond_header(r->x, STR("Referrer-Policy"), STR("no-referrer"));
	http_respond_header(r->x, STR("Cross-Origin-Opener-Policy"), STR("same-origin"));
}

static void serve(struct daemon_request *r, const struct console_asset *a)
{
	const struct http_headers *h = &http_request(r->x)->headers;
	bool packed = http_header_has_token(h, STR("accept-encoding"), STR("gzip"));
	bool page = a == console_assets;
	auto_buf struct buf etag = {0};
	/* Each form has its own: a strong tag stands for the same bytes. */
	buf_printf(&etag, "\"%s%s\"", a->etag, packed ? "-gzip" : "");
	put_policy(r);
	http_respond_header(r->x, STR("ETag"), buf_str(&etag));
	http_respond_header(r->x, STR("Vary"), STR("Accept-Encoding"));
	http_respond_header(
		r->x, STR("Cache-Control"), page ? STR("no-cache") : STR("public, max-age=31536000, immutable"));
	if (http_header_has_token(h, STR("if-none-match"), buf_str(&etag))) {
		http_respond(r->x, 304, NULL, STR(""));
		return daemon_request_answered(r, 304);
	}
	if (packed)
		http_respond_header(r->x, STR("Content-Encoding"), STR("gzip"));
	http_respond(r->x, 200, a->type, packed ? str_n(a->packed, a->packed_n) : str_n(a->plain, a->plain_n));
	daemon_request_answered(r, 200);
}

static const char no_console[] =
	"<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>Atoll</title>\n"
	"<h1>Atoll</h1>\n<p>This is the API of an Atoll daemon, which was built without its web console. "
	"<code>/openapi.json</code> describes all routes; they need the token.</p>\n</html>\n";

void handle_root(struct daemon_request *r)
{
	if (console_assets[0].path)
		return serve(r, &console_assets[0]);
	put_policy(r);
	http_respond(r->x, 200, "text/html; charset=utf-8", str_n(no_console, sizeof no_console - 1));
	daemon_request_answered(r, 200);
}

void handle_asset(struct daemon_request *r)
{
	struct err e;
	for (const struct console_asset *a = console_assets; a->path; a++)
		if (str_eq_c(http_request(r->x)->path, a->path))
			return serve(r, a);
	err_set(&e, ERRC_NOT_FOUND, "the console has no such file; load its page again");
	daemon_request_error(r, &e);
}
