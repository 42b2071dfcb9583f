#include <stdio.h>
#include <sys/random.h>

#include "agent/agent.h"
#include "agent/api.h"
#include "agent/limits.h"
#include "agent/request/route.h"
#include "agent/shell/session.h"
#include "base/clock.h"

/* session_<ms>_<12 hex>: upstream's form for a session without a name. */
static void generated_id(char *ret, size_t n)
{
	unsigned char r[6] = {0};
	if (getrandom(r, sizeof r, 0) < 0)
		r[0] = 0;
	snprintf(ret, n, "session_%lld_%02x%02x%02x%02x%02x%02x", (long long)clock_wall_ms(), r[0], r[1], r[2], r[3],
		r[4], r[5]);
}

static int read_spec(const struct json *body, struct session_spec *ret, struct err *e)
{
	if (json_read_str(body, "id", &ret->id, e) < 0 || env_read(body, "env", &ret->env, e) < 0 ||
		json_read_cstr(body, "cwd", &ret->cwd, e) < 0 ||
		run_read_ms(body, "commandTimeoutMs", &ret->timeout_ms, e) < 0)
		return -1;
	if (ret->id.n > SESSION_ID_MAX || memchr(ret->id.p ? ret->id.p : "", 0, ret->id.n))
		return err_field(e, "id", "field 'id' must be at most %d bytes without NUL", SESSION_ID_MAX);
	if (session_is_disabled(ret->id))
		return err_field(e, "id", "field 'id': '%.*s' is reserved", STR_ARG(ret->id));
	if (ret->cwd && strlen(ret->cwd) >= AGENT_PATH_MAX)
		return err_field(e, "cwd", "field 'cwd' is longer than %d bytes", AGENT_PATH_MAX - 1);
	return 0;
}

static void put_placement(struct json_writer *w)
{
	json_member_cstr(w, "containerPlacementId", env_get(&agent.env, "CLOUDFLARE_PLACEMENT_ID"));
}

static void fail_exists(struct agent_request *r, const struct err *e, struct str id)
{
	auto_buf struct buf context = {0};
	struct json_writer w = json_writer(&context);
	json_object_begin(&w);
	json_member_str(&w, "sessionId", id);
	put_placement(&w);
	json_object_end(&w);
	agent_request_fail(r, e, buf_str(&context));
}

void agent_request_fail_task(const struct agent_request *r, const struct cmd_result *f, const char *session,
	const char *key, struct str value)
{
	const struct err *e = &f->error;
	if (e->code != ERRC_SESSION_TERMINATED && e->code != ERRC_SESSION_DESTROYED)
		return agent_request_fail_about(r, e, key, value);
	auto_buf struct buf context = {0};
	struct json_writer w = json_writer(&context);
	json_object_begin(&w);
	json_member_cstr(&w, "sessionId", session);
	if (e->code == ERRC_SESSION_TERMINATED)
		json_member_i64(&w, "exitCode", f->exit_code);
	json_object_end(&w);
	agent_request_fail(r, e, buf_str(&context));
}

void api_session_create(struct agent_request *r)
{
	char made[64];
	struct session_spec spec = {0};
	struct err e;
	if (read_spec(r->body, &spec, &e) < 0) {
		env_free(&spec.env);
		return agent_request_refuse(r, &e);
	}
	if (!spec.id.n) {
		generated_id(made, sizeof made);
		spec.id = str_of(made);
	}
	struct session *s = session_create(&spec, &e);
	env_free(&spec.env);
	if (!s)
		return fail_exists(r, &e, spec.id);

	auto_buf struct buf b = {0};
	auto_free char *cwd = session_cwd(s);
	struct json_writer w = json_writer(&b);
	json_object_begin(&w);
	json_member_bool(&w, "success", true);
	json_key(&w, "data");
	json_object_begin(&w);
	json_member_cstr(&w, "id", session_id(s));
	json_member_cstr(&w, "cwd", cwd);
	json_object_end(&w);
	json_member_cstr(&w, "sessionId", session_id(s));
	put_placement(&w);
	json_member_now(&w);
	json_object_end(&w);
	agent_request_json(r, buf_str(&b));
	session_expect_command(s);
}

static void put_id(const struct session *s, void *arg)
{
	json_cstr(arg, session_id(s));
}

void api_session_list(struct agent_request *r)
{
	auto_buf struct buf b = {0};
	struct json_writer w = json_writer(&b);
	json_object_begin(&w);
	json_member_bool(&w, "success", true);
	json_key(&w, "data");
	json_array_begin(&w);
	session_each(put_id, &w);
	json_array_end(&w);
	json_member_now(&w);
	json_object_end(&w);
	agent_request_json(r, buf_str(&b));
}

void api_session_delete(struct agent_request *r)
{
	struct str id = STR_NULL;
	struct err e;
	if (json_read_str(r->body, "sessionId", &id, &e) < 0 || !id.n)
		return agent_request_invalid(r, "sessionId", "field 'sessionId' must name a session");
	struct session *s = session_find(id);
	if (!s) {
		err_set(&e, ERRC_INTERNAL_ERROR, "Session '%.*s' not found", STR_ARG(id));
		return agent_request_fail_about(r, &e, "sessionId", id);
	}
	pty_end(id);
	session_delete(s);
	stream_end_session(id);
	process_end_session(r, id);
}
