/*
 * The routes of Docker's Engine API that wrangler, its plugin for Vite, workerd and atoll-docker use.
 */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/json.h"
#include "daemon/route/handlers.h"
#include "doors/docker/docker.h"
#include "proto/image.h"

static bool peer_uid(struct daemon_request *r, uid_t *ret)
{
	struct ucred cred = {0};
	socklen_t n = sizeof cred;
	if (getsockopt(http_exchange_fd(r->x), SOL_SOCKET, SO_PEERCRED, &cred, &n) < 0)
		return false;
	*ret = cred.uid;
	return true;
}

struct str docker_path(struct daemon_request *r)
{
	struct str rest, path = http_request(r->x)->path;
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

struct container *docker_container_of(struct daemon_request *r)
{
	struct str rest, name = str_split(str_skip(docker_path(r), strlen("/containers/")), '/', &rest);
	uid_t uid;
	if (peer_uid(r, &uid))
		return find(r->daemon->docker, r, uid, name);
	docker_error(r, 403, "the user at the other end is not known");
	return NULL;
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
	else if (str_eq_c(action, "kill") && m == HTTP_M_POST)
		container_kill(r, c);
	else if (str_eq_c(action, "stop") && m == HTTP_M_POST)
		container_stop(r, c);
	else if (str_eq_c(action, "archive") && (m == HTTP_M_GET || m == HTTP_M_HEAD))
		container_get_archive(r, c);
	else if (str_eq_c(action, "archive") && m == HTTP_M_PUT)
		container_put_archive(r, c);
	else
		docker_error(r, 404, "page not found: this daemon does not have %.*s of containers", STR_ARG(action));
}

static const char bridge[] =
	"{\"Name\":\"bridge\",\"Driver\":\"bridge\",\"IPAM\":{\"Config\":[{\"Subnet\":\"127.0.0.0/8\","
	"\"Gateway\":\"127.0.0.1\"}]}}";
static const char about[] = "{\"ServerVersion\":\"" ATOLL_VERSION "\",\"Name\":\"atoll\",\"OSType\":\"linux\","
			    "\"SecurityOptions\":[],\"DriverStatus\":[]}";
static const char version[] = "{\"Version\":\"" ATOLL_VERSION "\",\"ApiVersion\":\"1.47\",\"MinAPIVersion\":\"1.24\","
			      "\"Os\":\"linux\",\"Arch\":\"" IMAGE_PROCESSOR "\",\"Platform\":{\"Name\":\"Atoll\"}}";

static void on_whole(struct http_exchange *x, struct str body)
{
	struct daemon_request *r = http_exchange_arg(x);
	struct docker *k = r->daemon->docker;
	struct str path = docker_path(r);
	uid_t uid;
	if (!peer_uid(r, &uid))
		return docker_error(r, 403, "the user at the other end is not known");
	if (str_eq_c(path, "/containers/create"))
		return container_create(k, r, uid, body);
	if (str_eq_c(path, "/atoll/images"))
		return docker_image_name(k, r, uid, body);
	if (str_eq_c(path, "/volumes/create"))
		return docker_volume_create(k, r, uid, body);
	struct container *c = docker_container_of(r);
	if (c)
		exec_create(r, c, body);
}

/* Bodies of other requests are empty, and read away. */
static void dispatch(struct docker *k, struct daemon_request *r, uid_t uid, struct str path)
{
	static const struct http_exchange_ops whole = {.on_whole_body = on_whole, .on_close = daemon_request_closed};
	enum http_method m = http_request(r->x)->method;
	bool get = m == HTTP_M_GET || m == HTTP_M_HEAD, post = m == HTTP_M_POST;
	bool exec = str_starts(path, STR("/containers/")) && str_ends(path, STR("/exec")) && post;
	bool create = str_eq_c(path, "/containers/create") || str_eq_c(path, "/volumes/create");
	if ((post && (create || str_eq_c(path, "/atoll/images"))) || exec) {
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
	if (get && str_eq_c(path, "/networks/bridge"))
		return daemon_request_json(r, 200, str_of(bridge));
	if (get && str_eq_c(path, "/containers/json"))
		return container_list(k, r, uid);
	if (get && str_eq_c(path, "/images/json"))
		return docker_image_list(k, r, uid);
	if (post && str_eq_c(path, "/images/create"))
		return docker_image_pull(k, r, uid);
	if (post && str_eq_c(path, "/commit"))
		return docker_commit(k, r, uid);
	if (str_starts(path, STR("/containers/")))
		return on_container(k, r, uid, str_skip(path, strlen("/containers/")));
	if (str_eq_c(path, "/volumes") || str_starts(path, STR("/volumes/")))
		return docker_volume_route(k, r, uid, str_skip(path, strlen("/volumes")));
	if (str_starts(path, STR("/exec/")))
		return docker_exec_route(k, r, uid, str_skip(path, strlen("/exec/")));
	if (str_starts(path, STR("/images/")))
		return docker_image_route(k, r, uid, str_skip(path, strlen("/images/")));
	docker_error(r, 404, "page not found");
}

/* A parameter that cannot be read would count as missing: a signal as SIGKILL, a filter as none. */
static bool query_ok(struct daemon_request *r)
{
	auto_buf struct buf decoded = {0};
	struct err e;
	if (http_percent_decode(http_request(r->x)->query, &decoded, &e) == 0)
		return true;
	docker_error(r, 400, "the query cannot be read: %s", e.msg);
	return false;
}

void handle_docker(struct daemon_request *r)
{
	uid_t uid;
	if (!peer_uid(r, &uid))
		return docker_error(r, 403, "the user at the other end is not known");
	if (!query_ok(r))
		return;
	dispatch(r->daemon->docker, r, uid, docker_path(r));
}
