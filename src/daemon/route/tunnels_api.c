#include "base/json.h"
#include "daemon/limits.h"
#include "daemon/ports/tunnels.h"
#include "daemon/route/handlers.h"
#include "daemon/route/request.h"

/* /v1/sandboxes/{id}/tunnels…: open, list, end. */

static void on_opened(void *arg, const struct op_result *result)
{
	struct daemon_request *r = daemon_request_done(arg);
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	if (result->err)
		return daemon_request_error(r, result->err);
	tunnel_view(&w, result->tunnel);
	daemon_request_json(r, result->made ? 201 : 200, buf_str(&out));
}

void handle_tunnel_open(struct daemon_request *r)
{
	struct err e;
	struct tunnel_wish wish = {0};
	auto_json struct json_doc *doc = json_parse(r->body.n ? r->body : STR("{}"), &e);
	if (!doc || tunnel_wish_read(json_root(doc), &wish, &e) < 0)
		return daemon_request_error(r, &e);
	const struct op_call call = daemon_request_call(r, on_opened);
	r->op = op_tunnel_open(&call, &wish);
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

void handle_tunnel_get(struct daemon_request *r)
{
	struct sandbox *s = daemon_request_find(r);
	const struct tunnel *t = s ? tunnel_find_port(s, r->match.port) : NULL;
	struct err e;
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	if (!s)
		return;
	if (!t || !tunnel_is_open(t)) {
		err_set(&e, ERRC_TUNNEL_NOT_FOUND, "Port %u of sandbox '%s' has no tunnel.", (unsigned)r->match.port,
			s->id);
		return daemon_request_error(r, &e);
	}
	tunnel_view(&w, t);
	daemon_request_json(r, 200, buf_str(&out));
}

static void on_closed(void *arg, const struct op_result *result)
{
	struct daemon_request *r = daemon_request_done(arg);
	if (result->err)
		daemon_request_error(r, result->err);
	else
		daemon_request_empty(r);
}

void handle_tunnel_close(struct daemon_request *r)
{
	const struct op_call call = daemon_request_call(r, on_closed);
	r->op = op_tunnel_close(&call, r->match.port);
}
