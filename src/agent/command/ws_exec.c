#include "agent/agent.h"
#include "agent/api.h"
#include "agent/command/ws_tty.h"
#include "agent/limits.h"
#include "agent/proc/run.h"
#include "agent/request/route.h"
#include "http/ws/ws.h"

/*
 * GET /ws/exec: one foreground command with its three streams, for the command line.
 *
 *	client → text   {"argv":[…]} or {"command":"…"}, with cwd?, env?, timeoutMs?     first, once
 *	                with argv also "tty":{"cols":n,"rows":n}: on a terminal of its own, as stream 1
 *	client → binary bytes for stdin; text {"type":"eof"} ends it
 *	client → text   {"type":"signal","signal":"SIGINT"}; of a terminal {"type":"resize","cols":n,"rows":n}
 *	server → text   {"type":"started","pid":n}
 *	server → binary one byte 1 (stdout) or 2 (stderr), then bytes
 *	server → text   {"type":"exit","exitCode":n,"signal":"SIGKILL"|null,"outcome":"exited"}, then close 1000
 *	server → text   {"type":"error","code":"…","message":"…","exitCode":n} instead, when nothing could be started
 *
 * Backpressure works both ways: a client that does not read blocks the command, a command that does not read blocks
 * the client. The command belongs to the client: when the client goes away, the command gets SIGHUP, then SIGKILL.
 */

struct ws_exec {
	struct ws *ws;	    /* NULL: closed */
	struct cmd *cmd;    /* NULL: not started or ended */
	struct ws_tty *tty; /* the same on a terminal */
	bool begun;
	struct loop_timer timer; /* until the first message; while the command does not read */
};

static void send_text(struct ws_exec *w, const struct buf *b)
{
	if (w->ws)
		ws_send(w->ws, buf_str(b), true);
}

static void send_error(struct ws_exec *w, const struct err *e, int exit_code)
{
	auto_buf struct buf b = {0};
	struct json_writer j = json_writer(&b);
	json_object_begin(&j);
	json_member_cstr(&j, "type", "error");
	json_member_cstr(&j, "code", errc_info(e->code)->code);
	json_member_cstr(&j, "message", e->msg);
	json_member_i64(&j, "exitCode", exit_code);
	json_object_end(&j);
	send_text(w, &b);
	ws_close(w->ws, WS_CLOSE_NORMAL, STR("not started"));
}

/* ---- the command's side ---- */

static void ws_exec_output(struct cmd *c, int stream, struct str bytes)
{
	struct ws_exec *w = cmd_arg(c);
	auto_buf struct buf frame = {0};
	buf_add_byte(&frame, (char)stream);
	buf_add_str(&frame, bytes);
	if (!ws_send(w->ws, buf_str(&frame), false))
		cmd_pause(c);
}

static void on_input_low(struct cmd *c)
{
	struct ws_exec *w = cmd_arg(c);
	loop_timer_stop(&w->timer);
	ws_resume(w->ws);
}

/* While nothing is read from the client, only a write can find out that it is gone. */
static void on_probe_due(struct loop_timer *t)
{
	struct ws_exec *w = container_of(t, struct ws_exec, timer);
	ws_ping(w->ws);
	loop_timer_set(agent.loop, &w->timer, WS_EXEC_PROBE, on_probe_due);
}

static void stop_reading(struct ws_exec *w)
{
	ws_pause(w->ws);
	loop_timer_set(agent.loop, &w->timer, WS_EXEC_PROBE, on_probe_due);
}

static void ws_exec_end(struct cmd *c, const struct cmd_result *r)
{
	struct ws_exec *w = cmd_arg(c);
	auto_buf struct buf b = {0};
	struct json_writer j = json_writer(&b);
	json_object_begin(&j);
	json_member_cstr(&j, "type", "exit");
	json_member_i64(&j, "exitCode", r->outcome == OUTCOME_TIMEOUT ? 124 : r->exit_code);
	json_member_cstr(&j, "signal", r->signal ? signal_name(r->signal) : NULL);
	json_member_cstr(&j, "outcome", outcome_name(r->outcome));
	json_member_u64(&j, "duration", r->duration);
	json_object_end(&j);
	w->cmd = NULL;
	loop_timer_stop(&w->timer);
	ws_resume(w->ws); /* the close handshake must get through */
	send_text(w, &b);
	ws_close(w->ws, WS_CLOSE_NORMAL, STR_NULL);
}

static const struct cmd_ops command_ops = {
	.on_output = ws_exec_output, .on_input_low = on_input_low, .on_end = ws_exec_end};

/* ---- the first message ---- */

enum { ARGV_MAX = 1024 };

static int read_argv(const struct json *j, const char **argv, struct err *e)
{
	int n = 0;
	for (const struct json *a = j->first; a; a = a->next) {
		if (n == ARGV_MAX)
			return err_field(e, "argv", "field 'argv' has more than %d elements", ARGV_MAX);
		if (a->type != JSON_T_STRING || memchr(a->text.p, 0, a->text.n))
			return err_field(e, "argv", "field 'argv' must hold strings without NUL");
		argv[n++] = a->text.p;
	}
	argv[n] = NULL;
	if (!n || !*argv[0])
		return err_set(e, ERRC_INVALID_COMMAND, "the command is empty");
	return 0;
}

static int start_command(struct ws_exec *w, const struct json *first, int *ret_exit, struct err *e)
{
	auto_run struct run_spec s = {0};
	const struct json *list = json_get(first, "argv");
	const char *argv[ARGV_MAX + 1];
	enum spawn_step step;
	*ret_exit = 2;
	if (run_spec_read(first, list ? RUN_NO_COMMAND : 0, &s, e) < 0)
		return -1;
	if (list && (list->type != JSON_T_ARRAY || read_argv(list, argv, e) < 0))
		return list->type == JSON_T_ARRAY ? -1
						  : err_field(e, "argv", "field 'argv' must be an array of strings");
	s.has_input = true;
	auto_env struct env env = {0};
	env_apply(&env, &agent.env);
	env_apply(&env, &s.env);
	const struct json *tty = list ? json_get(first, "tty") : NULL;
	if (tty && !json_is_null(tty)) {
		const struct ws_tty_spec spec = {
			.argv = argv, .env = &env, .cwd = s.cwd ? s.cwd : agent.workdir, .size = tty};
		env_put(&env, STR("TERM"), STR("xterm"));
		*ret_exit = 127;
		return ws_tty_start(w->ws, &spec, &w->tty, e);
	}
	struct run_place at = {.env = &env, .cwd = s.cwd ? s.cwd : agent.workdir, .ops = &command_ops, .arg = w};
	int r = list ? run_start_argv(argv, &s, &at, &w->cmd, &step, e) : run_start(&s, &at, &w->cmd, &step, e);
	if (r < 0)
		*ret_exit = step != SPAWN_EXEC ? 126 : e->os == ENOENT ? 127 : 126;
	return r;
}

static void ws_exec_begin(struct ws_exec *w, struct str text)
{
	struct err e;
	int exit_code = 2;
	w->begun = true;
	loop_timer_stop(&w->timer);
	struct json_doc *doc = json_parse(text, &e);
	int r = doc ? start_command(w, json_root(doc), &exit_code, &e) : -1;
	json_free(doc);
	if (r < 0) {
		send_error(w, &e, exit_code);
		return;
	}
	auto_buf struct buf b = {0};
	buf_printf(&b, "{\"type\":\"started\",\"pid\":%d}", w->cmd ? cmd_pid(w->cmd) : ws_tty_pid(w->tty));
	send_text(w, &b);
}

/* ---- the client's side ---- */

static void ws_exec_control(struct ws_exec *w, struct str text)
{
	struct err e;
	struct str type = STR_NULL, name = STR_NULL;
	struct json_doc *doc = json_parse(text, &e);
	const struct json *j = doc ? json_root(doc) : NULL;
	int sig = 0;
	if (j && json_read_str(j, "type", &type, &e) == 0 && json_read_str(j, "signal", &name, &e) == 0)
		sig = signal_number(name);
	if (w->tty && str_eq_c(type, "resize"))
		ws_tty_resize(w->tty, j);
	else if (str_eq_c(type, "eof") && w->cmd)
		cmd_input_end(w->cmd);
	else if (str_eq_c(type, "signal") && sig && w->cmd)
		cmd_signal(w->cmd, sig);
	else if (w->cmd)
		ws_close(w->ws, WS_CLOSE_POLICY, STR("unknown control message"));
	json_free(doc);
}

static void ws_exec_message(struct ws *ws, struct str message, bool text)
{
	struct ws_exec *w = ws_arg(ws);
	if (!w->begun && text)
		ws_exec_begin(w, message);
	else if (!w->begun)
		ws_close(ws, WS_CLOSE_POLICY, STR("the first message must be JSON"));
	else if (text)
		ws_exec_control(w, message);
	else if (w->tty)
		ws_tty_input(w->tty, message);
	else if (w->cmd && !cmd_input(w->cmd, message))
		stop_reading(w);
}

static void on_writable(struct ws *ws)
{
	struct ws_exec *w = ws_arg(ws);
	if (w->cmd)
		cmd_resume(w->cmd);
	if (w->tty)
		ws_tty_more(w->tty);
}

static void ws_exec_closed(struct ws *ws, int code, struct str reason)
{
	(void)code;
	(void)reason;
	struct ws_exec *w = ws_arg(ws);
	loop_timer_stop(&w->timer);
	ws_tty_free(w->tty);
	if (w->cmd) {
		cmd_hangup(w->cmd);
		cmd_abandon(w->cmd);
	}
	free(w);
}

static void on_first_due(struct loop_timer *t)
{
	struct ws_exec *w = container_of(t, struct ws_exec, timer);
	ws_close(w->ws, WS_CLOSE_POLICY, STR("no command came"));
}

static const struct ws_ops socket_ops = {
	.on_message = ws_exec_message, .on_writable = on_writable, .on_close = ws_exec_closed};

void ws_exec(struct agent_request *r)
{
	struct ws_exec *w = xcalloc(1, sizeof *w);
	struct ws_options o = {.ping_ms = WS_EXEC_PING};
	struct err e;
	if (ws_accept(r->x, &o, &socket_ops, w, &w->ws, &e) < 0) {
		free(w);
		return agent_request_fail(r, &e, STR_NULL);
	}
	loop_timer_set(agent.loop, &w->timer, WS_EXEC_FIRST, on_first_due);
}
