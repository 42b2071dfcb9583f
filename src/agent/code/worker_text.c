/*
 * The JSON of the frames that the agent sends to a worker.
 */
#include <string.h>

#include "agent/code/worker_impl.h"

/* "NAME" alone unsets. */
static void put_env(struct json_writer *j, const struct env *env)
{
	json_key(j, "env");
	json_object_begin(j);
	for (size_t i = 0; i < env->n; i++) {
		struct str value, name = str_split(str_of(env->v[i]), '=', &value);
		auto_free char *key = str_dup(name);
		json_key(j, key);
		if (strchr(env->v[i], '='))
			json_str(j, value);
		else
			json_null(j);
	}
	json_object_end(j);
}

void worker_text_init(struct buf *to, const struct worker_spec *s, bool with_env)
{
	struct json_writer j = json_writer(to);
	json_object_begin(&j);
	json_member_cstr(&j, "language", language_name(s->language));
	json_member_cstr(&j, "cwd", s->cwd);
	json_member_cstr(&j, "context", s->context);
	if (with_env)
		put_env(&j, s->env);
	json_object_end(&j);
}

void worker_text_run(struct buf *to, uint64_t id, struct str code, const struct env *env)
{
	struct json_writer j = json_writer(to);
	json_object_begin(&j);
	json_member_u64(&j, "id", id);
	json_member_str(&j, "code", code);
	if (env->n)
		put_env(&j, env);
	json_object_end(&j);
}
