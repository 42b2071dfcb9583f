#include "agent/api.h"
#include "agent/request/route.h"

#include <sys/stat.h>

#include "agent/agent.h"
#include "agent/code/nursery.h"
#include "agent/proc/user.h"
#include "agent/process/service.h"
#include "agent/shell/session.h"
#include "base/str.h"

void api_root(struct agent_request *r)
{
	http_respond(r->x, 200, "text/plain; charset=utf-8", STR("Atoll agent " ATOLL_VERSION "\n"));
}

void api_ping(struct agent_request *r)
{
	auto_buf struct buf b = {0};
	struct json_writer w = json_writer(&b);
	json_object_begin(&w);
	json_member_bool(&w, "success", true);
	json_member_cstr(&w, "status", "healthy");
	json_member_cstr(&w, "message", "pong");
	json_member_now(&w);
	json_object_end(&w);
	agent_request_json(r, buf_str(&b));
}

void api_version(struct agent_request *r)
{
	auto_buf struct buf b = {0};
	const char *version = env_get(&agent.env, "SANDBOX_VERSION");
	struct json_writer w = json_writer(&b);
	json_object_begin(&w);
	json_member_bool(&w, "success", true);
	json_member_cstr(&w, "version", version ? version : "unknown");
	json_member_cstr(&w, "agent", ATOLL_VERSION);
	json_member_now(&w);
	json_object_end(&w);
	agent_request_json(r, buf_str(&b));
}

/* The user's own home, as in Docker, unless the image or the sandbox sets another. */
static int set_user(const char *who, const struct env *change, struct err *e)
{
	if (!who)
		return 0;
	if (box_user_set(who, e) < 0)
		return -1;
	const struct user *user = box_user();
	if (user && !env_get(change, "HOME"))
		env_put(&agent.env, STR("HOME"), *user->home ? str_of(user->home) : STR("/"));
	return 0;
}

void api_env(struct agent_request *r)
{
	auto_env struct env change = {0};
	struct err e;
	bool services = false, custom = false;
	const char *workdir = NULL, *user = NULL;
	if (env_read(r->body, "env", &change, &e) < 0 || json_read_bool(r->body, "services", &services, &e) < 0 ||
		json_read_cstr(r->body, "workdir", &workdir, &e) < 0 ||
		json_read_bool(r->body, "customImage", &custom, &e) < 0 ||
		json_read_cstr(r->body, "user", &user, &e) < 0 || set_user(user, &change, &e) < 0)
		return agent_request_fail(r, &e, STR_NULL);
	env_apply(&agent.env, &change);
	if (custom)
		nursery_allow();
	if (workdir && *workdir == '/') {
		mkdir(workdir, 0755); /* an image may name one that it has not made */
		free(agent.workdir);
		agent.workdir = xstrdup(workdir);
	}
	sessions_env_changed();
	if (services)
		services_start();
	if (service_start_entrypoint(json_get(r->body, "entrypoint"), &e) < 0)
		return agent_request_fail(r, &e, STR_NULL);
	agent_request_json(r, STR("{\"success\":true}"));
}

void api_activity(struct agent_request *r)
{
	auto_buf struct buf b = {0};
	struct json_writer w = json_writer(&b);
	json_object_begin(&w);
	json_member_u64(&w, "commands", tasks_running());
	json_member_u64(&w, "keepAlive", process_keeping_awake());
	json_object_end(&w);
	agent_request_json(r, buf_str(&b));
}

/* Upstream registers this route and answers so. */
void api_commands(struct agent_request *r)
{
	struct err e;
	err_set(&e, ERRC_UNKNOWN_ERROR, "Invalid endpoint");
	agent_request_fail(r, &e, STR_NULL);
}
