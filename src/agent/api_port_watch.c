#include <stdio.h>

#include "agent/agent.h"
#include "agent/api.h"
#include "agent/process.h"
#include "base/limits.h"
#include "http/client.h"
#include "http/sse.h"

/*
 * POST /api/port-watch: tells when a port of the box answers. An event stream: `watching`, then `ready` once something
 * accepts a connection (tcp) or answers with a status in the range (http), or `process_exited` when the process that
 * was to serve has ended first. Tried at once, then every `interval` ms; one attempt at a time.
 */

enum { TRY_LIMIT = 5000 };

struct port_watch {
	struct http_exchange *x;
	uint64_t port, status_min, status_max, interval;
	bool http, over;
	char *path;
	char *process; /* id, or NULL */
	struct http_endpoint at;
	struct http_call *call;
	struct loop_timer next, beat;
};

static struct http_client *client;

static void attempt(struct loop_timer *t);

static void finish(struct port_watch *w, struct buf *json)
{
	w->over = true;
	loop_timer_stop(&w->next);
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
	finish(w, &b);
}

/* True when the process is known to have ended: nobody will serve any more. */
static bool server_is_over(struct port_watch *w)
{
	const struct process *p = w->process ? process_find(str_of(w->process)) : NULL;
	if (!p || !process_is_over(p))
		return false;
	auto_buf struct buf b = {0};
	buf_printf(&b, "{\"type\":\"process_exited\",\"port\":%llu,\"exitCode\":%d}", (unsigned long long)w->port,
		process_exit_code(p));
	finish(w, &b);
	return true;
}

static void on_head(struct http_call *c, const struct http_response *r)
{
	struct port_watch *w = http_call_arg(c);
	if (w->x && !w->over && r->status >= (int)w->status_min && r->status <= (int)w->status_max)
		finish_ready(w, r->status);
	http_call_cancel(c);
}

/* In tcp mode the connection itself is the answer; what the server says on it does not matter. */
static void on_sent(struct http_call *c)
{
	struct port_watch *w = http_call_arg(c);
	if (w->http || !w->x || w->over)
		return;
	finish_ready(w, 0);
	http_call_cancel(c);
}

static void port_watch_free(struct port_watch *w)
{
	loop_timer_stop(&w->next);
	loop_timer_stop(&w->beat);
	free(w->path);
	free(w->process);
	free(w);
}

static void on_call_close(struct http_call *c, const struct http_failure *failure)
{
	(void)failure;
	struct port_watch *w = http_call_arg(c);
	w->call = NULL;
	if (!w->x)
		return port_watch_free(w);
	if (!w->over)
		loop_timer_set(agent.loop, &w->next, w->interval, attempt);
}

static void attempt(struct loop_timer *t)
{
	static const struct http_call_ops ops = {.on_sent = on_sent, .on_head = on_head, .on_close = on_call_close};
	struct port_watch *w = container_of(t, struct port_watch, next);
	if (server_is_over(w))
		return;
	struct http_call_options o = {
		.target = str_of(w->path), .fresh = true, .connect_ms = TRY_LIMIT, .head_ms = TRY_LIMIT};
	w->call = http_call_start(client, &w->at, &o, &ops, w);
}

static void on_beat(struct loop_timer *t)
{
	struct port_watch *w = container_of(t, struct port_watch, beat);
	if (!w->over)
		sse_comment(w->x);
	loop_timer_set(agent.loop, t, SSE_BEAT, on_beat);
}

static void on_close(struct http_exchange *x, bool complete)
{
	(void)complete;
	struct port_watch *w = http_exchange_arg(x);
	w->x = NULL;
	w->over = true;
	loop_timer_stop(&w->next);
	loop_timer_stop(&w->beat);
	if (w->call)
		http_call_cancel(w->call);
	else
		port_watch_free(w);
}

static int read_request(const struct request *r, struct port_watch *w, struct err *e)
{
	struct str mode = STR("http"), process = STR_NULL;
	const char *path = "/";
	w->status_min = 200;
	w->status_max = 399;
	w->interval = 500;
	if (json_read_u64(r->body, "port", 1, 65535, &w->port, e) < 0 || !w->port)
		return err_set(e, ERRC_INVALID_PORT_NUMBER, "field 'port' must be a number from 1 to 65535");
	if (json_read_str(r->body, "mode", &mode, e) < 0 || json_read_cstr(r->body, "path", &path, e) < 0 ||
		json_read_u64(r->body, "statusMin", 100, 599, &w->status_min, e) < 0 ||
		json_read_u64(r->body, "statusMax", 100, 599, &w->status_max, e) < 0 ||
		json_read_u64(r->body, "interval", 0, UINT32_MAX, &w->interval, e) < 0 ||
		json_read_str(r->body, "processId", &process, e) < 0)
		return -1;
	w->http = str_eq_c(mode, "http");
	if (!w->http && !str_eq_c(mode, "tcp"))
		return err_set(e, ERRC_VALIDATION_FAILED, "field 'mode' must be 'http' or 'tcp'");
	w->interval = w->interval < 100 ? 100 : w->interval > 10000 ? 10000 : w->interval;
	w->path = path[0] == '/' ? xstrdup(path) : xasprintf("/%s", path);
	w->process = process.n ? str_dup(process) : NULL;
	char address[32];
	snprintf(address, sizeof address, "127.0.0.1:%llu", (unsigned long long)w->port);
	return http_endpoint_tcp(&w->at, str_of(address), e);
}

void api_port_watch(struct request *r)
{
	static const struct http_exchange_ops ops = {.on_close = on_close};
	struct port_watch *w = xcalloc(1, sizeof *w);
	struct err e;
	if (read_request(r, w, &e) < 0) {
		request_fail(r, &e, STR_NULL);
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
	loop_timer_set(agent.loop, &w->next, 0, attempt);
}
