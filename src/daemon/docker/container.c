#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "daemon/bridge/bridge.h"
#include "daemon/docker/docker.h"

/* ---- create ---- */

char *docker_env(const struct json *list)
{
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	json_object_begin(&w);
	for (const struct json *n = list ? list->first : NULL; n; n = n->next) {
		struct str value, name = n->type == JSON_T_STRING ? str_split(n->text, '=', &value) : STR_NULL;
		bool last = true;
		for (const struct json *m = n->next; m && name.n; m = m->next)
			last &= !(m->type == JSON_T_STRING && str_starts(m->text, name) && m->text.n > name.n &&
				  m->text.p[name.n] == '=');
		auto_free char *key = str_dup(name);
		if (name.n && name.n < n->text.n && last)
			json_member_str(&w, key, value);
	}
	json_object_end(&w);
	return str_dup(buf_str(&out));
}

static bool is_proxy_image(struct str image)
{
	return memmem(image.p, image.n, "proxy-everything", 16) != NULL;
}

bool docker_name_ok(struct str name)
{
	for (size_t i = 0; i < name.n; i++) {
		unsigned char c = (unsigned char)name.p[i];
		bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
		if (!word && (i == 0 || !strchr("_.-", c)))
			return false;
	}
	return name.n > 0 && name.n <= DOCKER_NAME_MAX;
}

static void answer_created(struct daemon_request *r, const struct container *c)
{
	auto_buf struct buf out = {0};
	buf_printf(&out, "{\"Id\":\"%s\",\"Warnings\":[]}", c->id);
	daemon_request_json(r, 201, buf_str(&out));
}

static void on_swept(struct container *c, struct daemon_request *r, int status, struct str body)
{
	(void)status;
	(void)body;
	if (r)
		answer_created(r, c);
}

static char *json_text(const struct json *v)
{
	auto_buf struct buf out = {0};
	if (!v || v->type != JSON_T_ARRAY || !v->first)
		return NULL;
	json_put_tree(&out, v);
	return str_dup(buf_str(&out));
}

static bool same(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

/*
 * workerd takes the broken connection of a daemon that was killed for the container's end, and creates it again. The
 * box has run on meanwhile: the same container is what was asked for.
 */
static bool claim(struct container *c, const struct json *root)
{
	auto_free char *env = docker_env(json_get(root, "Env"));
	auto_free char *cmd = json_text(json_get(root, "Cmd"));
	struct str image = STR_NULL;
	json_read_str(root, "Image", &image, NULL);
	c->claimed = c->found && str_eq_c(image, c->image) && same(env, c->env) && same(cmd, c->cmd);
	return c->claimed;
}

/* Docker takes a list, or one word as text. */
static void add_words(struct json_writer *w, const struct json *v)
{
	if (v && v->type == JSON_T_STRING)
		json_str(w, v->text);
	json_each(it, v) json_str(w, it->text);
}

/* The program of a helper: its Entrypoint with its Cmd. */
static char *whole_command(const struct json *root)
{
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	json_array_begin(&w);
	add_words(&w, json_get(root, "Entrypoint"));
	add_words(&w, json_get(root, "Cmd"));
	json_array_end(&w);
	return str_dup(buf_str(&out));
}

static void fill(struct container *c, const struct json *root, struct str image, char *volumes)
{
	struct docker *k = c->docker;
	free(c->image);
	c->image = str_dup(image);
	c->volumes = volumes;
	if (!c->helper && is_proxy_image(image))
		return;
	free(c->env);
	c->env = docker_env(json_get(root, "Env"));
	c->cmd = c->helper ? whole_command(root) : json_text(json_get(root, "Cmd"));
	docker_box_name(c);
	map_put(&k->boxes, str_of(c->box), c);
}

/* workerd makes helpers without a name, of the sidecar's image or with volumes alone. */
static bool is_helper(const struct json *root, struct str image, struct str name)
{
	const struct json *host = json_get(root, "HostConfig"), *binds = host ? json_get(host, "Binds") : NULL;
	return !name.n && (is_proxy_image(image) || (binds && binds->type == JSON_T_ARRAY && binds->first));
}

static void name_unnamed(struct buf *name)
{
	char id[65];
	docker_random_id(id);
	if (!buf_size(name))
		buf_printf(name, "unnamed-%.12s", id);
}

static void make(struct docker *k, struct daemon_request *r, uid_t uid, const struct json *root)
{
	auto_buf struct buf name = {0};
	auto_free char *volumes = NULL;
	struct err e = {0};
	struct str image = STR_NULL;
	json_read_str(root, "Image", &image, NULL);
	docker_query(r, "name", &name);
	bool helper = is_helper(root, image, buf_str(&name)), sidecar = is_proxy_image(image) && !helper;
	name_unnamed(&name);
	if (!docker_name_ok(buf_str(&name)))
		return docker_error(r, 400, "a container needs a name of letters, digits, '_', '.' and '-'");
	if (!helper && !sidecar && !docker_image_find(k, uid, image))
		return docker_error(r, 404, "No such image: %.*s", STR_ARG(image));
	if (docker_mounts(k, uid, root, &volumes, &e) < 0)
		return docker_error(r, e.code == ERRC_NOT_FOUND ? 404 : 400, "%s", e.msg);
	struct container *old = container_find(k, uid, buf_str(&name));
	if (old && old->state == CONTAINER_RUNNING && !sidecar && claim(old, root))
		return answer_created(r, old);
	if (old && old->state == CONTAINER_RUNNING)
		return docker_error(r, 409, "Conflict. The container name \"/%s\" is already in use", old->name);
	if (old)
		container_remove(old);
	if (k->containers.count >= DOCKER_CONTAINERS_MAX)
		return docker_error(r, 500, "there are %d containers already", DOCKER_CONTAINERS_MAX);
	struct container *c = container_add(k, uid, buf_str(&name));
	c->helper = helper;
	fill(c, root, image, take_ptr(&volumes));
	container_save(c);
	container_watch_orphan(c);
	if (sidecar)
		return answer_created(r, c);
	/* A box of that name that is left from before goes first. */
	docker_ask(c, r, "DELETE", "", STR_NULL, on_swept);
}

void container_create(struct docker *k, struct daemon_request *r, uid_t uid, struct str body)
{
	auto_json struct json_doc *doc = json_parse(body, NULL);
	const struct json *root = doc ? json_root(doc) : NULL;
	struct str image = STR_NULL;
	if (!root || json_read_str(root, "Image", &image, NULL) < 0 || !image.n)
		return docker_error(r, 400, "the body must be JSON with an Image");
	make(k, r, uid, root);
}

/* ---- looks ---- */

static const char *status_name(const struct container *c)
{
	static const char *const names[] = {"created", "running", "exited"};
	return names[c->state];
}

void container_json(struct daemon_request *r, const struct container *c)
{
	auto_buf struct buf out = {0};
	char iso[CLOCK_ISO_LEN], port[8];
	struct json_writer w = json_writer(&out);
	json_object_begin(&w);
	json_member_cstr(&w, "Id", c->id);
	json_member_cstr(&w, "Created", clock_iso(c->created_ms, iso));
	auto_free char *name = xasprintf("/%s", c->name);
	json_member_cstr(&w, "Name", name);
	json_member_cstr(&w, "Image", c->image);
	json_key(&w, "State");
	json_object_begin(&w);
	json_member_cstr(&w, "Status", status_name(c));
	json_member_bool(&w, "Running", c->state == CONTAINER_RUNNING);
	json_member_i64(&w, "ExitCode", c->code);
	json_object_end(&w);
	json_key(&w, "Config");
	json_object_begin(&w);
	json_member_cstr(&w, "Image", c->image);
	json_object_end(&w);
	json_key(&w, "NetworkSettings");
	json_object_begin(&w);
	json_key(&w, "Ports");
	json_object_begin(&w);
	if (container_is_sidecar(c) && c->ingress) {
		snprintf(port, sizeof port, "%u", ingress_port(c->ingress));
		json_key(&w, "39001/tcp");
		json_array_begin(&w);
		json_object_begin(&w);
		json_member_cstr(&w, "HostIp", "127.0.0.1");
		json_member_cstr(&w, "HostPort", port);
		json_object_end(&w);
		json_array_end(&w);
	}
	json_object_end(&w);
	json_object_end(&w);
	json_object_end(&w);
	daemon_request_json(r, 200, buf_str(&out));
}

/* filters={"ancestor":{"TAG":true}} or {"ancestor":["TAG"]}; no other filter is known. */
static bool passes(const struct container *c, const struct json *filters)
{
	const struct json *ancestor = filters ? json_get(filters, "ancestor") : NULL;
	bool hit = !ancestor;
	json_each(it, ancestor) hit |= str_eq_c(ancestor->type == JSON_T_ARRAY ? it->text : it->key, c->image);
	return hit;
}

void container_list(struct docker *k, struct daemon_request *r, uid_t uid)
{
	auto_buf struct buf out = {0}, text = {0}, all = {0};
	struct json_writer w = json_writer(&out);
	size_t it = 0;
	struct str key;
	void *v;
	docker_query(r, "filters", &text);
	docker_query(r, "all", &all);
	auto_json struct json_doc *doc = buf_size(&text) ? json_parse(buf_str(&text), NULL) : NULL;
	const struct json *filters = doc && json_root(doc)->type == JSON_T_OBJECT ? json_root(doc) : NULL;
	bool every = str_eq_c(buf_str(&all), "1") || str_eq_c(buf_str(&all), "true");
	json_array_begin(&w);
	while (map_next(&k->containers, &it, &key, &v)) {
		struct container *c = v;
		if (c->uid != uid || !passes(c, filters) || (!every && c->state != CONTAINER_RUNNING))
			continue;
		auto_free char *name = xasprintf("/%s", c->name);
		json_object_begin(&w);
		json_member_cstr(&w, "Id", c->id);
		json_key(&w, "Names");
		json_array_begin(&w);
		json_cstr(&w, name);
		json_array_end(&w);
		json_member_cstr(&w, "Image", c->image);
		json_member_cstr(&w, "State", status_name(c));
		json_object_end(&w);
	}
	json_array_end(&w);
	daemon_request_json(r, 200, buf_str(&out));
}

/* ---- end ---- */

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

void container_wait(struct daemon_request *r, struct container *c)
{
	static const struct http_exchange_ops ops = {.on_close = wait_gone};
	auto_buf struct buf condition = {0}, out = {0};
	docker_query(r, "condition", &condition);
	bool removed = str_eq_c(buf_str(&condition), "removed");
	if (c->state != CONTAINER_RUNNING && !removed) {
		buf_printf(&out, "{\"StatusCode\":%d}", c->code);
		return daemon_request_json(r, 200, buf_str(&out));
	}
	struct docker_wait *w = xcalloc(1, sizeof *w);
	*w = (struct docker_wait){.c = c, .r = r, .removed = removed};
	r->docker_wait = w;
	c->found = false;
	list_push(&c->waits, &w->node);
	loop_timer_stop(&c->orphan);
	http_exchange_set(r->x, &ops, r);
}

static bool is_success(int status)
{
	return status >= 200 && status < 300;
}

static void on_stopped(struct container *c, struct daemon_request *r, int status, struct str body)
{
	if (!is_success(status) && status != 404) {
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

static int signal_of(struct str name)
{
	uint64_t n;
	if (str_to_u64(name, 64, &n))
		return (int)n;
	if (str_starts(name, STR("SIG")))
		name = str_skip(name, 3);
	return !name.n || str_eq_c(name, "KILL") ? SIGKILL : SIGTERM;
}

void container_kill(struct daemon_request *r, struct container *c)
{
	auto_buf struct buf name = {0};
	docker_query(r, "signal", &name);
	if (c->state != CONTAINER_RUNNING)
		return docker_error(r, 409, "container %s is not running", c->name);
	int sig = signal_of(buf_str(&name));
	if (container_is_sidecar(c)) {
		container_ended(c, 0);
		ingress_close(take_ptr(&c->ingress));
		return docker_no_content(r, 204);
	}
	c->wanted = sig == SIGKILL ? 137 : 0;
	docker_ask(c, r, sig == SIGKILL ? "DELETE" : "POST", sig == SIGKILL ? "" : "/stop", STR_NULL, on_stopped);
}

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
	if (!is_success(status) && status != 404) {
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
