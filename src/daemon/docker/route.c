/*
 * The routes of Docker's Engine API that wrangler, its plugin for Vite, workerd and atoll-docker use.
 */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/json.h"
#include "daemon/docker/docker.h"

static bool peer_uid(struct daemon_request *r, uid_t *ret)
{
	struct ucred cred = {0};
	socklen_t n = sizeof cred;
	if (getsockopt(http_exchange_fd(r->x), SOL_SOCKET, SO_PEERCRED, &cred, &n) < 0)
		return false;
	*ret = cred.uid;
	return true;
}

/* "/v1.47/containers/json" → "/containers/json" */
static struct str without_version(struct str path)
{
	struct str rest;
	if (!str_starts(path, STR("/v1.")))
		return path;
	str_split(str_skip(path, 1), '/', &rest);
	return rest.n ? str_n(rest.p - 1, rest.n + 1) : STR("/");
}

static struct container *find(struct docker *k, struct daemon_request *r, uid_t uid, struct str segment)
{
	auto_buf struct buf name = {0};
	struct err e;
	struct container *c =
		http_percent_decode(segment, &name, &e) < 0 ? NULL : container_find(k, uid, buf_str(&name));
	if (!c)
		docker_error(r, 404, "No such container: %.*s", (int)(segment.n < 100 ? segment.n : 100), segment.p);
	return c;
}

/* ---- images ---- */

/* Repositories whose files are Atoll's default image, or which nothing runs of. */
static bool is_known_reference(struct str ref)
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

static void image_json(struct daemon_request *r, const struct docker_image *i)
{
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	json_object_begin(&w);
	json_member_cstr(&w, "Id", i->id);
	json_key(&w, "RepoTags");
	json_array_begin(&w);
	json_cstr(&w, i->tag);
	json_array_end(&w);
	json_member_u64(&w, "Size", 0);
	json_member_cstr(&w, "Parent", "");
	json_key(&w, "Config");
	json_object_begin(&w);
	json_key(&w, "ExposedPorts");
	json_raw(&w, STR("{\"3000/tcp\":{}}"));
	json_object_end(&w);
	json_object_end(&w);
	daemon_request_json(r, 200, buf_str(&out));
}

static void pull(struct daemon_request *r)
{
	auto_buf struct buf name = {0};
	struct err e;
	http_query_get(http_request(r->x)->query, STR("fromImage"), &name, &e);
	if (!is_known_reference(buf_str(&name)))
		return docker_error(r, 404,
			"Atoll has no image '%s'; cloudflare/sandbox is its default image, others are built from a "
			"Dockerfile",
			buf_cstr(&name));
	daemon_request_json(r, 200, STR("{\"status\":\"Atoll's default image stands for it\"}\n"));
}

static bool tag_ok(struct str tag)
{
	for (size_t i = 0; i < tag.n; i++)
		if (tag.p[i] <= ' ' || tag.p[i] == 0x7f)
			return false;
	return tag.n > 0 && tag.n <= DOCKER_NAME_MAX;
}

static void tag_image(struct docker *k, struct daemon_request *r, uid_t uid, struct str from)
{
	auto_buf struct buf to = {0}, tag = {0};
	struct err e;
	const struct http_request *q = http_request(r->x);
	const struct docker_image *old = docker_image_find(k, uid, from);
	http_query_get(q->query, STR("repo"), &to, &e);
	if (http_query_get(q->query, STR("tag"), &tag, &e) == 1 && buf_size(&tag))
		buf_printf(&to, ":%s", buf_cstr(&tag));
	if (!old && !is_known_reference(from))
		return docker_error(r, 404, "No such image: %.*s", STR_ARG(from));
	if (!tag_ok(buf_str(&to)))
		return docker_error(r, 400, "the new name is no image name");
	struct docker_image *i = docker_image_put(k, uid, buf_str(&to));
	if (old && old != i) {
		free(i->env);
		i->env = xstrdup(old->env);
		i->cmd = old->cmd ? xstrdup(old->cmd) : NULL;
	}
	docker_image_save(k, i);
	daemon_request_json(r, 201, STR("{}"));
}

/* POST /atoll/build?t=TAG {"env":{…},"cmd":[…]}: what atoll-docker has read from a Dockerfile. */
static void build(struct docker *k, struct daemon_request *r, uid_t uid, struct str body)
{
	auto_json struct json_doc *doc = json_parse(body, NULL);
	const struct json *root = doc ? json_root(doc) : NULL, *env = NULL, *cmd = NULL;
	auto_buf struct buf tag = {0}, text = {0};
	struct err e;
	http_query_get(http_request(r->x)->query, STR("t"), &tag, &e);
	if (root && root->type == JSON_T_OBJECT) {
		env = json_get(root, "env");
		cmd = json_get(root, "cmd");
	}
	if (!env || env->type != JSON_T_OBJECT || (cmd && cmd->type != JSON_T_ARRAY))
		return docker_error(r, 400, "the body must be an object with env, and cmd if there is one");
	if (!tag_ok(buf_str(&tag)))
		return docker_error(r, 400, "the tag is no image name");
	if (k->images.count >= DOCKER_IMAGES_MAX && !docker_image_find(k, uid, buf_str(&tag)))
		return docker_error(r, 500, "there are %d images already", DOCKER_IMAGES_MAX);
	struct docker_image *i = docker_image_put(k, uid, buf_str(&tag));
	json_put_tree(&text, env);
	free(i->env);
	i->env = str_dup(buf_str(&text));
	if (cmd && cmd->first) {
		buf_clear(&text);
		json_put_tree(&text, cmd);
		i->cmd = str_dup(buf_str(&text));
	}
	docker_image_save(k, i);
	image_json(r, i);
}

/* The rest of the path is a reference, which has slashes. */
static void on_images(struct docker *k, struct daemon_request *r, uid_t uid, struct str rest)
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
		return image_json(r, i);
	if (q->method == HTTP_M_DELETE) {
		docker_image_remove(k, i);
		return daemon_request_json(r, 200, STR("[]"));
	}
	docker_error(r, 404, "page not found");
}

/* ---- containers ---- */

static void on_container(struct docker *k, struct daemon_request *r, uid_t uid, struct str rest)
{
	enum http_method m = http_request(r->x)->method;
	struct str action, name = str_split(rest, '/', &action);
	struct container *c = find(k, r, uid, name);
	if (!c)
		return;
	if (!action.n && m == HTTP_M_DELETE)
		container_delete(r, c);
	else if (str_eq_c(action, "json") && m == HTTP_M_GET)
		container_json(r, c);
	else if (str_eq_c(action, "start") && m == HTTP_M_POST)
		container_start(r, c);
	else if (str_eq_c(action, "wait") && m == HTTP_M_POST)
		container_wait(r, c);
	else if ((str_eq_c(action, "kill") || str_eq_c(action, "stop")) && m == HTTP_M_POST)
		container_kill(r, c);
	else
		docker_error(r, 404, "page not found: this daemon does not have %.*s of containers", STR_ARG(action));
}

static const char bridge[] =
	"{\"Name\":\"bridge\",\"Driver\":\"bridge\",\"IPAM\":{\"Config\":[{\"Subnet\":\"127.0.0.0/8\","
	"\"Gateway\":\"127.0.0.1\"}]}}";
static const char about[] = "{\"ServerVersion\":\"" ATOLL_VERSION "\",\"Name\":\"atoll\",\"OSType\":\"linux\","
			    "\"SecurityOptions\":[],\"DriverStatus\":[]}";
static const char version[] = "{\"Version\":\"" ATOLL_VERSION "\",\"ApiVersion\":\"1.47\",\"MinAPIVersion\":\"1.24\","
			      "\"Os\":\"linux\",\"Arch\":\"amd64\",\"Platform\":{\"Name\":\"Atoll\"}}";

static void on_whole(struct http_exchange *x, struct str body)
{
	struct daemon_request *r = http_exchange_arg(x);
	struct docker *k = r->daemon->docker;
	struct str path = without_version(http_request(x)->path), rest;
	uid_t uid;
	if (!peer_uid(r, &uid))
		return docker_error(r, 403, "the user at the other end is not known");
	if (str_eq_c(path, "/containers/create"))
		return container_create(k, r, uid, body);
	if (str_eq_c(path, "/atoll/build"))
		return build(k, r, uid, body);
	struct str name = str_split(str_skip(path, strlen("/containers/")), '/', &rest);
	struct container *c = find(k, r, uid, name);
	if (c)
		container_put_archive(r, c, body);
}

/* Bodies of other requests are empty, and read away. */
static void dispatch(struct docker *k, struct daemon_request *r, uid_t uid, struct str path)
{
	static const struct http_exchange_ops whole = {.on_whole_body = on_whole, .on_close = daemon_request_closed};
	enum http_method m = http_request(r->x)->method;
	bool get = m == HTTP_M_GET || m == HTTP_M_HEAD, post = m == HTTP_M_POST;
	bool archive = str_starts(path, STR("/containers/")) && str_ends(path, STR("/archive")) && m == HTTP_M_PUT;
	if ((post && (str_eq_c(path, "/containers/create") || str_eq_c(path, "/atoll/build"))) || archive) {
		http_exchange_set(r->x, &whole, r);
		return http_collect(r->x, DOCKER_BODY_MAX);
	}
	if (get && str_eq_c(path, "/_ping")) {
		http_respond(r->x, 200, "text/plain", STR("OK"));
		return daemon_request_answered(r, 200);
	}
	if (get && str_eq_c(path, "/info"))
		return daemon_request_json(r, 200, str_of(about));
	if (get && str_eq_c(path, "/version"))
		return daemon_request_json(r, 200, str_of(version));
	if (get && str_starts(path, STR("/networks/")))
		return daemon_request_json(r, 200, str_of(bridge));
	if (get && str_eq_c(path, "/volumes"))
		return daemon_request_json(r, 200, STR("{\"Volumes\":[],\"Warnings\":[]}"));
	if (get && str_eq_c(path, "/containers/json"))
		return container_list(k, r, uid);
	if (post && str_eq_c(path, "/images/create"))
		return pull(r);
	if (str_starts(path, STR("/containers/")))
		return on_container(k, r, uid, str_skip(path, strlen("/containers/")));
	if (str_starts(path, STR("/images/")))
		return on_images(k, r, uid, str_skip(path, strlen("/images/")));
	docker_error(r, 404, "page not found");
}

void handle_docker(struct daemon_request *r)
{
	uid_t uid;
	if (!peer_uid(r, &uid))
		return docker_error(r, 403, "the user at the other end is not known");
	dispatch(r->daemon->docker, r, uid, without_version(http_request(r->x)->path));
}
