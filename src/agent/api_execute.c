#include <stdio.h>

#include "agent/agent.h"
#include "agent/api.h"
#include "agent/reply.h"
#include "agent/run.h"
#include "agent/spool.h"

/*
 * POST /api/execute: runs one command and answers when it has ended.
 *
 * The output goes into two spools, the answer is streamed from them. A client that goes away does not stop the
 * command: it runs on, as upstream's does, and its output is thrown away.
 */

struct exec {
	struct http_exchange *x; /* NULL: the client is gone */
	const struct route *route;
	char *command;
	char *session;
	bool sessionless, base64;
	uint64_t timeout_ms;
	struct spool out, err;
	struct err failed; /* output could not be stored */
};

static void exec_free(struct exec *ex)
{
	free(ex->command);
	free(ex->session);
	spool_free(&ex->out);
	spool_free(&ex->err);
	free(ex);
}

static void on_close(struct http_exchange *x, bool complete)
{
	(void)complete;
	struct exec *ex = http_exchange_arg(x);
	ex->x = NULL;
}

static const struct http_exchange_ops exchange_ops = {.on_close = on_close};
static const struct http_exchange_ops no_ops;

static void on_output(struct cmd *c, int stream, struct str bytes)
{
	struct exec *ex = cmd_arg(c);
	if (!ex->x || ex->failed.code)
		return;
	if (spool_add(stream == CMD_STDOUT ? &ex->out : &ex->err, bytes, &ex->failed) < 0)
		cmd_kill(c);
}

/* A sentence on stderr where a command could not say it itself. */
static void explain(struct exec *ex, const struct cmd_result *r)
{
	char line[96] = "";
	if (r->outcome == OUTCOME_TIMEOUT)
		snprintf(line, sizeof line, "Command timed out after %llums\n", (unsigned long long)ex->timeout_ms);
	else if (r->outcome == OUTCOME_OOM)
		snprintf(line, sizeof line, "Killed: the sandbox ran out of memory\n");
	struct err e;
	if (*line)
		spool_add(&ex->err, str_of(line), &e);
}

static void answer(struct exec *ex, const struct cmd_result *r)
{
	int code = r->outcome == OUTCOME_TIMEOUT ? 124 : r->exit_code;
	struct reply *p = reply_new();
	struct json_writer w = json_writer(reply_text(p));
	json_object_begin(&w);
	json_member_bool(&w, "success", code == 0);
	json_member_i64(&w, "exitCode", code);
	json_key(&w, "stdout");
	reply_add_spool(p, &ex->out, ex->base64);
	buf_add_c(reply_text(p), ",\"stderr\":");
	reply_add_spool(p, &ex->err, ex->base64);

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

/* The error envelope with what the command had printed, as upstream's CommandError context. */
static void answer_failed(struct exec *ex, const struct err *e, const struct cmd_result *r)
{
	struct reply *p = reply_new();
	struct json_writer w = json_writer(reply_text(p));
	json_object_begin(&w);
	json_member_cstr(&w, "code", errc_info(e->code)->code);
	json_member_cstr(&w, "message", e->msg);
	json_member_u64(&w, "httpStatus", (uint64_t)errc_info(e->code)->status);
	json_member_cstr(&w, "operation", ex->route->operation);
	json_member_now(&w);
	if (*errc_info(e->code)->suggestion)
		json_member_cstr(&w, "suggestion", errc_info(e->code)->suggestion);
	json_key(&w, "context");
	json_object_begin(&w);
	json_member_cstr(&w, "command", ex->command);
	json_member_cstr(&w, "sessionId", ex->session);
	json_member_cstr(&w, "outcome", outcome_name(r->outcome));
	json_member_u64(&w, "duration", r->duration);
	json_key(&w, "stdout");
	reply_add_spool(p, &ex->out, ex->base64);
	buf_add_c(reply_text(p), ",\"stderr\":");
	reply_add_spool(p, &ex->err, ex->base64);
	buf_add_c(reply_text(p), "}}");
	reply_send(p, ex->x, errc_info(e->code)->status);
}

static void on_end(struct cmd *c, const struct cmd_result *r)
{
	struct exec *ex = cmd_arg(c);
	if (!ex->x) {
		exec_free(ex);
		return;
	}
	struct err e;
	if (ex->failed.code) {
		answer_failed(ex, &ex->failed, r);
	} else if (r->outcome == OUTCOME_TIMEOUT && !ex->sessionless) {
		err_set(&e, ERRC_COMMAND_EXECUTION_ERROR,
			"Failed to execute command '%.120s' in session '%.40s': Command timeout after %llums",
			ex->command, ex->session, (unsigned long long)ex->timeout_ms);
		answer_failed(ex, &e, r);
	} else {
		explain(ex, r);
		answer(ex, r);
	}
	exec_free(ex);
}

static const struct cmd_ops command_ops = {.on_output = on_output, .on_end = on_end};

/* A working directory that is not there is the command's failure, in upstream's words. */
static void answer_no_directory(struct exec *ex, const char *cwd)
{
	struct cmd_result r = {.outcome = OUTCOME_EXITED, .exit_code = 1};
	struct err e;
	auto_free char *line = xasprintf("Failed to change directory to '%s'\n", cwd);
	spool_add(&ex->err, str_of(line), &e);
	answer(ex, &r);
}

static void start(struct request *r, struct run_spec *s, struct str session)
{
	struct exec *ex = xcalloc(1, sizeof *ex);
	*ex = (struct exec){.x = r->x,
		.route = r->route,
		.command = str_dup(s->command),
		.session = str_dup(session),
		.sessionless = session_is_disabled(session),
		.base64 = s->base64,
		.timeout_ms = s->timeout_ms,
		.out = SPOOL_INIT,
		.err = SPOOL_INIT};
	auto_env struct env env = {0};
	env_apply(&env, &agent.env);
	env_apply(&env, &s->env);
	const char *cwd = s->cwd ? s->cwd : agent.workdir;
	struct cmd *c;
	enum spawn_step step;
	struct err e;
	http_exchange_set(r->x, &exchange_ops, ex);
	if (run_start(s, &env, cwd, &command_ops, ex, &c, &step, &e) == 0) {
		if (s->has_input) {
			cmd_input(c, buf_str(&s->input));
			cmd_input_end(c);
		}
		return;
	}
	http_exchange_set(r->x, &no_ops, NULL);
	if (step == SPAWN_CHDIR)
		answer_no_directory(ex, cwd);
	else
		request_fail_about(r, &e, "command", s->command);
	exec_free(ex);
}

void api_execute(struct request *r)
{
	auto_buf struct buf mem = {0};
	auto_run struct run_spec s = {0};
	struct str session;
	struct err e;
	if (run_spec_read(r->body, 0, &s, &e) < 0 || request_session(r, &mem, &session, &e) < 0)
		return request_fail(r, &e, STR_NULL);
	start(r, &s, session);
}
