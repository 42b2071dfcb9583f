/*
 * images.c - tags on the Docker socket: names of their user for images of Atoll.
 *
 * atoll-docker builds with `atoll build -t docker-UID/TAG` and pulls with `atoll pull`, then names the result here.
 * Such an image goes from Atoll when no tag stands for it any more. Newer wranglers make a tag for each session and
 * remove none: of the tags of one repository of theirs the newest DOCKER_TAGS_KEPT stay, and those of containers.
 */
#include <string.h>

#include "base/json.h"
#include "doors/bridge/bridge.h"
#include "doors/docker/docker.h"
#include "proto/image.h"

bool docker_image_is_known(struct str ref)
{
	static const char *const prefixes[] = {"docker.io/", "index.docker.io/"};
	static const char *const names[] = {
		"cloudflare/sandbox", "cloudflare/sandbox-test", "cloudflare/proxy-everything"};
	for (size_t i = 0; i < ARRAY_LEN(prefixes); i++)
		if (str_starts(ref, str_of(prefixes[i])))
			ref = str_skip(ref, strlen(prefixes[i]));
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		struct str name = str_of(names[i]);
		if (str_starts(ref, name) && (ref.n == name.n || ref.p[name.n] == ':' || ref.p[name.n] == '@'))
			return true;
	}
	return false;
}

/* `size`: what its layers take, or NULL. */
static void put_json(struct json_writer *w, const struct docker_image *i, const uint64_t *size)
{
	json_object_begin(w);
	json_member_cstr(w, "Id", i->id);
	json_key(w, "RepoTags");
	json_array_begin(w);
	json_cstr(w, i->tag);
	json_array_end(w);
	if (size)
		json_member_u64(w, "Size", *size);
	json_member_cstr(w, "Parent", "");
	json_key(w, "Config");
	json_object_begin(w);
	json_key(w, "ExposedPorts");
	json_raw(w, STR("{\"3000/tcp\":{}}"));
	json_object_end(w);
	json_object_end(w);
}

static void image_json(struct daemon_request *r, int status, const struct docker_image *i)
{
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	put_json(&w, i, NULL);
	daemon_request_json(r, status, buf_str(&out));
}

struct look {
	struct docker *docker;
	char *key;
};

static void on_sized(void *arg, struct daemon_request *r, int status, struct str body)
{
	struct look *l = arg;
	auto_json struct json_doc *doc = status == 200 ? json_parse(body, NULL) : NULL;
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	const struct docker_image *i = map_get(&l->docker->images, str_of(l->key));
	uint64_t size = 0;
	bool known = doc && json_read_u64(json_root(doc), "size", 0, INT64_MAX, &size, NULL) == 0;
	if (r && i && known) {
		put_json(&w, i, &size);
		daemon_request_json(r, 200, buf_str(&out));
	} else if (r && (!i || status == 404)) {
		docker_error(r, 404, "No such image: %s", strchr(l->key, ' ') + 1);
	} else if (r) {
		docker_answer_failed(r, 500, body);
	}
	free(l->key);
	free(l);
}

/* snapshotContainer() tells its caller the size. */
static void inspect(struct docker *k, struct daemon_request *r, const struct docker_image *i)
{
	struct look *l = xcalloc(1, sizeof *l);
	auto_buf struct buf target = {0};
	*l = (struct look){k, xstrdup(i->key)};
	buf_add_c(&target, "/v1/images/");
	bridge_percent_encode(&target, str_of(i->base));
	docker_call(k, r, &(struct docker_call){"GET", buf_cstr(&target), STR_NULL, on_sized, l});
}

static bool is_same(struct str filter, struct str tag)
{
	return str_eq(filter, tag);
}

void docker_image_list(struct docker *k, struct daemon_request *r, uid_t uid)
{
	static const char *const known[] = {"reference", NULL};
	auto_json struct json_doc *filters = NULL;
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	size_t it = 0;
	struct str key;
	void *v;
	if (docker_filters_read(r, known, &filters) < 0)
		return;
	json_array_begin(&w);
	while (map_next(&k->images, &it, &key, &v)) {
		const struct docker_image *i = v;
		if (i->uid == uid && docker_filter_any(filters, "reference", is_same, str_of(i->tag)))
			put_json(&w, i, NULL);
	}
	json_array_end(&w);
	daemon_request_json(r, 200, buf_str(&out));
}

/* ---- away ---- */

static bool base_is_used(struct docker *k, const char *base)
{
	size_t it = 0;
	struct str key;
	void *v;
	while (map_next(&k->images, &it, &key, &v))
		if (strcmp(((struct docker_image *)v)->base, base) == 0)
			return true;
	return false;
}

static void on_removed(void *arg, struct daemon_request *r, int status, struct str body)
{
	(void)arg;
	if (r && status != 200 && status != 404)
		docker_answer_failed(r, status, body);
	else if (r)
		daemon_request_json(r, 200, STR("[]"));
}

/* `r` may be NULL; else it is answered when the image's name has gone too. */
static void remove_image(struct docker *k, struct docker_image *i, struct daemon_request *r)
{
	auto_free char *base = xstrdup(i->base);
	auto_buf struct buf target = {0};
	docker_image_remove(k, i);
	if (!str_starts(str_of(base), STR("docker-")) || base_is_used(k, base))
		return on_removed(NULL, r, 200, STR_NULL);
	buf_add_c(&target, "/v1/images/");
	bridge_percent_encode(&target, str_of(base));
	const struct docker_call call = {.method = "DELETE", .target = buf_cstr(&target), .on_answer = on_removed};
	docker_call(k, r, &call);
}

static bool has_container(struct docker *k, const struct docker_image *i)
{
	size_t it = 0;
	struct str key;
	void *v;
	while (map_next(&k->containers, &it, &key, &v)) {
		const struct container *c = v;
		if (c->uid == i->uid && strcmp(c->image, i->tag) == 0)
			return true;
	}
	return false;
}

static struct str repository(struct str tag)
{
	const char *colon = tag.n ? memrchr(tag.p, ':', tag.n) : NULL;
	return colon ? str_n(tag.p, (size_t)(colon - tag.p)) : tag;
}

static void forget_old_tags(struct docker *k, const struct docker_image *newest)
{
	struct str mine = repository(str_of(newest->tag));
	for (;;) {
		struct docker_image *oldest = NULL;
		size_t it = 0, n = 0;
		struct str key;
		void *v;
		while (map_next(&k->images, &it, &key, &v)) {
			struct docker_image *i = v;
			if (i == newest || i->uid != newest->uid || !str_eq(repository(str_of(i->tag)), mine) ||
				has_container(k, i))
				continue;
			n++;
			oldest = !oldest || i->created_ms < oldest->created_ms ? i : oldest;
		}
		if (n < DOCKER_TAGS_KEPT)
			return;
		remove_image(k, oldest, NULL);
	}
}

/* ---- new names ---- */

static bool tag_ok(struct str tag)
{
	for (size_t i = 0; i < tag.n; i++)
		if (tag.p[i] <= ' ' || tag.p[i] == 0x7f)
			return false;
	return tag.n > 0 && tag.n <= DOCKER_NAME_MAX;
}

/* NULL: refused. */
static struct docker_image *put(struct docker *k, struct daemon_request *r, uid_t uid, struct str tag, const char *base)
{
	if (!tag_ok(tag)) {
		docker_error(r, 400, "the tag is no image name");
		return NULL;
	}
	if (k->images.count >= DOCKER_IMAGES_MAX && !docker_image_find(k, uid, tag)) {
		docker_error(r, 500, "there are %d images already", DOCKER_IMAGES_MAX);
		return NULL;
	}
	auto_free char *copy = xstrdup(base);
	struct docker_image *i = docker_image_put(k, uid, tag);
	free(i->base);
	i->base = take_ptr(&copy);
	docker_image_save(k, i);
	return i;
}

void docker_image_name(struct docker *k, struct daemon_request *r, uid_t uid, struct str body)
{
	auto_json struct json_doc *doc = json_parse(body, NULL);
	const struct json *root = doc ? json_root(doc) : NULL;
	auto_buf struct buf tag = {0};
	const char *image = NULL;
	struct image_ref ref;
	struct err e;
	docker_query(r, "t", &tag);
	if (!root || json_read_cstr(root, "image", &image, NULL) < 0 || !image)
		return docker_error(r, 400, "the body must be an object with an image");
	if (image_ref_parse(str_of(image), &ref, &e) < 0)
		return docker_error(r, 400, "%s", e.msg);
	struct docker_image *i = put(k, r, uid, buf_str(&tag), image);
	if (!i)
		return;
	if (str_starts(buf_str(&tag), STR("cloudflare-dev/")))
		forget_old_tags(k, i);
	image_json(r, 200, i);
}

void docker_image_pull(struct docker *k, struct daemon_request *r, uid_t uid)
{
	auto_buf struct buf name = {0};
	docker_query(r, "fromImage", &name);
	if (!docker_image_is_known(buf_str(&name)) && !docker_image_find(k, uid, buf_str(&name)))
		return docker_error(
			r, 404, "this socket pulls nothing itself: use atoll-docker pull %s", buf_cstr(&name));
	daemon_request_json(r, 200, STR("{\"status\":\"Atoll has it\"}\n"));
}

static void tag_image(struct docker *k, struct daemon_request *r, uid_t uid, struct str from)
{
	auto_buf struct buf to = {0}, tag = {0};
	const struct docker_image *old = docker_image_find(k, uid, from);
	docker_query(r, "repo", &to);
	docker_query(r, "tag", &tag);
	if (buf_size(&tag))
		buf_printf(&to, ":%s", buf_cstr(&tag));
	if (!old && !docker_image_is_known(from))
		return docker_error(r, 404, "No such image: %.*s", STR_ARG(from));
	if (put(k, r, uid, buf_str(&to), old ? old->base : "default"))
		daemon_request_json(r, 201, STR("{}"));
}

void docker_image_route(struct docker *k, struct daemon_request *r, uid_t uid, struct str rest)
{
	auto_buf struct buf ref = {0};
	struct err e;
	const struct http_request *q = http_request(r->x);
	bool json = str_ends(rest, STR("/json")), tags = str_ends(rest, STR("/tag"));
	struct str name = json ? str_n(rest.p, rest.n - 5) : tags ? str_n(rest.p, rest.n - 4) : rest;
	if (http_percent_decode(name, &ref, &e) < 0)
		return docker_error(r, 400, "%s", e.msg);
	if (tags && q->method == HTTP_M_POST)
		return tag_image(k, r, uid, buf_str(&ref));
	struct docker_image *i = docker_image_find(k, uid, buf_str(&ref));
	if (!i)
		return docker_error(r, 404, "No such image: %s", buf_cstr(&ref));
	if (json && q->method == HTTP_M_GET)
		return inspect(k, r, i);
	if (q->method == HTTP_M_DELETE)
		return remove_image(k, i, r);
	docker_error(r, 404, "page not found");
}

/* ---- commit ---- */

struct commit {
	struct docker *docker;
	uid_t uid;
	char *tag, *base;
};

static void on_committed(void *arg, struct daemon_request *r, int status, struct str body)
{
	struct commit *c = arg;
	struct docker_image *i = NULL;
	if (r && status != 201)
		docker_answer_failed(r, status, body);
	else if (r)
		i = put(c->docker, r, c->uid, str_of(c->tag), c->base);
	if (i)
		image_json(r, 201, i);
	free(c->tag);
	free(c->base);
	free(c);
}

void docker_commit(struct docker *k, struct daemon_request *r, uid_t uid)
{
	auto_buf struct buf name = {0}, repo = {0}, tag = {0}, out = {0};
	docker_query(r, "container", &name);
	docker_query(r, "repo", &repo);
	docker_query(r, "tag", &tag);
	struct container *c = container_find(k, uid, buf_str(&name));
	if (!c || !*c->box)
		return docker_error(r, 404, "No such container: %s", buf_cstr(&name));
	if (!tag_ok(buf_str(&repo)))
		return docker_error(r, 400, "repo is no image name");
	if (c->state != CONTAINER_RUNNING)
		return docker_error(r, 409, "container %s is not running", c->name);
	if (buf_size(&tag))
		buf_printf(&repo, ":%s", buf_cstr(&tag));
	struct commit *m = xcalloc(1, sizeof *m);
	*m = (struct commit){.docker = k,
		.uid = uid,
		.tag = str_dup(buf_str(&repo)),
		.base = xasprintf("docker-%u/%s", (unsigned)uid, buf_cstr(&repo))};
	struct json_writer w = json_writer(&out);
	json_object_begin(&w);
	json_member_cstr(&w, "sandbox", c->box);
	json_member_cstr(&w, "name", m->base);
	json_object_end(&w);
	const struct docker_call call = {"POST", "/v1/images/commit", buf_str(&out), on_committed, m};
	docker_call(k, r, &call);
}
