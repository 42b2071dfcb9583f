#include "base/json.h"
#include "daemon/limits.h"
#include "daemon/ports/tunnels.h"
#include "daemon/route/handlers.h"
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
	tunnel_open(s, r->extra, on_opened, r);
}

static void on_there(struct sandbox_waiter *w, struct sandbox *s, const struct err *e)
{
	struct daemon_request *r = container_of(w, struct daemon_request, waiter);
	if (e)
		daemon_request_error(r, e);
	else
		open_tunnel(r, s);
}

void handle_tunnel_open(struct daemon_request *r)
{
	struct err e;
	auto_json struct json_doc *doc = json_parse(r->body.n ? r->body : STR("{}"), &e);
	if (!doc)
		return daemon_request_error(r, &e);
	struct tunnel_wish *wish = r->extra = xcalloc(1, sizeof *wish);
	if (tunnel_wish_read(json_root(doc), wish, &e) < 0)
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

/* NULL: the request has been answered. `open`: one that is being opened counts as none. */
static struct tunnel *find(struct daemon_request *r, bool open)
{
	struct sandbox *s = daemon_request_find(r);
	struct tunnel *t = s ? tunnel_find_port(s, r->match.port) : NULL;
	struct err e;
	if (t && (tunnel_is_open(t) || !open))
		return t;
	if (!s)
		return NULL;
	err_set(&e, ERRC_TUNNEL_NOT_FOUND, "Port %u of sandbox '%s' has no tunnel.", (unsigned)r->match.port, s->id);
	daemon_request_error(r, &e);
	return NULL;
}

void handle_tunnel_get(struct daemon_request *r)
{
	const struct tunnel *t = find(r, true);
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	if (!t)
		return;
	tunnel_view(&w, t);
	daemon_request_json(r, 200, buf_str(&out));
}

void handle_tunnel_close(struct daemon_request *r)
{
	struct tunnel *t = find(r, false);
	if (!t)
		return;
	tunnel_close(t);
	daemon_request_empty(r);
}
