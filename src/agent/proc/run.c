#include "agent/proc/run.h"

#include <unistd.h>

#include "agent/agent.h"
#include "agent/limits.h"
#include "agent/proc/plain.h"
#include "base/base64.h"

void run_spec_free(struct run_spec *s)
{
	free(s->text);
	env_free(&s->env);
	free(s->cwd);
	buf_free(&s->input);
	*s = (struct run_spec){0};
}

static int read_command(const struct json *body, struct run_spec *ret, struct err *e)
{
	struct str text = STR_NULL;
	if (json_read_str(body, "command", &text, e) < 0)
		return -1;
	bool blank = true;
	for (size_t i = 0; i < text.n && blank; i++)
		blank = text.p[i] && strchr(" \t\r\n", text.p[i]);
	if (blank)
		return err_set(e, ERRC_INVALID_COMMAND, "the command is empty");
	if (memchr(text.p, 0, text.n))
		return err_set(e, ERRC_INVALID_COMMAND, "the command holds a NUL byte");
	ret->text = str_dup(text);
	ret->command = str_n(ret->text, text.n);
	return 0;
}

static int read_encoding(const struct json *body, const char *key, bool *ret_base64, struct err *e)
{
	struct str s = STR("utf-8");
	if (json_read_str(body, key, &s, e) < 0)
		return -1;
	*ret_base64 = str_eq_c(s, "base64");
	if (*ret_base64 || str_eq_c(s, "utf-8") || str_eq_c(s, "utf8"))
		return 0;
	return err_field(e, key, "field '%s' must be 'utf-8' or 'base64'", key);
}

static int read_input(const struct json *body, struct run_spec *ret, struct err *e)
{
	struct str text = STR_NULL;
	bool base64;
	if (json_read_str(body, "stdin", &text, e) < 0 || read_encoding(body, "stdinEncoding", &base64, e) < 0)
		return -1;
	if (!text.p)
		return 0;
	ret->has_input = true;
	if (!base64) {
		buf_add_str(&ret->input, text);
		return 0;
	}
	struct base64_decoder d = {0};
	if (!base64_decode(&d, text, &ret->input) || !base64_finish(&d))
		return err_field(e, "stdin", "field 'stdin' is not valid base64");
	return 0;
}

int run_read_ms(const struct json *body, const char *key, uint64_t *ret, struct err *e)
{
	double ms = (double)*ret;
	if (json_read_double(body, key, &ms, e) < 0)
		return -1;
	if (ms < 0 || ms > (double)CMD_TIMEOUT_MAX)
		return err_field(e, key, "field '%s' must be between 0 and %llu", key, CMD_TIMEOUT_MAX);
	*ret = (uint64_t)ms + (ms > (double)(uint64_t)ms);
	return 0;
}

int run_spec_read(const struct json *body, int flags, struct run_spec *ret, struct err *e)
{
	const char *cwd = NULL;
	if ((!(flags & RUN_NO_COMMAND) && read_command(body, ret, e) < 0) || env_read(body, "env", &ret->env, e) < 0 ||
		json_read_cstr(body, "cwd", &cwd, e) < 0 || run_read_ms(body, "timeoutMs", &ret->timeout_ms, e) < 0 ||
		read_encoding(body, "encoding", &ret->base64, e) < 0 || read_input(body, ret, e) < 0)
		return -1;
	if (cwd && strlen(cwd) >= AGENT_PATH_MAX)
		return err_field(e, "cwd", "field 'cwd' is longer than %d bytes", AGENT_PATH_MAX - 1);
	if (cwd && *cwd)
		ret->cwd = xstrdup(cwd);
	return 0;
}

struct run_spec run_spec_take(struct run_spec *from)
{
	struct run_spec s = *from;
	*from = (struct run_spec){0};
	return s;
}

/* Adds the variables that bash adds for a program that it starts. */
static void env_like_shell(struct env *env, const char *cwd, const char *program)
{
	env_put(env, STR("PWD"), str_of(cwd));
	env_put(env, STR("SHLVL"), STR("1"));
	env_put(env, STR("_"), str_of(program));
}

/* A command's program, once it is known. */
struct run_program {
	const char *path;
	const char *const *argv;
	const struct run_spec *spec;
	const struct run_place *at;
};

static int start_program(const struct run_program *p, struct cmd **ret, enum spawn_step *ret_step, struct err *e)
{
	struct cmd_spec c = {.path = p->path,
		.argv = p->argv,
		.envp = env_vector(p->at->env),
		.cwd = p->at->cwd,
		.input = p->spec->has_input,
		.timeout_ms = p->spec->timeout_ms,
		.ops = p->at->ops,
		.arg = p->at->arg};
	return cmd_start(agent.loop, &c, ret, ret_step, e);
}

int run_start_plain(const struct run_spec *s, const struct run_place *at, struct cmd **ret, enum spawn_step *ret_step,
	struct err *e)
{
	struct plain p;
	if (!plain_command(s->command, at->env, &p))
		return 1;
	/* A program behind a FUSE server, or one that needs such a program, is for a shell, which can wait for it. */
	if (spawn_waits(*p.path == '/' ? NULL : at->cwd, p.path)) {
		plain_free(&p);
		return 1;
	}
	auto_env struct env full = {0};
	env_apply(&full, at->env);
	env_like_shell(&full, at->cwd, p.path);
	struct run_place place = *at;
	place.env = &full;
	struct run_program program = {.path = p.path, .argv = p.argv, .spec = s, .at = &place};
	int r = start_program(&program, ret, ret_step, e);
	plain_free(&p);
	/* A script without "#!", no permission, gone: bash handles these cases and words the error. */
	return r < 0 && *ret_step == SPAWN_EXEC ? 1 : r;
}

static int start_shell(const struct run_spec *s, const struct run_place *at, struct cmd **ret,
	enum spawn_step *ret_step, struct err *e)
{
	const char *const bash[] = {"bash", "--norc", "--noprofile", "-c", s->text, NULL};
	const char *const sh[] = {"sh", "-c", s->text, NULL};
	struct run_program program = {
		.path = agent.shell ? agent.shell : "/bin/sh", .argv = agent.shell ? bash : sh, .spec = s, .at = at};
	return start_program(&program, ret, ret_step, e);
}

/* Only what ash and dash have built in. The names begin so that a command does not meet them by chance. */
static const char kept_text[] = "__atoll_c=$1; __atoll_f=$2; __atoll_m=$3; shift 3\n"
				"if [ -r \"$__atoll_f\" ]; then . \"$__atoll_f\"; fi\n"
				"case $__atoll_m in *d*) if [ -r \"$__atoll_f.d\" ]; then IFS= read -r __atoll_d < "
				"\"$__atoll_f.d\" && cd \"$__atoll_d\"; fi ;; esac\n"
				"trap '__atoll_r=$?; case $__atoll_m in *s*) export -p > \"$__atoll_f\" ;; esac; "
				"case $__atoll_m in *S*) pwd > \"$__atoll_f.d\" ;; esac; exit $__atoll_r' EXIT\n"
				"eval \"$__atoll_c\"\n";

bool run_has_sh(void)
{
	return access("/bin/sh", X_OK) == 0;
}

int run_start_kept(const struct run_spec *s, const struct run_place *at, const struct run_kept *kept, struct cmd **ret,
	enum spawn_step *ret_step, struct err *e)
{
	const char *const argv[] = {"sh", "-c", kept_text, "sh", s->text, kept->state, kept->mode, NULL};
	struct run_program program = {.path = "/bin/sh", .argv = argv, .spec = s, .at = at};
	return start_program(&program, ret, ret_step, e);
}

int run_start(const struct run_spec *s, const struct run_place *at, struct cmd **ret, enum spawn_step *ret_step,
	struct err *e)
{
	int r = run_start_plain(s, at, ret, ret_step, e);
	if (r != 1)
		return r;
	return start_shell(s, at, ret, ret_step, e);
}

int run_start_argv(const char *const *argv, const struct run_spec *s, const struct run_place *at, struct cmd **ret,
	enum spawn_step *ret_step, struct err *e)
{
	auto_free char *found = plain_program(argv[0], at->env);
	*ret_step = SPAWN_EXEC;
	if (!found)
		return err_os(e, ERRC_COMMAND_NOT_FOUND, ENOENT, "run %s", argv[0]);
	auto_env struct env full = {0};
	env_apply(&full, at->env);
	env_put(&full, STR("PWD"), str_of(at->cwd));
	struct run_place place = *at;
	place.env = &full;
	struct run_program program = {.path = found, .argv = argv, .spec = s, .at = &place};
	return start_program(&program, ret, ret_step, e);
}
