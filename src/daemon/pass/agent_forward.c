/*
 * /v1/sandboxes/{id}/api/… and /ws/…: to the box's agent, as /api/… and /ws/….
 *
 * The warm path is one look into the table and one pooled connection; it writes nothing and does not ask the warden. A
 * request that waits for its box is paused: its body stays in the kernel's buffers. Credentials of the daemon never
 * reach the box.
 *
 * X-Atoll-If-Started names one life of the sandbox, by its startedAt. Such a request is for that life only: it starts
 * no box and fails when the box has ended or is another.
 */
#include <stdio.h>

#include "base/clock.h"
#include "daemon/admit/tickets.h"
#include "daemon/ports/tunnels.h"
#include "daemon/route/handlers.h"
#include "daemon/route/request.h"
#include "http/proxy.h"

static const struct str life_header = STR("x-atoll-if-started");

static bool keep_header(void *arg, struct str name, struct str *value)
{
	(void)arg;
	(void)value;
	return !str_eq_nocase(name, STR("authorization")) && !str_eq_nocase(name, STR("x-sandbox-id")) &&
	       !str_eq_nocase(name, STR("x-atoll-token")) && !str_eq_nocase(name, STR("x-atoll-host")) &&
	       !str_eq_nocase(name, life_header) && !str_eq_nocase(name, STR("x-atoll-console")) &&
	       !str_eq_nocase(name, STR("cookie"));
}

static void agent_leave(struct daemon_request *r)
{
	sandbox_leave(r->sandbox);
	r->sandbox = NULL;
}

static void on_proxy_done(void *arg, int status, bool complete)
{
	struct daemon_request *r = arg;
	r->x = NULL;
	if (!complete)
		r->daemon->metrics.aborted++;
	daemon_request_answered(r, status);
	agent_leave(r);
	daemon_request_release(r);
}

static void on_bytes(void *arg)
{
	sandbox_touch(((struct daemon_request *)arg)->sandbox);
}

static void explain_failure(const struct sandbox *s, const struct http_failure *f, struct err *e)
{
	bool ended = s->state != SB_RUNNING || s->op == OP_DESTROY;
	switch (f->fail) {
	case HTTP_FAIL_CONNECT:
		err_set(e, ERRC_CONTAINER_UNAVAILABLE, "sandbox '%s' cannot be reached now; nothing was sent to it",
			s->id);
		break;
	case HTTP_FAIL_PROTOCOL:
		err_set(e, ERRC_BAD_GATEWAY, "sandbox '%s' gave no acceptable answer: %s", s->id, f->err.msg);
		break;
	case HTTP_FAIL_NONE:
	case HTTP_FAIL_CLOSED:
	case HTTP_FAIL_TIMEOUT:
	case HTTP_FAIL_CANCELLED:
		err_set(e, ERRC_CONTAINER_LOST, "sandbox '%s' %s while it worked on this request", s->id,
			s->op == OP_DESTROY || s->state == SB_DESTROYED ? "was destroyed"
			: ended						? "ended"
									: "closed the connection");
		break;
	}
}

static struct str named_life(const struct daemon_request *r)
{
	return http_header_value(&http_request(r->x)->headers, life_header);
}

/* The request names a life, and it is not that of `s` (NULL: there is none), or that is ending: the request has been
 * answered. */
static bool is_other_life(struct daemon_request *r, const struct sandbox *s)
{
	struct str life = named_life(r);
	bool lives = s && (s->state == SB_RUNNING || s->state == SB_ASLEEP) && s->op != OP_DESTROY && s->op != OP_STOP;
	char iso[CLOCK_ISO_LEN];
	struct err e;
	if (!life.n || (lives && str_eq_c(life, clock_iso(s->started_ms, iso))))
		return false;
	err_set(&e, ERRC_INVALID_STATE, "the life of sandbox '%s' that X-Atoll-If-Started names is over", r->match.id);
	daemon_request_error(r, &e);
	return true;
}

static void agent_send(struct daemon_request *r, struct sandbox *s);

static void on_there(struct sandbox_waiter *w, struct sandbox *s, const struct err *e)
{
	struct daemon_request *r = container_of(w, struct daemon_request, waiter);
	if (e)
		daemon_request_error(r, e);
	else if (!is_other_life(r, s))
		agent_send(r, s);
}

static void wait_for_box(struct daemon_request *r)
{
	struct err e;
	r->waiter = (struct sandbox_waiter){.goal = WAIT_RUNNING, .on_done = on_there};
	if (sandbox_wait_id(r->daemon, r->match.id, &r->waiter, &e) < 0)
		daemon_request_error(r, &e);
}

/* A box whose agent does not listen has ended, though the warden may not have said so yet. Nothing of the request was
 * sent, so it waits with the others for the box to be started again; once, and not for another life than it names. */
static bool try_again(struct daemon_request *r, const struct http_failure *f)
{
	if (f->fail != HTTP_FAIL_CONNECT || !f->untouched || r->tried || !warden_client_is_up(r->daemon->warden) ||
		named_life(r).n)
		return false;
	r->tried = true;
	return true;
}

static void on_proxy_fail(void *arg, struct http_exchange *x, const struct http_failure *f)
{
	struct daemon_request *r = arg;
	struct err e;
	r->x = x;
	daemon_request_retake(r);
	explain_failure(r->sandbox, f, &e);
	sandbox_suspect(r->sandbox, f->fail == HTTP_FAIL_CONNECT);
	agent_leave(r);
	if (try_again(r, f))
		wait_for_box(r);
	else
		daemon_request_error(r, &e);
}

bool daemon_request_is_socket(const struct daemon_request *r)
{
	bool plain =
		str_starts(r->match.rest, STR("/api")) && !r->match.row->app && !str_eq_c(r->match.rest, "/api/ws");
	return r->match.row->token == TOKEN_IN_SOCKETS && !plain && http_request(r->x)->upgrade;
}

/* Any ticket; and, on a WebSocket, any `token`, also one that cannot be decoded: they are meant for the daemon. */
static bool is_secret(const void *arg, struct str parameter)
{
	auto_buf struct buf value = {0};
	struct err e;
	if (tickets_is_parameter(parameter))
		return true;
	return daemon_request_is_socket(arg) && http_query_get(parameter, STR("token"), &value, &e) != 0;
}

static void agent_send(struct daemon_request *r, struct sandbox *s)
{
	auto_buf struct buf target = {0};
	struct http_header id = {STR("X-Sandbox-Id"), str_of(s->id)};
	buf_add_str(&target, r->match.rest);
	api_query_put(&target, http_request(r->x)->query, is_secret, r);
	r->sandbox = s;
	sandbox_enter(s);
	struct http_proxy_options o = {
		.target = buf_str(&target),
		.add = &id,
		.add_n = 1,
		.filter_request = keep_header,
		.on_fail = on_proxy_fail,
		.on_done = on_proxy_done,
		.on_bytes = on_bytes,
		.arg = r,
	};
	/* Clients of the rpc transport may want tunnels. */
	if (str_eq_c(r->match.rest, "/rpc") && http_request(r->x)->upgrade)
		tunnels_attend(s);
	http_proxy(r->x, r->daemon->client, &s->agent, &o);
}

void handle_agent(struct daemon_request *r)
{
	struct sandbox *s = sandbox_find(r->daemon, r->match.id);
	if (is_other_life(r, s))
		return;
	if (s && sandbox_is_ready(s) && list_empty(&s->waiters))
		return agent_send(r, s);
	http_pause(r->x);
	wait_for_box(r);
}
