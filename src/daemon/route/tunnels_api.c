#include "base/json.h"
#include "daemon/limits.h"
#include "daemon/ports/tunnels.h"
#include "daemon/route/request.h"

/* /v1/sandboxes/{id}/tunnels…: open, list, end. */

static void on_opened(void *arg, const struct tunnel *t, bool made, const struct err *e)
{
	struct daemon_request *r = arg;
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	if (r->x && e) {
		daemon_request_error(r, e);
	} else if (r->x) {
		tunnel_view(&w, t);
		daemon_request_json(r, made ? 201 : 200, buf_str(&out));
	}
	daemon_request_release(r);
}

static void open_tunnel(struct daemon_request *r, struct sandbox *s)
{
	daemon_request_hold(r);
	tunnel_open(s, r->tunnel, on_opened, r);
}

static void on_there(struct sandbox_waiter *w, struct sandbox *s, const struct err *e)
{
	struct daemon_request *r = container_of(w, struct daemon_request, waiter);
	if (e)
		daemon_request_error(r, e);
	else
		open_tunnel(r, s);
}

static void on_body(struct http_exchange *x, struct str body)
{
	struct daemon_request *r = http_exchange_arg(x);
	struct err e;
	auto_json struct json_doc *doc = json_parse(body.n ? body : STR("{}"), &e);
	if (!doc)
		return daemon_request_error(r, &e);
	r->tunnel = xcalloc(1, sizeof *r->tunnel);
	if (tunnel_wish_read(json_root(doc), r->tunnel, &e) < 0)
		return daemon_request_error(r, &e);
	struct sandbox *s = sandbox_find(r->daemon, r->match.id);
	if (s && sandbox_is_ready(s) && list_empty(&s->waiters))
		return open_tunnel(r, s);
	r->waiter = (struct sandbox_waiter){.goal = WAIT_RUNNING, .on_done = on_there};
	if (sandbox_wait_id(r->daemon, r->match.id, &r->waiter, &e) < 0)
		daemon_request_error(r, &e);
}

void handle_tunnels(struct daemon_request *r)
{
	static const struct http_exchange_ops ops = {.on_whole_body = on_body, .on_close = daemon_request_closed};
	if (http_request(r->x)->method == HTTP_M_POST) {
		http_exchange_set(r->x, &ops, r);
		return http_collect(r->x, API_BODY_MAX);
	}
	struct sandbox *s = daemon_request_find(r);
	if (!s)
		return;
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	json_object_begin(&w);
	json_key(&w, "tunnels");
	size_t n = tunnels_view(&w, s);
	json_member_u64(&w, "count", n);
	json_object_end(&w);
	daemon_request_json(r, 200, buf_str(&out));
}

void handle_tunnel(struct daemon_request *r)
{
	struct sandbox *s = daemon_request_find(r);
	if (!s)
		return;
	struct tunnel *t = tunnel_find_port(s, r->match.port);
	struct err e;
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	if (!t || (!tunnel_is_open(t) && http_request(r->x)->method != HTTP_M_DELETE)) {
		err_set(&e, ERRC_TUNNEL_NOT_FOUND, "Port %u of sandbox '%s' has no tunnel.", (unsigned)r->match.port,
			s->id);
		return daemon_request_error(r, &e);
	}
	if (http_request(r->x)->method != HTTP_M_DELETE) {
		tunnel_view(&w, t);
		return daemon_request_json(r, 200, buf_str(&out));
	}
	tunnel_close(t);
	daemon_request_empty(r);
}
