/* DELETE /v1/sandboxes/{id}: waits until nothing of the sandbox is left. */
#include "daemon/route/handlers.h"
#include "daemon/route/request.h"

static void on_destroyed(struct sandbox_waiter *w, struct sandbox *s, const struct err *e)
{
	(void)s;
	struct daemon_request *r = container_of(w, struct daemon_request, waiter);
	if (e)
		return daemon_request_error(r, e);
	daemon_request_empty(r);
}

void handle_delete(struct daemon_request *r)
{
	struct err e;
	struct sandbox *s = daemon_request_find(r);
	if (!s)
		return;
	r->waiter = (struct sandbox_waiter){.goal = WAIT_GONE, .on_done = on_destroyed};
	if (sandbox_wait(s, &r->waiter, &e) < 0)
		daemon_request_error(r, &e);
}
