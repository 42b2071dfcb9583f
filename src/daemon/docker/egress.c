/*
 * egress.c - PUT /egress of a sidecar: {"port":P,"dns":{"allowHostnames":[…]},"internet":{"enabled":b}}.
 *
 * `internet.enabled` false is the network mode `off` of the container's box, true is the daemon's own mode again. The
 * sidecar's record keeps the wish: workerd tells it before the container is created, and its start makes the box with
 * it. While the container runs, the answer comes after the daemon's API has changed the box's network. A mode that
 * somebody else gave the box stays when the internet is wanted.
 *
 * `port` is where workerd would decide about each connection (Workers' outbound handlers). Boxes do not ask there.
 * Hosts in `dns.allowHostnames` are hosts with a handler: such a request is refused, and the container does not start.
 * Without the refusal connections would pass by a handler that was meant to deny them.
 */
#include <stdio.h>

#include "base/json.h"
#include "base/log.h"
#include "daemon/bridge/bridge.h"
#include "daemon/docker/docker.h"

struct egress {
	struct container *sidecar; /* held */
	bool offline;
	egress_on_done on_done; /* NULL: nobody waits */
	void *arg;
};

static int wrong(struct err *e, const char *what)
{
	return err_set(e, ERRC_VALIDATION_FAILED, "%s", what);
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
	const struct json *internet = json_get(root, "internet"), *dns = json_get(root, "dns");
	const struct json *names = dns && dns->type == JSON_T_OBJECT ? json_get(dns, "allowHostnames") : NULL;
	if (json_read_u64(root, "port", 0, 65535, &port, e) < 0)
		return -1;
	if (!json_is_null(internet)) {
		const struct json *enabled = internet->type == JSON_T_OBJECT ? json_get(internet, "enabled") : NULL;
		if (!enabled || enabled->type != JSON_T_BOOL)
			return wrong(e, "internet of /egress must be an object with enabled, true or false");
		ret->has_internet = true;
		ret->internet = enabled->boolean;
	}
	if ((dns && !json_is_null(dns) && dns->type != JSON_T_OBJECT) ||
		(names && !json_is_null(names) && names->type != JSON_T_ARRAY))
		return wrong(e, "dns of /egress must be an object with a list allowHostnames");
	if (names && !json_is_null(names) && names->first)
		return err_set(e, ERRC_NOT_IMPLEMENTED,
			"outbound handlers of a Worker (outbound, allowedHosts, deniedHosts) do not work with wrangler "
			"dev on "
			"Atoll's Docker socket; use onAtoll, where they do");
	return 0;
}

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
	if (app->offline != g->offline) {
		app->offline = g->offline;
		container_save(app);
	}
	finish(g, 204, "");
}

static void on_kept(void *arg, const struct err *e)
{
	struct egress *g = arg;
	struct container *app = container_partner(g->sidecar);
	if (e)
		return finish(g, 500, e->msg);
	if (!app || app == g->sidecar || container_is_sidecar(app))
		return finish(g, 204, "");
	if (app->egress || (app->starting && app->offline != g->offline))
		return finish(g, 503, "the container is being started; try again");
	if (app->state != CONTAINER_RUNNING || (!g->offline && !app->offline))
		return finish(g, 204, "");
	/* Known before it is done: who asks for the internet later can then give it back. */
	if (g->offline && !app->offline) {
		app->offline = true;
		container_save(app);
	}
	app->egress = g;
	docker_ask(app, NULL, "PATCH", "/network", g->offline ? STR("{\"mode\":\"off\"}") : STR("{\"mode\":null}"),
		on_changed);
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
	g->offline = sidecar->offline;
	sidecar->egress = g;
	container_hold(sidecar);
	container_save_then(sidecar, on_kept, g);
	return g;
}

void egress_write(struct container *c, struct json_writer *w)
{
	const struct container *sidecar = container_partner(c);
	c->offline = sidecar && container_is_sidecar(sidecar) && sidecar->offline;
	if (!c->offline)
		return;
	json_key(w, "network");
	json_object_begin(w);
	json_member_cstr(w, "mode", "off");
	json_object_end(w);
}
