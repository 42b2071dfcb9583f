#include "agent/shell/session.h"

#include <stdio.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/limits.h"
#include "agent/shell/ahead.h"

static struct map sessions;

/* ---- the table ---- */

struct session *session_find(struct str id)
{
	return map_get(&sessions, id);
}

static struct session *session_add(struct str id)
{
	struct session *s = xcalloc(1, sizeof *s);
	s->id = str_dup(id);
	list_init(&s->queue);
	map_put(&sessions, id, s);
	return s;
}

static int check_room(struct err *e)
{
	if (sessions.count < SESSIONS_MAX)
		return 0;
	return err_set(e, ERRC_LIMIT_REACHED, "there are %d sessions already", SESSIONS_MAX);
}

struct session *session_need(struct str id, struct err *e)
{
	struct session *s = session_find(id);
	if (s)
		return s;
	return check_room(e) < 0 ? NULL : session_add(id);
}

struct session *session_create(struct session_spec *spec, struct err *e)
{
	if (session_find(spec->id)) {
		err_set(e, ERRC_SESSION_ALREADY_EXISTS, "Session '%.*s' already exists", STR_ARG(spec->id));
		return NULL;
	}
	if (check_room(e) < 0)
		return NULL;
	struct session *s = session_add(spec->id);
	s->env = spec->env;
	spec->env = (struct env){0};
	s->cwd = spec->cwd && *spec->cwd ? session_path(NULL, spec->cwd) : NULL;
	s->timeout_ms = spec->timeout_ms;
	return s;
}

void session_each(void (*fn)(const struct session *s, void *arg), void *arg)
{
	size_t it = 0;
	struct str id;
	void *s;
	while (map_next(&sessions, &it, &id, &s))
		fn(s, arg);
}

void session_state_path(const struct session *s, char ret[SESSION_STATE_PATH])
{
	snprintf(ret, SESSION_STATE_PATH, "/dev/shm/.atoll-session-%u", s->kept);
}

static void drop_state(const struct session *s)
{
	char path[SESSION_STATE_PATH + 2];
	if (!s->kept)
		return;
	session_state_path(s, path);
	unlink(path);
	snprintf(path, sizeof path, "/dev/shm/.atoll-session-%u.d", s->kept);
	unlink(path);
}

static void free_session(struct loop_task *t)
{
	struct session *s = container_of(t, struct session, free_task);
	drop_state(s);
	env_free(&s->env);
	free(s->cwd);
	free(s->id);
	free(s);
}

void session_delete(struct session *s)
{
	map_del(&sessions, str_of(s->id));
	s->deleted = true;
	ahead_drop(s);
	if (s->shell)
		shell_close(take_ptr(&s->shell));
	session_fail_all(s);
	loop_defer(agent.loop, &s->free_task, free_session);
}

void session_start_over(struct session *s)
{
	if (s->deleted)
		return;
	if (list_empty(&s->queue) && !s->current)
		return session_delete(s);
	env_free(&s->env);
	free(take_ptr(&s->cwd));
	s->timeout_ms = 0;
	s->had_process = false;
	s->last_status = 0;
}

void sessions_delete_all(void)
{
	for (;;) {
		size_t it = 0;
		struct str id;
		void *s;
		if (!map_next(&sessions, &it, &id, &s))
			return;
		session_delete(s);
	}
}

/* ---- properties ---- */

const char *session_id(const struct session *s)
{
	return s->id;
}

char *session_cwd(const struct session *s)
{
	char *cwd = s->shell ? shell_cwd(s->shell) : NULL;
	return cwd ? cwd : xstrdup(s->cwd ? s->cwd : agent.workdir);
}

void session_env(const struct session *s, struct env *ret)
{
	env_apply(ret, &agent.env);
	if (s)
		env_apply(ret, &s->env);
}

char *session_path(const struct session *s, const char *path)
{
	if (*path == '/')
		return xstrdup(path);
	auto_free char *cwd = s ? session_cwd(s) : xstrdup(agent.workdir);
	return xasprintf("%s/%s", strcmp(cwd, "/") == 0 ? "" : cwd, path);
}

uint64_t session_limit(const struct session *s, uint64_t own)
{
	if (own || !s)
		return own;
	if (s->timeout_ms)
		return s->timeout_ms;
	const char *box = env_get(&agent.env, "COMMAND_TIMEOUT_MS"); /* which may come and go while we run */
	uint64_t ms = 0;
	if (box)
		str_to_u64(str_of(box), CMD_TIMEOUT_MAX, &ms);
	return ms;
}
