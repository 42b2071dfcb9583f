#include "cli/stream.h"

#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/fd.h"
#include "cli/signals.h"
#include "http/ws.h"

enum {
	STREAM_STDOUT = 1, /* first byte of a binary frame from the box */
	STREAM_STDERR = 2,
	STREAM_READ = 32 * 1024,
	STREAM_HIGH = 256 * 1024, /* bytes waiting for stdout and stderr: stop reading the socket … */
	STREAM_LOW = 64 * 1024,	  /* … and go on */
	STREAM_PING = 30000,
	STREAM_SIGNALS_MAX = 3, /* a person who asks so often wants out */
};

struct stream;

struct stream_out {
	struct stream *s;
	int fd;
	struct buf *sink; /* instead of the descriptor */
	struct buf pending;
	struct loop_io io;
	bool broken; /* nobody reads it */
};

struct stream {
	struct client *cl;
	struct ws *ws;
	const struct stream_request *rq;
	struct stream_result *result;
	struct err *e;
	struct stream_out out[2];
	int in;
	struct loop_io in_io;
	bool in_file; /* a regular file: always ready, epoll refuses it */
	bool open, started, ended, closed, failed, paused, in_done;
	int signals;
};

static int stream_fail(struct stream *s, enum errc code, const char *msg)
{
	if (!s->failed)
		err_set(s->e, code, "%s", msg);
	s->failed = true;
	if (!s->closed)
		ws_abort(s->ws);
	return -1;
}

/* ---- output ---- */

static void update_pause(struct stream *s)
{
	size_t waiting = buf_size(&s->out[0].pending) + buf_size(&s->out[1].pending);
	if (s->closed)
		return;
	if (!s->paused && waiting > STREAM_HIGH)
		ws_pause(s->ws);
	else if (s->paused && waiting < STREAM_LOW)
		ws_resume(s->ws);
	else
		return;
	s->paused = !s->paused;
}

/* Nobody will read what the command writes: what a shell does to it then is SIGPIPE. A full disk is an error of ours.
 */
static void out_broken(struct stream_out *o, int os)
{
	o->broken = true;
	buf_clear(&o->pending);
	loop_del(&o->io);
	if (os != EPIPE) {
		char msg[128];
		snprintf(msg, sizeof msg, "writing the command's output: %s", strerror(os));
		stream_fail(o->s, ERRC_FILESYSTEM_ERROR, msg);
	} else if (o->fd == STDOUT_FILENO && !o->s->ended) {
		o->s->result->exit_code = 128 + SIGPIPE;
		snprintf(o->s->result->outcome, sizeof o->s->result->outcome, "killed");
		o->s->ended = true;
		if (!o->s->closed)
			ws_close(o->s->ws, WS_CLOSE_GOING_AWAY, STR("stdout is closed"));
	}
}

static bool fd_takes_more(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLOUT};
	return poll(&p, 1, 0) == 1;
}

static void on_out_ready(struct loop_io *io, uint32_t events);

static void out_flush(struct stream_out *o)
{
	while (!o->broken && buf_size(&o->pending) && fd_takes_more(o->fd)) {
		size_t n = buf_size(&o->pending);
		ssize_t r = write(o->fd, o->pending.p + o->pending.off, n < PIPE_BUF ? n : PIPE_BUF);
		if (r >= 0)
			buf_consume(&o->pending, (size_t)r);
		else if (errno != EINTR && errno != EAGAIN)
			out_broken(o, errno);
	}
	bool wait = !o->broken && buf_size(&o->pending) > 0;
	if (wait && !o->io.loop)
		loop_add(o->s->cl->loop, &o->io, o->fd, EPOLLOUT, on_out_ready);
	else if (!wait)
		loop_del(&o->io);
	update_pause(o->s);
}

static void on_out_ready(struct loop_io *io, uint32_t events)
{
	(void)events;
	out_flush(container_of(io, struct stream_out, io));
}

static void out_take(struct stream_out *o, struct str bytes)
{
	if (o->broken)
		return;
	if (o->sink) {
		if (!buf_add_str(o->sink, bytes))
			stream_fail(o->s, ERRC_PAYLOAD_TOO_LARGE, "the command wrote more than --json can hold");
		return;
	}
	buf_add_str(&o->pending, bytes);
	out_flush(o);
}

/* ---- input ---- */

static void in_end(struct stream *s)
{
	s->in_done = true;
	loop_del(&s->in_io);
	ws_send(s->ws, STR("{\"type\":\"eof\"}"), true);
}

/* False: stop for now. */
static bool in_read(struct stream *s)
{
	char chunk[STREAM_READ];
	ssize_t n = read(s->in, chunk, sizeof chunk);
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return false;
	if (n <= 0) {
		in_end(s);
		return false;
	}
	return ws_send(s->ws, str_n(chunk, (size_t)n), false);
}

static void on_in_ready(struct loop_io *io, uint32_t events)
{
	(void)events;
	struct stream *s = container_of(io, struct stream, in_io);
	if (!in_read(s) && !s->in_done && ws_pending(s->ws))
		loop_set_events(&s->in_io, 0);
}

static void in_go_on(struct stream *s)
{
	if (s->in_done || s->ended || s->closed)
		return;
	if (s->in_io.loop)
		loop_set_events(&s->in_io, EPOLLIN);
	while (s->in_file && !s->in_done && in_read(s))
		;
}

static void in_start(struct stream *s)
{
	if (s->in < 0)
		in_end(s);
	else if (loop_add(s->cl->loop, &s->in_io, s->in, EPOLLIN, on_in_ready) < 0)
		s->in_file = true;
	in_go_on(s);
}

/* ---- messages ---- */

static void write_env(struct json_writer *w, const struct arg_list *env)
{
	if (!env->n)
		return;
	json_key(w, "env");
	json_object_begin(w);
	for (size_t i = 0; i < env->n; i++) {
		struct str value, key = str_split(str_of(env->items[i]), '=', &value);
		char *name = str_dup(key);
		json_member_str(w, name, value);
		free(name);
	}
	json_object_end(w);
}

static void send_request(struct stream *s)
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
	write_env(&w, &s->rq->env);
	json_object_end(&w);
	ws_send(s->ws, buf_str(&b), true);
}

static void take_exit(struct stream *s, const struct json *j)
{
	struct stream_result *r = s->result;
	struct str signal = STR_NULL, outcome = STR("exited");
	uint64_t code = 256;
	if (s->ended)
		return;
	json_read_u64(j, "exitCode", 0, 255, &code, NULL);
	json_read_str(j, "signal", &signal, NULL);
	json_read_str(j, "outcome", &outcome, NULL);
	snprintf(r->signal, sizeof r->signal, "%.*s", STR_ARG(signal));
	snprintf(r->outcome, sizeof r->outcome, "%.*s", STR_ARG(outcome));
	int signo = signals_number(r->signal);
	/* As shells have it: 128+n after a signal; timeout(1) has 124. An outcome without a code is never a success. */
	r->exit_code = code < 256 ? (int)code : signo ? 128 + signo : strcmp(r->outcome, "timeout") == 0 ? 124 : 125;
	s->ended = true;
	s->in_done = true;
	loop_del(&s->in_io);
	ws_close(s->ws, WS_CLOSE_NORMAL, STR(""));
}

static void take_error(struct stream *s, const struct json *j, struct str text)
{
	uint64_t code = 0;
	json_read_u64(j, "exitCode", 0, 255, &code, NULL);
	s->result->exit_code = (int)code;
	client_api_error(s->cl, 500, text, s->e);
	s->failed = true;
	ws_close(s->ws, WS_CLOSE_NORMAL, STR(""));
}

static void take_text(struct stream *s, struct str text)
{
	struct json_doc *d = json_parse(text, NULL);
	const struct json *j = d ? json_root(d) : NULL;
	struct str type = STR_NULL;
	json_read_str(j, "type", &type, NULL);
	if (str_eq_c(type, "started"))
		s->started = true;
	else if (str_eq_c(type, "exit"))
		take_exit(s, j);
	else if (str_eq_c(type, "error"))
		take_error(s, j, text);
	json_free(d);
}

static void on_open(struct ws *ws)
{
	struct stream *s = ws_arg(ws);
	s->open = true;
	send_request(s);
	in_start(s);
}

static void on_message(struct ws *ws, struct str m, bool text)
{
	struct stream *s = ws_arg(ws);
	if (text)
		take_text(s, m);
	else if (m.n && (m.p[0] == STREAM_STDOUT || m.p[0] == STREAM_STDERR))
		out_take(&s->out[m.p[0] == STREAM_STDERR], str_skip(m, 1));
	else
		stream_fail(s, ERRC_UNKNOWN_ERROR, "the box sent a frame that is neither stdout nor stderr");
}

static void on_writable(struct ws *ws)
{
	in_go_on(ws_arg(ws));
}

static void on_close(struct ws *ws, int code, struct str reason)
{
	struct stream *s = ws_arg(ws);
	s->closed = true;
	s->in_done = true;
	loop_del(&s->in_io);
	if (s->ended || s->failed)
		return;
	s->failed = true;
	if (!s->open)
		err_set(s->e, ERRC_UNKNOWN_ERROR, "%s: %.*s", s->cl->where, STR_ARG(reason));
	else
		err_set(s->e, ERRC_CONTAINER_LOST,
			"the connection broke (%d %.*s): what became of the command is not known", code,
			STR_ARG(reason));
}

static void on_signal(struct client *cl, int signo)
{
	struct stream *s = cl->signal_arg;
	auto_buf struct buf b = {0};
	if (!s->started || ++s->signals >= STREAM_SIGNALS_MAX) {
		s->result->exit_code = 128 + signo;
		s->ended = true;
		ws_abort(s->ws);
		return;
	}
	buf_printf(&b, "{\"type\":\"signal\",\"signal\":\"%s\"}", signals_name(signo));
	ws_send(s->ws, buf_str(&b), true);
}

/* ---- the whole ---- */

/* The handshake was refused, and a WebSocket does not say why: the same box asked for plainly does. */
static void explain_refusal(struct stream *s)
{
	auto_buf struct buf path = {0}, body = {0};
	struct err why;
	client_box_path(&path, s->rq->id, "");
	if (client_call(s->cl, "PUT", buf_cstr(&path), STR("{}"), &body, &why) < 0)
		*s->e = why;
}

static bool busy(const struct stream *s)
{
	bool waiting = buf_size(&s->out[0].pending) || buf_size(&s->out[1].pending);
	return !s->closed || (waiting && !s->failed);
}

static void connect_box(struct stream *s)
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

int stream_run(struct client *cl, const struct stream_request *rq, const struct stream_io *io,
	struct stream_result *ret, struct err *e)
{
	*ret = (struct stream_result){.outcome = "exited"};
	struct stream s = {.cl = cl, .rq = rq, .result = ret, .e = e, .in = io->in};
	s.out[0] = (struct stream_out){.s = &s, .fd = STDOUT_FILENO, .sink = io->out};
	s.out[1] = (struct stream_out){.s = &s, .fd = STDERR_FILENO, .sink = io->err};
	uint64_t began = clock_ms();
	connect_box(&s);
	cl->on_signal = on_signal;
	cl->signal_arg = &s;
	while (busy(&s))
		loop_turn(cl->loop, -1);
	cl->on_signal = NULL;
	ret->milliseconds = clock_ms() - began;
	for (size_t i = 0; i < ARRAY_LEN(s.out); i++) {
		loop_del(&s.out[i].io);
		buf_free(&s.out[i].pending);
	}
	if (s.failed && !s.open)
		explain_refusal(&s);
	return s.failed ? -1 : 0;
}
