/*
 * egress.c - PUT /egress of a sidecar: {"port":P,"dns":{"allowHostnames":[…]},"internet":{"enabled":b}}.
 *
 * Hosts in `dns.allowHostnames` are hosts with a handler of the Worker. When there are any, the gate asks workerd at
 * `port` about each connection of the container's box (gate/worker.h). Without hosts nobody is asked, and the port is
 * kept only.
 *
 * `internet.enabled` false is the network mode `off` of the container's box, or `list` where handlers answer; true is
 * the daemon's own mode again. The sidecar's record keeps the wishes: workerd tells them before the container is
 * created, and its start makes the box with them. While the container runs, the answer comes after the gate has acted
 * and the daemon's API has changed the box's network. A mode that somebody else gave the box stays when the internet is
 * wanted.
 */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "daemon/network/gate_client.h"
#include "doors/bridge/bridge.h"
#include "doors/docker/docker.h"

struct egress {
	struct container *sidecar, *app; /* held; app: while the gate is told, or NULL */
	struct gate_ack ack;
	egress_on_done on_done; /* NULL: nobody waits */
	void *arg;
};

static int wrong(struct err *e, const char *what)
{
	return err_set(e, ERRC_VALIDATION_FAILED, "%s", what);
}

/* A list that the gate would not take stands for every host: handlers must not be passed by. */
static int read_hosts(const struct json *names, char **ret, struct err *e)
{
	auto_buf struct buf out = {0};
	bool all = names->count > GATE_HOOKS_MAX;
	json_each(it, names)
	{
		if (it->type != JSON_T_STRING)
			return wrong(e, "allowHostnames of /egress must be a list of names");
		all |= !it->text.n || it->text.n > NET_RULE_MAX || memchr(it->text.p, ':', it->text.n) ||
		       memchr(it->text.p, '[', it->text.n);
	}
	json_put_tree(&out, names);
	*ret = all ? xstrdup("[\"*\"]") : str_dup(buf_str(&out));
	return 0;
}

static int read_internet(const struct json *internet, struct egress_wish *ret, struct err *e)
{
	if (json_is_null(internet))
		return 0;
	const struct json *enabled = internet->type == JSON_T_OBJECT ? json_get(internet, "enabled") : NULL;
	if (!enabled || enabled->type != JSON_T_BOOL)
		return wrong(e, "internet of /egress must be an object with enabled, true or false");
	ret->has_internet = true;
	ret->internet = enabled->boolean;
	return 0;
}

int egress_read(struct str body, struct egress_wish *ret, struct err *e)
{
	auto_json struct json_doc *doc = json_parse(body, e);
	const struct json *root = doc ? json_root(doc) : NULL;
	uint64_t port = 0;
	*ret = (struct egress_wish){.internet = true};
	if (!root)
		return -1;
	if (root->type != JSON_T_OBJECT)
		return wrong(e, "the body of /egress must be an object");
	const struct json *dns = json_get(root, "dns");
	const struct json *names = dns && dns->type == JSON_T_OBJECT ? json_get(dns, "allowHostnames") : NULL;
	if (json_read_u64(root, "port", 0, 65535, &port, e) < 0 ||
		read_internet(json_get(root, "internet"), ret, e) < 0)
		return -1;
	ret->has_port = !json_is_null(json_get(root, "port"));
	ret->port = (uint16_t)port;
	if ((dns && !json_is_null(dns) && dns->type != JSON_T_OBJECT) ||
		(names && !json_is_null(names) && names->type != JSON_T_ARRAY))
		return wrong(e, "dns of /egress must be an object with a list allowHostnames");
	return names && !json_is_null(names) ? read_hosts(names, &ret->hosts, e) : 0;
}

/* ---- what holds for a container ---- */

static bool has_handlers(const struct container *sidecar)
{
	return sidecar->worker_port && sidecar->worker_hosts && strcmp(sidecar->worker_hosts, "[]") != 0;
}

static const char *wanted_mode(const struct container *sidecar)
{
	if (!sidecar || !container_is_sidecar(sidecar) || !sidecar->offline)
		return "";
	return has_handlers(sidecar) ? "list" : "off";
}

static void set_mode(struct container *app, const char *mode)
{
	if (strcmp(app->mode, mode) == 0)
		return;
	snprintf(app->mode, sizeof app->mode, "%s", mode);
	container_save(app);
}

bool docker_worker_write(struct docker *k, const struct sandbox *s, struct json_writer *w)
{
	const struct container *app = map_get(&k->boxes, str_of(s->id));
	const struct container *sidecar = app ? container_partner(app) : NULL;
	bool asks = sidecar && container_is_sidecar(sidecar) && has_handlers(sidecar);
	json_member_u64(w, "port", asks ? sidecar->worker_port : 0);
	if (!asks)
		return app != NULL;
	json_member_u64(w, "uid", sidecar->uid);
	json_member_bool(w, "internet", !sidecar->offline);
	json_key(w, "http");
	json_raw(w, str_of(sidecar->worker_hosts));
	return true;
}

/* ---- a change ---- */

static void finish(struct egress *g, int status, const char *text)
{
	g->sidecar->egress = NULL;
	if (status != 204)
		log_limited(LOG_WARN, "egress not changed", "name=%s error=%s", LOG_Q(g->sidecar->name), LOG_Q(text));
	if (g->on_done)
		g->on_done(g->arg, status, text);
	container_release(g->sidecar);
	free(g);
}

void egress_forget(struct egress *g)
{
	if (g)
		g->on_done = NULL;
}

static void on_changed(struct container *app, struct daemon_request *r, int status, struct str body)
{
	auto_buf struct buf why = {0};
	struct egress *g = take_ptr(&app->egress);
	(void)r;
	/* 404: the box has ended meanwhile; the next one is made as it was asked for. */
	if (status != 200 && status != 404) {
		bridge_message(body, &why);
		return finish(g, 500, buf_cstr(&why));
	}
	set_mode(app, wanted_mode(g->sidecar));
	finish(g, 204, "");
}

static void change_mode(struct container *app, struct egress *g)
{
	const char *mode = wanted_mode(g->sidecar);
	char body[32];
	if (app->gone || app->state != CONTAINER_RUNNING || (!*mode && !*app->mode)) {
		app->egress = NULL;
		return finish(g, 204, "");
	}
	/* Known before it is done: who asks for the internet later can then give it back. */
	if (*mode)
		set_mode(app, mode);
	snprintf(body, sizeof body, *mode ? "{\"mode\":\"%s\"}" : "{\"mode\":null}", mode);
	docker_ask(app, NULL, "PATCH", "/network", str_of(body), on_changed);
}

static void on_told(struct gate_ack *a)
{
	struct egress *g = container_of(a, struct egress, ack);
	struct container *app = take_ptr(&g->app);
	change_mode(app, g);
	container_release(app);
}

static void on_kept(void *arg, const struct err *e)
{
	struct egress *g = arg;
	struct container *app = container_partner(g->sidecar);
	if (e)
		return finish(g, 500, e->msg);
	if (!app || app == g->sidecar || container_is_sidecar(app))
		return finish(g, 204, "");
	if (app->egress || (app->starting && strcmp(app->mode, wanted_mode(g->sidecar)) != 0))
		return finish(g, 503, "the container is being started; try again");
	const struct sandbox *s = sandbox_find(app->docker->daemon, app->box);
	if (!s)
		return finish(g, 204, "");
	app->egress = g;
	g->app = app;
	g->ack.on_done = on_told;
	container_hold(app);
	gate_client_worker(app->docker->daemon->gate, s, &g->ack);
}

struct egress *egress_change(
	struct container *sidecar, const struct egress_wish *wish, egress_on_done on_done, void *arg)
{
	if (sidecar->egress)
		return NULL;
	struct egress *g = xcalloc(1, sizeof *g);
	*g = (struct egress){.sidecar = sidecar, .on_done = on_done, .arg = arg};
	if (wish->has_internet)
		sidecar->offline = !wish->internet;
	if (wish->has_port)
		sidecar->worker_port = wish->port;
	if (wish->hosts) {
		free(sidecar->worker_hosts);
		sidecar->worker_hosts = xstrdup(wish->hosts);
	}
	sidecar->egress = g;
	container_hold(sidecar);
	container_save_then(sidecar, on_kept, g);
	return g;
}

void egress_write(struct container *c, struct json_writer *w)
{
	snprintf(c->mode, sizeof c->mode, "%s", c->helper ? "off" : wanted_mode(container_partner(c)));
	if (!*c->mode)
		return;
	json_key(w, "network");
	json_object_begin(w);
	json_member_cstr(w, "mode", c->mode);
	json_object_end(w);
}
