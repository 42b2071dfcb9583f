#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "daemon/route/pieces.h"
#include "doors/docker/docker.h"

/* ---- create ---- */

/* "NAME=…" of a list; empty: it has no name or no value. */
static struct str variable_name(const struct json *n, struct str *ret_value)
{
	struct str name = n->type == JSON_T_STRING ? str_split(n->text, '=', ret_value) : STR_NULL;
	return name.n < n->text.n ? name : STR_NULL;
}

char *docker_env(const struct json *list)
{
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	struct map last = {0}; /* name → its last node */
	struct str value;
	json_each(n, list)
	{
		struct str name = variable_name(n, &value);
		if (name.n)
			map_put(&last, name, (void *)n);
	}
	json_object_begin(&w);
	json_each(n, list)
	{
		struct str name = variable_name(n, &value);
		auto_free char *key = str_dup(name);
		if (name.n && map_get(&last, name) == n)
			json_member_str(&w, key, value);
	}
	json_object_end(&w);
	map_free(&last);
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

/* A box that could not be removed has files and settings of another container. */
static void on_swept(struct container *c, struct daemon_request *r, int status, struct str body)
{
	bool ok = docker_went(status);
	if (!ok && !c->gone)
		container_remove(c);
	if (r && ok)
		answer_created(r, c);
	else if (r)
		docker_answer_failed(r, 500, body);
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
static bool claim(struct container *c, const struct json *root, const char *volumes)
{
	auto_free char *env = docker_env(json_get(root, "Env"));
	auto_free char *cmd = json_text(json_get(root, "Cmd"));
	struct str image = STR_NULL;
	json_read_str(root, "Image", &image, NULL);
	c->claimed = c->found && str_eq_c(image, c->image) && same(env, c->env) && same(cmd, c->cmd) &&
		     same(volumes, c->volumes);
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

static void set_text(char **at, char *text)
{
	free(*at);
	*at = text;
}

static void fill(struct container *c, const struct json *root, struct str image)
{
	struct docker *k = c->docker;
	struct str network = STR_NULL;
	json_read_str(json_get(root, "HostConfig"), "NetworkMode", &network, NULL);
	set_text(&c->image, str_dup(image));
	set_text(&c->network, str_dup(network));
	if (!c->helper && is_proxy_image(image))
		return;
	set_text(&c->env, docker_env(json_get(root, "Env")));
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

/* What a create asks for, beside its body. */
struct wish {
	struct str image, name;
	char *volumes, *labels;
	bool helper, sidecar;
};

/* True: the name is taken, and the request was answered. */
static bool has_conflict(
	struct daemon_request *r, struct container *old, const struct json *root, const struct wish *wish)
{
	if (!old || (old->state != CONTAINER_RUNNING && !old->starting))
		return false;
	if (!wish->sidecar && old->state == CONTAINER_RUNNING && claim(old, root, wish->volumes))
		answer_created(r, old);
	else
		docker_error(r, 409, "Conflict. The container name \"/%s\" is already in use", old->name);
	return true;
}

static void add(struct docker *k, struct daemon_request *r, uid_t uid, const struct json *root, struct wish *wish)
{
	struct container *old = container_find(k, uid, wish->name);
	if (has_conflict(r, old, root, wish))
		return;
	if (old)
		container_remove(old);
	if (k->containers.count >= DOCKER_CONTAINERS_MAX)
		return docker_error(r, 500, "there are %d containers already", DOCKER_CONTAINERS_MAX);
	struct container *c = container_add(k, uid, wish->name);
	c->helper = wish->helper;
	c->volumes = take_ptr(&wish->volumes);
	set_text(&c->labels, take_ptr(&wish->labels));
	fill(c, root, wish->image);
	container_save(c);
	container_watch_orphan(c);
	/* A box of that name that is left from before goes first. */
	if (wish->sidecar || !sandbox_find(k->daemon, c->box))
		return answer_created(r, c);
	docker_destroy(c, r, on_swept);
}

static void make(struct docker *k, struct daemon_request *r, uid_t uid, const struct json *root)
{
	auto_buf struct buf name = {0};
	struct err e = {0};
	struct wish wish = {0};
	json_read_str(root, "Image", &wish.image, NULL);
	docker_query(r, "name", &name);
	wish.helper = is_helper(root, wish.image, buf_str(&name));
	wish.sidecar = is_proxy_image(wish.image) && !wish.helper;
	name_unnamed(&name);
	wish.name = buf_str(&name);
	if (!docker_name_ok(wish.name))
		return docker_error(r, 400, "a container needs a name of letters, digits, '_', '.' and '-'");
	if (!wish.helper && !wish.sidecar && !docker_image_find(k, uid, wish.image))
		return docker_error(r, 404, "No such image: %.*s", STR_ARG(wish.image));
	if (docker_rights_check(root, wish.sidecar, &e) < 0)
		return docker_error(r, 400, "%s", e.msg);
	wish.labels = docker_labels(json_get(root, "Labels"), &e);
	if (!wish.labels || docker_mounts(k, uid, root, &wish.volumes, &e) < 0)
		docker_error(r, e.code == ERRC_NOT_FOUND ? 404 : 400, "%s", e.msg);
	else
		add(k, r, uid, root, &wish);
	free(wish.labels);
	free(wish.volumes);
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

static void write_host_config(struct json_writer *w, const struct container *c)
{
	json_key(w, "HostConfig");
	json_object_begin(w);
	json_member_cstr(w, "NetworkMode", c->network);
	json_object_end(w);
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
	json_key(&w, "Labels");
	json_raw(&w, str_of(c->labels));
	json_object_end(&w);
	write_host_config(&w, c);
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

static bool is_same(struct str filter, struct str value)
{
	return str_eq(filter, value);
}

static bool is_part(struct str filter, struct str value)
{
	return filter.n && memmem(value.p, value.n, filter.p, filter.n);
}

static bool is_prefix(struct str filter, struct str value)
{
	return filter.n && str_starts(value, filter);
}

static bool passes(const struct container *c, const struct json_doc *filters)
{
	return docker_filter_any(filters, "ancestor", is_same, str_of(c->image)) &&
	       docker_filter_any(filters, "name", is_part, str_of(c->name)) &&
	       docker_filter_any(filters, "id", is_prefix, str_of(c->id)) &&
	       docker_filter_any(filters, "status", is_same, str_of(status_name(c))) &&
	       docker_filter_labels(filters, c->labels);
}

static void write_listed(struct json_writer *w, const struct container *c)
{
	auto_free char *name = xasprintf("/%s", c->name);
	json_object_begin(w);
	json_member_cstr(w, "Id", c->id);
	json_key(w, "Names");
	json_array_begin(w);
	json_cstr(w, name);
	json_array_end(w);
	json_member_cstr(w, "Image", c->image);
	json_key(w, "Labels");
	json_raw(w, str_of(c->labels));
	json_member_cstr(w, "State", status_name(c));
	write_host_config(w, c);
	json_object_end(w);
}

struct wish_list {
	bool every; /* not only those that run */
	struct json_doc *filters;
};

static void wish_list_free(void *arg)
{
	struct wish_list *l = arg;
	json_free(l->filters);
	free(l);
}

static void write_wished(struct json_writer *w, const struct daemon_request *r, void *arg, const char *key)
{
	const struct wish_list *l = arg;
	const struct container *c = map_get(&r->daemon->docker->containers, str_of(key));
	if (c && (l->every || c->state == CONTAINER_RUNNING) && passes(c, l->filters))
		write_listed(w, c);
}

void container_list(struct docker *k, struct daemon_request *r, uid_t uid)
{
	static const char *const known[] = {"ancestor", "id", "label", "name", "status", NULL};
	auto_buf struct buf all = {0};
	struct json_doc *filters = NULL;
	size_t it = 0;
	struct str key;
	void *v;
	docker_query(r, "all", &all);
	if (docker_filters_read(r, known, &filters) < 0)
		return;
	struct wish_list *wish = xcalloc(1, sizeof *wish);
	*wish = (struct wish_list){.filters = filters};
	wish->every = str_eq_c(buf_str(&all), "1") || str_eq_c(buf_str(&all), "true") ||
		      (filters && json_get(json_root(filters), "status"));
	struct pieces_list l = {.write = write_wished, .arg = wish, .free = wish_list_free};
	while (map_next(&k->containers, &it, &key, &v))
		if (((const struct container *)v)->uid == uid)
			pieces_list_add(&l, ((const struct container *)v)->key);
	pieces_list(r, &l);
}
