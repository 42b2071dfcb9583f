/*
 * Connections and requests that workerd decides: worker.h. A passage asks once, a web for each name and kept
 * connection.
 */
#include <stdio.h>

#include "gate/web.h"

const struct worker *worker_of(const struct passage *c)
{
	return c->box->sandbox ? c->box->sandbox->worker : NULL;
}

static void start_web(struct passage *c)
{
	c->state = PASSAGE_MOVING;
	if (web_start(c) < 0)
		passage_cut(c, "cannot be watched");
}

static void set_leg(struct web *w, const struct worker *k, int fd)
{
	struct ip loopback = ip_v4(INADDR_LOOPBACK);
	union ip_sockaddr sa;
	w->ep.len = ip_to_sockaddr(&loopback, k ? k->port : 0, &sa);
	memcpy(&w->ep.sa, &sa, w->ep.len);
	fd_close(&w->ready);
	w->ready = fd;
	w->has_leg = true;
}

/* ---- a connection ---- */

/* No handler answers for it: workerd would dial, so the policy decides. */
static bool may_pass(struct passage *c)
{
	const struct worker *k = worker_of(c);
	if (c->settled || (k && !k->internet))
		return true;
	if (!*c->name)
		return !c->by_name;
	return passage_name_ok(c, c->name, c->speech).answer == POLICY_ALLOW;
}

static void on_answered(void *arg, int status, int fd)
{
	struct passage *c = arg;
	c->worker_ask = NULL;
	if (status != 200 && status != 202)
		return passage_cut(c, status ? "the Worker refused it" : "the Worker did not answer");
	if (status == 202 && !may_pass(c)) {
		close(fd);
		return passage_deny(c, "no handler of the Worker, and the policy does not allow it");
	}
	if (status == 200)
		snprintf(c->why, sizeof c->why, "outbound handler");
	if (status == 200 && c->speech == SPEECH_TLS && *c->name) {
		c->tls = true;
		start_web(c);
		if (!c->web) {
			close(fd);
			return;
		}
		snprintf(c->web->leg, sizeof c->web->leg, "%s", c->name);
		return set_leg(c->web, worker_of(c), fd);
	}
	c->server = fd;
	passage_move(c);
}

void worker_spoke(struct passage *c, enum policy_speech how, const char *name)
{
	struct worker_to to = {.ip = &c->wanted, .port = c->port};
	c->by_worker = true;
	c->speech = how;
	c->state = PASSAGE_DIALLING;
	if (how == SPEECH_HTTP && c->port == 80)
		return start_web(c);
	if (how == SPEECH_TLS && !name)
		return passage_deny(c, "the TLS hello cannot be read, so the Worker cannot decide it");
	if (how == SPEECH_TLS)
		snprintf(c->name, sizeof c->name, "%s", name);
	if (how == SPEECH_TLS && *c->name)
		to.sni = c->name;
	c->worker_ask = worker_ask_start(c->gate, worker_of(c), &to, on_answered, c);
}

/* ---- a request ---- */

static void on_leg(void *arg, int status, int fd)
{
	struct web *w = arg;
	struct passage *c = w->conn;
	const struct worker *k = worker_of(c);
	w->worker_ask = NULL;
	if (status != 200 && status != 202)
		return passage_cut(c, status ? "the Worker refused it" : "the Worker did not answer");
	if (status == 202 && (w->tls || (!w->allowed && (!k || k->internet)))) {
		close(fd);
		return web_refuse(w, "no handler of the Worker, and the policy does not allow it");
	}
	set_leg(w, k, fd);
	web_reached(w, take_fd(&w->ready));
}

void worker_dial(struct web *w)
{
	const struct passage *c = w->conn;
	const struct worker *k = worker_of(c);
	char text[IP_TEXT];
	const char *name = *w->leg ? w->leg : ip_format(&c->wanted, text);
	struct worker_to to = {
		.ip = &c->wanted, .port = c->port, .hostname = w->tls ? NULL : name, .sni = w->tls ? name : NULL};
	if (!k)
		return web_unreachable(w, "the Worker is gone", false);
	w->worker_ask = worker_ask_start(w->gate, k, &to, on_leg, w);
}
