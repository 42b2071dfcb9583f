/*
 * Theory of operation. If the sandbox is ready, a request goes straight to http_proxy, over a kept-alive connection or
 * a socket from the stock (dial.h). Otherwise it waits for the sandbox (r->waiter) or for a socket (dial_waiter); its
 * body then stays in the kernel's buffers. An attempt that fails before the app has seen a byte comes back through
 * on_proxy_fail with the exchange untouched, and is tried again: with a new socket, with the other loopback address,
 * or, once, after the sandbox has been started again.
 */
#include "daemon/pass/port_forward.h"

#include "base/clock.h"
#include "daemon/core/dial.h"
#include "daemon/limits.h"
#include "daemon/pass/port_headers.h"

struct port_forward {
	struct daemon_request *r;
	struct port_forward_opts o;
	uint16_t port;
	bool six;		  /* ::1 is tried … */
	bool both;		  /* … after the other one was refused, or the other way round */
	bool remembered;	  /* which one it was */
	bool restarted;		  /* the sandbox ended before a socket was there */
	bool tunnel;		  /* counted in the sandbox's tunnels */
	struct http_proxy *proxy; /* while the exchange is its */
	struct dial_waiter waiter;
	struct http_proxy_counts counts;
	struct port_forward_result result;
	struct port_headers *headers; /* while an attempt is made */
	struct buf cookie;	      /* the last one of the answer that had to be rewritten */
	char texts[];
};

static void forward_send(struct daemon_request *r);
static void wait_for_box(struct daemon_request *r);

static void forward_enter(struct daemon_request *r, struct sandbox *s)
{
	r->sandbox = s;
	sandbox_enter(s);
	r->forward->tunnel = http_request(r->x)->upgrade;
	s->tunnels += r->forward->tunnel;
}

static void forward_leave(struct daemon_request *r)
{
	if (r->sandbox) {
		r->sandbox->tunnels -= r->forward->tunnel;
		sandbox_leave(r->sandbox);
	}
	r->sandbox = NULL;
}

/* ---- ends ---- */

static void forward_give_up(
	struct daemon_request *r, void (*tell)(struct daemon_request *r, const struct err *e), const struct err *e)
{
	forward_leave(r);
	if (tell)
		return tell(r, e);
	http_respond_header(r->x, STR("X-Atoll-Error"), str_of(errc_info(e->code)->code));
	daemon_request_error(r, e);
}

static void forward_silent(struct daemon_request *r)
{
	struct err e;
	err_set(&e, ERRC_SERVICE_NOT_RESPONDING, "nothing listens on port %u of sandbox '%s'", r->forward->port,
		r->sandbox->id);
	forward_give_up(r, r->forward->o.on_silent, &e);
}

static void forward_failed(struct daemon_request *r, const struct http_failure *f)
{
	const struct sandbox *s = r->sandbox;
	bool ended = s->state != SB_RUNNING || s->op == OP_DESTROY;
	struct err e;
	if (ended)
		err_set(&e, ERRC_CONTAINER_LOST, "sandbox '%s' ended while it worked on this request", s->id);
	else
		err_set(&e, f->fail == HTTP_FAIL_TIMEOUT ? ERRC_GATEWAY_TIMEOUT : ERRC_BAD_GATEWAY,
			"port %u of sandbox '%s' gave no acceptable answer: %s", r->forward->port, s->id, f->err.msg);
	forward_give_up(r, r->forward->o.on_failed, &e);
}

static void on_proxy_done(void *arg, int status, bool complete)
{
	struct daemon_request *r = arg;
	struct port_forward *f = r->forward;
	r->x = NULL;
	f->proxy = NULL;
	f->result.complete = complete;
	f->result.answered = status != 0;
	if (!complete)
		r->daemon->metrics.aborted++;
	daemon_request_answered(r, status);
	forward_leave(r);
	daemon_request_release(r);
}

/* ---- attempts ---- */

/* A socket is there, or will not come. r->x is ours, and nothing of its body was read. */
static void on_socket(struct dial_waiter *w, const struct err *e)
{
	struct port_forward *f = container_of(w, struct port_forward, waiter);
	struct daemon_request *r = f->r;
	if (!e)
		return forward_send(r);
	/* The host may have no IPv6 at all: 127.0.0.1 was refused, and that decides. */
	if (f->both)
		return forward_silent(r);
	if (r->sandbox->state == SB_RUNNING || f->restarted)
		return forward_give_up(r, f->o.on_failed, e);
	f->restarted = true;
	forward_leave(r);
	wait_for_box(r);
}

static void wait_for_socket(struct daemon_request *r)
{
	struct port_forward *f = r->forward;
	struct err e;
	f->waiter = (struct dial_waiter){.on_done = on_socket};
	if (dial_wait(r->sandbox, f->six, &f->waiter, &e) < 0)
		forward_give_up(r, f->o.on_failed, &e);
}

static void on_proxy_fail(void *arg, struct http_exchange *x, const struct http_failure *h)
{
	struct daemon_request *r = arg;
	struct port_forward *f = r->forward;
	bool connecting = h->fail == HTTP_FAIL_CONNECT && h->untouched;
	f->proxy = NULL;
	r->x = x;
	daemon_request_retake(r);
	if (!connecting)
		return forward_failed(r, h);
	http_pause(x);
	if (h->err.os == EAGAIN)
		return wait_for_socket(r);
	if (h->err.os != ECONNREFUSED && !f->both)
		return forward_failed(r, h);
	if (f->both)
		return forward_silent(r);
	f->both = true;
	f->six = !f->six;
	forward_send(r);
}

static void on_bytes(void *arg)
{
	sandbox_touch(((struct daemon_request *)arg)->sandbox);
}

static bool filter_request(void *arg, struct str name, struct str *value)
{
	const struct port_forward *f = ((struct daemon_request *)arg)->forward;
	bool passes = port_headers_request(f->headers, name, value);
	if (passes && f->o.heads)
		port_heads_add(&f->o.heads->request, name, *value);
	return passes;
}

static bool filter_response(void *arg, struct str name, struct str *value)
{
	struct port_forward *f = ((struct daemon_request *)arg)->forward;
	/* It has answered: here is where to go next time. */
	if (f->both && !f->remembered) {
		f->remembered = true;
		dial_remember(f->r->sandbox, f->port, f->six);
	}
	bool passes = port_headers_response(name, value, &f->cookie);
	if (f->o.heads && !f->o.heads->first_us)
		f->o.heads->first_us = clock_us() - f->r->start_us;
	if (passes && f->o.heads)
		port_heads_add(&f->o.heads->response, name, *value);
	return passes;
}

static void forward_send(struct daemon_request *r)
{
	struct port_forward *f = r->forward;
	const struct http_request *q = http_request(r->x);
	struct port_headers h = {.tokens = r->daemon->tokens,
		.trusted_peer = f->o.trusted_peer,
		.proto = f->o.proto,
		.host = q->host,
		.peer = http_exchange_peer(r->x)};
	port_headers_make(&h, &q->headers);
	f->headers = &h;
	if (f->o.heads)
		port_heads_clear(f->o.heads); /* of an attempt before */
	struct http_endpoint ep = dial_endpoint(r->sandbox, f->port, f->six);
	struct http_proxy_options o = {
		.target = f->o.target,
		.host = f->o.host,
		.add = h.add,
		.add_n = h.add_n,
		.filter_request = filter_request,
		.filter_response = filter_response,
		.on_fail = on_proxy_fail,
		.head_ms = r->daemon->config.app_timeout_ms,
		.on_done = on_proxy_done,
		.on_bytes = on_bytes,
		.arg = r,
		.counts = &f->counts,
	};
	f->proxy = http_proxy(r->x, r->daemon->client, &ep, &o);
	port_headers_free(&h);
	f->headers = NULL;
}

/* ---- the sandbox ---- */

static void forward_start(struct daemon_request *r, struct sandbox *s)
{
	struct err e;
	if (s->exchanges >= BOX_EXCHANGES_MAX) {
		err_set(&e, ERRC_LIMIT_REACHED, "%d requests are inside sandbox '%s' already", BOX_EXCHANGES_MAX,
			s->id);
		return forward_give_up(r, r->forward->o.on_failed, &e);
	}
	forward_enter(r, s);
	r->forward->six = dial_is_six(s, r->forward->port);
	forward_send(r);
}

static void on_there(struct sandbox_waiter *w, struct sandbox *s, const struct err *e)
{
	struct daemon_request *r = container_of(w, struct daemon_request, waiter);
	struct port_forward *f = r->forward;
	if (!e)
		return forward_start(r, s);
	bool gone = e->code == ERRC_SANDBOX_NOT_FOUND || (e->code == ERRC_INVALID_STATE && !f->o.create);
	forward_give_up(r, gone ? f->o.on_gone : f->o.on_failed, e);
}

static void wait_for_box(struct daemon_request *r)
{
	struct port_forward *f = r->forward;
	struct sandbox *s = sandbox_find(r->daemon, r->match.id);
	struct err e;
	r->waiter = (struct sandbox_waiter){.goal = WAIT_RUNNING, .wake_only = !f->o.create, .on_done = on_there};
	if (!s && !f->o.create) {
		err_set(&e, ERRC_SANDBOX_NOT_FOUND, "there is no sandbox '%s'", r->match.id);
		return forward_give_up(r, f->o.on_gone, &e);
	}
	if (sandbox_wait_id(r->daemon, r->match.id, &r->waiter, &e) < 0)
		forward_give_up(r, f->o.on_failed, &e);
}

/* ---- what callers use ---- */

static struct str keep(struct port_forward *f, size_t *at, struct str s)
{
	if (!s.n)
		return STR_NULL;
	memcpy(f->texts + *at, s.p, s.n);
	*at += s.n;
	return str_n(f->texts + *at - s.n, s.n);
}

void port_forward(struct daemon_request *r, uint16_t port, const struct port_forward_opts *o)
{
	size_t at = 0;
	struct port_forward *f = xcalloc(1, sizeof *f + o->target.n + o->host.n);
	f->r = r;
	f->o = *o;
	f->port = port;
	f->o.target = keep(f, &at, o->target);
	f->o.host = keep(f, &at, o->host);
	r->forward = f;
	struct sandbox *s = sandbox_find(r->daemon, r->match.id);
	if (s && sandbox_is_ready(s) && list_empty(&s->waiters))
		return forward_start(r, s);
	http_pause(r->x);
	wait_for_box(r);
}

struct http_proxy *port_forward_proxy(const struct daemon_request *r)
{
	return r->forward ? r->forward->proxy : NULL;
}

void *port_forward_arg(const struct daemon_request *r)
{
	return r->forward->o.arg;
}

void port_forward_abort(struct daemon_request *r)
{
	if (r->forward->proxy)
		http_proxy_abort(r->forward->proxy);
	else if (r->x && !r->status) /* our own answer is already on its way */
		http_abort(r->x);
}

void port_forward_cancel(struct daemon_request *r)
{
	if (!r->forward)
		return;
	dial_wait_cancel(&r->forward->waiter);
	forward_leave(r);
}

void port_forward_finish(struct daemon_request *r)
{
	struct port_forward *f = r->forward;
	if (!f)
		return;
	f->result.status = r->status;
	f->result.us = clock_us() - r->start_us;
	f->result.bytes_in = f->counts.in;
	f->result.bytes_out = f->counts.out;
	if (f->o.on_done)
		f->o.on_done(r, &f->result);
}

void port_forward_free(struct port_forward *f)
{
	if (!f)
		return;
	buf_free(&f->cookie);
	free(f);
}
