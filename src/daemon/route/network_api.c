/* GET and PATCH of /v1/sandboxes/{id}/network, and its log. */
#include "base/json.h"
#include "daemon/network/net_log.h"
#include "daemon/network/network.h"
#include "daemon/route/handlers.h"
#include "daemon/route/request.h"

static struct sandbox *known(struct daemon_request *r)
{
	struct err e;
	struct sandbox *s = sandbox_find(r->daemon, r->match.id);
	if (!s) {
		err_set(&e, ERRC_SANDBOX_NOT_FOUND, "there is no sandbox '%s'", r->match.id);
		daemon_request_error(r, &e);
	}
	return s;
}

static void answer(struct daemon_request *r, const struct sandbox *s)
{
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	struct net_totals t = net_log_totals(s->net_log);
	json_object_begin(&w);
	network_write(&w, &r->daemon->network, s->spec.network, network_missing(s));
	json_key(&w, "own");
	json_raw(&w, str_of(network_is_unknown(s->spec.network) ? "{}" : s->spec.network));
	json_member_u64(&w, "connections", t.connections);
	json_member_u64(&w, "denied", t.denied);
	json_member_u64(&w, "bytesSent", t.sent);
	json_member_u64(&w, "bytesReceived", t.received);
	json_object_end(&w);
	daemon_request_json(r, 200, buf_str(&out));
}

static void on_changed(void *arg, const struct op_result *result)
{
	struct daemon_request *r = daemon_request_done(arg);
	if (result->err)
		daemon_request_error(r, result->err);
	else
		answer(r, result->sandbox);
}

void handle_network_patch(struct daemon_request *r)
{
	struct err e;
	auto_change struct api_change change = {0};
	const struct sandbox *s = known(r);
	if (!s)
		return;
	auto_json struct json_doc *doc = json_parse(r->body, &e);
	if (!doc || network_change(s->spec.network, json_root(doc), &change.spec.network, &e) < 0)
		return daemon_request_error(r, &e);
	const struct op_call call = daemon_request_call(r, on_changed);
	r->op = op_policy(&call, &change);
}

void handle_network_get(struct daemon_request *r)
{
	const struct sandbox *s = known(r);
	if (s)
		answer(r, s);
}

static void on_follow_close(void *arg, bool complete)
{
	struct daemon_request *r = arg;
	(void)complete;
	r->x = NULL;
	daemon_request_release(r);
}

struct follow daemon_request_follow(struct daemon_request *r)
{
	return (struct follow){.loop = r->daemon->loop, .x = r->x, .on_close = on_follow_close, .arg = r};
}

bool daemon_request_follows(struct daemon_request *r)
{
	auto_buf struct buf follow = {0};
	struct err e;
	return http_query_get(http_request(r->x)->query, STR("follow"), &follow, &e) == 1 &&
	       str_eq_c(buf_str(&follow), "1");
}

void handle_network_log(struct daemon_request *r)
{
	struct err e;
	auto_buf struct buf out = {0};
	struct sandbox *s = known(r);
	if (!s)
		return;
	if (daemon_request_follows(r)) {
		struct follow how = daemon_request_follow(r);
		if (net_log_follow(&s->net_log, &how, &e) < 0)
			return daemon_request_error(r, &e);
		return daemon_request_answered(r, 200);
	}
	struct json_writer w = json_writer(&out);
	json_object_begin(&w);
	net_log_write(s->net_log, &w);
	json_object_end(&w);
	daemon_request_json(r, 200, buf_str(&out));
}
