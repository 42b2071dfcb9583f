#include "daemon/pass/pages.h"

#include <openssl/sha.h>
#include <stdio.h>

#include "base/base64.h"
#include "base/json.h"

static const char style[] =
	":root{color-scheme:light "
	"dark;--bg:#f6f8f8;--card:#fff;--fg:#15252b;--dim:#5b6d73;--line:#dde5e6;--deep:#0b7285;"
	"--sand:#e8b04b}"
	"@media(prefers-color-scheme:dark){:root{--bg:#0d1518;--card:#142024;--fg:#e3eced;--dim:#8fa3a8;--line:#22343a;"
	"--deep:#3bc9db;--sand:#f2c66d}}"
	"*{box-sizing:border-box}"
	"body{margin:0;min-height:100vh;display:grid;place-items:center;padding:24px;background:var(--bg);color:var(--fg);"
	"font:16px/1.55 system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif}"
	"main{width:100%;max-width:540px;padding:40px;background:var(--card);border:1px solid var(--line);"
	"border-radius:14px;box-shadow:0 8px 32px rgba(8,40,48,.08)}"
	"svg{display:block;width:52px;height:52px;margin-bottom:20px}"
	".ring{fill:none;stroke:var(--deep);stroke-width:5;stroke-linecap:round}"
	".isle{fill:var(--sand)}"
	".wait .ring{stroke-dasharray:92 34;transform-origin:50% 50%;animation:turn 2.4s linear infinite}"
	"@keyframes turn{to{transform:rotate(360deg)}}"
	"@media(prefers-reduced-motion:reduce){.wait .ring{animation:none}}"
	"h1{margin:0 0 8px;font-size:22px;line-height:1.3;font-weight:650;letter-spacing:-.01em}"
	"p{margin:0 0 12px;color:var(--dim)}"
	"p:last-child{margin-bottom:0}"
	"code{padding:1px 6px;border-radius:6px;background:var(--bg);border:1px solid var(--line);color:var(--fg);"
	"font:14px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;overflow-wrap:anywhere}"
	"footer{margin-top:28px;padding-top:16px;border-top:1px solid var(--line);font-size:13px;color:var(--dim)}";

/* Asks again, ever more slowly and only while it is looked at, and reloads once the answer is not ours any more. */
static const char script[] =
	"(()=>{let pause=500;const later=()=>{setTimeout(ask,pause);pause=Math.min(pause*1.25,4000)};"
	"const ask=()=>{if(document.hidden){document.addEventListener('visibilitychange',ask,{once:true});return}"
	"fetch(location.href,{method:'HEAD',cache:'no-store',redirect:'manual',headers:{'X-Atoll-Poll':'1'}})"
	".then(r=>r.headers.get('X-Atoll-Preview')==='waiting'?later():location.reload(),later)};later()})()";

struct page {
	int status;
	const char *code;  /* of the JSON */
	const char *state; /* X-Atoll-Preview */
	const char *title;
	struct str text; /* HTML */
	struct str said; /* the JSON's sentence */
	uint16_t port;	 /* 0: not told */
	bool waits;
};

static void add_hash(struct buf *out, const char *what, const char *text)
{
	unsigned char hash[SHA256_DIGEST_LENGTH];
	SHA256((const unsigned char *)text, strlen(text), hash);
	buf_printf(out, "; %s 'sha256-", what);
	base64_append(out, str_n(hash, sizeof hash));
	buf_add_byte(out, '\'');
}

static struct str policy(void)
{
	static struct buf made;
	if (!made.len) {
		buf_add_c(&made, "default-src 'none'; base-uri 'none'; form-action 'none'; connect-src 'self'");
		add_hash(&made, "style-src", style);
		add_hash(&made, "script-src", script);
	}
	return buf_str(&made);
}

static void add_escaped(struct buf *out, struct str s)
{
	for (size_t i = 0; i < s.n; i++) {
		const char *as = s.p[i] == '<' ? "&lt;" : s.p[i] == '>' ? "&gt;" : s.p[i] == '&' ? "&amp;" : NULL;
		if (as)
			buf_add_c(out, as);
		else
			buf_add_byte(out, s.p[i]);
	}
}

static void write_html(struct buf *out, const struct page *p)
{
	buf_printf(out,
		"<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
		"<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">"
		"<meta name=\"robots\" content=\"noindex\"><title>%s</title><style>%s</style></head>\n"
		"<body><main%s><svg viewBox=\"0 0 52 52\" aria-hidden=\"true\"><circle class=\"ring\" cx=\"26\" "
		"cy=\"26\" "
		"r=\"20\"/><circle class=\"isle\" cx=\"26\" cy=\"26\" r=\"5\"/></svg>\n<h1>%s</h1>\n",
		p->title, style, p->waits ? " class=\"wait\"" : "", p->title);
	buf_add_str(out, p->text);
	buf_add_c(out, "\n<footer>Atoll preview</footer></main>");
	if (p->waits)
		buf_printf(out, "<script>%s</script>", script);
	buf_add_c(out, "</body></html>\n");
}

/* Previews have codes of their own. */
static bool put_member(struct json_writer *w, const char *member, const void *arg)
{
	const struct page *p = arg;
	if (strcmp(member, "error") == 0)
		json_member_str(w, member, p->said);
	else if (strcmp(member, "code") == 0)
		json_member_cstr(w, member, p->code);
	else
		return false;
	return true;
}

/* `error` and `code` are upstream's for previews. The rest is the envelope of our API without the members that would
 * differ from one answer to the next. */
static void write_json(struct buf *out, const struct page *p)
{
	static const char *const members[] = {"error", "code", "message", "context", "httpStatus", NULL};
	auto_buf struct buf context = {0};
	struct json_writer w = json_writer(&context);
	struct err e;
	json_object_begin(&w);
	if (p->port)
		json_member_u64(&w, "port", p->port);
	json_object_end(&w);
	err_set(&e, ERRC_UNKNOWN_ERROR, "%.*s", STR_ARG(p->said));
	error_json(out, &(struct error_json){.err = &e,
				.context = buf_str(&context),
				.status = p->status,
				.members = members,
				.put = put_member,
				.arg = p});
}

static bool wants_html(const struct http_request *q)
{
	for (size_t i = 0; i < q->headers.n; i++) {
		struct str rest = q->headers.v[i].value, params;
		if (!str_eq_nocase(q->headers.v[i].name, STR("accept")))
			continue;
		while (rest.n)
			if (str_eq_nocase(
				    str_trim(str_split(str_split(rest, ',', &rest), ';', &params)), STR("text/html")))
				return true;
	}
	return false;
}

bool page_is_poll(const struct http_request *q)
{
	return q->method == HTTP_M_HEAD && http_header_find(&q->headers, STR("x-atoll-poll"));
}

static void answer(struct daemon_request *r, const struct page *p)
{
	auto_buf struct buf out = {0};
	bool html = wants_html(http_request(r->x));
	if (html) {
		http_respond_header(r->x, STR("Content-Security-Policy"), policy());
		http_respond_header(r->x, STR("Referrer-Policy"), STR("no-referrer"));
	}
	http_respond_header(r->x, STR("X-Content-Type-Options"), STR("nosniff"));
	http_respond_header(r->x, STR("Cache-Control"), STR("no-store"));
	http_respond_header(r->x, STR("Vary"), STR("Accept"));
	http_respond_header(r->x, STR("X-Atoll-Preview"), str_of(p->state));
	if (html)
		write_html(&out, p);
	else
		write_json(&out, p);
	http_respond(r->x, p->status, html ? "text/html; charset=utf-8" : "application/json", buf_str(&out));
	daemon_request_answered(r, p->status);
}

void page_not_found(struct daemon_request *r)
{
	answer(r, &(struct page){
			  .status = 404,
			  .code = "INVALID_TOKEN",
			  .state = "none",
			  .title = "There is no preview here",
			  .text = STR("<p>The address may be mistyped, or the preview behind it has ended.</p>"
				      "<p>Ask whoever gave it to you for a new one.</p>"),
			  .said = STR("Access denied: Invalid token or port not exposed"),
		  });
}

void page_stale(struct daemon_request *r, uint16_t port)
{
	answer(r, &(struct page){
			  .status = 410,
			  .code = "STALE_PREVIEW_URL",
			  .state = "stopped",
			  .title = "This sandbox is stopped",
			  .text = STR(
				  "<p>Its files are kept. Run something in it to start it again, then its servers, and "
				  "reload this page.</p>"),
			  .said = STR("Preview URL is stale because the sandbox runtime is not active"),
			  .port = port,
		  });
}

void page_silent(struct daemon_request *r, uint16_t port)
{
	auto_buf struct buf text = {0}, said = {0};
	char title[80];
	enum http_method method = http_request(r->x)->method;
	bool waits = method == HTTP_M_GET || method == HTTP_M_HEAD;
	snprintf(title, sizeof title, "Nothing listens on port %u yet", (unsigned)port);
	buf_printf(&text,
		"<p>The sandbox runs, but no server answers on its port <code>%u</code>.%s</p>"
		"<p>Start one, for example <code>python3 -m http.server %u</code></p>",
		(unsigned)port, waits ? " This page reloads by itself as soon as one does." : "", (unsigned)port);
	buf_printf(&said, "Nothing listens on port %u of the sandbox", (unsigned)port);
	answer(r, &(struct page){
			  .status = 502,
			  .code = "SERVICE_NOT_RESPONDING",
			  .state = "waiting",
			  .title = title,
			  .text = buf_str(&text),
			  .said = buf_str(&said),
			  .port = port,
			  .waits = waits,
		  });
}

void page_failed(struct daemon_request *r, uint16_t port, const struct err *e)
{
	auto_buf struct buf text = {0};
	char title[80];
	snprintf(title, sizeof title, "The server on port %u did not answer", (unsigned)port);
	buf_add_c(&text, "<p>");
	add_escaped(&text, str_of(e->msg));
	buf_add_c(&text, "</p>");
	answer(r, &(struct page){
			  .status = errc_info(e->code)->status,
			  .code = errc_info(e->code)->code,
			  .state = "failed",
			  .title = title,
			  .text = buf_str(&text),
			  .said = str_of(e->msg),
			  .port = port,
		  });
}
