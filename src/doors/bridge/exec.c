/*
 * POST …/exec: a command and its output as events; GET …/running; GET …/pty: a terminal.
 */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "doors/bridge/bridge.h"
#include "http/proxy.h"

static void put_session(struct json_writer *w, const struct bridge_call *b)
{
	json_member_cstr(w, "sessionId", b->session ? b->session : "__DISABLE_SESSION__");
}

static void send_error(struct bridge_call *b, const char *code, const char *before, struct str why)
{
	auto_buf struct buf out = {0}, text = {0};
	struct json_writer w = json_writer(&out);
	buf_printf(&text, "%s%.*s", before, STR_ARG(why));
	json_object_begin(&w);
	json_member_str(&w, "error", buf_str(&text));
	json_member_cstr(&w, "code", code);
	json_object_end(&w);
	b->told = true;
	sse_send(b->r->x, "error", STR_NULL, buf_str(&out));
}

static void on_event(struct bridge_call *b, const struct json *event)
{
	struct str type = STR_NULL, text = STR_NULL;
	double code = 0;
	char json[48];
	json_read_str(event, "type", &type, NULL);
	if (str_eq_c(type, "stdout") || str_eq_c(type, "stderr")) {
		json_read_str(event, "data", &text, NULL);
		sse_send(b->r->x, str_eq_c(type, "stdout") ? "stdout" : "stderr", STR_NULL, text);
	} else if (str_eq_c(type, "complete") && json_read_double(event, "exitCode", &code, NULL) == 0) {
		snprintf(json, sizeof json, "{\"exit_code\":%d}", (int)code);
		b->told = true;
		sse_send(b->r->x, "exit", STR_NULL, str_of(json));
	} else if (str_eq_c(type, "error")) {
		json_read_str(event, "error", &text, NULL);
		send_error(b, "exec_error", "", text);
	}
}

static void on_exec_end(struct bridge_call *b, int status, struct str body)
{
	auto_buf struct buf why = {0};
	if (!b->r->x)
		return bridge_done(b);
	if (!http_respond_begun(b->r->x)) {
		if (bridge_fail_pool(b, status, body))
			return;
		sse_begin(b->r->x);
	}
	bridge_message(status == 200 ? STR("the command's result did not arrive") : body, &why);
	if (!b->told)
		send_error(b, "exec_transport_error", "exec failed: ", buf_str(&why));
	http_respond_end(b->r->x);
	daemon_request_answered(b->r, 200);
	bridge_done(b);
}

/* False: it is no list of texts, or has none. */
static bool put_command(struct buf *ret, const struct json *argv)
{
	if (!argv || argv->type != JSON_T_ARRAY || !argv->first)
		return false;
	json_each(word, argv)
	{
		if (word->type != JSON_T_STRING || memchr(word->text.p ? word->text.p : "", 0, word->text.n))
			return false;
		if (buf_size(ret))
			buf_add_byte(ret, ' ');
		bridge_quote(ret, word->text);
	}
	return true;
}

static void on_exec_body(struct bridge_call *b, struct str body)
{
	auto_json struct json_doc *doc = json_parse(body, NULL);
	const struct json *root = doc ? json_root(doc) : NULL;
	auto_buf struct buf command = {0}, out = {0};
	if (!root)
		return bridge_fail(b, 400, "invalid_request", "Invalid JSON body");
	if (!put_command(&command, json_get(root, "argv")))
		return bridge_fail(b, 400, "invalid_request", "argv must be a non-empty array");
	const struct json *timeout = json_get(root, "timeout_ms"), *cwd = json_get(root, "cwd");
	auto_free char *dir = cwd && cwd->type == JSON_T_STRING ? bridge_workspace_path(cwd->text) : NULL;
	if (cwd && cwd->type == JSON_T_STRING && !dir)
		return bridge_fail(b, 403, "invalid_request", "cwd must resolve to a location within /workspace");
	struct json_writer w = json_writer(&out);
	json_object_begin(&w);
	json_member_str(&w, "command", buf_str(&command));
	json_member_cstr(&w, "encoding", "base64");
	put_session(&w, b);
	if (dir)
		json_member_cstr(&w, "cwd", dir);
	if (timeout && timeout->type == JSON_T_NUMBER) {
		json_key(&w, "timeoutMs");
		json_put_tree(&out, timeout);
		w.comma = true;
	}
	json_object_end(&w);
	bridge_follow(b, STR("/api/execute/stream"), buf_str(&out), on_event, on_exec_end);
}

void bridge_exec(struct bridge_call *b)
{
	bridge_collect(b, on_exec_body);
}

static void on_true(struct bridge_call *b, int status, struct str body)
{
	if (status != 200 && bridge_fail_pool(b, status, body))
		return;
	bridge_answer(b, 200, status == 200 ? STR("{\"running\":true}") : STR("{\"running\":false}"));
}

void bridge_running(struct bridge_call *b)
{
	bridge_ask(b, "POST", STR("/api/execute"), STR("{\"command\":\"true\",\"sessionId\":\"__DISABLE_SESSION__\"}"),
		on_true);
}

/* ---- terminals ---- */

static bool is_number(struct str text)
{
	uint64_t n;
	return !text.p || str_to_u64(text, UINT32_MAX, &n);
}

static void on_proxy_done(void *arg, int status, bool complete)
{
	struct daemon_request *r = arg;
	(void)complete;
	r->x = NULL;
	daemon_request_answered(r, status);
	daemon_request_release(r);
}

static void on_proxy_fail(void *arg, struct http_exchange *x, const struct http_failure *f)
{
	struct daemon_request *r = arg;
	r->x = x;
	daemon_request_retake(r);
	bridge_refuse(r, 502, "exec_transport_error", "terminal failed: %s", f->err.msg);
}

static struct str query(struct daemon_request *r, struct str name, struct buf *mem)
{
	struct err e;
	size_t at = mem->len;
	if (http_query_get(http_request(r->x)->query, name, mem, &e) != 1)
		return STR_NULL;
	return str_n(mem->p + at, mem->len - at);
}

void bridge_pty(struct daemon_request *r, const char *box)
{
	const struct http_request *q = http_request(r->x);
	auto_buf struct buf target = {0}, m1 = {0}, m2 = {0}, m3 = {0}, m4 = {0};
	struct str cols = query(r, STR("cols"), &m1), rows = query(r, STR("rows"), &m2);
	struct str shell = query(r, STR("shell"), &m3), session = http_header_value(&q->headers, STR("Session-Id"));
	struct http_endpoint api;
	if (!q->upgrade)
		return bridge_refuse(r, 400, "invalid_request", "WebSocket upgrade required");
	if (!is_number(cols) || !is_number(rows))
		return bridge_refuse(r, 400, "invalid_request", "cols and rows must be valid numbers");
	if (!session.p)
		session = query(r, STR("session"), &m4);
	if (session.n && !bridge_session_ok(session))
		return bridge_refuse(r, 400, "invalid_request", "Invalid session ID format");
	buf_printf(&target, "/v1/sandboxes/%s/ws/pty?sessionId=", box);
	bridge_percent_encode(&target, session.n ? session : STR("default"));
	buf_printf(&target, "&cols=%.*s&rows=%.*s", STR_ARG(cols.n ? cols : STR("80")),
		STR_ARG(rows.n ? rows : STR("24")));
	if (shell.n) {
		buf_add_c(&target, "&shell=");
		bridge_percent_encode(&target, shell);
	}
	INVARIANT(http_endpoint_unix(&api, str_of(r->daemon->config.own_sock), NULL) == 0);
	struct http_proxy_options o = {
		.target = buf_str(&target), .on_fail = on_proxy_fail, .on_done = on_proxy_done, .arg = r};
	http_proxy(r->x, r->daemon->client, &api, &o);
}
