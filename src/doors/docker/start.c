/*
 * start.c - POST …/start: the sandbox of a container, then its archive. Each step waits for the one before.
 */
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "doors/bridge/bridge.h"
#include "doors/docker/docker.h"

static void on_lonely(struct loop_timer *t)
{
	struct container *c = container_of(t, struct container, orphan);
	if (c->gone || !list_empty(&c->waits))
		return;
	if (c->starting)
		return container_watch_orphan(c);
	if (!container_is_sidecar(c))
		container_reap(c);
	else if (!container_partner(c))
		container_remove(c);
}

void container_watch_orphan(struct container *c)
{
	const struct daemon *d = c->docker->daemon;
	uint64_t ms = container_is_sidecar(c) ? DOCKER_SIDECAR_AFTER : d->config.docker_orphan_ms;
	if (!c->gone && ms && list_empty(&c->waits))
		loop_timer_set(d->loop, &c->orphan, ms, on_lonely);
}

struct saving {
	struct container *c;
	struct daemon_request *r;
	int status;
};

static void on_saved(void *arg, const struct err *e)
{
	struct saving *s = arg;
	if (s->r->x && e)
		docker_error(s->r, 500, "%s", e->msg);
	else if (s->r->x)
		docker_no_content(s->r, s->status);
	daemon_request_release(s->r);
	container_release(s->c);
	free(s);
}

void container_save_answer(struct container *c, struct daemon_request *r, int status)
{
	struct saving *s = xcalloc(1, sizeof *s);
	*s = (struct saving){c, r, status};
	container_hold(c);
	daemon_request_hold(r);
	container_save_then(c, on_saved, s);
}

/* The client is told only when the record is on disk: a daemon that is killed then still knows the container. */
static void started(struct container *c, struct daemon_request *r)
{
	bool is_new = !c->gone && c->state != CONTAINER_RUNNING;
	c->starting = false;
	if (is_new) {
		c->state = CONTAINER_RUNNING;
		c->code = 0;
	}
	container_watch_orphan(c);
	if (r && is_new)
		container_save_answer(c, r, 204);
	else
		container_save(c);
	if (r && !is_new)
		docker_no_content(r, 204);
	if (is_new)
		container_look_at_box(c);
	container_send_late(c);
}

/* What was made of it goes again, unless a container of the same name has it by now. */
static void sweep(struct container *c)
{
	const struct container *now = map_get(&c->docker->boxes, str_of(c->box));
	if (!now || now == c)
		docker_ask(c, NULL, "DELETE", "", STR_NULL, NULL);
}

static void start_failed(struct container *c, struct daemon_request *r, int status, struct str body)
{
	c->starting = false;
	if (r)
		docker_answer_failed(r, status, body);
	container_not_started(c);
	container_send_late(c);
	sweep(c);
}

static void on_unpacked(struct container *c, struct daemon_request *r, int status, struct str body)
{
	auto_buf struct buf why = {0};
	if (archive_failed(status, body, &why))
		return start_failed(c, r, 500, buf_str(&why));
	archive_drop(c);
	started(c, r);
}

static void on_made(struct container *c, struct daemon_request *r, int status, struct str body)
{
	if (status != 201 && status != 200)
		return start_failed(c, r, status, body);
	if (c->gone)
		return start_failed(c, r, 404, STR("the container was removed while it was being started"));
	if (c->archive)
		archive_unpack(c, r, on_unpacked);
	else
		started(c, r);
	if (c->helper && !c->gone)
		helper_run(c);
}

void container_spec(struct container *c, const char *image, struct buf *ret)
{
	struct json_writer w = json_writer(ret);
	json_object_begin(&w);
	json_member_cstr(&w, "image", image);
	json_member_bool(&w, "keepAlive", true);
	json_key(&w, "env");
	json_raw(&w, str_of(c->env));
	/* Else the image's own. */
	if (c->cmd || c->helper) {
		json_key(&w, "command");
		json_raw(&w, str_of(c->helper ? "[]" : c->cmd));
	}
	if (c->volumes) {
		json_key(&w, "volumes");
		json_raw(&w, str_of(c->volumes));
	}
	json_key(&w, "labels");
	json_object_begin(&w);
	json_member_cstr(&w, "docker", c->name);
	json_object_end(&w);
	egress_write(c, &w);
	json_object_end(&w);
}

void container_start(struct daemon_request *r, struct container *c)
{
	auto_buf struct buf out = {0};
	struct err e;
	if (c->state == CONTAINER_RUNNING) {
		int status = c->claimed ? 204 : 304;
		c->claimed = false;
		return docker_no_content(r, status);
	}
	if (c->starting)
		return docker_error(r, 409, "container %s is being started", c->name);
	if (c->archive_path && !c->archive)
		return docker_error(r, 409,
			"the archive of container %s was lost when the daemon restarted; create it again", c->name);
	if (container_is_sidecar(c)) {
		c->ingress = ingress_open(c, 0, &e);
		if (!c->ingress)
			return docker_error(r, 500, "%s", e.msg);
		c->port = ingress_port(c->ingress);
		return started(c, r);
	}
	const struct docker_image *i = docker_image_find(c->docker, c->uid, str_of(c->image));
	if (!i && !c->helper)
		return docker_error(r, 404, "No such image: %s", c->image);
	container_spec(c, i ? i->base : "default", &out);
	c->starting = true;
	docker_ask(c, r, "PUT", "", buf_str(&out), on_made);
}
