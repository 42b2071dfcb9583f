#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "agent/agent.h"
#include "agent/api.h"
#include "agent/path.h"
#include "agent/run.h"

/*
 * Names and directories: exists, mkdir, delete, rename, move. Contents are in api_read.c and api_write.c, lists in
 * api_list.c.
 */

/* {"path":…, "operation":…} is what upstream's file errors carry. */
static void fail_path(const struct request *r, const struct err *e, const char *path)
{
	request_fail_file(r, e, path, NULL);
}

void request_fail_file(const struct request *r, const struct err *e, const char *path, const char *extra)
{
	auto_buf struct buf context = {0};
	struct json_writer w = json_writer(&context);
	json_object_begin(&w);
	json_member_cstr(&w, "path", path);
	if (r->route->operation)
		json_member_cstr(&w, "operation", r->route->operation);
	if (extra)
		buf_printf(&context, ",%s", extra);
	json_object_end(&w);
	request_fail(r, e, buf_str(&context));
}

void request_fail_errno(const struct request *r, int os, const char *what, const char *path)
{
	struct err e;
	err_os(&e, errc_from_file_errno(os), os, "%s '%.150s'", what, path);
	fail_path(r, &e, path);
}

/* {"success":true,"path":…,<extra>,"timestamp":…} */
static void answer(const struct request *r, const char *path, const char *key, const char *value)
{
	auto_buf struct buf b = {0};
	struct json_writer w = json_writer(&b);
	json_object_begin(&w);
	json_member_bool(&w, "success", true);
	json_member_cstr(&w, "path", path);
	if (key && value)
		json_member_cstr(&w, key, value);
	json_member_now(&w);
	json_object_end(&w);
	request_json(r, buf_str(&b));
}

static void answer_flag(const struct request *r, const char *path, const char *key, bool value)
{
	auto_buf struct buf b = {0};
	struct json_writer w = json_writer(&b);
	json_object_begin(&w);
	json_member_bool(&w, "success", true);
	json_member_cstr(&w, "path", path);
	json_member_bool(&w, key, value);
	json_member_now(&w);
	json_object_end(&w);
	request_json(r, buf_str(&b));
}

/* The path as the client wrote it: answers repeat that, not what it was resolved to. */
static const char *given(const struct request *r, const char *key)
{
	const char *text = "";
	struct err e;
	json_read_cstr(r->body, key, &text, &e);
	return text;
}

void api_exists(struct request *r)
{
	auto_free char *path = NULL;
	struct err e;
	struct stat st;
	if (request_path(r, "path", &path, &e) < 0)
		return request_invalid(r, "path", e.msg);
	answer_flag(r, given(r, "path"), "exists", stat(path, &st) == 0);
}

void api_mkdir(struct request *r)
{
	auto_free char *path = NULL;
	bool recursive = false;
	struct err e;
	if (request_path(r, "path", &path, &e) < 0)
		return request_invalid(r, "path", e.msg);
	if (json_read_bool(r->body, "recursive", &recursive, &e) < 0)
		return request_invalid(r, "recursive", e.msg);
	int os = recursive ? -path_make_dirs(path) : mkdir(path, 0777) < 0 ? errno : 0;
	if (os == EEXIST) {
		/* Upstream's code for this one; the status is what its client knows. */
		err_os(&e, ERRC_FILESYSTEM_ERROR, os, "mkdir '%.150s'", path);
		return request_fail_file(r, &e, given(r, "path"), "\"exitCode\":1");
	}
	if (os)
		return request_fail_errno(r, os, "mkdir", given(r, "path"));
	answer_flag(r, given(r, "path"), "recursive", recursive);
}

void api_delete(struct request *r)
{
	auto_free char *path = NULL;
	struct err e;
	struct stat st;
	if (request_path(r, "path", &path, &e) < 0)
		return request_invalid(r, "path", e.msg);
	if (lstat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
		err_set(&e, ERRC_IS_DIRECTORY,
			"Cannot delete directory with deleteFile() at '%.100s'. Use exec('rm -rf <path>') instead.",
			given(r, "path"));
		return fail_path(r, &e, given(r, "path"));
	}
	if (unlink(path) < 0)
		return request_fail_errno(r, errno, "delete", given(r, "path"));
	answer(r, given(r, "path"), NULL, NULL);
}

/* ---- rename and move: both are mv ---- */

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

static void move_client_gone(struct http_exchange *x, bool complete)
{
	(void)complete;
	struct move *m = http_exchange_arg(x);
	m->x = NULL;
}

static void move_said(struct cmd *c, int stream, struct str bytes)
{
	struct move *m = cmd_arg(c);
	if (stream == CMD_STDERR && buf_size(&m->said) + bytes.n <= m->said.max)
		buf_add_str(&m->said, bytes);
}

static void move_ended(struct cmd *c, const struct cmd_result *result)
{
	static const struct http_exchange_ops no_ops;
	struct move *m = cmd_arg(c);
	if (m->x) {
		struct request r = {.x = m->x, .route = m->route};
		http_exchange_set(m->x, &no_ops, NULL);
		struct err e;
		if (result->exit_code == 0) {
			answer(&r, m->from, "newPath", m->to);
		} else {
			bool full = strstr(buf_cstr(&m->said), "No space left") != NULL;
			err_set(&e, full ? ERRC_NO_SPACE : ERRC_FILESYSTEM_ERROR, "%.200s", buf_cstr(&m->said));
			fail_path(&r, &e, m->from);
		}
	}
	move_free(m);
}

/* To another file system: mv copies, keeping everything, and may take long. */
static void move_by_program(
	struct request *r, const char *from, const char *to, const char *given_from, const char *given_to)
{
	static const struct cmd_ops ops = {.on_output = move_said, .on_end = move_ended};
	static const struct http_exchange_ops exchange_ops = {.on_close = move_client_gone};
	static const struct http_exchange_ops no_ops;
	struct move *m = xcalloc(1, sizeof *m);
	*m = (struct move){.x = r->x,
		.route = r->route,
		.from = xstrdup(given_from),
		.to = xstrdup(given_to),
		.said = {.max = 4096}};
	const char *argv[] = {"mv", "--", from, to, NULL};
	struct run_spec spec = {0};
	struct cmd *c;
	enum spawn_step step;
	struct err e;
	http_exchange_set(r->x, &exchange_ops, m);
	if (run_start_argv(argv, &spec, &agent.env, "/", &ops, m, &c, &step, &e) == 0)
		return;
	http_exchange_set(r->x, &no_ops, NULL);
	fail_path(r, &e, given_from);
	move_free(m);
}

static void move(struct request *r, const char *from_key, const char *to_key)
{
	auto_free char *from = NULL, *to = NULL;
	struct err e;
	struct stat st;
	if (request_path(r, from_key, &from, &e) < 0)
		return request_invalid(r, from_key, e.msg);
	if (request_path(r, to_key, &to, &e) < 0)
		return request_invalid(r, to_key, e.msg);
	if (lstat(from, &st) < 0)
		return request_fail_errno(r, errno, "move", given(r, from_key));
	/* Like mv: onto a directory means into it. */
	if (stat(to, &st) == 0 && S_ISDIR(st.st_mode)) {
		char *inside = xasprintf("%s/%.*s", to, STR_ARG(path_basename(str_of(from))));
		free(to);
		to = inside;
	}
	if (rename(from, to) == 0)
		return answer(r, given(r, from_key), "newPath", given(r, to_key));
	if (errno == EXDEV)
		return move_by_program(r, from, to, given(r, from_key), given(r, to_key));
	request_fail_errno(r, errno, "move to", given(r, to_key));
}

void api_rename(struct request *r)
{
	move(r, "oldPath", "newPath");
}

void api_move(struct request *r)
{
	move(r, "sourcePath", "destinationPath");
}
