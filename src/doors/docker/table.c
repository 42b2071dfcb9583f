#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "doors/docker/docker.h"
#include "store/item.h"

static const char kind_container[] = "container", kind_image[] = "docker-image";

static char *key_of(uid_t uid, struct str name)
{
	return xasprintf("%u %.*s", (unsigned)uid, STR_ARG(name));
}

void docker_random_id(char ret[65])
{
	unsigned char r[32] = {0};
	if (getrandom(r, sizeof r, 0) != (ssize_t)sizeof r)
		abort();
	for (size_t i = 0; i < sizeof r; i++)
		snprintf(ret + 2 * i, 3, "%02x", r[i]);
}

/* ---- containers ---- */

bool container_is_sidecar(const struct container *c)
{
	return !*c->box;
}

/* By name or by id. Names of workerd begin with '/' in some answers of Docker. */
struct container *container_find(struct docker *k, uid_t uid, struct str name)
{
	size_t it = 0;
	struct str key;
	void *v;
	if (name.n && name.p[0] == '/')
		name = str_skip(name, 1);
	auto_free char *want = key_of(uid, name);
	struct container *c = map_get(&k->containers, str_of(want));
	if (c || name.n < 12)
		return c;
	while (map_next(&k->containers, &it, &key, &v)) {
		c = v;
		if (c->uid == uid && str_starts(str_of(c->id), name))
			return c;
	}
	return NULL;
}

struct container *container_partner(const struct container *c)
{
	struct str name = str_of(c->name);
	auto_free char *other =
		str_ends(name, STR("-proxy")) ? str_dup(str_n(name.p, name.n - 6)) : xasprintf("%s-proxy", c->name);
	auto_free char *key = key_of(c->uid, str_of(other));
	return map_get(&c->docker->containers, str_of(key));
}

/* The owner is part of it: two users may have containers of the same name. */
void docker_box_name(struct container *c)
{
	char *ret = c->box;
	unsigned char hash[EVP_MAX_MD_SIZE];
	unsigned n = 0;
	INVARIANT(EVP_Digest(c->key, strlen(c->key), hash, &n, EVP_sha256(), NULL) == 1 && n >= 16);
	int at = snprintf(ret, BOX_ID_MAX + 1, "docker-");
	for (int i = 0; i < 16; i++)
		at += snprintf(ret + at, (size_t)(BOX_ID_MAX + 1 - at), "%02x", hash[i]);
}

struct container *container_add(struct docker *k, uid_t uid, struct str name)
{
	struct container *c = xcalloc(1, sizeof *c);
	c->docker = k;
	c->uid = uid;
	c->name = str_dup(name);
	c->key = key_of(uid, name);
	c->env = xstrdup("{}");
	c->image = xstrdup("");
	c->labels = xstrdup("{}");
	c->network = xstrdup("");
	c->wanted = -1;
	c->created_ms = clock_wall_ms();
	list_init(&c->waits);
	list_init(&c->late);
	docker_random_id(c->id);
	map_put(&k->containers, str_of(c->key), c);
	return c;
}

static void container_free(struct container *c)
{
	loop_timer_stop(&c->orphan);
	ingress_close(c->ingress);
	free(c->key);
	free(c->name);
	free(c->image);
	free(c->env);
	free(c->cmd);
	free(c->archive);
	free(c->archive_path);
	free(c->worker_hosts);
	free(c->volumes);
	free(c->labels);
	free(c->network);
	free(c);
}

void container_hold(struct container *c)
{
	c->held++;
}

void container_release(struct container *c)
{
	INVARIANT(c->held > 0);
	if (--c->held == 0 && c->gone)
		container_free(c);
}

void container_save(struct container *c)
{
	if (!c->gone)
		container_save_then(c, NULL, NULL);
}

void container_save_then(struct container *c, store_on_done on_done, void *arg)
{
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	json_object_begin(&w);
	json_member_u64(&w, "uid", c->uid);
	json_member_cstr(&w, "name", c->name);
	json_member_cstr(&w, "id", c->id);
	json_member_cstr(&w, "image", c->image);
	json_member_cstr(&w, "box", c->box);
	json_key(&w, "env");
	json_raw(&w, str_of(c->env));
	if (c->cmd) {
		json_key(&w, "cmd");
		json_raw(&w, str_of(c->cmd));
	}
	json_member_bool(&w, "helper", c->helper);
	if (c->volumes) {
		json_key(&w, "volumes");
		json_raw(&w, str_of(c->volumes));
	}
	json_key(&w, "labels");
	json_raw(&w, str_of(c->labels));
	json_member_cstr(&w, "network", c->network);
	json_member_u64(&w, "state", (uint64_t)c->state);
	json_member_i64(&w, "code", c->code);
	json_member_u64(&w, "port", c->port);
	json_member_bool(&w, "offline", c->offline);
	json_member_u64(&w, "workerPort", c->worker_port);
	json_member_cstr(&w, "mode", c->mode);
	if (c->worker_hosts) {
		json_key(&w, "workerHosts");
		json_raw(&w, str_of(c->worker_hosts));
	}
	if (c->archive_path)
		json_member_cstr(&w, "archivePath", c->archive_path);
	json_object_end(&w);
	struct store_item item = {.kind = kind_container,
		.key = c->key,
		.sandbox = c->box,
		.created_ms = c->created_ms,
		.value = buf_cstr(&out)};
	store_item_put(c->docker->daemon->store, &item, on_done, arg);
}

static void answer_waits(struct container *c, bool removed)
{
	char json[48];
	snprintf(json, sizeof json, "{\"StatusCode\":%d}", c->code);
	list_each(it, &c->waits)
	{
		struct docker_wait *w = list_entry(it, struct docker_wait, node);
		if (w->removed && !removed)
			continue;
		struct daemon_request *r = w->r;
		list_del(&w->node);
		r->docker_wait = NULL;
		free(w);
		daemon_request_json(r, 200, str_of(json));
	}
}

void container_ended(struct container *c, int code)
{
	if (c->state == CONTAINER_EXITED)
		return;
	c->state = CONTAINER_EXITED;
	c->code = c->wanted >= 0 ? c->wanted : code;
	c->wanted = -1;
	log_event(LOG_INFO, "container ended", "name=%s code=%d", LOG_Q(c->name), c->code);
	answer_waits(c, false);
	container_watch_orphan(c);
	container_save(c);
}

void container_remove(struct container *c)
{
	struct docker *k = c->docker;
	container_hold(c);
	if (c->state == CONTAINER_RUNNING)
		container_ended(c, 137);
	c->gone = true;
	loop_timer_stop(&c->orphan);
	map_del(&k->containers, str_of(c->key));
	docker_execs_forget(k, c->id);
	if (*c->box)
		map_del(&k->boxes, str_of(c->box));
	store_item_delete(k->daemon->store, kind_container, c->key, NULL, NULL);
	ingress_close(take_ptr(&c->ingress));
	answer_waits(c, true);
	container_release(c);
}

void container_not_started(struct container *c)
{
	if (c->gone)
		return;
	c->code = 128;
	answer_waits(c, false);
	container_watch_orphan(c);
	container_save(c);
}

/* The code of a box that has ended; -1: it has not. */
static int code_of(const struct sandbox *s)
{
	int code;
	if (s->state != SB_STOPPED && s->state != SB_DESTROYED)
		return -1;
	if (sscanf(s->reason, "the box's init exited with code %d", &code) == 1)
		return code;
	return sscanf(s->reason, "the box's init was killed by signal %d", &code) == 1 ? 128 + code : 137;
}

void container_look_at_box(struct container *c)
{
	const struct sandbox *s = sandbox_find(c->docker->daemon, c->box);
	int code = s ? code_of(s) : 137;
	if (!container_is_sidecar(c) && c->state == CONTAINER_RUNNING && code >= 0)
		container_ended(c, code);
}

void docker_box_moved(struct docker *k, const struct sandbox *s)
{
	struct container *c = map_get(&k->boxes, str_of(s->id));
	int code = code_of(s);
	if (!c || c->state != CONTAINER_RUNNING || code < 0)
		return;
	/* A stop that the box did not follow: it was killed. */
	if (c->wanted == 0 && strcmp(s->reason, SANDBOX_KILLED) == 0)
		c->wanted = 137;
	container_ended(c, code);
}

/* ---- images ---- */

struct docker_image *docker_image_find(struct docker *k, uid_t uid, struct str tag)
{
	auto_free char *key = key_of(uid, tag);
	return map_get(&k->images, str_of(key));
}

struct docker_image *docker_image_put(struct docker *k, uid_t uid, struct str tag)
{
	struct docker_image *i = docker_image_find(k, uid, tag);
	char id[65];
	if (!i) {
		i = xcalloc(1, sizeof *i);
		i->uid = uid;
		i->tag = str_dup(tag);
		i->key = key_of(uid, tag);
		map_put(&k->images, str_of(i->key), i);
	}
	docker_random_id(id);
	snprintf(i->id, sizeof i->id, "sha256:%s", id);
	i->created_ms = clock_wall_ms();
	free(i->base);
	i->base = xstrdup("default");
	return i;
}

void docker_image_save(struct docker *k, const struct docker_image *i)
{
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	json_object_begin(&w);
	json_member_u64(&w, "uid", i->uid);
	json_member_cstr(&w, "tag", i->tag);
	json_member_cstr(&w, "id", i->id);
	json_member_cstr(&w, "base", i->base);
	json_object_end(&w);
	struct store_item item = {
		.kind = kind_image, .key = i->key, .sandbox = "", .created_ms = i->created_ms, .value = buf_cstr(&out)};
	store_item_put(k->daemon->store, &item, NULL, NULL);
}

void docker_image_remove(struct docker *k, struct docker_image *i)
{
	map_del(&k->images, str_of(i->key));
	store_item_delete(k->daemon->store, kind_image, i->key, NULL, NULL);
	free(i->key);
	free(i->tag);
	free(i->base);
	free(i);
}

/* ---- after a restart ---- */

static char *text_of(const struct json *root, const char *name, enum json_type type)
{
	const struct json *v = json_get(root, name);
	auto_buf struct buf out = {0};
	if (!v || v->type != type)
		return NULL;
	if (type == JSON_T_STRING)
		return str_dup(v->text);
	json_put_tree(&out, v);
	return str_dup(buf_str(&out));
}

static void replace(char **at, char *with)
{
	if (!with)
		return;
	free(*at);
	*at = with;
}

static int load_container(void *arg, const struct store_item *item, struct err *e)
{
	struct docker *k = arg;
	auto_json struct json_doc *doc = json_parse(str_of(item->value), e);
	const struct json *root = doc ? json_root(doc) : NULL;
	struct str name = STR_NULL, id = STR_NULL, box = STR_NULL;
	uint64_t uid = 0, state = 0, port = 0, worker = 0;
	double code = 0;
	const char *mode = "";
	if (!root || json_read_str(root, "name", &name, e) < 0 || json_read_str(root, "id", &id, e) < 0 ||
		json_read_str(root, "box", &box, e) < 0 || json_read_u64(root, "uid", 0, UINT32_MAX, &uid, e) < 0 ||
		json_read_u64(root, "state", 0, CONTAINER_EXITED, &state, e) < 0 ||
		json_read_double(root, "code", &code, e) < 0 || json_read_u64(root, "port", 0, 65535, &port, e) < 0 ||
		json_read_u64(root, "workerPort", 0, 65535, &worker, e) < 0 ||
		json_read_cstr(root, "mode", &mode, e) < 0)
		return err_wrap(e, "container '%s'", item->key);
	const struct json *offline = json_get(root, "offline"), *helper = json_get(root, "helper");
	struct container *c = container_add(k, (uid_t)uid, name);
	snprintf(c->id, sizeof c->id, "%.*s", STR_ARG(id));
	snprintf(c->box, sizeof c->box, "%.*s", STR_ARG(box));
	replace(&c->image, text_of(root, "image", JSON_T_STRING));
	replace(&c->env, text_of(root, "env", JSON_T_OBJECT));
	replace(&c->cmd, text_of(root, "cmd", JSON_T_ARRAY));
	replace(&c->archive_path, text_of(root, "archivePath", JSON_T_STRING));
	replace(&c->volumes, text_of(root, "volumes", JSON_T_ARRAY));
	replace(&c->labels, text_of(root, "labels", JSON_T_OBJECT));
	replace(&c->network, text_of(root, "network", JSON_T_STRING));
	replace(&c->worker_hosts, text_of(root, "workerHosts", JSON_T_ARRAY));
	c->offline = offline && offline->boolean;
	c->helper = helper && helper->boolean;
	c->worker_port = (uint16_t)worker;
	snprintf(c->mode, sizeof c->mode, "%s", mode);
	c->created_ms = item->created_ms;
	c->state = (enum container_state)state;
	c->code = (int)code;
	c->port = (uint16_t)port;
	if (*c->box)
		map_put(&k->boxes, str_of(c->box), c);
	return 0;
}

static int load_image(void *arg, const struct store_item *item, struct err *e)
{
	struct docker *k = arg;
	auto_json struct json_doc *doc = json_parse(str_of(item->value), e);
	const struct json *root = doc ? json_root(doc) : NULL;
	struct str tag = STR_NULL, id = STR_NULL;
	uint64_t uid = 0;
	if (!root || json_read_str(root, "tag", &tag, e) < 0 || json_read_str(root, "id", &id, e) < 0 ||
		json_read_u64(root, "uid", 0, UINT32_MAX, &uid, e) < 0)
		return err_wrap(e, "docker image '%s'", item->key);
	struct docker_image *i = docker_image_put(k, (uid_t)uid, tag);
	snprintf(i->id, sizeof i->id, "%.*s", STR_ARG(id));
	i->created_ms = item->created_ms;
	replace(&i->base, text_of(root, "base", JSON_T_STRING));
	return 0;
}

int docker_load(struct docker *k, struct err *e)
{
	struct store *s = k->daemon->store;
	if (store_load_items(s, kind_container, load_container, k, e) < 0)
		return -1;
	if (store_load_items(s, kind_image, load_image, k, e) < 0)
		return -1;
	return docker_volumes_load(k, e);
}

/* Sandboxes have been compared with the warden's list: a container whose sandbox does not live has ended. */
void docker_start(struct docker *k)
{
	size_t it = 0;
	struct str key;
	void *v;
	struct err e;
	while (map_next(&k->containers, &it, &key, &v)) {
		struct container *c = v;
		container_watch_orphan(c);
		if (c->state != CONTAINER_RUNNING)
			continue;
		if (container_is_sidecar(c)) {
			c->ingress = ingress_open(c, c->port, &e);
			if (!c->ingress)
				log_event(LOG_WARN, "sidecar not opened", "name=%s error=%s", LOG_Q(c->name),
					LOG_Q(e.msg));
			continue;
		}
		struct sandbox *s = sandbox_find(k->daemon, c->box);
		if (!s || (s->state != SB_RUNNING && s->state != SB_ASLEEP))
			container_ended(c, s && code_of(s) >= 0 ? code_of(s) : 137);
		c->found = c->state == CONTAINER_RUNNING;
	}
}

struct docker *docker_new(struct daemon *d)
{
	struct docker *k = xcalloc(1, sizeof *k);
	k->daemon = d;
	list_init(&k->execs_order);
	INVARIANT(http_endpoint_unix(&k->api, str_of(d->config.own_sock), NULL) == 0);
	return k;
}
