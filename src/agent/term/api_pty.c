#include <stdio.h>

#include "agent/agent.h"
#include "agent/api.h"
#include "agent/limits.h"
#include "agent/proc/cmd.h"
#include "agent/proc/plain.h"
#include "agent/request/route.h"
#include "agent/shell/session.h"
#include "agent/term/terminal.h"
#include "http/ws/ws.h"

/*
 * GET /ws/pty?sessionId=&cols=&rows=&shell=&window=: one terminal per session id; all clients of that id
 * share it. It starts with the present directory and variables of the session.
 *
 * Binary frames are bytes both ways; text frames are control: in {"type":"resize","cols":N,"rows":N} and
 * {"type":"ack","bytes":N}, out {"type":"ready"}, {"type":"exit","code":N,"signal"?}, {"type":"error","message"}.
 *
 * A browser reads a WebSocket as fast as it can, whatever its page can show: TCP alone holds nothing back. With
 * ?window=N a viewer gets at most N bytes (and the piece that fills the window) beyond those that it has acknowledged.
 */

struct pty {
	char *session;
	struct terminal *terminal;
};

struct viewer {
	struct terminal_viewer v;
	struct ws *ws;
	struct pty *pty; /* NULL: the program has ended */
	bool socket_full;
	uint64_t window, unacked; /* window 0: everything that the socket takes */
};

static struct map ptys; /* session -> struct pty */

static void send_error(struct ws *ws, const char *text)
{
	auto_buf struct buf b = {0};
	struct json_writer w = json_writer(&b);
	json_object_begin(&w);
	json_member_cstr(&w, "type", "error");
	json_member_cstr(&w, "message", text);
	json_object_end(&w);
	ws_send(ws, buf_str(&b), true);
}

/* ---- terminal to viewer ---- */

static bool can_take(const struct viewer *v)
{
	return !v->socket_full && (!v->window || v->unacked < v->window);
}

static bool on_output(struct terminal_viewer *tv, struct str bytes)
{
	struct viewer *v = container_of(tv, struct viewer, v);
	v->unacked += v->window ? bytes.n : 0;
	v->socket_full = !ws_send(v->ws, bytes, false);
	return can_take(v);
}

static void on_input_wanted(struct terminal_viewer *tv, bool wanted)
{
	struct ws *ws = container_of(tv, struct viewer, v)->ws;
	if (wanted)
		ws_resume(ws);
	else
		ws_pause(ws);
}

static void on_program_exit(struct terminal_viewer *tv, int code, int signal)
{
	struct viewer *v = container_of(tv, struct viewer, v);
	auto_buf struct buf b = {0};
	struct json_writer w = json_writer(&b);
	json_object_begin(&w);
	json_member_cstr(&w, "type", "exit");
	json_member_i64(&w, "code", code);
	if (signal)
		json_member_cstr(&w, "signal", signal_name(signal));
	json_object_end(&w);
	v->pty = NULL;
	ws_send(v->ws, buf_str(&b), true);
	if (agent.stopping)
		ws_close_within(v->ws, WS_CLOSE_GOING_AWAY, STR("the sandbox stops"), MUX_STOP_WAIT);
	else
		ws_close(v->ws, WS_CLOSE_NORMAL, STR("exited"));
}

static void on_over(void *arg)
{
	struct pty *p = arg;
	map_del(&ptys, str_of(p->session));
	free(p->session);
	free(p);
}

/* ---- viewer to terminal ---- */

static void viewer_resize(struct viewer *v, const struct json *root)
{
	struct err e;
	uint64_t cols = 0, rows = 0;
	if (json_read_u64(root, "cols", 1, TERMINAL_SIZE_MAX, &cols, &e) < 0 ||
		json_read_u64(root, "rows", 1, TERMINAL_SIZE_MAX, &rows, &e) < 0 || !cols || !rows)
		send_error(v->ws, "Invalid dimensions: cols and rows must be positive");
	else
		terminal_resize(v->pty->terminal, (uint16_t)cols, (uint16_t)rows);
}

static void viewer_ack(struct viewer *v, const struct json *root)
{
	struct err e;
	uint64_t n = 0;
	if (json_read_u64(root, "bytes", 1, v->unacked, &n, &e) < 0 || !n)
		return send_error(v->ws, "Invalid ack: bytes must count bytes that were sent");
	v->unacked -= n;
	if (can_take(v))
		terminal_more(v->pty->terminal, &v->v);
}

static void viewer_control(struct viewer *v, struct str message)
{
	struct err e;
	auto_json struct json_doc *doc = json_parse(message, &e);
	const struct json *root = doc ? json_root(doc) : NULL;
	struct str type = STR_NULL;
	if (root && root->type == JSON_T_OBJECT)
		json_read_str(root, "type", &type, &e);
	if (str_eq_c(type, "resize"))
		viewer_resize(v, root);
	else if (str_eq_c(type, "ack"))
		viewer_ack(v, root);
	else
		send_error(v->ws, "Invalid control message");
}

static void viewer_message(struct ws *ws, struct str message, bool text)
{
	struct viewer *v = ws_arg(ws);
	if (!v->pty)
		return;
	if (text)
		return viewer_control(v, message);
	terminal_input(v->pty->terminal, message);
}

static void on_writable(struct ws *ws)
{
	struct viewer *v = ws_arg(ws);
	v->socket_full = false;
	if (v->pty && can_take(v))
		terminal_more(v->pty->terminal, &v->v);
}

static void viewer_closed(struct ws *ws, int code, struct str reason)
{
	(void)code;
	(void)reason;
	struct viewer *v = ws_arg(ws);
	if (v->pty)
		terminal_detach(v->pty->terminal, &v->v);
	free(v);
}

/* ---- connecting ---- */

static uint16_t dimension(const struct agent_request *r, struct str name, uint16_t fallback)
{
	auto_buf struct buf mem = {0};
	uint64_t n;
	struct str text = agent_request_query(r, name, &mem);
	return str_to_u64(text, TERMINAL_SIZE_MAX, &n) && n ? (uint16_t)n : fallback;
}

static uint64_t window_of(const struct agent_request *r)
{
	auto_buf struct buf mem = {0};
	uint64_t n;
	return str_to_u64(agent_request_query(r, STR("window"), &mem), TERMINAL_WINDOW_MAX, &n) ? n : 0;
}

/* The program that ?shell= names: a path, or a name to be found in PATH. NULL: there is none. */
static char *find_shell(struct str name, const struct env *env)
{
	if (!name.n)
		return xstrdup(agent.shell ? agent.shell : "/bin/sh");
	auto_free char *text = str_dup(name);
	return plain_program(text, env);
}

static struct pty *start_pty(const struct agent_request *r, struct str session, struct err *e)
{
	auto_buf struct buf mem = {0};
	struct str shell = agent_request_query(r, STR("shell"), &mem);
	auto_env struct env env = {0};
	const struct session *s = session_find(session);
	auto_free char *cwd = s ? session_cwd(s) : xstrdup(agent.workdir);
	session_env(s, &env);
	env_put(&env, STR("TERM"), STR("xterm-256color"));
	auto_free char *path = find_shell(shell, &env);
	if (!path) {
		err_set(e, ERRC_COMMAND_NOT_FOUND, "shell '%.*s' was not found", (int)(shell.n < 100 ? shell.n : 100),
			shell.p);
		return NULL;
	}
	const char *argv[] = {path, NULL};
	struct pty *p = xcalloc(1, sizeof *p);
	struct terminal_spec spec = {.path = path,
		.argv = argv,
		.env = &env,
		.cwd = cwd,
		.cols = dimension(r, STR("cols"), 80),
		.rows = dimension(r, STR("rows"), 24),
		.on_over = on_over,
		.arg = p};
	if (terminal_start(agent.loop, &spec, &p->terminal, e) < 0) {
		free(p);
		return NULL;
	}
	p->session = str_dup(session);
	map_put(&ptys, session, p);
	return p;
}

static struct pty *find_pty(const struct agent_request *r, struct str session, struct err *e)
{
	struct pty *p = map_get(&ptys, session);
	if (!p)
		return start_pty(r, session, e);
	if (terminal_viewers(p->terminal) < TERMINAL_VIEWERS_MAX)
		return p;
	err_set(e, ERRC_LIMIT_REACHED, "at most %d can watch one terminal", TERMINAL_VIEWERS_MAX);
	return NULL;
}

void api_pty(struct agent_request *r)
{
	static const struct ws_ops ops = {
		.on_message = viewer_message, .on_writable = on_writable, .on_close = viewer_closed};
	auto_buf struct buf mem = {0};
	struct str session = agent_request_query(r, STR("sessionId"), &mem);
	struct ws_options options = {.ping_ms = WS_EXEC_PING};
	struct err e;
	if (!session.n || session.n > SESSION_ID_MAX)
		return http_respond(r->x, 400, "text/plain", STR("sessionId query parameter required\n"));
	struct viewer *v = xcalloc(1, sizeof *v);
	v->v.on_output = on_output;
	v->v.on_input_wanted = on_input_wanted;
	v->v.on_exit = on_program_exit;
	v->window = window_of(r);
	if (ws_accept(r->x, &options, &ops, v, &v->ws, &e) < 0) {
		free(v);
		return http_respond_error(r->x, &e);
	}
	v->pty = find_pty(r, session, &e);
	if (v->pty) {
		terminal_attach(v->pty->terminal, &v->v);
		ws_send(v->ws, STR("{\"type\":\"ready\"}"), true);
	} else {
		send_error(v->ws, e.msg);
		ws_close(v->ws, WS_CLOSE_INTERNAL, STR("the terminal could not be started"));
	}
}

void pty_end(struct str session)
{
	struct pty *p = map_get(&ptys, session);
	if (p)
		terminal_hangup(p->terminal);
}
