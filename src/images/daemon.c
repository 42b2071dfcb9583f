/*
 * Questions to the daemon. Each connection is a pair of sockets that is made here: atolld gets one end through the
 * job's descriptor. So no socket that others could connect to is needed, and atolld knows whose job asks.
 */
#include <ctype.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/fd_pass.h"
#include "images/images.h"

enum { SEND_CHUNK = 1 << 16 };

static int take_connection(struct http_dialer *d, int family)
{
	int ends[2];
	(void)d;
	(void)family;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		return -errno;
	auto_fd int ours = ends[0];
	auto_fd int its = ends[1];
	ssize_t n = fd_send(the_order.doors, "c", 1, &its, 1, 0);
	int r = n < 0 ? (int)n : fd_set_nonblock(ours, true);
	return r < 0 ? r : take_fd(&ours);
}

int daemon_open(struct daemon_link *l, struct err *e)
{
	*l = (struct daemon_link){.loop = loop_new(),
		.dialer = {.take = take_connection,
			.connected = true,
			.idle_max = HTTP_POOL_IDLE_MAX,
			.idle_ms = HTTP_POOL_IDLE_TIMEOUT}};
	if (!l->loop)
		return err_os(e, ERRC_INTERNAL_ERROR, errno, "event loop");
	l->http = http_client_new(l->loop);
	l->at = (struct http_endpoint){.dialer = &l->dialer, .len = sizeof(sa_family_t)};
	l->at.sa.sa_family = AF_UNIX;
	return 0;
}

void daemon_close(struct daemon_link *l)
{
	if (l->http)
		http_client_free(l->http);
	loop_free(l->loop);
	*l = (struct daemon_link){0};
}

/* ---- answers ---- */

int daemon_error(struct str body, struct err *e)
{
	struct str code = STR("UNKNOWN_ERROR"), message = STR_NULL;
	struct err ignored;
	auto_json struct json_doc *doc = json_parse(body, &ignored);
	const struct json *root = doc ? json_root(doc) : NULL;
	json_read_str(root, "code", &code, &ignored);
	json_read_str(root, "message", &message, &ignored);
	if (!message.n)
		return err_set(e, ERRC_BAD_GATEWAY, "the daemon's answer cannot be read");
	if (str_starts(message, STR("field '"))) /* of a request that the client has not made */
		message = str_skip(message, strlen("field "));
	return err_set(e, errc_from_name(code), "%.*s", STR_ARG(message));
}

struct daemon_question {
	struct http_call *call;
	struct buf *body;
	struct err *e;
	int fd; /* of the request's body, or -1 */
	uint64_t left;
	int result;
	bool done;
};

static void on_reply(void *arg, const struct http_reply *r, const struct http_failure *f)
{
	struct daemon_question *q = arg;
	q->done = true;
	q->result = -1;
	if (!r)
		*q->e = f->err;
	else if (r->status / 100 != 2)
		daemon_error(r->body, q->e);
	else if (!buf_add_str(q->body, r->body))
		err_set(q->e, ERRC_INTERNAL_ERROR, "the daemon's answer is too long");
	else
		q->result = 0;
}

struct http_call_options daemon_options(const char *method, struct str target)
{
	return (struct http_call_options){.method = str_of(method), .target = target, .head_ms = SERVICE_DAEMON_TIME};
}

int daemon_call(
	struct daemon_link *l, const char *method, const char *target, struct str body, struct buf *ret, struct err *e)
{
	const struct http_header type = {STR("Content-Type"), STR("application/json")};
	struct daemon_question q = {.body = ret, .e = e};
	struct http_question whole = {.options = daemon_options(method, str_of(target)),
		.body = body,
		.max = ret->max ? ret->max : SERVICE_DAEMON_MAX,
		.on_reply = on_reply,
		.arg = &q};
	whole.options.content_length = (int64_t)body.n;
	whole.options.headers = &type;
	whole.options.headers_n = body.n != 0;
	http_call_whole(l->http, &l->at, &whole);
	while (!q.done)
		loop_turn(l->loop, -1);
	return q.result;
}

/* ---- files ---- */

static void on_body(struct http_call *c, struct str piece)
{
	struct daemon_question *q = http_call_arg(c);
	buf_add_str(q->body, piece);
}

static void on_close(struct http_call *c, const struct http_failure *f)
{
	struct daemon_question *q = http_call_arg(c);
	const struct http_response *r = http_call_response(c);
	q->done = true;
	/* A daemon that refuses may stop reading; its answer still counts. */
	if (q->result < 0)
		return;
	if (r && r->status / 100 != 2)
		q->result = daemon_error(buf_str(q->body), q->e);
	else if (f)
		q->result = -1;
	if (f && q->result < 0 && !(r && r->status / 100 != 2))
		*q->e = f->err;
}

static void send_more(struct http_call *c)
{
	struct daemon_question *q = http_call_arg(c);
	char chunk[SEND_CHUNK];
	for (bool room = true; q->left && room && q->result == 0;) {
		ssize_t n = read(q->fd, chunk, q->left < sizeof chunk ? (size_t)q->left : sizeof chunk);
		if (n <= 0) {
			q->result = err_os(q->e, ERRC_FILESYSTEM_ERROR, n < 0 ? errno : EIO, "read the file to send");
			return http_call_cancel(c);
		}
		q->left -= (uint64_t)n;
		room = http_call_write(c, str_n(chunk, (size_t)n));
	}
	if (!q->left && q->fd >= 0) {
		q->fd = -1;
		http_call_end(c);
	}
}

int daemon_send_file(struct daemon_link *l, const char *target, int fd, struct err *e)
{
	static const struct http_call_ops ops = {
		.on_sent = send_more, .on_body = on_body, .on_writable = send_more, .on_close = on_close};
	auto_buf struct buf answer = {.max = SERVICE_DAEMON_MAX};
	struct http_call_options o = daemon_options("PUT", str_of(target));
	struct daemon_question q = {.body = &answer, .e = e, .fd = fd};
	struct stat st;
	if (lseek(fd, 0, SEEK_SET) < 0 || fstat(fd, &st) < 0)
		return err_os(e, ERRC_FILESYSTEM_ERROR, errno, "the file to send");
	q.left = (uint64_t)st.st_size;
	o.content_length = st.st_size;
	q.call = http_call_start(l->http, &l->at, &o, &ops, &q);
	while (!q.done)
		loop_turn(l->loop, -1);
	return q.result;
}

/* ---- paths ---- */

void daemon_encode(struct buf *ret, const char *text)
{
	for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
		if (isalnum(*p) || strchr("-_.~", *p))
			buf_add_byte(ret, (char)*p);
		else
			buf_printf(ret, "%%%02X", *p);
	}
}

void daemon_box_path(struct buf *ret, const char *id, const char *rest)
{
	buf_add_c(ret, "/v1/sandboxes/");
	daemon_encode(ret, id);
	buf_add_c(ret, rest);
}
