#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>

#include "agent/agent.h"
#include "agent/api.h"
#include "agent/limits.h"
#include "agent/process/process.h"
#include "agent/request/route.h"
#include "http/client/client.h"
#include "http/sse.h"

/*
 * POST /api/port-watch: an event stream that says when a port of the box answers. It sends `watching`, then `ready`
 * when a server accepts a connection (tcp) or answers with a status in the range (http), or `process_exited` when the
 * process that was to serve has ended. The port is tried at once, then every `interval` ms, one attempt at a time:
 * 127.0.0.1, and ::1 when nothing listens there, because a server on "localhost" may listen on either.
 */

enum { TRY_LIMIT = 5000 };

struct port_watch {
	struct list node;
	struct http_exchange *x; /* NULL: the client is gone */
	uint64_t port, status_min, status_max, interval;
	bool http, over, six; /* six: the attempt is to ::1 */
	char *path;
	struct process_waiter waiter; /* for the process that is to serve */
	struct http_call *call;	      /* an attempt in http mode */
	struct loop_io io;	      /* and in tcp mode */
	struct loop_timer next, beat;
};

static struct http_client *client;
static struct list watches = {&watches, &watches};

static void port_watch_attempt(struct loop_timer *t);

/* ---- ends ---- */

static void stop_connecting(struct port_watch *w)
{
	if (!w->io.loop)
		return;
	int fd = w->io.fd;
	loop_del(&w->io);
	close(fd);
}

static void port_watch_finish(struct port_watch *w, struct buf *json)
{
	w->over = true;
	loop_timer_stop(&w->next);
	stop_connecting(w);
	list_del(&w->waiter.node);
	if (w->call)
		http_call_cancel(w->call);
	sse_send(w->x, NULL, STR_NULL, buf_str(json));
	http_respond_end(w->x);
}

static void finish_ready(struct port_watch *w, int status)
{
	auto_buf struct buf b = {0};
	buf_printf(&b, "{\"type\":\"ready\",\"port\":%llu", (unsigned long long)w->port);
	if (status)
		buf_printf(&b, ",\"statusCode\":%d", status);
	buf_add_byte(&b, '}');
	port_watch_finish(w, &b);
}

/* The process that was to serve has ended. */
static void finish_exited(struct port_watch *w, const struct process *p)
{
	auto_buf struct buf b = {0};
	buf_printf(&b, "{\"type\":\"process_exited\",\"port\":%llu,\"exitCode\":%d}", (unsigned long long)w->port,
		process_exit_code(p));
	port_watch_finish(w, &b);
}

static void on_process_end(struct process_waiter *waiter, struct process *p)
{
	finish_exited(container_of(waiter, struct port_watch, waiter), p);
}

static void finish_failed(struct port_watch *w, const char *why)
{
	auto_buf struct buf b = {0};
	buf_printf(&b, "{\"type\":\"error\",\"port\":%llu,\"error\":\"%s\"}", (unsigned long long)w->port, why);
	port_watch_finish(w, &b);
}

void port_watch_stop(void)
{
	list_each(it, &watches)
	{
		struct port_watch *w = list_entry(it, struct port_watch, node);
		if (w->x && !w->over)
			finish_failed(w, "The sandbox stops");
	}
}

static void port_watch_free(struct port_watch *w)
{
	stop_connecting(w);
	list_del(&w->waiter.node);
	loop_timer_stop(&w->next);
	loop_timer_stop(&w->beat);
	list_del(&w->node);
	free(w->path);
	free(w);
}

/* ---- attempts ---- */

static struct http_endpoint endpoint(const struct port_watch *w)
{
	struct http_endpoint at = {.len = sizeof at.in};
	if (w->six) {
		at.in6 = (struct sockaddr_in6){.sin6_family = AF_INET6,
			.sin6_port = htons((uint16_t)w->port),
			.sin6_addr = IN6ADDR_LOOPBACK_INIT};
		at.len = sizeof at.in6;
		return at;
	}
	at.in = (struct sockaddr_in){
		.sin_family = AF_INET, .sin_port = htons((uint16_t)w->port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	return at;
}

/* `refused`: nothing listens there. */
static void attempt_over(struct port_watch *w, bool refused)
{
	bool other = refused && !w->six;
	w->six = other;
	if (!w->over)
		loop_timer_set(agent.loop, &w->next, other ? 0 : w->interval, port_watch_attempt);
}

static void on_head(struct http_call *c, const struct http_response *r)
{
	struct port_watch *w = http_call_arg(c);
	if (w->x && !w->over && r->status >= (int)w->status_min && r->status <= (int)w->status_max)
		return finish_ready(w, r->status);
	http_call_cancel(c);
}

static void on_call_close(struct http_call *c, const struct http_failure *failure)
{
	struct port_watch *w = http_call_arg(c);
	w->call = NULL;
	if (!w->x)
		return port_watch_free(w);
	attempt_over(w, failure && failure->fail == HTTP_FAIL_CONNECT);
}

static void on_connect_due(struct loop_timer *t)
{
	struct port_watch *w = container_of(t, struct port_watch, next);
	stop_connecting(w);
	attempt_over(w, true);
}

static void on_connected(struct loop_io *io, uint32_t events)
{
	struct port_watch *w = container_of(io, struct port_watch, io);
	int error = 0;
	socklen_t n = sizeof error;
	(void)events;
	if (getsockopt(io->fd, SOL_SOCKET, SO_ERROR, &error, &n) == 0 && !error)
		return finish_ready(w, 0);
	stop_connecting(w);
	attempt_over(w, true);
}

/* The connection itself is the answer: nothing is sent to the server. */
static void attempt_tcp(struct port_watch *w)
{
	struct http_endpoint at = endpoint(w);
	auto_fd int fd = socket(at.sa.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd >= 0 && connect(fd, &at.sa, at.len) == 0)
		return finish_ready(w, 0);
	if (fd < 0 || errno != EINPROGRESS || loop_add(agent.loop, &w->io, fd, EPOLLOUT, on_connected) < 0)
		return attempt_over(w, true);
	(void)take_fd(&fd);
	loop_timer_set(agent.loop, &w->next, TRY_LIMIT, on_connect_due);
}

static void port_watch_attempt(struct loop_timer *t)
{
	static const struct http_call_ops ops = {.on_head = on_head, .on_close = on_call_close};
	struct port_watch *w = container_of(t, struct port_watch, next);
	if (!w->http)
		return attempt_tcp(w);
	struct http_endpoint at = endpoint(w);
	struct http_call_options o = {
		.target = str_of(w->path), .fresh = true, .connect_ms = TRY_LIMIT, .head_ms = TRY_LIMIT};
	w->call = http_call_start(client, &at, &o, &ops, w);
}

static void on_beat(struct loop_timer *t)
{
	struct port_watch *w = container_of(t, struct port_watch, beat);
	if (!w->over)
		sse_comment(w->x);
	loop_timer_set(agent.loop, t, SSE_BEAT, on_beat);
}

static void port_watch_client_gone(struct http_exchange *x, bool complete)
{
	(void)complete;
	struct port_watch *w = http_exchange_arg(x);
	w->x = NULL;
	w->over = true;
	loop_timer_stop(&w->next);
	loop_timer_stop(&w->beat);
	list_del(&w->waiter.node);
	if (w->call)
		http_call_cancel(w->call);
	else
		port_watch_free(w);
}

/* Percent-encodes a path that a person wrote. */
static char *path_on_the_wire(const char *path)
{
	auto_buf struct buf b = {0};
	if (path[0] != '/')
		buf_add_byte(&b, '/');
	for (const unsigned char *c = (const unsigned char *)path; *c && *c != '#'; c++) {
		if (*c > ' ' && *c < 0x7f)
			buf_add_byte(&b, (char)*c);
		else
			buf_printf(&b, "%%%02X", *c);
	}
	return str_dup(buf_str(&b));
}

/* Any number is brought into the range. */
static int read_interval(const struct json *body, uint64_t *ret, struct err *e)
{
	double ms = 500;
	if (json_read_double(body, "interval", &ms, e) < 0)
		return -1;
	*ret = ms >= 10000 ? 10000 : ms >= 100 ? (uint64_t)ms : 100;
	return 0;
}

static int read_request(const struct agent_request *r, struct port_watch *w, struct str *ret_process, struct err *e)
{
	struct str mode = STR("http");
	const char *path = "/";
	w->status_min = 200;
	w->status_max = 399;
	if (json_read_u64(r->body, "port", 1, 65535, &w->port, e) < 0 || !w->port)
		return err_set(e, ERRC_INVALID_PORT_NUMBER, "field 'port' must be a number from 1 to 65535");
	if (json_read_str(r->body, "mode", &mode, e) < 0 || json_read_cstr(r->body, "path", &path, e) < 0 ||
		json_read_u64(r->body, "statusMin", 0, INT32_MAX, &w->status_min, e) < 0 ||
		json_read_u64(r->body, "statusMax", 0, INT32_MAX, &w->status_max, e) < 0 ||
		read_interval(r->body, &w->interval, e) < 0 || json_read_str(r->body, "processId", ret_process, e) < 0)
		return -1;
	w->http = str_eq_c(mode, "http");
	if (!w->http && !str_eq_c(mode, "tcp"))
		return err_field(e, "mode", "field 'mode' must be 'http' or 'tcp'");
	if (w->status_min > w->status_max)
		return err_field(e, "statusMin", "field 'statusMin' must not be above 'statusMax'");
	w->path = path_on_the_wire(path);
	return 0;
}

/* False: there is nothing to wait for. */
static bool watch_process(struct port_watch *w, struct str id)
{
	struct process *p = id.n ? process_find(id) : NULL;
	if (id.n && !p)
		finish_failed(w, "Process not found");
	else if (p && process_is_over(p))
		finish_exited(w, p);
	else if (p)
		list_push(&p->waiters, &w->waiter.node);
	return !w->over;
}

void api_port_watch(struct agent_request *r)
{
	static const struct http_exchange_ops ops = {.on_close = port_watch_client_gone};
	struct port_watch *w = xcalloc(1, sizeof *w);
	struct str process = STR_NULL;
	struct err e;
	list_init(&w->waiter.node);
	list_push(&watches, &w->node);
	w->waiter.on_end = on_process_end;
	if (read_request(r, w, &process, &e) < 0) {
		agent_request_fail(r, &e, STR_NULL);
		return port_watch_free(w);
	}
	if (!client)
		client = http_client_new(agent.loop);
	w->x = r->x;
	http_exchange_set(r->x, &ops, w);
	sse_begin(r->x);
	auto_buf struct buf b = {0};
	buf_printf(&b, "{\"type\":\"watching\",\"port\":%llu}", (unsigned long long)w->port);
	sse_send(r->x, NULL, STR_NULL, buf_str(&b));
	loop_timer_set(agent.loop, &w->beat, SSE_BEAT, on_beat);
	if (watch_process(w, process))
		loop_timer_set(agent.loop, &w->next, 0, port_watch_attempt);
}
