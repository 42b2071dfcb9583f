/*
 * DELETE of a sandbox, answered when nothing of it is left; POST …/sleep, /wake and /stop, answered with the sandbox when
 * it has reached that state.
 */
#include "daemon/route/handlers.h"

static void on_reached(void *arg, const struct op_result *result)
{
	struct daemon_request *r = daemon_request_done(arg);
	if (result->err)
		daemon_request_error(r, result->err);
	else if (result->sandbox)
		daemon_request_view(r, 200, result->sandbox, NULL);
	else
		daemon_request_empty(r);
}

void handle_delete(struct daemon_request *r)
{
	const struct op_call call = daemon_request_call(r, on_reached);
	r->op = op_destroy(&call);
}

void handle_sleep(struct daemon_request *r)
{
	const struct op_call call = daemon_request_call(r, on_reached);
	r->op = op_sleep(&call);
}

void handle_wake(struct daemon_request *r)
{
	const struct op_call call = daemon_request_call(r, on_reached);
	r->op = op_wake(&call);
}

void handle_stop(struct daemon_request *r)
{
	const struct op_call call = daemon_request_call(r, on_reached);
	r->op = op_stop(&call);
}
