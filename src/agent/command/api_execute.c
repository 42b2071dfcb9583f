#include <stdio.h>

#include "agent/agent.h"
#include "agent/api.h"
#include "agent/proc/spool.h"
#include "agent/request/reply.h"
#include "agent/request/route.h"
#include "agent/shell/session.h"

/*
 * POST /api/execute: runs one command, with or without a session, and answers when it has ended.
 *
 * The output goes into two spools; the answer is streamed from them. A client that goes away does not stop the
 * command: it runs on, as with upstream, and its output is dropped.
 */

struct exec {
	struct http_exchange *x; /* NULL: the client is gone */
	const char *operation;
	char *command, *cwd, *session;
	bool sessionless, base64;
	uint64_t timeout_ms;
	struct spool out, err;
	struct err failed; /* output could not be stored */
};

static void exec_free(struct exec *ex)
{
	free(ex->command);
	free(ex->cwd);
	free(ex->session);
	spool_free(&ex->out);
	spool_free(&ex->err);
	free(ex);
}

static void exec_client_gone(struct http_exchange *x, bool complete)
{
	(void)complete;
	struct exec *ex = http_exchange_arg(x);
	ex->x = NULL;
	spool_free(&ex->out);
	spool_free(&ex->err);
}

static const struct http_exchange_ops exchange_ops = {.on_close = exec_client_gone};

static void exec_output(void *arg, int stream, struct str bytes)
{
	struct exec *ex = arg;
	if (ex->x && !ex->failed.code)
		spool_add(stream == CMD_STDOUT ? &ex->out : &ex->err, bytes, &ex->failed);
}

static void add_line(struct exec *ex, const char *line)
{
	struct err e;
	spool_add(&ex->err, str_of(line), &e);
}

/* ---- answers ---- */

/* …"stdout":"…","stderr":"…" */
static void put_output(struct exec *ex, struct reply *p)
{
	buf_add_c(reply_text(p), ",\"stdout\":");
	reply_add_spool(p, &ex->out, ex->base64);
	buf_add_c(reply_text(p), ",\"stderr\":");
	reply_add_spool(p, &ex->err, ex->base64);
}

static void exec_answer(struct exec *ex, const struct cmd_result *r, int code)
{
	struct reply *p = reply_new();
	struct json_writer w = json_writer(reply_text(p));
	json_object_begin(&w);
	json_member_bool(&w, "success", code == 0);
	json_member_i64(&w, "exitCode", code);
	put_output(ex, p);

	w = (struct json_writer){.out = reply_text(p), .comma = true};
	json_member_cstr(&w, "command", ex->command);
	json_member_u64(&w, "duration", r->duration);
	json_member_now(&w);
	json_member_cstr(&w, "sessionId", ex->session);
	json_member_cstr(&w, "outcome", outcome_name(r->outcome));
	if (r->signal)
		json_member_cstr(&w, "signal", signal_name(r->signal));
	if (ex->base64)
		json_member_cstr(&w, "encoding", "base64");
	json_object_end(&w);
	reply_send(p, ex->x, 200);
}

/* The exit code is the command's own, and its session lives on. */
static bool has_exit_code(const struct cmd_result *r)
{
	return !r->session_ended && r->outcome <= OUTCOME_LOST && r->outcome != OUTCOME_TIMEOUT;
}

/* The error envelope with the command's output, as upstream's CommandError context. The context comes last: the output
 * is streamed. */
static void answer_failed(struct exec *ex, const struct err *e, const struct cmd_result *r)
{
	static const char *const members[] = {
		"code", "message", "httpStatus", "operation", "timestamp", "suggestion", NULL};
	struct error_json j = {.err = e, .operation = ex->operation, .members = members};
	struct reply *p = reply_new();
	struct json_writer w = json_writer(reply_text(p));
	json_object_begin(&w);
	error_json_members(&w, &j);
	json_key(&w, "context");
	json_object_begin(&w);
	json_member_cstr(&w, "command", ex->command);
	json_member_cstr(&w, "sessionId", ex->session);
	if (e->code == ERRC_SESSION_TERMINATED || has_exit_code(r))
		json_member_i64(&w, "exitCode", r->exit_code);
	if (r->outcome != OUTCOME_NOT_STARTED)
		json_member_cstr(&w, "outcome", outcome_name(r->outcome));
	if (r->signal)
		json_member_cstr(&w, "signal", signal_name(r->signal));
	if (r->skipped)
		json_member_bool(&w, "ran", false);
	json_member_u64(&w, "duration", r->duration);
	put_output(ex, p);
	buf_add_c(reply_text(p), "}}");
	reply_send(p, ex->x, error_json_status(&j));
}

static void answer_timeout(struct exec *ex, const struct cmd_result *r)
{
	char line[64];
	struct err e;
	if (ex->sessionless) {
		snprintf(line, sizeof line, "Command timed out after %llums\n", (unsigned long long)ex->timeout_ms);
		add_line(ex, line);
		exec_answer(ex, r, 124);
		return;
	}
	err_set(&e, ERRC_COMMAND_EXECUTION_ERROR,
		"Failed to execute command '%.*s' in session '%.40s': Command timeout after %llums%s",
		r->session_ended || r->skipped ? 40 : 100, ex->command, ex->session, (unsigned long long)ex->timeout_ms,
		r->session_ended ? "; it could not be interrupted, the session begins afresh"
		: r->skipped	 ? "; it was not run, the session was busy with the command before it"
				 : "");
	answer_failed(ex, &e, r);
}

/* A working directory that is not there is the command's failure, in upstream's words. */
static void answer_no_directory(struct exec *ex, const struct cmd_result *r)
{
	auto_free char *line = xasprintf("Failed to change directory to '%s'\n", ex->cwd ? ex->cwd : agent.workdir);
	add_line(ex, line);
	exec_answer(ex, r, 1);
}

static void answer_result(struct exec *ex, const struct cmd_result *r)
{
	if (ex->failed.code)
		return answer_failed(ex, &ex->failed, r);
	if (r->outcome == OUTCOME_NO_DIRECTORY)
		return answer_no_directory(ex, r);
	if (r->outcome == OUTCOME_TIMEOUT)
		return answer_timeout(ex, r);
	if (r->outcome == OUTCOME_NOT_STARTED || r->session_ended)
		return answer_failed(ex, &r->error, r);
	if (r->outcome == OUTCOME_OOM)
		add_line(ex, "Killed: the sandbox ran out of memory\n");
	exec_answer(ex, r, r->exit_code);
}

static void exec_end(void *arg, const struct cmd_result *r)
{
	struct exec *ex = arg;
	if (ex->x)
		answer_result(ex, r);
	exec_free(ex);
}

static const struct task_ops ops = {.on_output = exec_output, .on_end = exec_end};

/* ---- start ---- */

void api_execute(struct agent_request *r)
{
	auto_buf struct buf mem = {0};
	auto_run struct run_spec s = {0};
	struct session *session = NULL;
	struct str id;
	struct err e;
	bool background = false;
	if (json_read_bool(r->body, "background", &background, &e) < 0)
		return agent_request_refuse(r, &e);
	if (background)
		return api_process_start(r);
	if (run_spec_read(r->body, 0, &s, &e) < 0 || agent_request_session(r, &mem, &id, &e) < 0)
		return agent_request_refuse(r, &e);
	if (!session_is_disabled(id) && !(session = session_need(id, &e)))
		return agent_request_fail_about(r, &e, "sessionId", id);

	struct exec *ex = xcalloc(1, sizeof *ex);
	*ex = (struct exec){.x = r->x,
		.operation = r->route->operation,
		.command = xstrdup(s.text),
		.cwd = s.cwd ? xstrdup(s.cwd) : NULL,
		.session = str_dup(id),
		.sessionless = !session,
		.base64 = s.base64,
		.timeout_ms = session_limit(session, s.timeout_ms),
		.out = SPOOL_INIT,
		.err = SPOOL_INIT};
	s.timeout_ms = ex->timeout_ms;
	http_exchange_set(r->x, &exchange_ops, ex);
	session_run(session, &s, &ops, ex);
}
