#include "cli/stream/stream.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/fd.h"
#include "cli/api.h"
#include "cli/signals.h"
#include "cli/stream/stream_out.h"
#include "http/ws/ws.h"

enum {
	STREAM_STDOUT = 1, /* first byte of a binary frame from the box */
	STREAM_STDERR = 2,
	STREAM_READ = 32 * 1024,
	STREAM_HIGH = 256 * 1024, /* bytes that wait for stdout and stderr: above this, stop reading the socket … */
	STREAM_LOW = 64 * 1024,	  /* … below this, go on */
	STREAM_PING = 30000,
	STREAM_SIGNALS_MAX = 3, /* after so many signals this program ends at once */
};

/* The connection, in the order of its life. Refused: closed before it was open. */
enum stream_phase { STREAM_CONNECTING, STREAM_OPEN, STREAM_STARTED, STREAM_CLOSED, STREAM_REFUSED, STREAM_PHASES };

static const bool moves[STREAM_PHASES][STREAM_PHASES] = {
	[STREAM_CONNECTING] = {[STREAM_OPEN] = true, [STREAM_REFUSED] = true},
	[STREAM_OPEN] = {[STREAM_STARTED] = true, [STREAM_CLOSED] = true},
	[STREAM_STARTED] = {[STREAM_CLOSED] = true},
};

/* How the command's end became known. A failure replaces an end; an end never replaces a failure. */
enum stream_end { STREAM_RUNS, STREAM_ENDED, STREAM_FAILED };

struct cli_stream {
	struct client *cl;
	struct ws *ws;
	const struct stream_request *rq;
	struct stream_result *result;
	struct err *e;
	struct stream_out out, err;
	const struct stream_io *io;
	struct loop_io in_io;
	bool in_file; /* a regular file: always ready, epoll refuses it */
	enum stream_phase phase;
	enum stream_end end;
	bool paused, in_done;
	int signals;
};

/* The box decides what it sends: a second "started" changes nothing. */
static void stream_move(struct cli_stream *s, enum stream_phase to)
{
	if (moves[s->phase][to])
		s->phase = to;
}

static int stream_fail(struct cli_stream *s, enum errc code, const char *msg)
{
	if (s->end != STREAM_FAILED)
		err_set(s->e, code, "%s", msg);
	s->end = STREAM_FAILED;
	if (s->phase < STREAM_CLOSED)
		ws_abort(s->ws);
	return -1;
}

static void stream_ended(struct cli_stream *s)
{
	if (s->end == STREAM_RUNS)
		s->end = STREAM_ENDED;
}

/* ---- output ---- */

static void update_pause(struct cli_stream *s)
{
	size_t waiting = stream_out_size(&s->out) + stream_out_size(&s->err);
	if (s->phase >= STREAM_CLOSED)
		return;
	if (!s->paused && waiting > STREAM_HIGH)
		ws_pause(s->ws);
	else if (s->paused && waiting < STREAM_LOW)
		ws_resume(s->ws);
	else
		return;
	s->paused = !s->paused;
}

/* EPIPE: the output has no reader; end as a command that SIGPIPE killed. Other errors, as a full disk, are failures. */
static void output_broken(struct cli_stream *s, int os, bool is_stdout)
{
	char msg[128];
	if (os != EPIPE) {
		snprintf(msg, sizeof msg, "writing the command's output: %s", strerror(os));
		stream_fail(s, ERRC_FILESYSTEM_ERROR, msg);
	} else if (is_stdout && s->end == STREAM_RUNS) {
		s->result->exit_code = 128 + SIGPIPE;
		snprintf(s->result->outcome, sizeof s->result->outcome, "killed");
		stream_ended(s);
		if (s->phase < STREAM_CLOSED)
			ws_close(s->ws, WS_CLOSE_GOING_AWAY, STR("stdout is closed"));
	}
}

static void on_out_broken(struct stream_out *o, int os)
{
	output_broken(container_of(o, struct cli_stream, out), os, true);
}

static void on_err_broken(struct stream_out *o, int os)
{
	output_broken(container_of(o, struct cli_stream, err), os, false);
}

static void on_out_progress(struct stream_out *o)
{
	update_pause(container_of(o, struct cli_stream, out));
}

static void on_err_progress(struct stream_out *o)
{
	update_pause(container_of(o, struct cli_stream, err));
}

static void take_output(struct cli_stream *s, bool is_stderr, struct str bytes)
{
	struct buf *sink = is_stderr ? s->io->err : s->io->out;
	if (!is_stderr && s->io->on_out) {
		if (s->end != STREAM_FAILED && s->io->on_out(s->io->arg, bytes, s->e) < 0) {
			s->end = STREAM_FAILED;
			ws_abort(s->ws);
		}
		return;
	}
	if (!sink)
		stream_out_add(is_stderr ? &s->err : &s->out, bytes);
	else if (!buf_add_str(sink, bytes))
		stream_fail(s, ERRC_PAYLOAD_TOO_LARGE, "the command's output is too large to keep");
}

/* ---- input ---- */

static void in_end(struct cli_stream *s)
{
	s->in_done = true;
	loop_del(&s->in_io);
	ws_send(s->ws, STR("{\"type\":\"eof\"}"), true);
}

/* False: stop for now. */
static bool in_read(struct cli_stream *s)
{
	char chunk[STREAM_READ];
	ssize_t n = read(s->io->in, chunk, sizeof chunk);
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return false;
	if (n <= 0) {
		in_end(s);
		return false;
	}
	if (s->io->on_in)
		s->io->on_in(s->io->arg, (size_t)n);
	return ws_send(s->ws, str_n(chunk, (size_t)n), false);
}

static void on_in_ready(struct loop_io *io, uint32_t events)
{
	(void)events;
	struct cli_stream *s = container_of(io, struct cli_stream, in_io);
	if (!in_read(s) && !s->in_done && ws_pending(s->ws))
		loop_set_events(&s->in_io, 0);
}

static void in_go_on(struct cli_stream *s)
{
	if (s->in_done || s->end == STREAM_ENDED || s->phase >= STREAM_CLOSED)
		return;
	if (s->in_io.loop)
		loop_set_events(&s->in_io, EPOLLIN);
	while (s->in_file && !s->in_done && in_read(s))
		;
}

static void in_start(struct cli_stream *s)
{
	if (s->io->in < 0)
		in_end(s);
	else if (loop_add(s->cl->loop, &s->in_io, s->io->in, EPOLLIN, on_in_ready) < 0)
		s->in_file = true;
	in_go_on(s);
}

/* ---- messages ---- */

static void send_request(struct cli_stream *s)
{
	auto_buf struct buf b = {0};
	struct json_writer w = json_writer(&b);
	json_object_begin(&w);
	json_key(&w, "argv");
	json_array_begin(&w);
	for (char **a = s->rq->argv; *a; a++)
		json_cstr(&w, *a);
	json_array_end(&w);
	if (s->rq->cwd)
		json_member_cstr(&w, "cwd", s->rq->cwd);
	if (s->rq->timeout_ms)
		json_member_u64(&w, "timeoutMs", s->rq->timeout_ms);
	api_write_env(&w, "env", s->rq->env.items, s->rq->env.n);
	json_object_end(&w);
	ws_send(s->ws, buf_str(&b), true);
}

static void take_exit(struct cli_stream *s, const struct json *j)
{
	struct stream_result *r = s->result;
	struct str signal = STR_NULL, outcome = STR("exited");
	uint64_t code = 256;
	if (s->end == STREAM_ENDED)
		return;
	json_read_u64(j, "exitCode", 0, 255, &code, NULL);
	json_read_str(j, "signal", &signal, NULL);
	json_read_str(j, "outcome", &outcome, NULL);
	snprintf(r->signal, sizeof r->signal, "%.*s", STR_ARG(signal));
	snprintf(r->outcome, sizeof r->outcome, "%.*s", STR_ARG(outcome));
	int signo = signals_number(r->signal);
	/* 128+n after a signal, as in shells; 124 as timeout(1). An outcome without a code is never a success. */
	r->exit_code = code < 256 ? (int)code : signo ? 128 + signo : strcmp(r->outcome, "timeout") == 0 ? 124 : 125;
	stream_ended(s);
	s->in_done = true;
	loop_del(&s->in_io);
	ws_close(s->ws, WS_CLOSE_NORMAL, STR(""));
}

static void take_error(struct cli_stream *s, const struct json *j, struct str text)
{
	uint64_t code = 0;
	json_read_u64(j, "exitCode", 0, 255, &code, NULL);
	s->result->exit_code = (int)code;
	client_api_error(s->cl, 500, text, s->e);
	s->end = STREAM_FAILED;
	ws_close(s->ws, WS_CLOSE_NORMAL, STR(""));
}

static void take_text(struct cli_stream *s, struct str text)
{
	struct json_doc *d = json_parse(text, NULL);
	const struct json *j = d ? json_root(d) : NULL;
	struct str type = STR_NULL;
	json_read_str(j, "type", &type, NULL);
	if (str_eq_c(type, "started"))
		stream_move(s, STREAM_STARTED);
	else if (str_eq_c(type, "exit"))
		take_exit(s, j);
	else if (str_eq_c(type, "error"))
		take_error(s, j, text);
	json_free(d);
}

static void on_open(struct ws *ws)
{
	struct cli_stream *s = ws_arg(ws);
	stream_move(s, STREAM_OPEN);
	send_request(s);
	in_start(s);
}

static void on_message(struct ws *ws, struct str m, bool text)
{
	struct cli_stream *s = ws_arg(ws);
	if (text)
		take_text(s, m);
	else if (m.n && (m.p[0] == STREAM_STDOUT || m.p[0] == STREAM_STDERR))
		take_output(s, m.p[0] == STREAM_STDERR, str_skip(m, 1));
	else
		stream_fail(s, ERRC_UNKNOWN_ERROR, "the box sent a frame that is neither stdout nor stderr");
}

static void on_writable(struct ws *ws)
{
	in_go_on(ws_arg(ws));
}

static void on_close(struct ws *ws, int code, struct str reason)
{
	struct cli_stream *s = ws_arg(ws);
	stream_move(s, s->phase < STREAM_OPEN ? STREAM_REFUSED : STREAM_CLOSED);
	s->in_done = true;
	loop_del(&s->in_io);
	if (s->end != STREAM_RUNS)
		return;
	s->end = STREAM_FAILED;
	if (s->phase == STREAM_REFUSED)
		client_refused(s->cl, reason, s->e);
	else
		err_set(s->e, ERRC_CONTAINER_LOST,
			"the connection broke (%d %.*s): the outcome of the command is not known", code,
			STR_ARG(reason));
}

static void on_signal(struct client *cl, int signo)
{
	struct cli_stream *s = cl->signal_arg;
	auto_buf struct buf b = {0};
	if (s->phase < STREAM_STARTED || ++s->signals >= STREAM_SIGNALS_MAX) {
		s->result->exit_code = 128 + signo;
		stream_ended(s);
		ws_abort(s->ws);
		return;
	}
	buf_printf(&b, "{\"type\":\"signal\",\"signal\":\"%s\"}", signals_name(signo));
	ws_send(s->ws, buf_str(&b), true);
}

/* ---- running ---- */

static bool busy(const struct cli_stream *s)
{
	bool waiting = stream_out_size(&s->out) || stream_out_size(&s->err);
	return s->phase < STREAM_CLOSED || (waiting && s->end != STREAM_FAILED);
}

static void connect_box(struct cli_stream *s)
{
	static const struct ws_ops ops = {
		.on_open = on_open, .on_message = on_message, .on_writable = on_writable, .on_close = on_close};
	struct ws_options wo = {.ping_ms = STREAM_PING};
	struct http_header room[2];
	auto_buf struct buf path = {0};
	client_box_path(&path, s->rq->id, "/ws/exec");
	struct http_call_options o = client_options(s->cl, "GET", buf_str(&path), room);
	s->ws = ws_connect(s->cl->http, &s->cl->endpoint, &o, &wo, &ops, s);
}

static int run_once(struct client *cl, const struct stream_request *rq, const struct stream_io *io,
	struct stream_result *ret, bool *ret_refused, struct err *e)
{
	*ret = (struct stream_result){.outcome = "exited"};
	struct cli_stream s = {.cl = cl, .rq = rq, .io = io, .result = ret, .e = e};
	s.out = (struct stream_out){.on_progress = on_out_progress, .on_broken = on_out_broken};
	s.err = (struct stream_out){.on_progress = on_err_progress, .on_broken = on_err_broken};
	stream_out_open(&s.out, cl->loop, STDOUT_FILENO);
	stream_out_open(&s.err, cl->loop, STDERR_FILENO);
	uint64_t began = clock_ms();
	connect_box(&s);
	cl->on_signal = on_signal;
	cl->signal_arg = &s;
	while (busy(&s))
		loop_turn(cl->loop, -1);
	cl->on_signal = NULL;
	ret->milliseconds = clock_ms() - began;
	stream_out_close(&s.out);
	stream_out_close(&s.err);
	*ret_refused = s.end == STREAM_FAILED && s.phase == STREAM_REFUSED;
	return s.end == STREAM_FAILED ? -1 : 0;
}

/* After a refused handshake the command was not sent: it may be tried once more if the box exists now. */
int stream_run(struct client *cl, const struct stream_request *rq, const struct stream_io *io,
	struct stream_result *ret, struct err *e)
{
	bool refused;
	int r = run_once(cl, rq, io, ret, &refused, e);
	if (!refused || !client_explain_refusal(cl, rq->id, e))
		return r;
	r = run_once(cl, rq, io, ret, &refused, e);
	if (refused)
		client_explain_refusal(cl, rq->id, e);
	return r;
}
