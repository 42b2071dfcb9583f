/* POST /v1/sandboxes/{id}/sleep, /wake and /stop: answered with the sandbox, when it has reached that state. */
#include "daemon/route/request.h"

static enum wait_goal goal_of(enum api_route route)
{
	return route == ROUTE_SLEEP ? WAIT_ASLEEP : route == ROUTE_STOP ? WAIT_STOPPED : WAIT_RUNNING;
}

static void on_reached(struct sandbox_waiter *w, struct sandbox *s, const struct err *e)
{
	struct daemon_request *r = container_of(w, struct daemon_request, waiter);
	if (e)
		return daemon_request_error(r, e);
	sandbox_ref(s);
	r->sandbox = s;
	daemon_request_view(r, 200, NULL);
}

void handle_life(struct daemon_request *r)
{
	struct err e;
	struct sandbox *s = daemon_request_find(r);
	if (!s)
		return;
	r->waiter = (struct sandbox_waiter){.goal = goal_of(r->match.route), .on_done = on_reached};
	if (sandbox_wait(s, &r->waiter, &e) < 0)
		daemon_request_error(r, &e);
}
