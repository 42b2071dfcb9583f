#include <stdio.h>

#include "agent/agent.h"
#include "agent/api.h"
#include "agent/process.h"
#include "agent/reply.h"
#include "agent/session.h"
#include "base/clock.h"
#include "base/limits.h"

/*
 * /api/process/…: start, list, get, kill, kill-all, clean up, logs. The stream of logs is in api_process_stream.c.
 */

struct process *request_process(struct request *r)
{
	struct process *p = process_find(r->id);
	if (!p) {
		struct err e;
		err_set(&e, ERRC_PROCESS_NOT_FOUND, "Process '%.*s' not found", (int)(r->id.n < 100 ? r->id.n : 100),
			r->id.p);
		request_fail_about(r, &e, "processId", r->id);
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
};

static const struct http_exchange_ops no_ops;

static void start_client_gone(struct http_exchange *x, bool complete)
{
	(void)complete;
	((struct starting *)http_exchange_arg(x))->x = NULL;
}

static void answer_started(const struct request *r, const struct process *p)
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
	request_json(r, buf_str(&b));
}

static void on_started(void *arg, struct cmd *cmd, const struct task_result *failure)
{
	struct starting *s = arg;
	struct request r = {.x = s->x, .route = s->route};
	if (s->x)
		http_exchange_set(s->x, &no_ops, NULL);
	if (cmd) {
		process_started(s->p, cmd);
		if (s->x)
			answer_started(&r, s->p);
	} else {
		struct err e = failure->error;
		if (failure->end == TASK_NO_DIRECTORY)
			err_set(&e, ERRC_PROCESS_ERROR, "Failed to change directory for process '%.100s'", s->p->id);
		if (s->x)
			request_fail_about(&r, &e, "processId", str_of(s->p->id));
		process_remove(s->p);
	}
	free(s);
}

void api_process_start(struct request *r)
{
	static const struct http_exchange_ops ops = {.on_close = start_client_gone};
	auto_buf struct buf mem = {0};
	auto_run struct run_spec spec = {0};
	struct str id = STR_NULL, session_id;
	struct err e;
	if (run_spec_read(r->body, 0, &spec, &e) < 0 || request_session(r, &mem, &session_id, &e) < 0 ||
		json_read_str(r->body, "processId", &id, &e) < 0)
		return request_fail(r, &e, STR_NULL);
	if (id.n > PROCESS_ID_MAX || (id.n && memchr(id.p, '/', id.n)))
		return request_invalid(r, "processId", "field 'processId' must be short and without '/'");
	struct session *session = NULL;
	if (!session_is_disabled(session_id) && !(session = session_need(session_id, &e)))
		return request_fail(r, &e, STR_NULL);
	struct starting *s = xcalloc(1, sizeof *s);
	*s = (struct starting){.x = r->x, .route = r->route};
	s->p = process_add(id, spec.command, session_id, &e);
	if (!s->p) {
		free(s);
		return request_fail_about(r, &e, "processId", id);
	}
	http_exchange_set(r->x, &ops, s);
	session_start(session, &spec, &process_cmd_ops, s->p, on_started, s);
}

/* ---- list, get ---- */

void api_process_list(struct request *r)
{
	auto_buf struct buf b = {0}, mem1 = {0}, mem2 = {0};
	struct str status = request_query(r, STR("status"), &mem1);
	struct str session = request_query(r, STR("sessionId"), &mem2);
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
	request_json(r, buf_str(&b));
}

void api_process_get(struct request *r)
{
	struct process *p = request_process(r);
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
	request_json(r, buf_str(&b));
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

static void answer_killed(const struct request *r, const char *id)
{
	auto_buf struct buf b = {0};
	struct json_writer w = json_writer(&b);
	json_object_begin(&w);
	json_member_bool(&w, "success", true);
	json_member_cstr(&w, "processId", id);
	json_member_now(&w);
	json_object_end(&w);
	request_json(r, buf_str(&b));
}

static void on_killed(struct process_waiter *waiter, struct process *p)
{
	struct killing *k = container_of(waiter, struct killing, waiter);
	if (k->x) {
		struct request r = {.x = k->x, .route = k->route};
		http_exchange_set(k->x, &no_ops, NULL);
		answer_killed(&r, p->id);
	}
	free(k);
}

void api_process_kill(struct request *r)
{
	static const struct http_exchange_ops ops = {.on_close = kill_client_gone};
	auto_buf struct buf mem = {0};
	struct str name = request_query(r, STR("signal"), &mem);
	int sig = name.n ? signal_number(name) : SIGTERM;
	struct process *p = request_process(r);
	struct err e;
	if (!p)
		return;
	if (!sig)
		return request_invalid(r, "signal", "signal must be a name such as SIGINT, or a number");
	if (process_is_over(p)) {
		err_set(&e, ERRC_COMMAND_NOT_FOUND, "Command '%.80s' not found or already completed in session '%.80s'",
			p->id, p->session);
		return request_fail_about(r, &e, "processId", r->id);
	}
	process_kill(p, sig);
	if (sig != SIGTERM && sig != SIGKILL)
		return answer_killed(r, p->id);
	struct killing *k = xcalloc(1, sizeof *k);
	*k = (struct killing){.waiter.on_end = on_killed, .x = r->x, .route = r->route};
	list_push(&p->waiters, &k->waiter.node);
	http_exchange_set(r->x, &ops, k);
}

struct kill_all {
	struct http_exchange *x;
	const struct route *route;
	size_t left, total;
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

static void answer_count(const struct request *r, size_t n)
{
	auto_buf struct buf b = {0};
	struct json_writer w = json_writer(&b);
	json_object_begin(&w);
	json_member_bool(&w, "success", true);
	json_member_u64(&w, "cleanedCount", n);
	json_member_now(&w);
	json_object_end(&w);
	request_json(r, buf_str(&b));
}

static void on_one_killed(struct process_waiter *waiter, struct process *p)
{
	(void)p;
	struct kill_one *one = container_of(waiter, struct kill_one, waiter);
	struct kill_all *a = one->all;
	free(one);
	if (--a->left)
		return;
	if (a->x) {
		struct request r = {.x = a->x, .route = a->route};
		http_exchange_set(a->x, &no_ops, NULL);
		answer_count(&r, a->total);
	}
	free(a);
}

void api_process_kill_all(struct request *r)
{
	static const struct http_exchange_ops ops = {.on_close = all_client_gone};
	struct kill_all *a = xcalloc(1, sizeof *a);
	*a = (struct kill_all){.x = r->x, .route = r->route};
	list_each(it, process_all())
	{
		struct process *p = list_entry(it, struct process, node);
		if (p->status != PROCESS_RUNNING)
			continue;
		struct kill_one *one = xcalloc(1, sizeof *one);
		*one = (struct kill_one){.waiter.on_end = on_one_killed, .all = a};
		list_push(&p->waiters, &one->waiter.node);
		a->left++;
		a->total++;
		process_kill(p, SIGTERM);
	}
	if (!a->total) {
		free(a);
		return answer_count(r, 0);
	}
	http_exchange_set(r->x, &ops, a);
}

/* Ours: forgets the ended ones with their logs. */
void api_process_cleanup(struct request *r)
{
	size_t n = 0;
	list_each(it, process_all())
	{
		struct process *p = list_entry(it, struct process, node);
		if (!process_is_idle(p))
			continue;
		process_remove(p);
		n++;
	}
	answer_count(r, n);
}

/* ---- logs ---- */

void api_process_logs(struct request *r)
{
	struct process *p = request_process(r);
	if (!p)
		return;
	struct spool out[2] = {SPOOL_INIT, SPOOL_INIT};
	struct proclog_record rec;
	struct err e;
	char note[96];
	if (p->log.dropped) {
		int n = snprintf(note, sizeof note, "[%llu bytes of earlier output were dropped]\n",
			(unsigned long long)p->log.dropped);
		spool_add(&out[0], str_n(note, (size_t)n), &e);
	}
	int failed = 0;
	for (uint64_t at = 0; proclog_read(&p->log, &at, &rec);)
		failed |= spool_add(&out[rec.stream == CMD_STDOUT ? 0 : 1], str_n(rec.bytes, rec.n), &e);
	if (failed) {
		spool_free(&out[0]);
		spool_free(&out[1]);
		return request_fail_about(r, &e, "processId", r->id);
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
