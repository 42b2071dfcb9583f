#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "agent/agent.h"
#include "agent/api.h"
#include "agent/file/path.h"
#include "agent/fuse/mounts.h"
#include "agent/git/git.h"
#include "agent/limits.h"
#include "agent/proc/run.h"
#include "agent/shell/session.h"
#include "base/fd.h"
#include "http/http.h"
#include "proto/limits.h"

/*
 * POST /api/git/checkout: git clone, in the box. A clone that fails removes every directory that it made, and leaves a
 * target that was empty before empty.
 */

enum target { TARGET_NEW, TARGET_EMPTY, TARGET_TAKEN };

struct checkout {
	struct http_exchange *x; /* NULL: the client is gone */
	const struct route *route;
	struct git_url url;
	char *branch;
	char *dir;   /* the target, absolute */
	char *given; /* the target as the client wrote it */
	struct env env;
	uint64_t depth, timeout_ms;
	enum target target;
	size_t there;	 /* TARGET_NEW: length of the part of `dir` that existed before */
	struct buf said; /* the end of git's stderr */
	enum errc code;	 /* why the clone failed, while its rest is being removed */
	int exit_code;
	char *message;
};

static void checkout_free(struct checkout *c)
{
	git_url_free(&c->url);
	free(c->branch);
	free(c->dir);
	free(c->given);
	env_free(&c->env);
	free(c->message);
	buf_free(&c->said);
	free(c);
}

static void checkout_close(struct http_exchange *x, bool complete)
{
	(void)complete;
	((struct checkout *)http_exchange_arg(x))->x = NULL;
}

static void on_said(struct cmd *cmd, int stream, struct str bytes)
{
	struct checkout *c = cmd_arg(cmd);
	if (stream != CMD_STDERR)
		return;
	if (bytes.n > GIT_SAID_MAX)
		bytes = str_skip(bytes, bytes.n - GIT_SAID_MAX);
	size_t total = buf_size(&c->said) + bytes.n;
	if (total > GIT_SAID_MAX)
		buf_consume(&c->said, total - GIT_SAID_MAX);
	buf_add_str(&c->said, bytes);
}

/* ---- answers ---- */

static const struct http_exchange_ops no_ops;

static void answer_failed(struct checkout *c)
{
	if (c->x) {
		auto_buf struct buf context = {0};
		struct agent_request r = {.x = c->x, .route = c->route};
		struct err e;
		struct json_writer w = json_writer(&context);
		json_object_begin(&w);
		json_member_cstr(&w, "repository", c->url.shown);
		if (c->branch)
			json_member_cstr(&w, "branch", c->branch);
		json_member_cstr(&w, "targetDir", c->given);
		json_member_i64(&w, "exitCode", c->exit_code);
		json_member_str(&w, "stderr", buf_str(&c->said));
		json_object_end(&w);
		err_set(&e, c->code, "%s", c->message);
		http_exchange_set(c->x, &no_ops, NULL);
		agent_request_fail(&r, &e, buf_str(&context));
	}
	checkout_free(c);
}

/* The branch that HEAD of the clone names. For a detached HEAD (a tag) it is the requested name, as upstream. */
static char *branch_of(const struct checkout *c)
{
	auto_free char *head = xasprintf("%s/.git/HEAD", c->dir);
	auto_fd int fd = path_open_regular(head, O_RDONLY);
	char raw[512];
	ssize_t n = fd < 0 ? 0 : fd_read_full(fd, raw, sizeof raw);
	struct str s = str_n(raw, n > 0 ? (size_t)n : 0);
	if (!str_starts(s, STR("ref: refs/heads/")))
		return xstrdup(c->branch ? c->branch : "unknown");
	struct str rest, name = str_split(str_skip(s, 16), '\n', &rest);
	return str_dup(name);
}

static void answer_done(struct checkout *c)
{
	if (c->x) {
		auto_free char *branch = branch_of(c);
		auto_buf struct buf b = {0};
		struct agent_request r = {.x = c->x, .route = c->route};
		struct json_writer w = json_writer(&b);
		json_object_begin(&w);
		json_member_bool(&w, "success", true);
		json_member_cstr(&w, "repoUrl", c->url.shown);
		json_member_cstr(&w, "branch", branch);
		json_member_cstr(&w, "targetDir", c->given);
		json_member_now(&w);
		json_object_end(&w);
		http_exchange_set(c->x, &no_ops, NULL);
		agent_request_json(&r, buf_str(&b));
	}
	checkout_free(c);
}

/* ---- after git ---- */

/* Also removes parent directories that git made for its target, unless they have other entries by now. */
static void remove_leading(const struct checkout *c)
{
	auto_free char *at = xstrdup(c->dir);
	for (char *slash; (slash = strrchr(at, '/')) && (size_t)(slash - at) > c->there;) {
		*slash = 0;
		if (rmdir(at) < 0 && errno != ENOENT)
			return;
	}
}

static void on_removed(struct cmd *cmd, const struct cmd_result *r)
{
	(void)r;
	struct checkout *c = cmd_arg(cmd);
	if (c->target == TARGET_NEW)
		remove_leading(c);
	answer_failed(c);
}

static void on_ignored(struct cmd *cmd, int stream, struct str bytes)
{
	(void)cmd;
	(void)stream;
	(void)bytes;
}

/* git cleans up after itself unless it was killed. Remove its rest before the answer. */
static void fail_and_remove(struct checkout *c, enum errc code, char *message)
{
	static const struct cmd_ops ops = {.on_output = on_ignored, .on_end = on_removed};
	const char *remove[] = {"rm", "-rf", "--", c->dir, NULL};
	const char *empty[] = {"find", "-H", c->dir, "-mindepth", "1", "-delete", NULL};
	struct run_spec spec = {0};
	struct cmd *cmd;
	enum spawn_step step;
	struct err e;
	c->code = code;
	c->message = message;
	struct run_place at = {.env = &agent.env, .cwd = "/", .ops = &ops, .arg = c};
	if (c->target == TARGET_TAKEN ||
		run_start_argv(c->target == TARGET_NEW ? remove : empty, &spec, &at, &cmd, &step, &e) < 0)
		answer_failed(c);
}

/* The line with the reason: git's last "fatal:" line, or its last line. */
static struct str last_words(struct str said)
{
	struct str best = STR_NULL;
	while (said.n) {
		struct str line = str_trim(str_split(said, '\n', &said));
		bool fatal = str_starts(line, STR("fatal:"));
		if (line.n && (fatal || !str_starts(best, STR("fatal:"))))
			best = line;
	}
	return best;
}

static void on_cloned(struct cmd *cmd, const struct cmd_result *r)
{
	struct checkout *c = cmd_arg(cmd);
	c->exit_code = r->outcome == OUTCOME_TIMEOUT ? 124 : r->exit_code; /* as timeout(1) says it */
	enum errc code = git_error_code(buf_str(&c->said));
	git_redact(&c->url, &c->said);
	if (r->outcome == OUTCOME_EXITED && r->exit_code == 0)
		return answer_done(c);
	if (r->outcome == OUTCOME_TIMEOUT)
		return fail_and_remove(c, ERRC_GIT_CLONE_FAILED,
			xasprintf("Failed to clone '%.100s': git clone timed out after %llu ms", c->url.shown,
				(unsigned long long)c->timeout_ms));
	if (r->outcome != OUTCOME_EXITED)
		return fail_and_remove(c, ERRC_GIT_CLONE_FAILED,
			xasprintf("Failed to clone '%.100s': git was ended (%s)", c->url.shown,
				outcome_name(r->outcome)));
	struct str words = last_words(buf_str(&c->said));
	fail_and_remove(c, code, xasprintf("Failed to clone '%.100s': %.*s", c->url.shown, STR_ARG(words)));
}

/* ---- starting ---- */

static void complete_environment(struct checkout *c)
{
	env_put(&c->env, STR("GIT_TERMINAL_PROMPT"), STR("0"));
	env_put(&c->env, STR("GIT_ASKPASS"), STR("/bin/false"));
	env_put(&c->env, STR("SSH_ASKPASS"), STR("/bin/false"));
	env_put(&c->env, STR("LC_ALL"), STR("C.UTF-8")); /* git_error_code reads English messages */
	if (!c->url.user)
		return;
	env_put(&c->env, STR("ATOLL_GIT_USER"), str_of(c->url.user));
	env_put(&c->env, STR("ATOLL_GIT_PASSWORD"), str_of(c->url.password));
}

static int checkout_start(struct checkout *c, struct err *e)
{
	static const struct cmd_ops ops = {.on_output = on_said, .on_end = on_cloned};
	static const char helper[] = "!f() { printf 'username=%s\\npassword=%s\\n' \"$ATOLL_GIT_USER\" "
				     "\"$ATOLL_GIT_PASSWORD\"; }; f";
	auto_free char *credential = xasprintf("credential.%s.helper=%s", c->url.user ? c->url.origin : "", helper);
	char depth[24];
	const char *argv[24] = {"git", "-c", "http.lowSpeedLimit=1024", "-c", "http.lowSpeedTime=30"};
	int n = 5;
	if (c->url.user) {
		/* The user's own helpers are neither asked nor given the credentials. */
		argv[n++] = "-c";
		argv[n++] = "credential.helper=";
		argv[n++] = "-c";
		argv[n++] = credential;
	}
	argv[n++] = "clone";
	/* A clone without blobs asks the server for them later, and would have no credentials then. */
	if (!c->url.user)
		argv[n++] = "--filter=blob:none";
	if (c->branch) {
		argv[n++] = "--branch";
		argv[n++] = c->branch;
	}
	if (c->depth) {
		snprintf(depth, sizeof depth, "%llu", (unsigned long long)c->depth);
		argv[n++] = "--depth";
		argv[n++] = depth;
	}
	argv[n++] = "--";
	argv[n++] = c->url.clean;
	argv[n++] = c->dir;
	argv[n] = NULL;
	complete_environment(c);
	struct run_spec spec = {.timeout_ms = c->timeout_ms};
	struct cmd *cmd;
	enum spawn_step step;
	struct run_place at = {.env = &c->env, .cwd = "/", .ops = &ops, .arg = c};
	return run_start_argv(argv, &spec, &at, &cmd, &step, e);
}

static bool same_file(const char *a, const char *b)
{
	struct stat x, y;
	return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* The path of a file:// URL, without slashes at its end; NULL for others. */
static char *path_of_url(const struct git_url *url)
{
	auto_buf struct buf path = {0};
	struct str text = str_of(url->clean);
	struct err e;
	if (!str_starts(text, STR("file:///")) || http_percent_decode(str_skip(text, 7), &path, &e) < 0)
		return NULL;
	while (buf_size(&path) > 1 && buf_cstr(&path)[buf_size(&path) - 1] == '/')
		buf_truncate(&path, buf_size(&path) - 1);
	return xstrdup(buf_cstr(&path));
}

/*
 * git makes its target before it reads a file:// URL. So it would clone its own new repository, and succeed, where the
 * URL names the target. This says whether the URL's path is the target, or names nothing; git also tries PATH.git.
 */
static bool nothing_to_clone(const struct checkout *c)
{
	struct stat st;
	auto_free char *plain = c->target == TARGET_TAKEN ? NULL : path_of_url(&c->url);
	if (!plain)
		return false;
	auto_free char *suffixed = xasprintf("%s.git", plain);
	if (stat(plain, &st) < 0 && stat(suffixed, &st) < 0)
		return true;
	return strcmp(plain, c->dir) == 0 || same_file(plain, c->dir) || same_file(suffixed, c->dir);
}

static void refuse_nothing(struct checkout *c)
{
	c->code = ERRC_GIT_REPOSITORY_NOT_FOUND;
	c->exit_code = 128; /* as git ends for every missing repository */
	buf_printf(&c->said, "fatal: '%.500s' does not appear to be a git repository\n", c->url.shown);
	c->message = xasprintf("Failed to clone '%.100s': there is no repository", c->url.shown);
	answer_failed(c);
}

static enum target look_at(const char *dir)
{
	struct stat st;
	if (lstat(dir, &st) < 0)
		return TARGET_NEW;
	DIR *d = opendir(dir);
	enum target t = d ? TARGET_EMPTY : TARGET_TAKEN;
	for (struct dirent *de; d && (de = readdir(d));)
		if (strcmp(de->d_name, ".") != 0 && strcmp(de->d_name, "..") != 0)
			t = TARGET_TAKEN;
	if (d)
		closedir(d);
	return t;
}

/* The length of the longest part of the path that exists. */
static size_t existing_part(const char *dir)
{
	auto_free char *at = xstrdup(dir);
	struct stat st;
	while (lstat(at, &st) < 0) {
		char *slash = strrchr(at, '/');
		if (!slash)
			return 0;
		*slash = 0;
	}
	return strlen(at);
}

static int read_target(const struct agent_request *r, struct checkout *c, struct err *e)
{
	auto_buf struct buf mem = {0};
	struct str session, dir = STR_NULL;
	if (agent_request_session(r, &mem, &session, e) < 0 || json_read_str(r->body, "targetDir", &dir, e) < 0)
		return -1;
	session_env(session_find(session), &c->env);
	c->given = dir.n ? str_dup(dir) : xasprintf("%s/%s", agent.workdir, c->url.name);
	return path_absolute(dir.n ? dir : str_of(c->given), session, "targetDir", &c->dir, e);
}

static int read_request(const struct agent_request *r, struct checkout *c, struct err *e)
{
	struct str url = STR_NULL;
	const char *branch = NULL;
	c->timeout_ms = GIT_TIMEOUT;
	if (json_read_str(r->body, "repoUrl", &url, e) < 0)
		return -1;
	if (!url.p)
		return err_field(e, "repoUrl", "field 'repoUrl' is missing");
	if (git_url_parse(url, &c->url, e) < 0 || json_read_cstr(r->body, "branch", &branch, e) < 0 ||
		json_read_u64(r->body, "depth", 1, INT32_MAX, &c->depth, e) < 0 ||
		json_read_u64(r->body, "timeoutMs", 1, GIT_TIMEOUT_MAX, &c->timeout_ms, e) < 0)
		return -1;
	if (branch && branch[0] == '-')
		return err_field(e, "branch", "field 'branch' must not begin with '-'");
	c->branch = branch && *branch ? xstrdup(branch) : NULL;
	return read_target(r, c, e);
}

char *git_waits(const struct agent_request *r, const char *fields)
{
	(void)fields;
	struct checkout *c = xcalloc(1, sizeof *c);
	struct err e;
	char *ret = NULL;
	if (read_request(r, c, &e) == 0) {
		auto_free char *from = path_of_url(&c->url);
		auto_free char *suffixed = from ? xasprintf("%s.git", from) : NULL;
		char **all[] = {&c->dir, &from, &suffixed};
		for (size_t i = 0; i < ARRAY_LEN(all) && !ret; i++)
			if (*all[i] && fuse_mounts_on(*all[i]))
				ret = take_ptr(all[i]);
	}
	checkout_free(c);
	return ret;
}

void api_git_checkout(struct agent_request *r)
{
	static const struct http_exchange_ops ops = {.on_close = checkout_close};
	struct checkout *c = xcalloc(1, sizeof *c);
	struct err e;
	c->x = r->x;
	c->route = r->route;
	if (read_request(r, c, &e) < 0) {
		agent_request_refuse(r, &e);
		return checkout_free(c);
	}
	c->target = look_at(c->dir);
	c->there = c->target == TARGET_NEW ? existing_part(c->dir) : 0;
	if (nothing_to_clone(c))
		return refuse_nothing(c);
	http_exchange_set(r->x, &ops, c);
	if (checkout_start(c, &e) == 0)
		return;
	http_exchange_set(r->x, &no_ops, NULL);
	agent_request_fail(r, &e, STR_NULL);
	checkout_free(c);
}
