/*
 * A command in a box, with its streams as frames of a WebSocket. Its output may block this process: then the socket is
 * not read, and the command waits. A command is never repeated.
 */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "http/ws/ws.h"
#include "images/images.h"

enum { FRAME_STDOUT = 1, FRAME_STDERR = 2, READ = 32 * 1024, PING = 30000 };

/* Ended: its exit is known. The first result counts. */
enum exec_state { EXEC_CONNECTING, EXEC_OPEN, EXEC_ENDED, EXEC_FAILED, EXEC_STATES };

static const bool moves[EXEC_STATES][EXEC_STATES] = {
	[EXEC_CONNECTING] = {[EXEC_OPEN] = true, [EXEC_FAILED] = true},
	[EXEC_OPEN] = {[EXEC_ENDED] = true, [EXEC_FAILED] = true},
};

struct exec_run {
	struct image_exec *x;
	struct ws *ws;
	struct loop *loop;
	struct err *e;
	struct loop_io in_io;
	enum exec_state state;
	bool closed, in_done;
};

static void exec_move(struct exec_run *r, enum exec_state to)
{
	if (moves[r->state][to])
		r->state = to;
}

static void fail(struct exec_run *r)
{
	exec_move(r, EXEC_FAILED);
	if (!r->closed)
		ws_abort(r->ws);
}

/* ---- input ---- */

static void in_end(struct exec_run *r)
{
	r->in_done = true;
	loop_del(&r->in_io);
	ws_send(r->ws, STR("{\"type\":\"eof\"}"), true);
}

/* False: stop for now. */
static bool in_read(struct exec_run *r)
{
	char chunk[READ];
	ssize_t n = read(r->x->in, chunk, sizeof chunk);
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return false;
	if (n > 0)
		return ws_send(r->ws, str_n(chunk, (size_t)n), false);
	in_end(r);
	return false;
}

static void on_in(struct loop_io *io, uint32_t events)
{
	struct exec_run *r = container_of(io, struct exec_run, in_io);
	(void)events;
	if (!in_read(r) && !r->in_done && ws_pending(r->ws))
		loop_set_events(&r->in_io, 0);
}

/* A regular file is always ready, and epoll refuses it. */
static void in_go_on(struct exec_run *r)
{
	if (r->in_done || r->closed || r->state != EXEC_OPEN)
		return;
	if (r->in_io.loop)
		return loop_set_events(&r->in_io, EPOLLIN);
	if (loop_add(r->loop, &r->in_io, r->x->in, EPOLLIN, on_in) < 0)
		while (!r->in_done && in_read(r))
			;
}

/* ---- messages ---- */

static void send_request(struct exec_run *r)
{
	auto_buf struct buf b = {0};
	struct json_writer w = json_writer(&b);
	json_object_begin(&w);
	json_key(&w, "argv");
	json_array_begin(&w);
	for (char *const *a = r->x->argv; *a; a++)
		json_cstr(&w, *a);
	json_array_end(&w);
	json_member_cstr(&w, "cwd", "/");
	json_object_end(&w);
	ws_send(r->ws, buf_str(&b), true);
}

static void on_open(struct ws *ws)
{
	struct exec_run *r = ws_arg(ws);
	exec_move(r, EXEC_OPEN);
	send_request(r);
	if (r->x->in < 0)
		in_end(r);
	else
		in_go_on(r);
}

static void take_exit(struct exec_run *r, const struct json *j)
{
	struct str outcome = STR_NULL;
	uint64_t code = 125;
	struct err ignored;
	json_read_u64(j, "exitCode", 0, 255, &code, &ignored);
	json_read_str(j, "outcome", &outcome, &ignored);
	r->x->exit_code = (int)code;
	r->x->oom = str_eq_c(outcome, "oom");
	exec_move(r, EXEC_ENDED);
	r->in_done = true;
	loop_del(&r->in_io);
	ws_close(r->ws, WS_CLOSE_NORMAL, STR(""));
}

static void take_text(struct exec_run *r, struct str text)
{
	struct str type = STR_NULL;
	struct err ignored;
	auto_json struct json_doc *doc = json_parse(text, &ignored);
	if (!doc || r->state != EXEC_OPEN)
		return;
	json_read_str(json_root(doc), "type", &type, &ignored);
	if (str_eq_c(type, "exit")) {
		take_exit(r, json_root(doc));
	} else if (str_eq_c(type, "error")) {
		daemon_error(text, r->e);
		fail(r);
	}
}

static void take_output(struct exec_run *r, bool is_err, struct str bytes)
{
	if (r->state != EXEC_OPEN)
		return;
	if (!is_err) {
		if (r->x->on_out(r->x->arg, bytes, r->e) < 0)
			fail(r);
	} else if (!buf_add_str(r->x->err, bytes)) {
		err_set(r->e, ERRC_PAYLOAD_TOO_LARGE, "the command's output is too large to keep");
		fail(r);
	}
}

static void on_message(struct ws *ws, struct str m, bool text)
{
	struct exec_run *r = ws_arg(ws);
	if (text)
		take_text(r, m);
	else if (m.n && (m.p[0] == FRAME_STDOUT || m.p[0] == FRAME_STDERR))
		take_output(r, m.p[0] == FRAME_STDERR, str_skip(m, 1));
}

static void on_writable(struct ws *ws)
{
	in_go_on(ws_arg(ws));
}

static void on_close(struct ws *ws, int code, struct str reason)
{
	struct exec_run *r = ws_arg(ws);
	r->closed = r->in_done = true;
	loop_del(&r->in_io);
	if (r->state == EXEC_CONNECTING)
		err_set(r->e, ERRC_BAD_GATEWAY, "the sandbox takes no command: %.*s", STR_ARG(reason));
	else if (r->state == EXEC_OPEN)
		err_set(r->e, ERRC_CONTAINER_LOST,
			"the connection broke (%d %.*s): the outcome of the command is not known", code,
			STR_ARG(reason));
	exec_move(r, EXEC_FAILED);
}

/* The handshake says only that it failed; the same box, asked for plainly, has the daemon's own words. */
static void explain_refusal(struct daemon_link *l, const char *box, struct err *e)
{
	auto_buf struct buf path = {0}, answer = {0};
	struct err why;
	daemon_box_path(&path, box, "");
	if (daemon_call(l, "PUT", buf_cstr(&path), STR("{}"), &answer, &why) < 0)
		*e = why;
}

int daemon_exec(struct daemon_link *l, struct image_exec *x, struct err *e)
{
	static const struct ws_ops ops = {
		.on_open = on_open, .on_message = on_message, .on_writable = on_writable, .on_close = on_close};
	struct ws_options wo = {.ping_ms = PING};
	struct exec_run r = {.x = x, .loop = l->loop, .e = e};
	auto_buf struct buf path = {0};
	daemon_box_path(&path, x->box, "/ws/exec");
	struct http_call_options o = daemon_options("GET", buf_str(&path));
	r.ws = ws_connect(l->http, &l->at, &o, &wo, &ops, &r);
	bool opened = false;
	while (!r.closed) {
		loop_turn(l->loop, -1);
		opened |= r.state != EXEC_CONNECTING;
	}
	if (!opened)
		explain_refusal(l, x->box, e);
	return r.state == EXEC_ENDED ? 0 : -1;
}
