/* PUT /v1/sandboxes/{id}: makes a sandbox, or changes one that is there. */
#include "daemon/route/handlers.h"

static void on_put(void *arg, const struct op_result *result)
{
	struct daemon_request *r = daemon_request_done(arg);
	if (result->err)
		daemon_request_error(r, result->err);
	else
		daemon_request_view(r, result->made ? 201 : 200, result->sandbox, NULL);
}

void handle_put(struct daemon_request *r)
{
	struct err e;
	auto_change struct api_change change = {0};
	if (api_change_parse(r->body, &change, &e) < 0)
		return daemon_request_error(r, &e);
	const struct op_call call = daemon_request_call(r, on_put);
	r->op = op_put(&call, &change);
}
