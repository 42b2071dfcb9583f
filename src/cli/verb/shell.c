/*
 * shell.c - `atoll shell`: a terminal in a box (WebSocket /ws/pty).
 *
 * The terminal lives in the box, one for each session name, and outlives this program. Detaching leaves it running;
 * attaching again shows the last 256 KiB of its output and goes on. Two users of the same name share one terminal.
 *
 * Keys go to the box byte by byte; only '~' at the beginning of a line is handled here, as in ssh. Both directions are
 * bounded as in stream.c.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "cli/args.h"
#include "cli/client.h"
#include "cli/signals.h"
#include "cli/stream/stream_out.h"
#include "cli/tty.h"
#include "cli/verbs.h"
#include "http/ws/ws.h"

enum {
	SHELL_READ = 16 * 1024,
	SHELL_HIGH = 256 * 1024, /* bytes that wait for the terminal here: above this, stop reading the socket … */
	SHELL_LOW = 64 * 1024,	 /* … below this, go on */
	SHELL_PING = 30000,
};

/* The connection, in the order of its life. Refused: closed before it was open. */
enum shell_phase { SHELL_CONNECTING, SHELL_OPEN, SHELL_READY, SHELL_CLOSED, SHELL_REFUSED, SHELL_PHASES };

static const bool moves[SHELL_PHASES][SHELL_PHASES] = {
	[SHELL_CONNECTING] = {[SHELL_OPEN] = true, [SHELL_REFUSED] = true},
	[SHELL_OPEN] = {[SHELL_READY] = true, [SHELL_CLOSED] = true},
	[SHELL_READY] = {[SHELL_CLOSED] = true},
};

/* Why the connection ends; the first reason counts, but a failure counts more. */
enum shell_end { SHELL_RUNS, SHELL_EXITED, SHELL_DETACHED, SHELL_FAILED };

struct shell_view {
	struct client *cl;
	const char *id, *session, *program;
	struct ws *ws;
	struct err *e;
	struct stream_out out;
	struct loop_io in;
	enum { LINE_START, LINE_TILDE, LINE_INSIDE } line; /* where the typed text stands */
	enum shell_phase phase;
	enum shell_end end;
	bool seen_before; /* the terminal had output before this program attached */
	bool paused;
	int exit_code;
};

/* The box decides what it sends: a second "ready" changes nothing. */
static void shell_move(struct shell_view *s, enum shell_phase to)
{
	if (moves[s->phase][to])
		s->phase = to;
}

/* ---- what the box prints ---- */

static void on_progress(struct stream_out *o)
{
	struct shell_view *s = container_of(o, struct shell_view, out);
	if (s->phase >= SHELL_CLOSED)
		return;
	if (!s->paused && stream_out_size(o) > SHELL_HIGH)
		ws_pause(s->ws);
	else if (s->paused && stream_out_size(o) < SHELL_LOW)
		ws_resume(s->ws);
	else
		return;
	s->paused = !s->paused;
}

static void shell_leave(struct shell_view *s, enum shell_end why)
{
	if (s->end == SHELL_RUNS)
		s->end = why;
	loop_del(&s->in);
	if (s->phase < SHELL_CLOSED)
		ws_close(s->ws, WS_CLOSE_NORMAL, STR("detached"));
}

static void on_broken(struct stream_out *o, int os)
{
	(void)os;
	shell_leave(container_of(o, struct shell_view, out), SHELL_DETACHED);
}

static void send_size(struct shell_view *s, int fewer_rows)
{
	struct tty_size size = tty_size(STDOUT_FILENO);
	int rows = (int)size.rows - fewer_rows;
	auto_buf struct buf b = {0};
	buf_printf(&b, "{\"type\":\"resize\",\"cols\":%u,\"rows\":%d}", size.cols, rows > 0 ? rows : 1);
	ws_send(s->ws, buf_str(&b), true);
}

/* Full-screen programs redraw when the size changes, so after attaching again the size is changed and changed back. */
static void on_ready(struct shell_view *s)
{
	shell_move(s, SHELL_READY);
	if (s->seen_before)
		send_size(s, 1);
	send_size(s, 0);
}

static void take_exit(struct shell_view *s, const struct json *j)
{
	uint64_t code = 0;
	struct str name = STR_NULL;
	char text[16];
	json_read_u64(j, "code", 0, 255, &code, NULL);
	json_read_str(j, "signal", &name, NULL);
	snprintf(text, sizeof text, "%.*s", STR_ARG(name));
	int signo = name.n ? signals_number(text) : 0;
	s->exit_code = signo ? 128 + signo : (int)code;
	shell_leave(s, SHELL_EXITED);
}

static void take_control(struct shell_view *s, struct str text)
{
	auto_json struct json_doc *d = json_parse(text, NULL);
	const struct json *j = d ? json_root(d) : NULL;
	struct str type = STR_NULL, message = STR_NULL;
	json_read_str(j, "type", &type, NULL);
	json_read_str(j, "message", &message, NULL);
	if (str_eq_c(type, "ready")) {
		on_ready(s);
	} else if (str_eq_c(type, "exit")) {
		take_exit(s, j);
	} else if (str_eq_c(type, "error") && s->phase < SHELL_READY) {
		s->end = SHELL_FAILED;
		err_set(s->e, ERRC_COMMAND_EXECUTION_ERROR, "%.*s", STR_ARG(message));
	}
}

static void on_message(struct ws *ws, struct str m, bool text)
{
	struct shell_view *s = ws_arg(ws);
	if (text)
		return take_control(s, m);
	s->seen_before = s->seen_before || s->phase < SHELL_READY;
	tty_watch(m);
	stream_out_add(&s->out, m);
}

/* ---- what is typed ---- */

/* Appends the keys for the box. True: "~." was typed. */
static bool take_keys(struct shell_view *s, struct str keys, struct buf *to)
{
	for (size_t i = 0; i < keys.n; i++) {
		char k = keys.p[i];
		if (s->line == LINE_START && k == '~') {
			s->line = LINE_TILDE;
			continue;
		}
		if (s->line == LINE_TILDE && k == '.')
			return true;
		/* "~~" is one '~'; a '~' before another key is an ordinary key. */
		if (s->line == LINE_TILDE && k != '~')
			buf_add_byte(to, '~');
		s->line = k == '\r' || k == '\n' ? LINE_START : LINE_INSIDE;
		buf_add_byte(to, k);
	}
	return false;
}

static void on_typed(struct loop_io *io, uint32_t events)
{
	(void)events;
	struct shell_view *s = container_of(io, struct shell_view, in);
	char keys[SHELL_READ];
	auto_buf struct buf b = {0};
	ssize_t n = read(STDIN_FILENO, keys, sizeof keys);
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	/* At the end of stdin the terminal here is gone; the terminal in the box goes on. */
	bool detach = n <= 0 || take_keys(s, str_n(keys, (size_t)n), &b);
	bool room = !buf_size(&b) || ws_send(s->ws, buf_str(&b), false);
	if (detach)
		shell_leave(s, SHELL_DETACHED);
	else if (!room)
		loop_set_events(&s->in, 0);
}

static void on_writable(struct ws *ws)
{
	struct shell_view *s = ws_arg(ws);
	if (s->in.loop)
		loop_set_events(&s->in, EPOLLIN);
}

/* ---- connecting and leaving ---- */

static void on_open(struct ws *ws)
{
	struct shell_view *s = ws_arg(ws);
	shell_move(s, SHELL_OPEN);
	if (tty_raw(STDIN_FILENO, STDOUT_FILENO, TTY_PLAIN, s->e) < 0) {
		s->end = SHELL_FAILED;
		ws_abort(ws);
	} else {
		loop_add(s->cl->loop, &s->in, STDIN_FILENO, EPOLLIN, on_typed);
	}
}

static void on_close(struct ws *ws, int code, struct str reason)
{
	struct shell_view *s = ws_arg(ws);
	shell_move(s, s->phase < SHELL_OPEN ? SHELL_REFUSED : SHELL_CLOSED);
	loop_del(&s->in);
	if (s->end != SHELL_RUNS)
		return;
	s->end = SHELL_FAILED;
	if (s->phase == SHELL_REFUSED)
		return client_refused(s->cl, reason, s->e);
	err_set(s->e, ERRC_CONTAINER_LOST, "the connection broke (%d %.*s)", code, STR_ARG(reason));
	cli_hint(s->cl->cli, "If the box still runs, its shell runs too: '%s shell %s' attaches again.",
		s->cl->cli->self, s->id);
}

static void on_signal(struct client *cl, int signo)
{
	struct shell_view *s = cl->signal_arg;
	if (signo == SIGWINCH) {
		if (s->phase == SHELL_READY)
			send_size(s, 0);
	} else if (signo == SIGTSTP) {
		tty_suspend();
		raise(SIGSTOP);
		tty_resume();
		if (s->phase == SHELL_READY)
			on_ready(s);
	} else {
		s->exit_code = 128 + signo;
		if (s->phase != SHELL_CONNECTING)
			return shell_leave(s, SHELL_DETACHED);
		s->end = SHELL_DETACHED;
		ws_abort(s->ws);
	}
}

static void connect_box(struct shell_view *s)
{
	static const struct ws_ops ops = {
		.on_open = on_open, .on_message = on_message, .on_writable = on_writable, .on_close = on_close};
	struct ws_options wo = {.ping_ms = SHELL_PING};
	struct http_header room[2];
	struct tty_size size = tty_size(STDOUT_FILENO);
	auto_buf struct buf path = {0};
	client_box_path(&path, s->id, "/ws/pty?sessionId=");
	client_percent_encode(&path, s->session);
	buf_printf(&path, "&cols=%u&rows=%u", size.cols, size.rows);
	if (s->program) {
		buf_add_c(&path, "&shell=");
		client_percent_encode(&path, s->program);
	}
	struct http_call_options o = client_options(s->cl, "GET", buf_str(&path), room);
	s->ws = ws_connect(s->cl->http, &s->cl->endpoint, &o, &wo, &ops, s);
}

/* Runs until the shell ends or the user detaches. Restores the terminal here. */
static void shell_run(struct shell_view *s)
{
	s->out = (struct stream_out){.on_progress = on_progress, .on_broken = on_broken};
	stream_out_open(&s->out, s->cl->loop, STDOUT_FILENO);
	s->cl->on_signal = on_signal;
	s->cl->signal_arg = s;
	connect_box(s);
	while (s->phase < SHELL_CLOSED || (stream_out_size(&s->out) && s->end == SHELL_EXITED))
		loop_turn(s->cl->loop, -1);
	s->cl->on_signal = NULL;
	stream_out_close(&s->out);
	tty_restore();
}

static bool shell_refused(const struct shell_view *s)
{
	return s->end == SHELL_FAILED && s->phase == SHELL_REFUSED;
}

/* After a refused handshake nothing was typed to the box: it is tried once more if the box exists now. */
static void shell_try(struct shell_view *s)
{
	const struct shell_view fresh = *s;
	shell_run(s);
	if (!shell_refused(s) || !client_explain_refusal(s->cl, s->id, s->e))
		return;
	*s = fresh;
	shell_run(s);
	if (shell_refused(s))
		client_explain_refusal(s->cl, s->id, s->e);
}

static int shell_result(struct cli *c, struct shell_view *s)
{
	if (s->end == SHELL_FAILED) {
		if (s->phase != SHELL_REFUSED)
			fprintf(stderr, "\n");
		return cli_fail(c, s->e);
	}
	if (s->end == SHELL_DETACHED)
		fprintf(stderr, "\n[detached; '%s shell %s%s%s' attaches again]\n", c->self, s->id,
			strcmp(s->session, "default") == 0 ? "" : " --session ",
			strcmp(s->session, "default") == 0 ? "" : s->session);
	return s->exit_code;
}

int verb_shell(struct cli *c, int argc, char **argv)
{
	struct err e;
	struct shell_view s = {.session = "default", .e = &e};
	const struct arg table[] = {
		{"shell", "PROGRAM", "program to run: a path, or a name in the box's PATH (default bash)", ARG_TEXT,
			&s.program},
		{"session", "NAME", "name of the terminal; it starts in the directory of that session", ARG_TEXT,
			&s.session, 's'},
		ARG_TABLE_END,
	};
	struct args a = {.command_after = ARGS_NO_COMMAND};
	auto_client struct client cl = {0};
	int code;
	if (!args_parse(c, table, argc, argv, &a, &code) || !args_box(c, &a, 1, &s.id, &code))
		return code;
	if (!*s.session)
		return cli_usage(c, "--session needs a name");
	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)) {
		cli_hint(c, "In scripts use '%s exec %s -- COMMAND'.", c->self, s.id);
		err_set(&e, ERRC_INVALID_REQUEST, "a shell needs a terminal as stdin and stdout");
		return cli_fail(c, &e);
	}
	if (client_open(c, &cl, &e) < 0 || client_catch_terminal(&cl, &e) < 0)
		return cli_fail(c, &e);
	fprintf(stderr, "%s[box %s: 'exit' ends the shell, Enter ~ . detaches]%s\n", cli_style(2, STYLE_DIM), s.id,
		cli_style(2, STYLE_PLAIN));
	s.cl = &cl;
	shell_try(&s);
	return shell_result(c, &s);
}
