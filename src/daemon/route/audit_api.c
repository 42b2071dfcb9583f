/* GET /v1/audit, and the records of requests that no operation records. */
#include "base/json.h"
#include "daemon/op/audit.h"
#include "daemon/route/handlers.h"

static const char *method_name(enum http_method method)
{
	static const char *const names[] = {
		[HTTP_M_POST] = "POST", [HTTP_M_PUT] = "PUT", [HTTP_M_PATCH] = "PATCH", [HTTP_M_DELETE] = "DELETE"};
	return (size_t)method < ARRAY_LEN(names) ? names[method] : NULL;
}

void daemon_request_record(struct daemon_request *r, int status)
{
	const char *method = method_name(r->http_method);
	if (!method || r->recorded || r->match.row->inside)
		return;
	audit_operation(
		r->daemon, &r->caller, &(struct audit_entry){method, route_label(r->match.row), r->match.id, status});
}

void handle_audit(struct daemon_request *r)
{
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	json_object_begin(&w);
	json_key(&w, "records");
	json_array_begin(&w);
	audit_write(r->daemon->audit, &w);
	json_array_end(&w);
	json_object_end(&w);
	daemon_request_json(r, 200, buf_str(&out));
}
