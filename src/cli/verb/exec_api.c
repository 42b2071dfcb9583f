/*
 * exec_api.c - `atoll exec` in a session and in the background, through the API's routes.
 *
 * A session's shell takes text. One word is a whole shell command (exec -s S box 'cd /tmp && ls'); several words are
 * quoted, so that each arrives unchanged.
 */
#include <stdio.h>
#include <string.h>

#include "base/base64.h"
#include "cli/api.h"
#include "cli/text.h"
#include "cli/verb/exec.h"

enum { SESSION_OUTPUT_MAX = 512 * 1024 * 1024 };

void exec_quote(struct buf *to, char **argv)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+=:,./-_";
	if (!argv[1]) {
		buf_add_c(to, argv[0]);
		return;
	}
	for (char **a = argv; *a; a++) {
		if (a != argv)
			buf_add_byte(to, ' ');
		if (**a && strspn(*a, plain) == strlen(*a)) {
			buf_add_c(to, *a);
			continue;
		}
		buf_add_byte(to, '\'');
		for (const char *p = *a; *p; p++) {
			if (*p == '\'')
				buf_add_c(to, "'\\''");
			else
				buf_add_byte(to, *p);
		}
		buf_add_byte(to, '\'');
	}
}

/* Writes {"command":…,"sessionId":… and leaves the object open. */
static struct json_writer begin_request(struct buf *to, const struct stream_request *rq, const char *session)
{
	auto_buf struct buf command = {0};
	struct json_writer w = json_writer(to);
	exec_quote(&command, rq->argv);
	json_object_begin(&w);
	json_member_str(&w, "command", buf_str(&command));
	json_member_cstr(&w, "sessionId", session ? session : "__DISABLE_SESSION__");
	if (rq->cwd)
		json_member_cstr(&w, "cwd", rq->cwd);
	if (rq->timeout_ms)
		json_member_u64(&w, "timeoutMs", rq->timeout_ms);
	api_write_env(&w, "env", rq->env.items, rq->env.n);
	return w;
}

/* ---- in the background ---- */

int exec_detached(struct client *cl, const struct stream_request *rq, const struct exec_background *bg)
{
	auto_buf struct buf body = {0};
	struct err e;
	struct json_writer w = begin_request(&body, rq, bg->session);
	if (bg->name)
		json_member_cstr(&w, "processId", bg->name);
	if (bg->service)
		json_member_bool(&w, "service", true);
	if (bg->keep_alive)
		json_member_bool(&w, "keepAlive", true);
	json_object_end(&w);
	auto_json struct json_doc *d = api_ask(cl, rq->id, "POST", "/api/process/start", buf_str(&body), &e);
	if (!d)
		return cli_fail(cl->cli, &e);
	if (!cl->cli->json)
		text_print(api_text(json_root(d), "processId"));
	return 0;
}

/* ---- in a session ---- */

static int print_stream(const struct json *answer, const char *key, int fd, struct err *e)
{
	auto_buf struct buf raw = {.max = SESSION_OUTPUT_MAX};
	struct base64_decoder d = {0};
	if (!base64_decode(&d, api_text(answer, key), &raw) || !base64_finish(&d))
		return err_set(e, ERRC_UNKNOWN_ERROR, "the box sent output that is not base64");
	return cli_write(fd, buf_str(&raw), e);
}

static int print_result(struct client *cl, const struct json *answer, struct err *e)
{
	uint64_t code = 125;
	json_read_u64(answer, "exitCode", 0, 255, &code, NULL);
	if (cl->cli->json)
		return (int)code;
	if (print_stream(answer, "stdout", STDOUT_FILENO, e) < 0 ||
		print_stream(answer, "stderr", STDERR_FILENO, e) < 0)
		return cli_fail(cl->cli, e);
	return (int)code;
}

/* The output before a failure (time limit, `exit`) is in the context of the error. */
static int print_failure(struct client *cl, int status, struct buf *body, const char *session)
{
	struct err e;
	uint64_t code = 125;
	auto_json struct json_doc *d = json_parse(buf_str(body), NULL);
	const struct json *context = json_get(d ? json_root(d) : NULL, "context");
	client_api_error(cl, status, buf_str(body), &e);
	if (context && !cl->cli->json) {
		struct err ignored;
		print_stream(context, "stdout", STDOUT_FILENO, &ignored);
		print_stream(context, "stderr", STDERR_FILENO, &ignored);
	}
	bool ran = true;
	json_read_bool(context, "ran", &ran, NULL);
	if (e.code == ERRC_SESSION_TERMINATED && ran) {
		json_read_u64(context, "exitCode", 0, 255, &code, NULL);
		if (!cl->cli->json)
			fprintf(stderr,
				"atoll exec: the command ended session '%s'; the next command starts a new one\n",
				session);
		return (int)code;
	}
	bool timeout = str_eq_c(api_text(context, "outcome"), "timeout");
	return timeout ? (cli_fail(cl->cli, &e), 124) : cli_fail(cl->cli, &e);
}

int exec_in_session(struct client *cl, const struct stream_request *rq, const char *session)
{
	auto_buf struct buf request = {0}, path = {0}, body = {.max = SESSION_OUTPUT_MAX};
	struct err e;
	struct json_writer w = begin_request(&request, rq, session);
	if (!cl->cli->json)
		json_member_cstr(&w, "encoding", "base64");
	json_object_end(&w);
	client_box_path(&path, rq->id, "/api/execute");
	cl->head_ms = 0; /* the answer comes when the command has ended */
	cl->body_max = SESSION_OUTPUT_MAX;
	int status = client_ask(cl, "POST", buf_cstr(&path), buf_str(&request), &body, &e);
	if (status < 0)
		return cli_fail(cl->cli, &e);
	if (status / 100 != 2)
		return print_failure(cl, status, &body, session);
	auto_json struct json_doc *d = json_parse(buf_str(&body), &e);
	if (!d)
		return cli_fail(cl->cli, &e);
	if (cl->cli->json)
		cli_print(&body);
	return print_result(cl, json_root(d), &e);
}
