#include <stdio.h>
#include <sys/stat.h>

#include "agent/agent.h"
#include "agent/api.h"
#include "agent/file/path.h"
#include "agent/file/replace.h"
#include "agent/limits.h"
#include "agent/proc/run.h"

/*
 * POST /api/rename and /api/move: both are mv. Inside one file system that is one system call. To another file system,
 * cp copies the tree beside its new place (this may take long), a rename puts it in place, and only then rm removes the
 * old tree. After every failure there is one whole copy, and nothing incomplete under the new name.
 */

struct move {
	struct http_exchange *x; /* NULL: the client is gone */
	const struct route *route;
	char *from, *to; /* as given */
	struct buf said;
};

static void move_free(struct move *m)
{
	free(m->from);
	free(m->to);
	buf_free(&m->said);
	free(m);
}

static void on_client_gone(struct http_exchange *x, bool complete)
{
	(void)complete;
	((struct move *)http_exchange_arg(x))->x = NULL;
}

static void on_said(struct cmd *c, int stream, struct str bytes)
{
	struct move *m = cmd_arg(c);
	size_t room = m->said.max - buf_size(&m->said);
	if (stream == CMD_STDERR)
		buf_add(&m->said, bytes.p, bytes.n < room ? bytes.n : room);
}

/* The error code for a message of cp, mv or rm in the C locale. The answer has only the reason: the rest of the line
 * names the temporary file. */
static enum errc code_of_words(struct str *line)
{
	static const struct {
		const char *words;
		int os;
	} known[] = {
		{"No space left on device", ENOSPC},
		{"quota exceeded", EDQUOT},
		{"Read-only file system", EROFS},
		{"Permission denied", EACCES},
		{"Operation not permitted", EPERM},
		{"Directory not empty", ENOTEMPTY},
		{"File exists", EEXIST},
		{"cannot overwrite directory", EISDIR},
		{"cannot overwrite non-directory", ENOTDIR},
		{"Not a directory", ENOTDIR},
		{"resource busy", EBUSY},
		{"No such file or directory", ENOENT},
		{"File name too long", ENAMETOOLONG},
	};
	for (size_t i = 0; i < ARRAY_LEN(known); i++) {
		if (!memmem(line->p, line->n, known[i].words, strlen(known[i].words)))
			continue;
		*line = str_of(known[i].words);
		return errc_from_file_errno(known[i].os);
	}
	return ERRC_FILESYSTEM_ERROR;
}

static void answer_failed(const struct agent_request *r, struct move *m, const struct cmd_result *result)
{
	struct err e;
	struct str words = str_trim(buf_str(&m->said));
	auto_free char *extra = xasprintf("\"exitCode\":%d", result->exit_code);
	if (!words.n)
		words = str_of(outcome_name(result->outcome));
	enum errc code = code_of_words(&words);
	err_set(&e, code, "move to '%.100s': %.*s", m->to, STR_ARG(words));
	agent_request_fail_file(r, &e, m->from, extra);
}

static void on_end(struct cmd *c, const struct cmd_result *result)
{
	static const struct http_exchange_ops no_ops;
	struct move *m = cmd_arg(c);
	if (m->x) {
		struct agent_request r = {.x = m->x, .route = m->route};
		http_exchange_set(m->x, &no_ops, NULL);
		if (result->outcome == OUTCOME_EXITED && result->exit_code == 0)
			agent_request_done(&r, m->from, "newPath", m->to);
		else
			answer_failed(&r, m, result);
	}
	move_free(m);
}

static void copy_across(
	struct agent_request *r, const char *from, const char *to, const char *from_key, const char *to_key)
{
	static const char script[] = "cp -a -- \"$1\" \"$2\" && mv -T -- \"$2\" \"$3\" && rm -rf -- \"$1\" || "
				     "{ s=$?; rm -rf -- \"$2\"; exit $s; }";
	static const struct cmd_ops ops = {.on_output = on_said, .on_end = on_end};
	static const struct http_exchange_ops exchange_ops = {.on_close = on_client_gone}, no_ops;
	auto_free char *dir = path_dirname(to), *name = file_replace_temp_name(false);
	auto_free char *temp = xasprintf("%s/%s", dir, name);
	const char *argv[] = {"sh", "-c", script, "move", from, temp, to, NULL};
	auto_env struct env env = {0};
	struct run_spec spec = {0};
	struct cmd *c;
	enum spawn_step step;
	struct err e;
	struct move *m = xcalloc(1, sizeof *m);
	*m = (struct move){.x = r->x,
		.route = r->route,
		.from = xstrdup(agent_request_given(r, from_key)),
		.to = xstrdup(agent_request_given(r, to_key)),
		.said = {.max = MOVE_SAID_MAX}};
	env_apply(&env, &agent.env);
	env_put(&env, STR("LC_ALL"), STR("C")); /* the code reads English messages */
	http_exchange_set(r->x, &exchange_ops, m);
	struct run_place at = {.env = &env, .cwd = "/", .ops = &ops, .arg = m};
	if (run_start_argv(argv, &spec, &at, &c, &step, &e) == 0)
		return;
	http_exchange_set(r->x, &no_ops, NULL);
	agent_request_fail_file(r, &e, m->from, NULL);
	move_free(m);
}

static bool same_entry(const char *a, const char *b)
{
	auto_free char *dir_a = path_dirname(a), *dir_b = path_dirname(b);
	auto_free char *real_a = realpath(dir_a, NULL), *real_b = realpath(dir_b, NULL);
	return real_a && real_b && strcmp(real_a, real_b) == 0 &&
	       str_eq(path_basename(str_of(a)), path_basename(str_of(b)));
}

/* rename(2) between two names of one file succeeds and changes nothing; mv removes the old name. */
static int rename_file(const char *from, const char *to)
{
	struct stat a, b;
	bool linked = lstat(from, &a) == 0 && lstat(to, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
	if (linked && !S_ISDIR(a.st_mode) && !same_entry(from, to))
		return unlink(from);
	return rename(from, to);
}

static void move(struct agent_request *r, const char *from_key, const char *to_key)
{
	auto_free char *from = NULL, *to = NULL;
	struct err e;
	struct stat st;
	if (agent_request_path(r, from_key, &from, &e) < 0 || agent_request_path(r, to_key, &to, &e) < 0)
		return agent_request_refuse(r, &e);
	if (lstat(from, &st) < 0)
		return agent_request_fail_errno(r, errno, "move", agent_request_given(r, from_key));
	/* As mv: a target that is a directory means into that directory. */
	if (stat(to, &st) == 0 && S_ISDIR(st.st_mode)) {
		char *inside = xasprintf("%s/%.*s", to, STR_ARG(path_basename(str_of(from))));
		free(to);
		to = inside;
	}
	if (rename_file(from, to) == 0)
		return agent_request_done(
			r, agent_request_given(r, from_key), "newPath", agent_request_given(r, to_key));
	if (errno != EXDEV)
		return agent_request_fail_errno(r, errno, "move to", agent_request_given(r, to_key));
	auto_free char *dir = path_dirname(from);
	if (access(dir, W_OK) < 0) /* the old tree could not be removed after the copy */
		return agent_request_fail_errno(r, errno, "move", agent_request_given(r, from_key));
	copy_across(r, from, to, from_key, to_key);
}

void api_rename(struct agent_request *r)
{
	move(r, "oldPath", "newPath");
}

void api_move(struct agent_request *r)
{
	move(r, "sourcePath", "destinationPath");
}
