#include "agent/file/archive.h"

#include <string.h>
#include <sys/stat.h>

#include "agent/api.h"
#include "agent/file/path.h"
#include "agent/proc/run.h"
#include "agent/shell/session.h"

enum { TAR_CHANGED = 1 }; /* tar's exit code when a file changed while it was read */

struct archive {
	struct http_exchange *x; /* NULL: the client is gone */
	struct cmd *cmd;	 /* NULL: it has ended */
};

bool archive_wanted(const struct agent_request *r)
{
	auto_buf struct buf mem = {0};
	return str_eq_c(agent_request_query(r, STR("archive"), &mem), "tar");
}

static void on_output(struct cmd *c, int stream, struct str bytes)
{
	struct archive *a = cmd_arg(c);
	if (stream == CMD_STDOUT && !http_respond_write(a->x, bytes))
		cmd_pause(c);
}

static void on_end(struct cmd *c, const struct cmd_result *r)
{
	struct archive *a = cmd_arg(c);
	a->cmd = NULL;
	if (r->outcome == OUTCOME_EXITED && (r->exit_code == 0 || r->exit_code == TAR_CHANGED))
		http_respond_end(a->x);
	else
		http_abort(a->x);
}

static void on_writable(struct http_exchange *x)
{
	struct archive *a = http_exchange_arg(x);
	if (a->cmd)
		cmd_resume(a->cmd);
}

static void on_close(struct http_exchange *x, bool complete)
{
	struct archive *a = http_exchange_arg(x);
	(void)complete;
	if (a->cmd) {
		cmd_kill(a->cmd);
		cmd_abandon(a->cmd);
	}
	free(a);
}

static int start_tar(struct archive *a, const char *path, struct err *e)
{
	static const struct cmd_ops ops = {.on_output = on_output, .on_end = on_end};
	auto_free char *parent = xstrdup(path);
	auto_env struct env env = {0};
	char *slash = strrchr(parent, '/');
	const char *name = slash[1] ? path + (slash - parent) + 1 : ".";
	slash[slash == parent ? 1 : 0] = 0;
	const char *argv[] = {"tar", "-C", parent, "-cf", "-", "--", name, NULL};
	struct run_spec spec = {0};
	struct run_place at = {.env = &env, .cwd = "/", .ops = &ops, .arg = a};
	enum spawn_step step;
	session_env(NULL, &env);
	return run_start_argv(argv, &spec, &at, &a->cmd, &step, e);
}

void archive_send(struct agent_request *r)
{
	static const struct http_exchange_ops ops = {.on_writable = on_writable, .on_close = on_close};
	auto_free char *path = NULL, *shown = NULL;
	struct stat st;
	struct err e;
	if (agent_request_query_path(r, &path, &shown, &e) < 0)
		return agent_request_refuse(r, &e);
	if (stat(path, &st) < 0)
		return agent_request_fail_errno(r, errno, "read", shown);
	if (!S_ISDIR(st.st_mode))
		return agent_request_fail_errno(r, ENOTDIR, "archive", shown);
	struct archive *a = xcalloc(1, sizeof *a);
	a->x = r->x;
	if (start_tar(a, path, &e) < 0) {
		free(a);
		return agent_request_refuse(r, &e);
	}
	http_respond_header(r->x, STR("Content-Type"), STR("application/x-tar"));
	http_exchange_set(r->x, &ops, a);
	http_respond_begin(r->x, 200, HTTP_CHUNKED);
}
