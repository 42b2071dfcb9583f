/* POST /v1/sandboxes/{id}/sleep, /wake and /stop: answered with the sandbox, when it has reached that state. */
#include "daemon/route/handlers.h"
#include "daemon/route/request.h"

static void on_reached(struct sandbox_waiter *w, struct sandbox *s, const struct err *e)
{
	struct daemon_request *r = container_of(w, struct daemon_request, waiter);
	if (e)
		return daemon_request_error(r, e);
	sandbox_ref(s);
	r->sandbox = s;
	daemon_request_view(r, 200, NULL);
}

static void reach(struct daemon_request *r, enum wait_goal goal)
{
	struct err e;
	struct sandbox *s = daemon_request_find(r);
	if (!s)
		return;
	r->waiter = (struct sandbox_waiter){.goal = goal, .on_done = on_reached};
	if (sandbox_wait(s, &r->waiter, &e) < 0)
		daemon_request_error(r, &e);
}

void handle_sleep(struct daemon_request *r)
{
	reach(r, WAIT_ASLEEP);
}

void handle_wake(struct daemon_request *r)
{
	reach(r, WAIT_RUNNING);
}

void handle_stop(struct daemon_request *r)
{
	reach(r, WAIT_STOPPED);
}
