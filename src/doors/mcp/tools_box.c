/* Network: whether a host may be reached. */
#include "base/json.h"
#include "doors/mcp/call.h"

static void on_policy(struct mcp_call *c, int status, struct str body)
{
	if (status == 200)
		mcp_printf(c, "The network policy of the sandbox: %.*s", STR_ARG(body));
	mcp_call_finish(c);
}

static void on_tried(struct mcp_call *c, int status, struct str body)
{
	struct err e;
	double code = 1;
	struct str errors = STR_NULL;
	auto_buf struct buf target = {0};
	auto_json struct json_doc *doc = json_parse(body, &e);
	json_read_double(doc ? json_root(doc) : NULL, "exitCode", &code, NULL);
	json_read_str(doc ? json_root(doc) : NULL, "stderr", &errors, NULL);
	if (status != 200)
		return mcp_call_fail_api(c, status, body);
	if (code == 0)
		mcp_printf(c, "%s answered: it can be reached.", c->path);
	else
		mcp_printf(c, "%s cannot be reached: %.*s", c->path, (int)(errors.n < 400 ? errors.n : 400),
			errors.p ? errors.p : "");
	mcp_box_path(&target, c, "/network");
	mcp_ask(c, "GET", buf_str(&target), STR(""), on_policy);
}

static bool host_ok(struct str host)
{
	for (size_t i = 0; i < host.n; i++) {
		char ch = host.p[i];
		bool plain = (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || (ch >= '0' && ch <= '9');
		if (!plain && ch != '.' && ch != '-' && ch != ':' && ch != '_')
			return false;
	}
	return host.n > 0 && host.n <= 253 && host.p[0] != '-';
}

/* Whatever a server answers shows that the gate let the connection through; its own refusals are a reset, an alert, or
 * 403 with a sentence. */
void mcp_request_network(struct mcp_call *c)
{
	struct err e;
	struct str host;
	uint64_t port = 443;
	auto_buf struct buf target = {0}, body = {0}, command = {0}, name = {0};
	if (mcp_argument(c, "host", true, &host, &e) < 0 ||
		json_read_u64(c->arguments, "port", 1, 65535, &port, &e) < 0)
		return mcp_call_fail(c, &e);
	if (!host_ok(host)) {
		err_field(&e, "host", "argument 'host' must be a name or an address");
		return mcp_call_fail(c, &e);
	}
	buf_printf(&name, "%.*s:%llu", STR_ARG(host), (unsigned long long)port);
	c->path = str_dup(buf_str(&name));
	bool v6 = str_index(host, ':') >= 0;
	buf_printf(&command,
		"(a=$(curl -sSk --max-time 60 -o - %s://%s%.*s%s:%llu/ 2>&1); r=$?; "
		"case $a in '403 denied:'*) echo \"$a\" >&2; exit 1;; esac; "
		"case $r in 0|1|8|52|56) exit 0;; *) echo \"$a\" >&2; exit 1;; esac)",
		port == 443 ? "https" : "http", v6 ? "[" : "", STR_ARG(host), v6 ? "]" : "", (unsigned long long)port);
	struct json_writer w = json_writer(&body);
	json_object_begin(&w);
	json_member_str(&w, "command", buf_str(&command));
	json_member_u64(&w, "timeoutMs", 70000);
	json_object_end(&w);
	mcp_box_path(&target, c, "/api/execute");
	mcp_ask(c, "POST", buf_str(&target), buf_str(&body), on_tried);
}
