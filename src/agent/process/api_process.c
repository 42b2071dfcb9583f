#include <stdio.h>

#include "agent/agent.h"
#include "agent/api.h"
#include "agent/limits.h"
#include "agent/process/process.h"
#include "agent/process/service.h"
#include "agent/request/reply.h"
#include "agent/request/route.h"
#include "agent/shell/session.h"
#include "base/clock.h"

/*
 * /api/process/…: start, list, get, kill, kill-all, clean up, logs. The stream of logs is in api_process_stream.c.
 */

struct process *agent_request_process(struct agent_request *r)
{
	struct process *p = process_find(r->id);
	if (!p) {
		struct err e;
		err_set(&e, ERRC_PROCESS_NOT_FOUND, "Process '%.*s' not found", (int)(r->id.n < 100 ? r->id.n : 100),
			r->id.p);
		agent_request_fail_about(r, &e, "processId", r->id);
	}
	return p;
}

static void put_process(struct json_writer *w, const struct process *p)
{
	char iso[CLOCK_ISO_LEN];
	json_object_begin(w);
	json_member_cstr(w, "id", p->id);
	json_member_i64(w, "pid", p->pid);
	json_member_cstr(w, "command", p->command);
	json_member_cstr(w, "status", process_status_name(p->status));
	json_member_cstr(w, "startTime", clock_iso(p->start_ms, iso));
	json_member_cstr(w, "sessionId", p->session);
	long restarts = service_restarts(str_of(p->id));
	if (restarts >= 0) {
		json_member_bool(w, "service", true);
		json_member_i64(w, "restarts", restarts);
	}
	if (p->keep_alive)
		json_member_bool(w, "keepAlive", true);
	if (process_is_over(p)) {
		json_member_cstr(w, "endTime", clock_iso(p->end_ms, iso));
		json_member_i64(w, "exitCode", process_exit_code(p));
		json_member_cstr(w, "outcome", outcome_name(p->result.outcome));
	}
	json_object_end(w);
}

/* ---- start ---- */

struct starting {
	struct http_exchange *x; /* NULL: the client is gone */
	const struct route *route;
	struct process *p;
	struct task *task;
	bool is_service;
	struct service_spec service;
};

static void starting_free(struct starting *s)
{
	service_spec_free(&s->service);
	free(s);
}

static const struct http_exchange_ops no_ops;

static void start_client_gone(struct http_exchange *x, bool complete)
{
	(void)complete;
	((struct starting *)http_exchange_arg(x))->x = NULL;
}

static void answer_started(const struct agent_request *r, const struct process *p)
{
	auto_buf struct buf b = {0};
	struct json_writer w = json_writer(&b);
	json_object_begin(&w);
	json_member_bool(&w, "success", true);
	json_member_cstr(&w, "processId", p->id);
	json_member_i64(&w, "pid", p->pid);
	json_member_cstr(&w, "command", p->command);
	json_member_now(&w);
	json_object_end(&w);
	agent_request_json(r, buf_str(&b));
}

static void answer_not_started(struct starting *s, const struct cmd_result *f)
{
	struct agent_request r = {.x = s->x, .route = s->route};
	if (!s->x)
		return;
	http_exchange_set(s->x, &no_ops, NULL);
	agent_request_fail_task(&r, f, s->p->session, "processId", str_of(s->p->id));
}

static void on_started(void *arg, struct cmd *cmd, const struct cmd_result *failure)
{
	struct starting *s = arg;
	struct agent_request r = {.x = s->x, .route = s->route};
	struct err e;
	if (cmd) {
		process_started(s->p, cmd);
		s->service.id = xstrdup(s->p->id);
		if (s->is_service && service_keep(s->p, &s->service, &e) < 0) {
			struct cmd_result f = {.outcome = OUTCOME_NOT_STARTED, .error = e};
			answer_not_started(s, &f);
			process_kill(s->p, SIGKILL);
		} else if (s->x) {
			http_exchange_set(s->x, &no_ops, NULL);
			answer_started(&r, s->p);
		}
	} else {
		struct cmd_result f = *failure;
		if (f.outcome == OUTCOME_NO_DIRECTORY)
			err_set(&f.error, ERRC_PROCESS_ERROR, "Failed to change directory for process '%.100s'",
				s->p->id);
		else if (f.outcome == OUTCOME_TIMEOUT)
			err_set(&f.error, ERRC_PROCESS_ERROR,
				"process '%.100s' was not started: its time limit passed while it waited for the "
				"command before it in session '%.40s'",
				s->p->id, s->p->session);
		answer_not_started(s, &f);
		process_failed(s->p, &f.error);
	}
	starting_free(s);
}

/* The process is killed before its turn in the session has come. */
static void give_up(struct process *p)
{
	struct starting *s = p->give_up_arg;
	struct cmd_result f = {.outcome = OUTCOME_NOT_STARTED};
	task_cancel(s->task);
	err_set(&f.error, ERRC_PROCESS_ERROR, "process '%.100s' was killed before it could start", p->id);
	answer_not_started(s, &f);
	p->give_up = NULL;
	starting_free(s);
}

/* The directory and the variables that the process begins with, as far as they are known without its shell. */
static struct service_spec service_spec_of(const struct run_spec *spec, const struct session *session, bool keep_alive)
{
	struct service_spec ret = {.command = str_dup(spec->command), .keep_alive = keep_alive};
	auto_env struct env full = {0};
	if (spec->cwd)
		ret.cwd = session_path(session, spec->cwd);
	else
		ret.cwd = session ? session_cwd(session) : xstrdup(agent.workdir);
	session_env(session, &full);
	env_apply(&full, &spec->env);
	for (size_t i = 0; i < full.n; i++) {
		struct str value, name = str_split(str_of(full.v[i]), '=', &value);
		auto_free char *key = str_dup(name);
		const char *box = env_get(&agent.env, key);
		if (!box || !str_eq_c(value, box))
			env_put(&ret.env, name, value);
	}
	return ret;
}

void api_process_start(struct agent_request *r)
{
	static const struct http_exchange_ops ops = {.on_close = start_client_gone};
	auto_buf struct buf mem = {0};
	auto_run struct run_spec spec = {0};
	struct str id = STR_NULL, session_id;
	bool service = false, keep_alive = false;
	struct err e;
	if (run_spec_read(r->body, 0, &spec, &e) < 0 || agent_request_session(r, &mem, &session_id, &e) < 0 ||
		json_read_str(r->body, "processId", &id, &e) < 0 ||
		json_read_bool(r->body, "service", &service, &e) < 0 ||
		json_read_bool(r->body, "keepAlive", &keep_alive, &e) < 0)
		return agent_request_refuse(r, &e);
	if (!process_id_ok(id))
		return agent_request_invalid(r, "processId",
			"field 'processId' must be at most 128 bytes, without '/' and NUL, and not the name of a "
			"route");
	struct session *session = NULL;
	if (!session_is_disabled(session_id) && !(session = session_need(session_id, &e)))
		return agent_request_fail(r, &e, STR_NULL);
	struct starting *s = xcalloc(1, sizeof *s);
	*s = (struct starting){.x = r->x, .route = r->route, .is_service = service};
	s->p = process_add(id, spec.command, session_id, &e);
	if (!s->p) {
		free(s);
		return agent_request_fail_about(r, &e, "processId", id);
	}
	/* A service that waited for its next start makes way. */
	if (id.n)
		service_forget(id);
	s->p->keep_alive = keep_alive;
	if (service)
		s->service = service_spec_of(&spec, session, keep_alive);
	s->p->give_up = give_up;
	s->p->give_up_arg = s;
	http_exchange_set(r->x, &ops, s);
	s->task = session_start(session, &spec, &process_cmd_ops, s->p, on_started, s);
}

/* ---- list, get ---- */

void api_process_list(struct agent_request *r)
{
	auto_buf struct buf b = {0}, mem1 = {0}, mem2 = {0};
	struct str status = agent_request_query(r, STR("status"), &mem1);
	struct str session = agent_request_query(r, STR("sessionId"), &mem2);
	struct json_writer w = json_writer(&b);
	json_object_begin(&w);
	json_member_bool(&w, "success", true);
	json_key(&w, "processes");
	json_array_begin(&w);
	list_each(it, process_all())
	{
		struct process *p = list_entry(it, struct process, node);
		if ((status.n && !str_eq_c(status, process_status_name(p->status))) ||
			(session.n && !str_eq_c(session, p->session)))
			continue;
		put_process(&w, p);
	}
	json_array_end(&w);
	json_member_now(&w);
	json_object_end(&w);
	agent_request_json(r, buf_str(&b));
}

void api_process_get(struct agent_request *r)
{
	struct process *p = agent_request_process(r);
	if (!p)
		return;
	auto_buf struct buf b = {0};
	struct json_writer w = json_writer(&b);
	json_object_begin(&w);
	json_member_bool(&w, "success", true);
	json_key(&w, "process");
	put_process(&w, p);
	json_member_now(&w);
	json_object_end(&w);
	agent_request_json(r, buf_str(&b));
}

/* ---- kill ---- */

struct killing {
	struct process_waiter waiter;
	struct http_exchange *x; /* NULL: the client is gone */
	const struct route *route;
};

static void kill_client_gone(struct http_exchange *x, bool complete)
{
	(void)complete;
	((struct killing *)http_exchange_arg(x))->x = NULL;
}

static void answer_killed(const struct agent_request *r, const char *id)
{
	auto_buf struct buf b = {0};
	struct json_writer w = json_writer(&b);
	json_object_begin(&w);
	json_member_bool(&w, "success", true);
	json_member_cstr(&w, "processId", id);
	json_member_now(&w);
	json_object_end(&w);
	agent_request_json(r, buf_str(&b));
}

static void on_killed(struct process_waiter *waiter, struct process *p)
{
	struct killing *k = container_of(waiter, struct killing, waiter);
	if (k->x) {
		struct agent_request r = {.x = k->x, .route = k->route};
		http_exchange_set(k->x, &no_ops, NULL);
		answer_killed(&r, p->id);
	}
	free(k);
}

void api_process_kill(struct agent_request *r)
{
	static const struct http_exchange_ops ops = {.on_close = kill_client_gone};
	auto_buf struct buf mem = {0};
	struct str name = agent_request_query(r, STR("signal"), &mem);
	int sig = name.n ? signal_number(name) : SIGTERM;
	struct process *p = agent_request_process(r);
	struct err e;
	if (!p)
		return;
	if (!sig)
		return agent_request_invalid(r, "signal", "signal must be a name such as SIGINT, or a number");
	bool was_service = (sig == SIGTERM || sig == SIGKILL) && service_forget(r->id);
	if (process_is_over(p) && was_service)
		return answer_killed(r, p->id);
	if (process_is_over(p)) {
		err_set(&e, ERRC_COMMAND_NOT_FOUND, "Command '%.80s' not found or already completed in session '%.80s'",
			p->id, p->session);
		return agent_request_fail_about(r, &e, "processId", r->id);
	}
	if (sig != SIGTERM && sig != SIGKILL) {
		process_kill(p, sig);
		return answer_killed(r, p->id);
	}
	struct killing *k = xcalloc(1, sizeof *k);
	*k = (struct killing){.waiter.on_end = on_killed, .x = r->x, .route = r->route};
	list_push(&p->waiters, &k->waiter.node);
	http_exchange_set(r->x, &ops, k);
	process_kill(p, sig); /* a process that waits for its session ends inside this call */
}

struct kill_all {
	struct http_exchange *x; /* NULL: the client is gone */
	const struct route *route;
	size_t left, total;
	char *session; /* the session that is deleted with its processes; NULL: all processes */
};

struct kill_one {
	struct process_waiter waiter;
	struct kill_all *all;
};

static void all_client_gone(struct http_exchange *x, bool complete)
{
	(void)complete;
	((struct kill_all *)http_exchange_arg(x))->x = NULL;
}

static void answer_count(const struct agent_request *r, size_t n)
{
	auto_buf struct buf b = {0};
	struct json_writer w = json_writer(&b);
	json_object_begin(&w);
	json_member_bool(&w, "success", true);
	json_member_u64(&w, "cleanedCount", n);
	json_member_now(&w);
	json_object_end(&w);
	agent_request_json(r, buf_str(&b));
}

static void answer_session_deleted(const struct agent_request *r, const char *session)
{
	auto_buf struct buf b = {0};
	struct json_writer w = json_writer(&b);
	json_object_begin(&w);
	json_member_bool(&w, "success", true);
	json_member_cstr(&w, "sessionId", session);
	json_member_now(&w);
	json_object_end(&w);
	agent_request_json(r, buf_str(&b));
}

static void one_less(struct kill_all *a)
{
	if (--a->left)
		return;
	if (a->x) {
		struct agent_request r = {.x = a->x, .route = a->route};
		http_exchange_set(a->x, &no_ops, NULL);
		if (a->session)
			answer_session_deleted(&r, a->session);
		else
			answer_count(&r, a->total);
	}
	free(a->session);
	free(a);
}

static void on_one_killed(struct process_waiter *waiter, struct process *p)
{
	(void)p;
	struct kill_one *one = container_of(waiter, struct kill_one, waiter);
	struct kill_all *a = one->all;
	free(one);
	one_less(a);
}

/* Answers when the processes are gone. Takes `session`. */
static void kill_and_answer(const struct agent_request *r, char *session)
{
	static const struct http_exchange_ops ops = {.on_close = all_client_gone};
	struct kill_all *a = xcalloc(1, sizeof *a);
	*a = (struct kill_all){.x = r->x, .route = r->route, .session = session};
	if (!session)
		service_forget_all();
	http_exchange_set(r->x, &ops, a);
	list_each(it, process_all())
	{
		struct process *p = list_entry(it, struct process, node);
		if (process_is_over(p) || (session && strcmp(session, p->session) != 0))
			continue;
		if (session)
			service_forget(str_of(p->id));
		struct kill_one *one = xcalloc(1, sizeof *one);
		*one = (struct kill_one){.waiter.on_end = on_one_killed, .all = a};
		list_push(&p->waiters, &one->waiter.node);
		a->left++;
		a->total++;
	}
	a->left++; /* for this function itself: processes that wait for a session end inside the call */
	process_kill_all(session);
	one_less(a);
}

void api_process_kill_all(struct agent_request *r)
{
	kill_and_answer(r, NULL);
}

void process_end_session(const struct agent_request *r, struct str session)
{
	kill_and_answer(r, str_dup(session));
}

/* Not in upstream's API: forgets the ended processes with their logs. */
void api_process_cleanup(struct agent_request *r)
{
	size_t n = 0;
	list_each(it, process_all())
	{
		struct process *p = list_entry(it, struct process, node);
		if (!process_is_idle(p))
			continue;
		process_forget(p);
		n++;
	}
	answer_count(r, n);
}

/* ---- logs ---- */

/* Separates the two streams. A note about dropped output goes to stdout. */
static int gather_log(const struct proclog *l, struct spool out[2], struct err *e)
{
	struct proclog_at at = {0};
	struct proclog_record rec;
	char note[96];
	int failed = 0;
	while (!failed && proclog_read(l, &at, &rec)) {
		int n = rec.skipped ? snprintf(note, sizeof note, PROCLOG_NOTE, (unsigned long long)rec.skipped) : 0;
		failed = spool_add(&out[0], str_n(note, (size_t)n), e) < 0 ||
			 spool_add(&out[rec.stream == CMD_STDOUT ? 0 : 1], str_n(rec.bytes, rec.n), e) < 0;
	}
	return failed;
}

void api_process_logs(struct agent_request *r)
{
	struct process *p = agent_request_process(r);
	if (!p)
		return;
	struct spool out[2] = {SPOOL_INIT, SPOOL_INIT};
	struct err e;
	int failed = gather_log(&p->log, out, &e);
	if (failed) {
		spool_free(&out[0]);
		spool_free(&out[1]);
		return agent_request_fail_about(r, &e, "processId", r->id);
	}
	struct reply *reply = reply_new();
	struct json_writer w = json_writer(reply_text(reply));
	json_object_begin(&w);
	json_member_bool(&w, "success", true);
	json_member_cstr(&w, "processId", p->id);
	json_key(&w, "stdout");
	reply_add_spool(reply, &out[0], false);
	buf_add_c(reply_text(reply), ",\"stderr\":");
	reply_add_spool(reply, &out[1], false);
	w = (struct json_writer){.out = reply_text(reply), .comma = true};
	json_member_now(&w);
	json_object_end(&w);
	reply_send(reply, r->x, 200);
}
