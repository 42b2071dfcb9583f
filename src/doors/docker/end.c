/*
 * end.c - the ends of a container: POST …/wait, …/kill, …/stop, and DELETE.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "daemon/warden_client.h"
#include "doors/docker/docker.h"

/* ---- wait ---- */

static void wait_gone(struct http_exchange *x, bool complete)
{
	struct daemon_request *r = http_exchange_arg(x);
	struct docker_wait *w = r->docker_wait;
	if (w) {
		list_del(&w->node);
		r->docker_wait = NULL;
		if (list_empty(&w->c->waits))
			container_watch_orphan(w->c);
		free(w);
	}
	daemon_request_closed(x, complete);
}

/* ENDS: it has ended, or ends. */
enum wait_for { WAIT_FOR_ENDS, WAIT_FOR_NEXT_END, WAIT_FOR_REMOVAL, WAIT_FOR_NOTHING };

static enum wait_for condition_of(struct str name)
{
	if (!name.n || str_eq_c(name, "not-running"))
		return WAIT_FOR_ENDS;
	if (str_eq_c(name, "next-exit"))
		return WAIT_FOR_NEXT_END;
	return str_eq_c(name, "removed") ? WAIT_FOR_REMOVAL : WAIT_FOR_NOTHING;
}

/* Docker tells 0 for a container that was never started. No program has ended with that. */
static void answer_code(struct daemon_request *r, const struct container *c)
{
	auto_buf struct buf out = {0};
	if (c->state == CONTAINER_CREATED && !c->code)
		return docker_error(r, 409, "container %s was never started: it has no exit code", c->name);
	buf_printf(&out, "{\"StatusCode\":%d}", c->code);
	daemon_request_json(r, 200, buf_str(&out));
}

void container_wait(struct daemon_request *r, struct container *c)
{
	static const struct http_exchange_ops ops = {.on_close = wait_gone};
	auto_buf struct buf name = {0};
	docker_query(r, "condition", &name);
	enum wait_for condition = condition_of(buf_str(&name));
	if (condition == WAIT_FOR_NOTHING)
		return docker_error(r, 400, "invalid condition: \"%.40s\"", buf_cstr(&name));
	if (condition == WAIT_FOR_ENDS && c->state != CONTAINER_RUNNING && !c->starting)
		return answer_code(r, c);
	struct docker_wait *w = xcalloc(1, sizeof *w);
	*w = (struct docker_wait){.c = c, .r = r, .removed = condition == WAIT_FOR_REMOVAL};
	r->docker_wait = w;
	c->found = false;
	list_push(&c->waits, &w->node);
	loop_timer_stop(&c->orphan);
	http_exchange_set(r->x, &ops, r);
}

/* ---- signals ---- */

static void on_stopped(struct container *c, struct daemon_request *r, int status, struct str body)
{
	if (!docker_went(status)) {
		c->wanted = -1; /* it runs on, and ends some other time with a code of its own */
		log_limited(LOG_WARN, "container not stopped", "name=%s status=%d", LOG_Q(c->name), status);
		if (r)
			docker_answer_failed(r, status, body);
		return;
	}
	/* docker_box_moved has told the end before; this is for a box that was gone already, which nobody stopped. */
	if (status == 404)
		c->wanted = -1;
	container_ended(c, status == 404 ? 137 : 0);
	docker_ask(c, NULL, "DELETE", "", STR_NULL, NULL);
	if (r)
		docker_no_content(r, 204);
}

/* "SIGTERM", "TERM" or "15"; 0: there is no such signal. */
static int signal_of(struct str name)
{
	uint64_t n;
	if (str_to_u64(name, SIGRTMAX, &n))
		return (int)n;
	if (str_starts(name, STR("SIG")))
		name = str_skip(name, 3);
	for (int i = 1; i < SIGRTMIN; i++) {
		const char *abbreviation = sigabbrev_np(i);
		if (abbreviation && str_eq_c(name, abbreviation))
			return i;
	}
	return 0;
}

static void on_told(struct sandbox *s, const struct warden_answer *a, void *arg)
{
	struct daemon_request *r = arg;
	(void)s;
	if (r->x && a->err)
		docker_error(r, 500, "%s", a->err->msg);
	else if (r->x)
		docker_no_content(r, 204);
	daemon_request_release(r);
}

/* The agent is the first process: it passes these on to the box's programs, as the server in upstream's container. */
static void tell(struct daemon_request *r, const struct container *c, int sig)
{
	struct sandbox *s = sandbox_find(c->docker->daemon, c->box);
	if (!s || !warden_client_is_up(s->daemon->warden))
		return docker_error(r, 500, "container %s cannot be reached now", c->name);
	daemon_request_hold(r);
	sandbox_ask(s, &(struct warden_request){.op = WARDEN_SIGNAL, .signal = sig}, on_told, r);
}

static void send_signal(struct daemon_request *r, struct container *c, int sig)
{
	bool ends = sig == SIGKILL || sig == SIGTERM || sig == SIGINT || sig == SIGQUIT;
	if (container_is_sidecar(c) && ends) {
		container_ended(c, 0);
		ingress_close(take_ptr(&c->ingress));
		return docker_no_content(r, 204);
	}
	if (sig == SIGHUP || sig == SIGUSR1 || sig == SIGUSR2 || sig == SIGWINCH || sig == SIGALRM || sig == SIGPWR)
		return *c->box ? tell(r, c, sig) : docker_no_content(r, 204);
	/* A first process without a handler for it does not notice a signal. */
	if (!ends)
		return docker_no_content(r, 204);
	c->wanted = sig == SIGKILL ? 137 : 0;
	docker_ask(c, r, sig == SIGKILL ? "DELETE" : "POST", sig == SIGKILL ? "" : "/stop", STR_NULL, on_stopped);
}

struct late {
	struct list node;
	struct daemon_request *r; /* held */
	int sig;
};

/* A container that is told to end while it starts must not run on behind that. */
static void send_later(struct daemon_request *r, struct container *c, int sig)
{
	struct late *l = xcalloc(1, sizeof *l);
	*l = (struct late){.r = r, .sig = sig};
	daemon_request_hold(r);
	list_push(&c->late, &l->node);
}

void container_send_late(struct container *c)
{
	list_each(it, &c->late)
	{
		struct late *l = list_entry(it, struct late, node);
		struct daemon_request *r = l->r;
		int sig = l->sig;
		list_del(&l->node);
		free(l);
		if (r->x && c->gone)
			docker_error(r, 404, "No such container: %s", c->name);
		else if (r->x && c->state != CONTAINER_RUNNING)
			docker_error(r, 409, "container %s is not running", c->name);
		else if (r->x)
			send_signal(r, c, sig);
		daemon_request_release(r);
	}
}

void container_kill(struct daemon_request *r, struct container *c)
{
	auto_buf struct buf name = {0};
	docker_query(r, "signal", &name);
	int sig = buf_size(&name) ? signal_of(buf_str(&name)) : SIGKILL;
	if (!sig)
		return docker_error(r, 400, "Invalid signal: %.40s", buf_cstr(&name));
	if (sig == SIGSTOP)
		return docker_error(r, 400, "SIGSTOP is not supported: it would stop the container's own server");
	if (c->starting)
		return send_later(r, c, sig);
	if (c->state != CONTAINER_RUNNING)
		return docker_error(r, 409, "container %s is not running", c->name);
	send_signal(r, c, sig);
}

void container_stop(struct daemon_request *r, struct container *c)
{
	if (c->starting)
		return send_later(r, c, SIGTERM);
	if (c->state != CONTAINER_RUNNING)
		return docker_no_content(r, 304);
	send_signal(r, c, SIGTERM);
}

/* ---- delete ---- */

/* A sidecar outlives its container for a while, because workerd uses it for the next one. */
static void forget_sidecar(struct container *c)
{
	struct container *sidecar = container_is_sidecar(c) ? NULL : container_partner(c);
	if (sidecar && container_is_sidecar(sidecar))
		container_watch_orphan(sidecar);
}

static void delete_record(struct container *c)
{
	struct container *sidecar = container_is_sidecar(c) ? NULL : container_partner(c);
	if (c->gone)
		return;
	if (!c->with_sidecar)
		forget_sidecar(c);
	container_remove(c);
	if (c->with_sidecar && sidecar && container_is_sidecar(sidecar))
		container_remove(sidecar);
}

/* The record goes when the box has gone, so that a delete that failed can be tried again. */
static void on_deleted(struct container *c, struct daemon_request *r, int status, struct str body)
{
	if (!docker_went(status)) {
		c->wanted = -1;
		log_limited(LOG_WARN, "container not removed", "name=%s status=%d", LOG_Q(c->name), status);
		if (r)
			docker_answer_failed(r, 500, body);
		return;
	}
	delete_record(c);
	if (r)
		docker_no_content(r, 204);
}

void container_delete(struct daemon_request *r, struct container *c)
{
	auto_buf struct buf force = {0}, with = {0};
	docker_query(r, "force", &force);
	docker_query(r, "sidecar", &with);
	bool forced = str_eq_c(buf_str(&force), "1") || str_eq_c(buf_str(&force), "true");
	if (c->state == CONTAINER_RUNNING && !forced)
		return docker_error(r, 409, "container %s is running; stop it first, or use force", c->name);
	c->wanted = 137;
	c->with_sidecar = buf_size(&with) > 0;
	if (*c->box)
		return docker_ask(c, r, "DELETE", "", STR_NULL, on_deleted);
	delete_record(c);
	docker_no_content(r, 204);
}

void container_reap(struct container *c)
{
	c->wanted = 137;
	c->with_sidecar = true;
	docker_ask(c, NULL, "DELETE", "", STR_NULL, on_deleted);
}
