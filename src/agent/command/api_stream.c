#include <signal.h>
#include <stdio.h>

#include "agent/agent.h"
#include "agent/api.h"
#include "agent/command/kept.h"
#include "agent/limits.h"
#include "agent/proc/ending.h"
#include "agent/request/events.h"
#include "agent/request/route.h"
#include "agent/shell/session.h"
#include "http/sse.h"

/*
 * POST /api/execute/stream: runs a command and sends its output as events while it runs.
 *
 *	{"type":"start"} {"type":"stdout"|"stderr","data":…}*
 *	{"type":"complete","exitCode":n} | {"type":"error","error":…}
 *
 * The command is a process of its own that gets a copy of the session's state. It holds the session only until it has
 * started. The last event comes after the last byte of output. A client that reads slowly slows the command. A client
 * that goes away ends it (SIGHUP, then SIGKILL), because nobody else can read its output. So does the deletion of its
 * session: the last event is then an error, after the last process of the command has ended.
 *
 * With "streamId" the stream is kept (kept.h): events have ids. A client that lost its connection goes on with
 *	GET /api/execute/stream/{streamId}	Last-Event-ID (or ?lastEventId=), else from the beginning
 * and says that it wants no more with
 *	DELETE /api/execute/stream/{streamId}
 */

struct stream {
	struct list node;
	struct http_exchange *x; /* when not kept */
	struct kept *kept;	 /* or this */
	const struct route *route;
	struct task *task; /* until it has started */
	struct cmd *cmd;   /* while it runs */
	char *command, *cwd, *session;
	bool sessionless, base64;
	bool destroyed;	       /* its session was deleted */
	struct ending *ending; /* … and processes of the command are left */
	uint64_t timeout_ms;
	struct events_tail tail[2];
	struct loop_timer keepalive;
};

static struct list streams = {&streams, &streams};

static void stream_free(struct stream *s)
{
	if (s->ending)
		ending_forget(s->ending);
	list_del(&s->node);
	loop_timer_stop(&s->keepalive);
	free(s->command);
	free(s->cwd);
	free(s->session);
	free(s);
}

/* ---- events ---- */

static bool send_event(struct stream *s, struct json_writer *w)
{
	json_member_now(w);
	json_object_end(w);
	return s->kept ? kept_send(s->kept, buf_str(w->out)) : sse_send(s->x, NULL, STR_NULL, buf_str(w->out));
}

static void send_last(struct stream *s)
{
	if (s->kept)
		kept_end(s->kept);
	else
		http_respond_end(s->x);
}

static bool send_output(struct stream *s, int stream, struct str bytes, bool last)
{
	auto_buf struct buf mem = {0};
	struct str piece = s->base64 ? bytes : events_next(&s->tail[stream - 1], bytes, last, &mem);
	if (!piece.n)
		return true;
	struct json_writer w = events_output(events_buffer(), stream, piece, s->base64);
	return send_event(s, &w);
}

static void send_start(struct stream *s, pid_t pid)
{
	auto_buf struct buf b = {0};
	struct json_writer w = json_writer(&b);
	json_object_begin(&w);
	json_member_cstr(&w, "type", "start");
	json_member_cstr(&w, "command", s->command);
	json_member_cstr(&w, "sessionId", s->session);
	if (pid > 0)
		json_member_i64(&w, "pid", pid);
	send_event(s, &w);
}

static void send_complete(struct stream *s, const struct cmd_result *r, int code)
{
	auto_buf struct buf b = {0};
	struct json_writer w = json_writer(&b);
	json_object_begin(&w);
	json_member_cstr(&w, "type", "complete");
	json_member_i64(&w, "exitCode", code);
	json_member_cstr(&w, "outcome", outcome_name(r->outcome));
	if (r->signal)
		json_member_cstr(&w, "signal", signal_name(r->signal));
	json_member_u64(&w, "duration", r->duration);
	send_event(s, &w);
}

/* `data` as well: upstream's client looks there. */
static void send_error(struct stream *s, const char *text, enum outcome outcome)
{
	auto_buf struct buf b = {0};
	struct json_writer w = json_writer(&b);
	json_object_begin(&w);
	json_member_cstr(&w, "type", "error");
	json_member_cstr(&w, "error", text);
	json_member_cstr(&w, "data", text);
	json_member_cstr(&w, "outcome", outcome_name(outcome));
	send_event(s, &w);
}

static void on_keepalive(struct loop_timer *t)
{
	struct stream *s = container_of(t, struct stream, keepalive);
	sse_comment(s->x);
	loop_timer_set(agent.loop, &s->keepalive, SSE_BEAT, on_keepalive);
}

/* ---- the command's side ---- */

static void stream_output(struct cmd *c, int stream, struct str bytes)
{
	struct stream *s = cmd_arg(c);
	if (!send_output(s, stream, bytes, false))
		cmd_pause(c);
}

static void send_end(struct stream *s, const struct cmd_result *r)
{
	char line[160];
	if (s->destroyed) {
		snprintf(line, sizeof line, "Session '%.100s' was destroyed", s->session);
		return send_error(s, line, r->outcome);
	}
	snprintf(line, sizeof line, "Command time%s after %llums%s", s->sessionless ? "d out" : "out",
		(unsigned long long)s->timeout_ms,
		r->skipped ? "; it was not run, the session was busy with the command before it" : "");
	if (r->outcome == OUTCOME_TIMEOUT && !s->sessionless)
		return send_error(s, line, r->outcome);
	if (r->outcome == OUTCOME_TIMEOUT)
		send_output(s, CMD_STDERR, str_of(line), true);
	else if (r->outcome == OUTCOME_OOM)
		send_output(s, CMD_STDERR, STR("Killed: the sandbox ran out of memory\n"), true);
	send_complete(s, r, r->outcome == OUTCOME_TIMEOUT ? 124 : r->exit_code);
}

static void stream_end(struct cmd *c, const struct cmd_result *r)
{
	struct stream *s = cmd_arg(c);
	s->cmd = NULL;
	loop_timer_stop(&s->keepalive);
	for (int stream = CMD_STDOUT; stream <= CMD_STDERR; stream++)
		send_output(s, stream, STR_NULL, true);
	send_end(s, r);
	send_last(s);
}

static void stream_held(struct cmd *c)
{
	struct stream *s = cmd_arg(c);
	if (!s->ending)
		cmd_release(c);
}

static void on_tree_gone(void *arg)
{
	struct stream *s = arg;
	s->ending = NULL;
	if (cmd_has_ended(s->cmd))
		cmd_release(s->cmd);
}

static const struct cmd_ops command_ops = {.on_output = stream_output, .on_held = stream_held, .on_end = stream_end};

void stream_end_session(struct str session)
{
	list_each(it, &streams)
	{
		struct stream *s = list_entry(it, struct stream, node);
		if (!s->cmd || s->destroyed || cmd_has_ended(s->cmd) || !str_eq_c(session, s->session))
			continue;
		const struct ending_spec spec = {.leader = cmd_pid(s->cmd),
			.sig = SIGHUP,
			.grace_ms = CMD_HANGUP_GRACE,
			.on_gone = on_tree_gone,
			.arg = s};
		s->destroyed = true;
		cmd_hold(s->cmd);
		s->ending = ending_begin(agent.loop, &spec);
	}
}

/* ---- start ---- */

static void stream_begin(struct stream *s, pid_t pid)
{
	if (s->kept)
		kept_begin(s->kept);
	else
		sse_begin(s->x);
	send_start(s, pid);
}

/* A stream that could not start has a status and a body of its own, unless only events can reach its client. */
static void stream_refuse(struct stream *s, const struct cmd_result *f)
{
	struct http_exchange *x = s->kept ? kept_take_back(s->kept) : s->x;
	struct agent_request r = {.x = x, .route = s->route};
	if (!x) {
		stream_begin(s, 0);
		send_error(s, f->error.msg, OUTCOME_LOST);
		return send_last(s);
	}
	agent_request_fail_task(&r, f, s->session, "command", str_of(s->command));
	if (s->kept)
		stream_free(s);
}

static void stream_fail(struct stream *s, const struct cmd_result *f)
{
	if (f->outcome == OUTCOME_TIMEOUT) {
		stream_begin(s, 0);
		send_end(s, f);
		return send_last(s);
	}
	if (f->outcome != OUTCOME_NO_DIRECTORY)
		return stream_refuse(s, f);
	auto_free char *line = xasprintf("Failed to change directory to '%s'\n", s->cwd ? s->cwd : agent.workdir);
	stream_begin(s, 0);
	send_output(s, CMD_STDERR, str_of(line), true);
	send_complete(s, f, 1);
	send_last(s);
}

static void stream_started(void *arg, struct cmd *cmd, const struct cmd_result *failure)
{
	struct stream *s = arg;
	s->task = NULL;
	s->cmd = cmd;
	if (failure)
		return stream_fail(s, failure);
	stream_begin(s, cmd_pid(cmd));
	if (!s->kept)
		loop_timer_set(agent.loop, &s->keepalive, SSE_BEAT, on_keepalive);
}

/* ---- the client's side ---- */

static void on_writable(struct http_exchange *x)
{
	struct stream *s = http_exchange_arg(x);
	if (s->cmd)
		cmd_resume(s->cmd);
}

static void give_up(struct stream *s)
{
	if (s->task)
		task_cancel(s->task);
	if (s->cmd) {
		cmd_hangup(s->cmd);
		cmd_abandon(s->cmd);
	}
	stream_free(s);
}

static void stream_client_gone(struct http_exchange *x, bool complete)
{
	(void)complete;
	give_up(http_exchange_arg(x));
}

static const struct http_exchange_ops exchange_ops = {.on_writable = on_writable, .on_close = stream_client_gone};

static void on_kept_drained(void *arg)
{
	struct stream *s = arg;
	if (s->cmd)
		cmd_resume(s->cmd);
}

static void on_kept_gone(void *arg)
{
	give_up(arg);
}

/* Gives the stream its exchange, kept or not. -1: the stream id is not valid. */
static int connect_stream(struct stream *s, const struct agent_request *r, struct err *e)
{
	static const struct kept_ops ops = {.on_drained = on_kept_drained, .on_gone = on_kept_gone};
	struct str id = STR_NULL;
	if (json_read_str(r->body, "streamId", &id, e) < 0)
		return -1;
	if (id.n && !kept_id_ok(id))
		return err_field(e, "streamId", "field 'streamId' must be 1 to %d of [A-Za-z0-9_-]", KEPT_ID_MAX);
	if (id.n && kept_find(id))
		return err_field(e, "streamId", "field 'streamId' must not name a stream that is there");
	s->kept = id.n ? kept_open(id, r->x, &ops, s) : NULL;
	if (!s->kept)
		http_exchange_set(r->x, &exchange_ops, s);
	return 0;
}

void api_execute_stream(struct agent_request *r)
{
	auto_buf struct buf mem = {0};
	auto_run struct run_spec spec = {0};
	struct session *session = NULL;
	struct str id;
	struct err e;
	if (run_spec_read(r->body, 0, &spec, &e) < 0 || agent_request_session(r, &mem, &id, &e) < 0)
		return agent_request_refuse(r, &e);
	if (!session_is_disabled(id) && !(session = session_need(id, &e)))
		return agent_request_fail_about(r, &e, "sessionId", id);
	struct stream *s = xcalloc(1, sizeof *s);
	spec.timeout_ms = session_limit(session, spec.timeout_ms);
	*s = (struct stream){.x = r->x,
		.route = r->route,
		.command = xstrdup(spec.text),
		.cwd = spec.cwd ? xstrdup(spec.cwd) : NULL,
		.session = str_dup(id),
		.sessionless = !session,
		.base64 = spec.base64,
		.timeout_ms = spec.timeout_ms};
	list_push(&streams, &s->node);
	if (connect_stream(s, r, &e) < 0) {
		stream_free(s);
		return agent_request_refuse(r, &e);
	}
	s->task = session_start(session, &spec, &command_ops, s, stream_started, s);
}

/* ---- coming back ---- */

static struct kept *find_kept(struct agent_request *r)
{
	struct kept *k = kept_find(r->id);
	struct err e;
	if (!k) {
		err_set(&e, ERRC_PROCESS_NOT_FOUND, "Stream '%.*s' is not kept (any more)",
			(int)(r->id.n < 80 ? r->id.n : 80), r->id.p);
		agent_request_fail_about(r, &e, "streamId", r->id);
	}
	return k;
}

void api_execute_stream_resume(struct agent_request *r)
{
	auto_buf struct buf mem = {0};
	struct kept *k = find_kept(r);
	struct err e;
	if (!k)
		return;
	struct str last = http_header_value(&http_request(r->x)->headers, STR("Last-Event-ID"));
	if (!last.n)
		last = agent_request_query(r, STR("lastEventId"), &mem);
	if (kept_attach(k, r->x, last, &e) < 0)
		agent_request_fail_about(r, &e, "streamId", r->id);
}

void api_execute_stream_cancel(struct agent_request *r)
{
	struct kept *k = find_kept(r);
	if (!k)
		return;
	kept_cancel(k);
	agent_request_json(r, STR("{\"success\":true}"));
}
