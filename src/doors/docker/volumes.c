/*
 * volumes.c - Docker's named volumes are volumes of Atoll (storage/volumes.h) with a record: owner, name, labels. The
 * volume's own name is "docker-" and a hash of owner and name, so the volumes of two users do not collide.
 *
 * The volume is made before its record is written: a kill in between leaves a volume that the next create of the name
 * takes.
 */
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "daemon/route/pieces.h"
#include "doors/docker/docker.h"
#include "store/item.h"

static const char kind_volume[] = "docker-volume";

struct docker_volume {
	struct docker *docker;
	char *key, *name, *labels;
	char id[VOLUME_NAME_MAX + 1]; /* of the volume of Atoll */
	uid_t uid;
	int64_t created_ms;
};

/* ---- table ---- */

static char *key_of(uid_t uid, struct str name)
{
	return xasprintf("%u %.*s", (unsigned)uid, STR_ARG(name));
}

static struct docker_volume *find(struct docker *k, uid_t uid, struct str name)
{
	auto_free char *key = key_of(uid, name);
	return map_get(&k->volumes, str_of(key));
}

static struct docker_volume *volume_new(uid_t uid, struct str name)
{
	struct docker_volume *v = xcalloc(1, sizeof *v);
	unsigned char hash[EVP_MAX_MD_SIZE];
	unsigned n = 0;
	v->key = key_of(uid, name);
	v->name = str_dup(name);
	v->labels = xstrdup("{}");
	v->uid = uid;
	v->created_ms = clock_wall_ms();
	INVARIANT(EVP_Digest(v->key, strlen(v->key), hash, &n, EVP_sha256(), NULL) == 1 && n >= 16);
	int at = snprintf(v->id, sizeof v->id, "docker-");
	for (int i = 0; i < 16; i++)
		at += snprintf(v->id + at, sizeof v->id - (size_t)at, "%02x", hash[i]);
	return v;
}

static void volume_free(struct docker_volume *v)
{
	free(v->key);
	free(v->name);
	free(v->labels);
	free(v);
}

static void volume_save(struct docker *k, const struct docker_volume *v, store_on_done on_done, void *arg)
{
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	json_object_begin(&w);
	json_member_u64(&w, "uid", v->uid);
	json_member_cstr(&w, "name", v->name);
	json_key(&w, "labels");
	json_raw(&w, str_of(v->labels));
	json_object_end(&w);
	struct store_item item = {.kind = kind_volume,
		.key = v->key,
		.sandbox = "",
		.created_ms = v->created_ms,
		.value = buf_cstr(&out)};
	store_item_put(k->daemon->store, &item, on_done, arg);
}

static void set_labels(struct docker_volume *v, char *labels)
{
	if (!labels)
		return;
	free(v->labels);
	v->labels = labels;
}

static int load(void *arg, const struct store_item *item, struct err *e)
{
	struct docker *k = arg;
	auto_json struct json_doc *doc = json_parse(str_of(item->value), e);
	const struct json *root = doc ? json_root(doc) : NULL;
	struct str name = STR_NULL;
	uint64_t uid = 0;
	if (!root || json_read_str(root, "name", &name, e) < 0 ||
		json_read_u64(root, "uid", 0, UINT32_MAX, &uid, e) < 0)
		return err_wrap(e, "docker volume '%s'", item->key);
	struct docker_volume *v = volume_new((uid_t)uid, name);
	set_labels(v, docker_labels(json_get(root, "labels"), NULL));
	v->created_ms = item->created_ms;
	map_put(&k->volumes, str_of(v->key), v);
	return 0;
}

int docker_volumes_load(struct docker *k, struct err *e)
{
	return store_load_items(k->daemon->store, kind_volume, load, k, e);
}

/* ---- looks ---- */

static void write_volume(struct json_writer *w, const struct docker_volume *v)
{
	char iso[CLOCK_ISO_LEN];
	json_object_begin(w);
	json_member_cstr(w, "Name", v->name);
	json_member_cstr(w, "Driver", "local");
	json_member_cstr(w, "Scope", "local");
	json_member_cstr(w, "Mountpoint", "");
	json_member_cstr(w, "CreatedAt", clock_iso(v->created_ms, iso));
	json_key(w, "Labels");
	json_raw(w, str_of(v->labels));
	json_object_end(w);
}

static void answer(struct daemon_request *r, int status, const struct docker_volume *v)
{
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	write_volume(&w, v);
	daemon_request_json(r, status, buf_str(&out));
}

static bool is_part(struct str filter, struct str name)
{
	return filter.n && memmem(name.p, name.n, filter.p, filter.n);
}

static void free_filters(void *filters)
{
	json_free(filters);
}

static void write_wished(struct json_writer *w, const struct daemon_request *r, void *filters, const char *key)
{
	const struct docker_volume *v = map_get(&r->daemon->docker->volumes, str_of(key));
	if (v && docker_filter_any(filters, "name", is_part, str_of(v->name)) &&
		docker_filter_labels(filters, v->labels))
		write_volume(w, v);
}

static void write_warnings(struct json_writer *w, const struct daemon_request *r)
{
	(void)r;
	json_key(w, "Warnings");
	json_array_begin(w);
	json_array_end(w);
}

static void list(struct docker *k, struct daemon_request *r, uid_t uid)
{
	static const char *const known[] = {"label", "name", NULL};
	struct json_doc *filters = NULL;
	size_t it = 0;
	struct str key;
	void *v;
	if (docker_filters_read(r, known, &filters) < 0)
		return;
	struct pieces_list l = {
		.key = "Volumes", .write = write_wished, .tail = write_warnings, .arg = filters, .free = free_filters};
	while (map_next(&k->volumes, &it, &key, &v))
		if (((const struct docker_volume *)v)->uid == uid)
			pieces_list_add(&l, ((const struct docker_volume *)v)->key);
	pieces_list(r, &l);
}

/* ---- create, delete ---- */

struct saving {
	struct daemon_request *r; /* held, or NULL */
	struct docker *docker;
	char *key;
};

/* The client is told when the record is on disk. */
static void on_saved(void *arg, const struct err *e)
{
	struct saving *s = arg;
	const struct docker_volume *v = map_get(&s->docker->volumes, str_of(s->key));
	if (s->r && s->r->x && (e || !v))
		docker_error(s->r, 500, "%s", e ? e->msg : "the volume was removed meanwhile");
	else if (s->r && s->r->x)
		answer(s->r, 201, v);
	if (s->r)
		daemon_request_release(s->r);
	free(s->key);
	free(s);
}

static void on_made(void *arg, struct daemon_request *r, int status, struct str body)
{
	struct docker_volume *v = arg;
	struct docker *k = v->docker;
	bool there = map_get(&k->volumes, str_of(v->key)) != NULL; /* made by another request meanwhile */
	if (status != 200 && status != 201) {
		if (r)
			docker_answer_failed(r, 500, body);
		return volume_free(v);
	}
	struct saving *s = xcalloc(1, sizeof *s);
	*s = (struct saving){r, k, xstrdup(v->key)};
	if (r)
		daemon_request_hold(r);
	if (!there)
		map_put(&k->volumes, str_of(v->key), v);
	volume_save(k, v, on_saved, s);
	if (there)
		volume_free(v);
}

void docker_volume_create(struct docker *k, struct daemon_request *r, uid_t uid, struct str body)
{
	auto_json struct json_doc *doc = json_parse(body, NULL);
	const struct json *root = doc ? json_root(doc) : NULL;
	struct str name = STR_NULL, driver = STR_NULL;
	struct err e = {0};
	char id[65];
	if (!root || root->type != JSON_T_OBJECT || json_read_str(root, "Name", &name, NULL) < 0 ||
		json_read_str(root, "Driver", &driver, NULL) < 0)
		return docker_error(r, 400, "the body must be JSON with a Name");
	if (driver.n && !str_eq_c(driver, "local"))
		return docker_error(r, 400, "Driver '%.*s' is not supported",
			STR_ARG(str_n(driver.p, driver.n < 40 ? driver.n : 40)));
	docker_random_id(id);
	name = name.n ? name : str_of(id);
	if (!docker_name_ok(name))
		return docker_error(r, 400, "a volume needs a name of letters, digits, '_', '.' and '-'");
	struct docker_volume *v = find(k, uid, name);
	if (v)
		return answer(r, 201, v);
	auto_free char *labels = docker_labels(json_get(root, "Labels"), &e);
	if (!labels)
		return docker_error(r, 400, "%s", e.msg);
	v = volume_new(uid, name);
	v->docker = k;
	set_labels(v, take_ptr(&labels));
	auto_free char *target = xasprintf("/v1/volumes/%s", v->id);
	docker_call(k, r, &(struct docker_call){"POST", target, STR_NULL, on_made, v});
}

struct dropping {
	struct docker *docker;
	char *key;
};

static void on_dropped(void *arg, struct daemon_request *r, int status, struct str body)
{
	struct dropping *d = arg;
	struct docker_volume *v = map_get(&d->docker->volumes, str_of(d->key));
	if (v && (status == 200 || status == 404)) {
		map_del(&d->docker->volumes, str_of(v->key));
		store_item_delete(d->docker->daemon->store, kind_volume, v->key, NULL, NULL);
		volume_free(v);
	}
	if (r && (status == 200 || status == 404))
		docker_no_content(r, 204);
	else if (r && status == 409)
		docker_error(r, 409, "the volume is in use");
	else if (r)
		docker_answer_failed(r, 500, body);
	free(d->key);
	free(d);
}

void docker_volume_route(struct docker *k, struct daemon_request *r, uid_t uid, struct str rest)
{
	auto_buf struct buf name = {0};
	struct err e;
	enum http_method m = http_request(r->x)->method;
	if (!rest.n && m == HTTP_M_GET)
		return list(k, r, uid);
	struct docker_volume *v =
		rest.n && http_percent_decode(str_skip(rest, 1), &name, &e) == 0 ? find(k, uid, buf_str(&name)) : NULL;
	if (!v)
		return docker_error(r, 404, "No such volume: %.*s", (int)(rest.n < 100 ? rest.n : 100), rest.p);
	if (m == HTTP_M_GET)
		return answer(r, 200, v);
	if (m != HTTP_M_DELETE)
		return docker_error(r, 404, "page not found");
	struct dropping *d = xcalloc(1, sizeof *d);
	*d = (struct dropping){k, xstrdup(v->key)};
	auto_free char *target = xasprintf("/v1/volumes/%s", v->id);
	docker_call(k, r, &(struct docker_call){"DELETE", target, STR_NULL, on_dropped, d});
}

/* ---- of a container ---- */

static int add_mount(struct docker *k, uid_t uid, struct json_writer *w, struct str name, struct str path,
	bool read_only, struct err *e)
{
	struct docker_volume *v = find(k, uid, name);
	if (name.n && name.p[0] == '/')
		return err_set(e, ERRC_VALIDATION_FAILED, "directories of the host are not mounted; use a volume");
	if (!v)
		return err_set(e, ERRC_NOT_FOUND, "No such volume: %.*s", (int)(name.n < 100 ? name.n : 100), name.p);
	json_object_begin(w);
	json_member_cstr(w, "name", v->id);
	json_member_str(w, "path", path);
	json_member_bool(w, "readOnly", read_only);
	json_object_end(w);
	return 0;
}

static int read_bind(struct docker *k, uid_t uid, struct json_writer *w, const struct json *bind, struct err *e)
{
	struct str path, options = STR_NULL;
	if (bind->type != JSON_T_STRING)
		return err_set(e, ERRC_VALIDATION_FAILED, "Binds must be a list of VOLUME:PATH");
	struct str name = str_split(bind->text, ':', &path);
	path = str_split(path, ':', &options);
	return add_mount(k, uid, w, name, path, str_eq_c(options, "ro"), e);
}

static int read_mount(struct docker *k, uid_t uid, struct json_writer *w, const struct json *mount, struct err *e)
{
	struct str type = STR_NULL, source = STR_NULL, target = STR_NULL;
	bool read_only = false;
	if (mount->type != JSON_T_OBJECT || json_read_str(mount, "Type", &type, e) < 0 ||
		json_read_str(mount, "Source", &source, e) < 0 || json_read_str(mount, "Target", &target, e) < 0 ||
		json_read_bool(mount, "ReadOnly", &read_only, e) < 0 || !str_eq_c(type, "volume"))
		return err_set(e, ERRC_VALIDATION_FAILED, "Mounts must be a list of volumes with Source and Target");
	return add_mount(k, uid, w, source, target, read_only, e);
}

int docker_mounts(struct docker *k, uid_t uid, const struct json *create, char **ret, struct err *e)
{
	const struct json *host = json_get(create, "HostConfig");
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	bool any = false;
	if (!host || host->type != JSON_T_OBJECT)
		return 0;
	json_array_begin(&w);
	json_each(bind, json_get(host, "Binds"))
	{
		any = true;
		if (read_bind(k, uid, &w, bind, e) < 0)
			return -1;
	}
	json_each(mount, json_get(host, "Mounts"))
	{
		any = true;
		if (read_mount(k, uid, &w, mount, e) < 0)
			return -1;
	}
	json_array_end(&w);
	*ret = any ? str_dup(buf_str(&out)) : NULL;
	return 0;
}
