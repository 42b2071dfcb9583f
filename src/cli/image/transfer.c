#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "cli/api.h"
#include "cli/cp/cp.h"
#include "cli/image/image.h"
#include "http/sse.h"

enum { PIECE = 128 * 1024, ERROR_MAX = 256 * 1024 };

struct running {
	struct client *cl;
	const struct image_transfer *t;
	struct http_call *call;
	struct sse_reader reader;
	struct buf error;
	struct err *e;
	struct str before;
	int fd, status, out;
	bool failed, done, complete;
	bool waits; /* source is in the loop: fd has nothing to read */
	struct loop_io source;
};

static void give_up(struct running *r)
{
	r->failed = true;
	http_call_cancel(r->call);
}

static void send_more(struct http_call *c);

static void stop_waiting(struct running *r)
{
	if (r->waits)
		loop_del(&r->source);
	r->waits = false;
}

static void on_readable(struct loop_io *io, uint32_t events)
{
	struct running *r = container_of(io, struct running, source);
	(void)events;
	stop_waiting(r);
	send_more(r->call);
}

/* A read that blocks would hold up signals, which come through the loop. */
static bool must_wait(struct running *r)
{
	struct pollfd p = {.fd = r->fd, .events = POLLIN};
	if (!r->waits && poll(&p, 1, 0) == 0)
		r->waits = loop_add(r->cl->loop, &r->source, r->fd, EPOLLIN, on_readable) == 0;
	return r->waits;
}

static void send_more(struct http_call *c)
{
	struct running *r = http_call_arg(c);
	static char piece[PIECE];
	bool room = true;
	while (r->before.n && room && !r->failed) {
		size_t n = r->before.n < PIECE ? r->before.n : PIECE;
		room = http_call_write(c, str_n(r->before.p, n));
		r->before = str_skip(r->before, n);
	}
	while (r->fd >= 0 && room && !r->failed && !must_wait(r)) {
		ssize_t n = read(r->fd, piece, sizeof piece);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			err_os(r->e, ERRC_FILESYSTEM_ERROR, errno, "reading what is sent");
			return give_up(r);
		}
		if (n == 0) {
			r->fd = -1;
			http_call_end(c);
		} else {
			room = http_call_write(c, str_n(piece, (size_t)n));
		}
	}
}

static int take_error(const struct json *event, struct client *cl, struct err *e)
{
	struct str message = api_text(event, "message"), code = api_text(event, "code");
	struct str suggestion = api_text(event, "suggestion");
	int number = ERRC_UNKNOWN_ERROR;
	for (int i = 1; i < ERRC_MAX; i++)
		if (str_eq_c(code, errc_info(i)->code))
			number = i;
	if (number == ERRC_VALIDATION_FAILED)
		suggestion = STR("");
	if (suggestion.n)
		cli_hint(cl->cli, "%.*s", STR_ARG(suggestion));
	return err_set(e, number, "%.*s", (int)(message.n < 230 ? message.n : 230), message.p);
}

static void on_event(void *arg, const struct sse_event *ev)
{
	struct running *r = arg;
	if (r->failed)
		return;
	auto_json struct json_doc *d = json_parse(ev->data, r->e);
	struct str type = d ? api_text(json_root(d), "type") : STR_NULL;
	if (!d || (str_eq_c(type, "error") && take_error(json_root(d), r->cl, r->e) < 0) ||
		r->t->on_event(r->t->arg, json_root(d), r->e) < 0)
		return give_up(r);
	r->complete = r->complete || str_eq_c(type, "done");
}

static void on_head(struct http_call *c, const struct http_response *h)
{
	((struct running *)http_call_arg(c))->status = h->status;
}

static void on_body(struct http_call *c, struct str piece)
{
	struct running *r = http_call_arg(c);
	if (r->failed)
		return;
	if (r->status / 100 != 2) {
		buf_add_str(&r->error, piece);
	} else if (r->out >= 0) {
		int w = fd_write_full(r->out, piece.p, piece.n);
		if (w < 0) {
			err_os(r->e, ERRC_FILESYSTEM_ERROR, -w, "writing the archive");
			give_up(r);
		}
	} else if (sse_feed(&r->reader, piece, r->e) < 0) {
		give_up(r);
	}
}

static void on_close(struct http_call *c, const struct http_failure *f)
{
	struct running *r = http_call_arg(c);
	r->done = true;
	stop_waiting(r);
	if (r->failed)
		return;
	if (r->status && r->status / 100 != 2) {
		r->failed = true;
		client_api_error(r->cl, r->status, buf_str(&r->error), r->e);
	} else if (f) {
		r->failed = true;
		client_failure(r->cl, f, r->e);
	} else if (r->out < 0 && !r->complete) {
		r->failed = true;
		err_set(r->e, ERRC_CONTAINER_LOST, "the image service ended before the work was done");
	}
}

static void on_interrupt(struct client *cl, int signo)
{
	struct running *r = cl->signal_arg;
	err_set(r->e, ERRC_UNKNOWN_ERROR, "cancelled by signal %d; %s", signo,
		r->out < 0 ? "no image was made" : "the archive is not complete");
	if (!r->done)
		give_up(r);
}

static int run(struct running *r, const char *method, const char *target, int64_t length, struct str body)
{
	static const struct http_call_ops ops = {.on_sent = send_more,
		.on_head = on_head,
		.on_body = on_body,
		.on_writable = send_more,
		.on_close = on_close};
	struct http_header room[2];
	struct http_call_options o = client_options(r->cl, method, str_of(target), room);
	o.content_length = length;
	o.head_ms = 0;
	r->error.max = ERROR_MAX;
	sse_reader_init(&r->reader, on_event, r);
	/* A pipe whose reader is slow blocks each write: there signals end the program, and leave no file. */
	struct stat st;
	bool piped = r->out >= 0 && fstat(r->out, &st) == 0 && !S_ISREG(st.st_mode);
	if (!piped && client_catch_signals(r->cl, r->e) < 0)
		return -1;
	r->cl->on_signal = on_interrupt;
	r->cl->signal_arg = r;
	r->call = http_call_start(r->cl->http, &r->cl->endpoint, &o, &ops, r);
	if (r->fd < 0) {
		if (body.n)
			http_call_write(r->call, body);
		http_call_end(r->call);
	}
	while (!r->done)
		loop_turn(r->cl->loop, -1);
	sse_reader_free(&r->reader);
	buf_free(&r->error);
	return r->failed ? -1 : 0;
}

int image_transfer(struct client *cl, const struct image_transfer *t, struct err *e)
{
	struct running r = {.cl = cl, .t = t, .e = e, .fd = t->fd, .before = t->before, .out = -1};
	return run(&r, "POST", t->target, t->fd >= 0 ? HTTP_CALL_CHUNKED : (int64_t)t->json.n, t->json);
}

int image_fetch(struct client *cl, const char *target, int out, struct err *e)
{
	struct running r = {.cl = cl, .e = e, .fd = -1, .out = out};
	return run(&r, "GET", target, 0, STR(""));
}

void image_path(struct buf *ret, const char *name)
{
	buf_add_c(ret, "/v1/images/");
	client_percent_encode(ret, name);
}

void image_query(struct buf *to, const char *name, const char *value)
{
	buf_printf(to, "%c%s=", strchr(buf_cstr(to), '?') ? '&' : '?', name);
	client_percent_encode(to, value);
}

static enum cp_skip skips(void *arg, const char *path, bool dir)
{
	const struct ignore *i = arg;
	if (!i || !ignore_has(i, path))
		return CP_TAKE;
	return dir && ignore_has_exceptions(i) ? CP_INSIDE : CP_SKIP;
}

int image_pack_dir(const char *dir, const struct ignore *ignore, struct str dockerfile, pid_t *ret_pid, struct err *e)
{
	int ends[2];
	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, errno, "make a pipe");
	fflush(NULL);
	*ret_pid = fork();
	if (*ret_pid == 0) {
		struct err why;
		close(ends[0]);
		if ((!dockerfile.n || cp_pack_text(IMAGE_STDIN_FILE, dockerfile, ends[1], &why) == 0) &&
			cp_pack_content(dir, ends[1], skips, (void *)ignore, &why) == 0)
			_exit(0);
		fprintf(stderr, "atoll: %s\n", why.msg);
		_exit(1);
	}
	close(ends[1]);
	if (*ret_pid > 0)
		return ends[0];
	close(ends[0]);
	return err_os(e, ERRC_INTERNAL_ERROR, errno, "start the packer");
}

int image_pack_end(pid_t pid, struct err *e)
{
	int status = 0;
	return waitpid(pid, &status, 0) < 0 || status != 0
		       ? err_set(e, ERRC_FILESYSTEM_ERROR, "the directory could not be read as a whole")
		       : 0;
}
