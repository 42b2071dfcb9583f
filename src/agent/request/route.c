#include "agent/request/route.h"

#include "agent/agent.h"
#include "agent/limits.h"
#include "agent/request/aside.h"
#include "agent/request/fields.h"
#include "base/clock.h"

static const struct http_exchange_ops ops_none;

/* ---- matching ---- */

static bool match_path(const char *pattern, struct str path, struct str *ret_id)
{
	struct str pat = str_of(pattern), want, got;
	while (http_path_next(&pat, &want)) {
		if (!http_path_next(&path, &got))
			return false;
		if (str_eq_c(want, "{id}"))
			*ret_id = got;
		else if (!str_eq(want, got))
			return false;
	}
	return !http_path_next(&path, &got);
}

static bool match_method(const struct route *r, struct str method)
{
	return str_eq_c(method, r->method) || (str_eq_c(method, "HEAD") && strcmp(r->method, "GET") == 0);
}

/* The route, or NULL; then *allow lists the methods that the path has (empty: no such path). */
static const struct route *find_route(const struct http_request *q, struct str *ret_id, struct buf *allow)
{
	/* A fixed path wins over one with {id}: /api/process/list is not the process "list". */
	for (int pass = 0; pass < 2; pass++) {
		for (size_t i = 0; i < routes_n; i++) {
			bool has_id = strchr(routes[i].pattern, '{') != NULL;
			if (has_id != (pass == 1) || !match_path(routes[i].pattern, q->path, ret_id))
				continue;
			if (match_method(&routes[i], q->method_text))
				return &routes[i];
			buf_printf(allow, "%s%s", buf_size(allow) ? ", " : "", routes[i].method);
		}
		if (buf_size(allow) && pass == 0 && str_eq_c(q->method_text, "OPTIONS"))
			break;
	}
	return NULL;
}

/* ---- dispatch ---- */

/* `text`: the body that `body` was read from. */
static void call_handler(
	struct http_exchange *x, const struct route *route, struct str id, const struct json *body, struct str text)
{
	auto_buf struct buf decoded = {0};
	struct err e;
	struct agent_request r = {.x = x, .route = route, .body = body};
	if (id.p && http_percent_decode(id, &decoded, &e) < 0)
		return agent_request_fail(&r, &e, STR_NULL);
	r.id = buf_str(&decoded);
	auto_free char *waits = aside_path(&r);
	if (waits)
		aside_run(&r, text, waits);
	else
		route->handle(&r);
}

static void on_whole_body(struct http_exchange *x, struct str text)
{
	const struct route *route = http_exchange_arg(x);
	struct agent_request r = {.x = x, .route = route};
	struct str id = STR_NULL;
	struct err e;
	match_path(route->pattern, http_request(x)->path, &id);
	http_exchange_set(x, &ops_none, NULL);

	struct json_doc *doc = json_parse(text, &e);
	if (doc && json_root(doc)->type != JSON_T_OBJECT) {
		err_set(&e, ERRC_INVALID_JSON, "the body must be a JSON object");
		json_free(doc);
		doc = NULL;
	}
	if (!doc && route->body == ROUTE_LENIENT)
		doc = json_parse(STR("{}"), &e);
	if (!doc)
		return agent_request_fail(&r, &e, STR_NULL);
	fields_check(x, route, json_edit(doc));
	call_handler(x, route, id, json_root(doc), text);
	json_free(doc);
}

static const struct http_exchange_ops ops_collect = {.on_whole_body = on_whole_body};

static void not_found(struct http_exchange *x)
{
	/* Upstream's words and code: its client knows them. */
	struct err e;
	err_set(&e, ERRC_UNKNOWN_ERROR, "The requested endpoint was not found");
	http_respond_error_json(x, &(struct error_json){.err = &e, .status = 404});
}

/* Alone on a developer's machine there is no token in front of us, and any page in a browser can send requests to
 * loopback. A browser says so in this header; a program does not. */
static bool from_foreign_page(const struct http_request *q)
{
	return !agent.boxed && str_eq_c(http_header_value(&q->headers, STR("Sec-Fetch-Site")), "cross-site");
}

void route_request(struct http_exchange *x, void *arg)
{
	(void)arg;
	const struct http_request *q = http_request(x);
	auto_buf struct buf allow = {0};
	struct str id = STR_NULL;
	struct err e;
	if (from_foreign_page(q)) {
		err_set(&e, ERRC_FORBIDDEN, "requests from web pages of other origins are refused");
		return http_respond_error(x, &e);
	}
	const struct route *route = find_route(q, &id, &allow);
	if (!route && buf_size(&allow))
		return http_respond_not_allowed(x, buf_cstr(&allow));
	if (!route)
		return not_found(x);
	if (route->body == ROUTE_NO_BODY || route->body == ROUTE_STREAM)
		return call_handler(x, route, id, NULL, STR_NULL);
	http_exchange_set(x, &ops_collect, (void *)route);
	http_collect(x, AGENT_BODY_MAX);
}

/* ---- what handlers share ---- */

struct str agent_request_query(const struct agent_request *r, struct str name, struct buf *mem)
{
	size_t at = mem->len;
	struct err e;
	if (http_query_get(http_request(r->x)->query, name, mem, &e) != 1)
		return STR_NULL;
	return str_n(mem->p + at, mem->len - at);
}

static struct str session_from_head(const struct agent_request *r, struct buf *mem)
{
	const struct http_headers *h = &http_request(r->x)->headers;
	struct str auth = http_header_value(h, STR("Authorization"));
	if (!agent.boxed && auth.n > 7 && str_eq_nocase(str_n(auth.p, 7), STR("Bearer ")))
		return str_trim(str_skip(auth, 7));
	struct str s = http_header_value(h, STR("X-Session-Id"));
	if (!s.n)
		s = agent_request_query(r, STR("session"), mem);
	if (!s.n)
		s = agent_request_query(r, STR("sessionId"), mem);
	return s;
}

int agent_request_session(const struct agent_request *r, struct buf *mem, struct str *ret, struct err *e)
{
	struct str s = STR_NULL;
	if (r->body && json_read_str(r->body, "sessionId", &s, e) < 0)
		return -1;
	if (!s.n)
		s = session_from_head(r, mem);
	if (!s.n)
		s = STR("default");
	if (s.n > SESSION_ID_MAX || memchr(s.p, 0, s.n))
		return err_field(
			e, "sessionId", "field 'sessionId' must be at most %d bytes without NUL", SESSION_ID_MAX);
	*ret = s;
	return 0;
}

bool session_is_disabled(struct str id)
{
	return str_eq_c(id, "__DISABLE_SESSION__");
}

void agent_request_fail(const struct agent_request *r, const struct err *e, struct str context)
{
	http_respond_error_json(
		r->x, &(struct error_json){.err = e, .operation = r->route->operation, .context = context});
}

void agent_request_fail_file(const struct agent_request *r, const struct err *e, const char *path, const char *extra)
{
	auto_buf struct buf context = {0};
	struct json_writer w = json_writer(&context);
	json_object_begin(&w);
	json_member_cstr(&w, "path", path);
	if (r->route->operation)
		json_member_cstr(&w, "operation", r->route->operation);
	if (extra)
		buf_printf(&context, ",%s", extra);
	json_object_end(&w);
	agent_request_fail(r, e, buf_str(&context));
}

void agent_request_fail_about(const struct agent_request *r, const struct err *e, const char *key, struct str value)
{
	auto_buf struct buf context = {0};
	struct json_writer w = json_writer(&context);
	json_object_begin(&w);
	json_member_str(&w, key, value);
	json_object_end(&w);
	agent_request_fail(r, e, buf_str(&context));
}

void agent_request_invalid(const struct agent_request *r, const char *field, const char *message)
{
	agent_request_invalid_code(r, field, message, "VALIDATION_FAILED");
}

void agent_request_refuse(const struct agent_request *r, const struct err *e)
{
	if (e->code == ERRC_VALIDATION_FAILED && *e->field)
		agent_request_invalid(r, e->field, e->msg);
	else
		agent_request_fail(r, e, STR_NULL);
}

void agent_request_invalid_code(const struct agent_request *r, const char *field, const char *message, const char *code)
{
	auto_buf struct buf context = {0};
	struct err e;
	err_field(&e, field, "%s", message);
	error_json_field(&context, &e, code);
	agent_request_fail(r, &e, buf_str(&context));
}

void agent_request_json(const struct agent_request *r, struct str json)
{
	http_respond(r->x, 200, "application/json", json);
}

void json_member_now(struct json_writer *w)
{
	char iso[CLOCK_ISO_LEN];
	json_member_cstr(w, "timestamp", clock_iso(clock_wall_ms(), iso));
}
