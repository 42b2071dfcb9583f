#include "agent/env.h"

#include "agent/limits.h"

static size_t name_len(const char *entry)
{
	const char *eq = strchr(entry, '=');
	return eq ? (size_t)(eq - entry) : strlen(entry);
}

static int compare(struct str name, const char *entry)
{
	size_t n = name_len(entry);
	int c = memcmp(name.p, entry, n < name.n ? n : name.n);
	return c ? c : name.n < n ? -1 : name.n > n;
}

/* Where it is, or would be. True: it is there. */
static bool find(const struct env *env, struct str name, size_t *ret)
{
	size_t from = 0, to = env->n;
	while (from < to) {
		size_t at = from + (to - from) / 2;
		int c = compare(name, env->v[at]);
		if (c == 0) {
			*ret = at;
			return true;
		}
		if (c < 0)
			to = at;
		else
			from = at + 1;
	}
	*ret = from;
	return false;
}

void env_free(struct env *env)
{
	for (size_t i = 0; i < env->n; i++)
		free(env->v[i]);
	free(env->v);
	*env = (struct env){0};
}

/* Takes `entry`. */
static void place(struct env *env, struct str name, char *entry)
{
	size_t at;
	if (find(env, name, &at)) {
		free(env->v[at]);
		env->v[at] = entry;
		return;
	}
	if (env->n + 2 > env->cap) {
		env->cap = env->cap ? env->cap * 2 : 16;
		env->v = xrealloc(env->v, env->cap * sizeof *env->v);
	}
	memmove(env->v + at + 1, env->v + at, (env->n - at) * sizeof *env->v);
	env->v[at] = entry;
	env->v[++env->n] = NULL;
}

void env_put(struct env *env, struct str name, struct str value)
{
	char *entry = xmalloc(name.n + value.n + 2);
	memcpy(entry, name.p, name.n);
	entry[name.n] = '=';
	if (value.n)
		memcpy(entry + name.n + 1, value.p, value.n);
	entry[name.n + 1 + value.n] = 0;
	place(env, name, entry);
}

void env_unset(struct env *env, struct str name)
{
	size_t at;
	if (!find(env, name, &at))
		return;
	free(env->v[at]);
	memmove(env->v + at, env->v + at + 1, (env->n - at) * sizeof *env->v);
	env->n--;
}

const char *env_get(const struct env *env, const char *name)
{
	size_t at;
	if (!find(env, str_of(name), &at))
		return NULL;
	const char *eq = strchr(env->v[at], '=');
	return eq ? eq + 1 : NULL;
}

void env_apply(struct env *env, const struct env *from)
{
	for (size_t i = 0; i < from->n; i++) {
		struct str name = str_n(from->v[i], name_len(from->v[i]));
		if (from->v[i][name.n] == '=')
			place(env, name, xstrdup(from->v[i]));
		else
			env_unset(env, name);
	}
}

void env_apply_raw(struct env *env, const struct env *from)
{
	for (size_t i = 0; i < from->n; i++)
		place(env, str_n(from->v[i], name_len(from->v[i])), xstrdup(from->v[i]));
}

const char *const *env_vector(const struct env *env)
{
	static const char *const none[] = {NULL};
	return env->n ? (const char *const *)env->v : none;
}

void env_import(struct env *env, char *const *v)
{
	for (; *v; v++) {
		struct str name = str_n(*v, name_len(*v));
		if (name.n && (*v)[name.n] == '=')
			place(env, name, xstrdup(*v));
	}
}

bool env_name_ok(struct str name)
{
	for (size_t i = 0; i < name.n; i++) {
		char c = name.p[i];
		bool alpha = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
		if (!alpha && !(i > 0 && c >= '0' && c <= '9'))
			return false;
	}
	return name.n > 0;
}

static int read_one(const struct json *m, const char *key, struct env *ret, struct err *e)
{
	if (!env_name_ok(m->key))
		return err_set(
			e, ERRC_COMMAND_EXECUTION_ERROR, "Invalid environment variable name: %.*s", STR_ARG(m->key));
	if (m->type == JSON_T_NULL) {
		place(ret, m->key, str_dup(m->key));
		return 0;
	}
	if (m->type != JSON_T_STRING)
		return err_field(e, key, "field '%s': %.*s must be a string or null", key, STR_ARG(m->key));
	if (memchr(m->text.p, 0, m->text.n))
		return err_field(e, key, "field '%s': %.*s holds a NUL byte", key, STR_ARG(m->key));
	env_put(ret, m->key, m->text);
	return 0;
}

int env_read(const struct json *object, const char *key, struct env *ret, struct err *e)
{
	const struct json *j = json_get(object, key);
	if (json_is_null(j))
		return 0;
	if (j->type != JSON_T_OBJECT)
		return err_field(e, key, "field '%s' must be an object of strings", key);
	for (const struct json *m = j->first; m; m = m->next) {
		if (ret->n == ENV_VARS_MAX)
			return err_field(e, key, "field '%s' has more than %d variables", key, ENV_VARS_MAX);
		if (read_one(m, key, ret, e) < 0)
			return -1;
	}
	return 0;
}
