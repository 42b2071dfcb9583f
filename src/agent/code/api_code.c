#include <sys/stat.h>

#include "agent/agent.h"
#include "agent/api.h"
#include "agent/code/context.h"
#include "agent/fuse/mounts.h"
#include "agent/limits.h"
#include "agent/request/route.h"
#include "base/clock.h"

/*
 * /api/contexts and /api/interpreter/health: creates, lists and deletes code contexts. api_code_run.c runs code in
 * them.
 */

static const struct http_exchange_ops no_ops;

/* ---- create ---- */

struct creating {
	struct http_exchange *x; /* NULL: the client is gone */
	const struct route *route;
};

static void answer_created(const struct agent_request *r, const struct context *c)
{
	auto_buf struct buf b = {0};
	struct json_writer w = json_writer(&b);
	json_object_begin(&w);
	json_member_bool(&w, "success", true);
	json_member_cstr(&w, "contextId", c->id);
	json_member_cstr(&w, "language", language_name(c->language));
	json_member_cstr(&w, "cwd", c->cwd);
	json_member_now(&w);
	json_object_end(&w);
	agent_request_json(r, buf_str(&b));
}

static void fail_created(const struct agent_request *r, const struct err *e)
{
	if (e->code == ERRC_INTERPRETER_NOT_READY)
		http_respond_header(r->x, STR("Retry-After"), STR(CODE_RETRY_AFTER));
	agent_request_fail(r, e, STR_NULL);
}

static void on_started(void *arg, struct context *c, const struct err *failure)
{
	struct creating *s = arg;
	struct agent_request r = {.x = s->x, .route = s->route};
	if (s->x)
		http_exchange_set(s->x, &no_ops, NULL);
	if (failure && s->x)
		fail_created(&r, failure);
	else if (!failure && s->x)
		answer_created(&r, c);
	else if (!failure)
		context_delete(c, NULL, NULL); /* no client knows its id */
	free(s);
}

static void creator_gone(struct http_exchange *x, bool complete)
{
	(void)complete;
	((struct creating *)http_exchange_arg(x))->x = NULL;
}

/* Upstream's client always names /workspace, also where there is none (alone, or in another image). */
static const char *directory_of(const char *cwd)
{
	struct stat st;
	bool missing = strcmp(cwd, "/workspace") == 0 && !fuse_mounts_on(cwd) && stat(cwd, &st) < 0;
	return missing ? agent.workdir : cwd;
}

static int read_cwd(const struct json *body, const char **ret, struct err *e)
{
	struct stat st;
	const char *cwd = agent.workdir;
	if (json_read_cstr(body, "cwd", &cwd, e) < 0)
		return -1;
	if (*cwd != '/')
		return err_field(e, "cwd", "field 'cwd' must be an absolute path");
	cwd = directory_of(cwd);
	*ret = cwd;
	if (fuse_mounts_on(cwd)) /* its worker enters it, or cannot */
		return 0;
	if (stat(cwd, &st) < 0)
		return err_os(e, errc_from_file_errno(errno), errno, "enter directory %.150s", cwd);
	if (!S_ISDIR(st.st_mode))
		return err_set(e, ERRC_NOT_DIRECTORY, "enter directory %.150s: it is none", cwd);
	return 0;
}

static int read_language(const struct json *body, enum language *ret, struct err *e)
{
	struct str name = STR("python");
	if (json_read_str(body, "language", &name, e) < 0)
		return -1;
	if (!language_of(name, ret))
		return err_field(e, "language", "field 'language' must be python, javascript or typescript");
	return 0;
}

void api_context_create(struct agent_request *r)
{
	static const struct http_exchange_ops ops = {.on_close = creator_gone};
	auto_env struct env env = {0};
	struct context_spec spec = {.env = &env};
	struct err e;
	if (read_language(r->body, &spec.language, &e) < 0 || read_cwd(r->body, &spec.cwd, &e) < 0 ||
		env_read(r->body, "env_vars", &env, &e) < 0 ||
		json_read_u64(r->body, "timeout_ms", 0, CMD_TIMEOUT_MAX, &spec.timeout_ms, &e) < 0)
		return agent_request_refuse(r, &e);
	struct creating *s = xcalloc(1, sizeof *s);
	*s = (struct creating){.x = r->x, .route = r->route};
	if (!context_create(&spec, on_started, s, &e)) {
		free(s);
		return fail_created(r, &e);
	}
	http_exchange_set(r->x, &ops, s);
}

/* ---- list ---- */

static void put_context(struct json_writer *w, const struct context *c)
{
	char iso[CLOCK_ISO_LEN];
	json_object_begin(w);
	json_member_cstr(w, "id", c->id);
	json_member_cstr(w, "language", language_name(c->language));
	json_member_cstr(w, "cwd", c->cwd);
	json_member_cstr(w, "status", context_state_name(c->state));
	json_member_bool(w, "default", c->is_default);
	json_member_u64(w, "waiting", context_waiting(c));
	json_member_cstr(w, "createdAt", clock_iso(c->created_ms, iso));
	json_member_cstr(w, "lastUsed", clock_iso(c->used_ms, iso));
	if (c->worker) {
		json_member_i64(w, "pid", worker_pid(c->worker));
		json_member_bool(w, "preloaded", worker_preloaded(c->worker));
	}
	if (c->state == CONTEXT_ENDED) {
		json_member_cstr(w, "outcome", outcome_name(c->outcome));
		json_member_cstr(w, "reason", c->ended.msg);
	}
	json_object_end(w);
}

void api_context_list(struct agent_request *r)
{
	auto_buf struct buf b = {0};
	struct json_writer w = json_writer(&b);
	json_object_begin(&w);
	json_member_bool(&w, "success", true);
	json_key(&w, "contexts");
	json_array_begin(&w);
	list_each(it, context_all())
	{
		struct context *c = list_entry(it, struct context, node);
		if (c->state != CONTEXT_STARTING)
			put_context(&w, c);
	}
	json_array_end(&w);
	json_member_now(&w);
	json_object_end(&w);
	agent_request_json(r, buf_str(&b));
}

/* ---- delete ---- */

struct deleting {
	struct http_exchange *x; /* NULL: the client is gone */
	const struct route *route;
	char *id;
};

static void on_deleted(void *arg)
{
	struct deleting *d = arg;
	if (d->x) {
		auto_buf struct buf b = {0};
		struct json_writer w = json_writer(&b);
		struct agent_request r = {.x = d->x, .route = d->route};
		http_exchange_set(d->x, &no_ops, NULL);
		json_object_begin(&w);
		json_member_bool(&w, "success", true);
		json_member_cstr(&w, "contextId", d->id);
		json_member_now(&w);
		json_object_end(&w);
		agent_request_json(&r, buf_str(&b));
	}
	free(d->id);
	free(d);
}

static void deleter_gone(struct http_exchange *x, bool complete)
{
	(void)complete;
	((struct deleting *)http_exchange_arg(x))->x = NULL;
}

void api_context_delete(struct agent_request *r)
{
	static const struct http_exchange_ops ops = {.on_close = deleter_gone};
	struct context *c = context_find(r->id);
	struct err e;
	if (!c) {
		err_set(&e, ERRC_CONTEXT_NOT_FOUND, "Context %.*s not found", (int)(r->id.n < 100 ? r->id.n : 100),
			r->id.p);
		return agent_request_fail_about(r, &e, "contextId", r->id);
	}
	struct deleting *d = xcalloc(1, sizeof *d);
	*d = (struct deleting){.x = r->x, .route = r->route, .id = xstrdup(c->id)};
	http_exchange_set(r->x, &ops, d);
	context_delete(c, on_deleted, d);
}

/* ---- health ---- */

void api_interpreter_health(struct agent_request *r)
{
	auto_buf struct buf b = {0};
	struct json_writer w = json_writer(&b);
	json_object_begin(&w);
	json_member_bool(&w, "success", true);
	json_member_cstr(&w, "status", "healthy");
	json_member_now(&w);
	json_object_end(&w);
	agent_request_json(r, buf_str(&b));
}
