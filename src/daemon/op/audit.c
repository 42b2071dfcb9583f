#include "daemon/op/audit.h"

#include "base/clock.h"
#include "base/json.h"
#include "daemon/route/handlers.h"

struct audit {
	char *records[AUDIT_MAX]; /* record id at id % AUDIT_MAX */
	uint64_t last;		  /* id of the newest; 0: none */
};

struct audit *audit_new(void)
{
	return xcalloc(1, sizeof(struct audit));
}

static const char *method_name(enum http_method method)
{
	static const char *const names[] = {
		[HTTP_M_POST] = "POST", [HTTP_M_PUT] = "PUT", [HTTP_M_PATCH] = "PATCH", [HTTP_M_DELETE] = "DELETE"};
	return (size_t)method < ARRAY_LEN(names) ? names[method] : NULL;
}

void audit_begin(struct daemon_request *r)
{
	if (!r->match.row->inside)
		r->changes = method_name(http_request(r->x)->method);
}

void audit_end(const struct daemon_request *r, int status)
{
	struct audit *a = r->daemon->audit;
	const struct caller *c = &r->caller;
	char iso[CLOCK_ISO_LEN];
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	if (!r->changes)
		return;
	json_object_begin(&w);
	json_member_u64(&w, "id", a->last + 1);
	json_member_cstr(&w, "time", clock_iso(clock_wall_ms(), iso));
	json_member_cstr(&w, "by", caller_by_name(c->by));
	json_member_cstr(&w, "door", caller_door_name(c->door));
	if (*c->token)
		json_member_cstr(&w, "token", c->token);
	if (c->uid != CALLER_NO_UID)
		json_member_u64(&w, "uid", c->uid);
	if (*c->address)
		json_member_cstr(&w, "address", c->address);
	json_member_cstr(&w, "method", r->changes);
	json_member_cstr(&w, "route", route_label(r->match.row));
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
