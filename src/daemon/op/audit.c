#include "daemon/op/audit.h"

#include "base/clock.h"
#include "base/json.h"

struct audit {
	char *records[AUDIT_MAX]; /* record id at id % AUDIT_MAX */
	uint64_t last;		  /* id of the newest; 0: none */
};

struct audit *audit_new(void)
{
	return xcalloc(1, sizeof(struct audit));
}

/* Routes into boxes, and protocols that have requests inside their requests. */
static bool is_inside(enum api_route route)
{
	return route == ROUTE_AGENT || route == ROUTE_AGENT_WS || route == ROUTE_PROXY || route == ROUTE_PREVIEW ||
	       route == ROUTE_MCP || route == ROUTE_BRIDGE || route == ROUTE_DOCKER || route == ROUTE_NONE;
}

static const char *method_name(enum http_method method)
{
	static const char *const names[] = {
		[HTTP_M_POST] = "POST", [HTTP_M_PUT] = "PUT", [HTTP_M_PATCH] = "PATCH", [HTTP_M_DELETE] = "DELETE"};
	return (size_t)method < ARRAY_LEN(names) ? names[method] : NULL;
}

void audit_begin(struct daemon_request *r, const char *by)
{
	r->by = by;
	if (!is_inside(r->match.route))
		r->changes = method_name(http_request(r->x)->method);
}

void audit_end(const struct daemon_request *r, int status)
{
	struct audit *a = r->daemon->audit;
	char iso[CLOCK_ISO_LEN];
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	if (!r->changes)
		return;
	json_object_begin(&w);
	json_member_u64(&w, "id", a->last + 1);
	json_member_cstr(&w, "time", clock_iso(clock_wall_ms(), iso));
	json_member_cstr(&w, "by", r->by);
	if (*r->token)
		json_member_cstr(&w, "token", r->token);
	json_member_cstr(&w, "method", r->changes);
	json_member_cstr(&w, "route", api_route_label(r->match.route));
	if (*r->match.id)
		json_member_cstr(&w, "sandbox", r->match.id);
	json_member_i64(&w, "status", status);
	json_object_end(&w);
	a->last++;
	free(a->records[a->last % AUDIT_MAX]);
	a->records[a->last % AUDIT_MAX] = str_dup(buf_str(&out));
}

void handle_audit(struct daemon_request *r)
{
	const struct audit *a = r->daemon->audit;
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	json_object_begin(&w);
	json_key(&w, "records");
	json_array_begin(&w);
	for (uint64_t id = a->last > AUDIT_MAX ? a->last - AUDIT_MAX + 1 : 1; id <= a->last; id++)
		json_raw(&w, str_of(a->records[id % AUDIT_MAX]));
	json_array_end(&w);
	json_object_end(&w);
	daemon_request_json(r, 200, buf_str(&out));
}
