/*
 * Sessions, tunnels and the end of a sandbox; the pool's numbers.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "daemon/ports/tunnels.h"
#include "doors/bridge/bridge.h"

/* ---- sessions ---- */

static void on_created(struct bridge_call *b, int status, struct str body)
{
	auto_json struct json_doc *doc = json_parse(body, NULL);
	auto_buf struct buf out = {0};
	struct str id = STR_NULL;
	if (bridge_fail_pool(b, status, body))
		return;
	if (status == 200 && doc)
		json_read_str(json_root(doc), "sessionId", &id, NULL);
	if (!id.n) {
		error_json_message(body, &out);
		return bridge_fail(b, 502, "session_error", "session create failed: %s", buf_cstr(&out));
	}
	struct json_writer w = json_writer(&out);
	json_object_begin(&w);
	json_member_str(&w, "id", id);
	json_object_end(&w);
	bridge_answer(b, 200, buf_str(&out));
}

/* A body that is no object asks for nothing, as upstream's. */
static void on_create_body(struct bridge_call *b, struct str body)
{
	auto_json struct json_doc *doc = json_parse(body, NULL);
	const struct json *root = doc ? json_root(doc) : NULL;
	struct str id = STR_NULL;
	bool object = root && root->type == JSON_T_OBJECT;
	if (object && json_read_str(root, "id", &id, NULL) == 0 && id.n && !bridge_session_ok(id))
		return bridge_fail(b, 400, "invalid_request", "Invalid session ID format");
	bridge_ask(b, "POST", STR("/api/session/create"), object ? body : STR("{}"), on_created);
}

void bridge_session_create(struct bridge_call *b)
{
	bridge_collect(b, on_create_body);
}

static void on_deleted(struct bridge_call *b, int status, struct str body)
{
	auto_buf struct buf why = {0};
	if (status == 200)
		return bridge_answer(b, 200, body);
	if (bridge_fail_pool(b, status, body))
		return;
	error_json_message(body, &why);
	bridge_fail(b, 502, "session_error", "session delete failed: %s", buf_cstr(&why));
}

void bridge_session_delete(struct bridge_call *b)
{
	auto_buf struct buf id = {0}, out = {0};
	struct err e;
	if (!b->rest.n)
		return bridge_fail(b, 400, "invalid_request", "session ID must not be empty");
	if (http_percent_decode(b->rest, &id, &e) < 0 || !bridge_session_ok(buf_str(&id)))
		return bridge_fail(b, 400, "invalid_request", "Invalid session ID format");
	struct json_writer w = json_writer(&out);
	json_object_begin(&w);
	json_member_str(&w, "sessionId", buf_str(&id));
	json_object_end(&w);
	bridge_ask(b, "POST", STR("/api/session/delete"), buf_str(&out), on_deleted);
}

/* ---- tunnels ---- */

static void on_opened(struct bridge_call *b, int status, struct str body)
{
	auto_buf struct buf why = {0};
	if (status == 200 || status == 201)
		return bridge_answer(b, 200, body);
	if (bridge_fail_pool(b, status, body))
		return;
	error_json_message(body, &why);
	if (b->err.code == ERRC_VALIDATION_FAILED)
		return bridge_fail(b, 400, "invalid_request", "%s", buf_cstr(&why));
	bridge_fail(b, 502, "tunnel_error", "tunnel failed: %s", buf_cstr(&why));
}

static void on_closed(struct bridge_call *b, int status, struct str body)
{
	auto_buf struct buf why = {0};
	error_json_message(body, &why);
	if (status != 204 && status != 200 && status != 404)
		return bridge_fail(b, 502, "tunnel_error", "tunnel failed: %s", buf_cstr(&why));
	if (b->r->x)
		daemon_request_empty(b->r);
	bridge_done(b);
}

static void open_tunnel(struct bridge_call *b, struct str text)
{
	struct tunnel_wish wish = {0};
	auto_json struct json_doc *doc = json_parse(text, &b->err);
	const struct op_call call = bridge_operation(b, on_opened);
	if (!doc || tunnel_wish_read(json_root(doc), &wish, &b->err) < 0) {
		struct err e = b->err;
		return on_opened(b, errc_info((int)e.code)->status, str_of(e.msg));
	}
	bridge_began(b, op_tunnel_open(&call, &wish));
}

static void on_tunnel_body(struct bridge_call *b, struct str body)
{
	auto_json struct json_doc *doc = str_trim(body).n ? json_parse(body, NULL) : NULL;
	const struct json *root = doc ? json_root(doc) : NULL, *name = NULL;
	auto_buf struct buf out = {0};
	if (str_trim(body).n && !doc)
		return bridge_fail(b, 400, "invalid_request", "Invalid JSON body");
	if (root && root->type == JSON_T_OBJECT)
		name = json_get(root, "name");
	if (name && name->type != JSON_T_STRING)
		return bridge_fail(b, 400, "invalid_request", "name must be a string when provided");
	struct json_writer w = json_writer(&out);
	json_object_begin(&w);
	json_member_u64(&w, "port", b->port);
	if (name)
		json_member_str(&w, "name", name->text);
	json_object_end(&w);
	open_tunnel(b, buf_str(&out));
}

void bridge_tunnel(struct bridge_call *b)
{
	uint64_t port;
	if (!str_to_u64(b->rest, 65535, &port) || port < 1024 || port == 3000)
		return bridge_fail(b, 400, "invalid_request", "Invalid port");
	b->port = (unsigned)port;
	if (http_request(b->r->x)->method != HTTP_M_DELETE)
		return bridge_collect(b, on_tunnel_body);
	const struct op_call call = bridge_operation(b, on_closed);
	bridge_began(b, op_tunnel_close(&call, (uint16_t)b->port));
}

/* ---- the end ---- */

static void on_gone(struct bridge_call *b, int status, struct str body)
{
	(void)body;
	if (status == 0 || status >= 500)
		return bridge_fail(b, 502, "pool_error", "pool error: the sandbox could not be destroyed");
	if (b->r->x)
		daemon_request_empty(b->r);
	bridge_done(b);
}

void bridge_delete(struct bridge_call *b)
{
	const struct op_call call = bridge_operation(b, on_gone);
	bridge_began(b, op_destroy(&call));
}

/* ---- the pool ---- */

static uint64_t setting(const char *name, uint64_t otherwise)
{
	const char *v = getenv(name);
	uint64_t n;
	return v && str_to_u64(str_of(v), BRIDGE_COUNT_MAX, &n) ? n : otherwise;
}

/* Boxes of builds are none of the bridge. */
static uint64_t assigned(const struct daemon *d)
{
	return d->boxes.count - d->work_n;
}

bool bridge_has_room(struct daemon *d, const char *box)
{
	uint64_t max = setting("WARM_POOL_MAX_INSTANCES", 0);
	return !max || sandbox_find(d, box) || assigned(d) < max;
}

void bridge_pool_stats(struct daemon_request *r)
{
	auto_buf struct buf out = {0};
	const struct warden_host *host = warden_host(r->daemon->warden);
	uint64_t warm = host ? host->slots_ready : 0, max = setting("WARM_POOL_MAX_INSTANCES", 0);
	uint64_t batch = setting("WARM_POOL_SCALE_BATCH_SIZE", 5);
	struct json_writer w = json_writer(&out);
	json_object_begin(&w);
	json_member_u64(&w, "warm", warm);
	json_member_u64(&w, "assigned", assigned(r->daemon));
	json_member_u64(&w, "total", warm + assigned(r->daemon));
	json_key(&w, "config");
	json_object_begin(&w);
	json_member_u64(&w, "warmTarget", setting("WARM_POOL_TARGET", 0));
	json_member_u64(&w, "refreshInterval", setting("WARM_POOL_REFRESH_INTERVAL", 10000));
	json_member_u64(&w, "maxInstances", max);
	json_member_u64(&w, "scaleBatchSize", batch < 1 ? 1 : batch > 20 ? 20 : batch);
	json_object_end(&w);
	json_key(&w, "maxInstances");
	if (max)
		json_u64(&w, max);
	else
		json_null(&w);
	json_object_end(&w);
	daemon_request_json(r, 200, buf_str(&out));
}
