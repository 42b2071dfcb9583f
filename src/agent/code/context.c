#include "agent/code/context.h"

#include <signal.h>
#include <stdio.h>
#include <sys/random.h>

#include "agent/agent.h"
#include "agent/limits.h"
#include "base/clock.h"

static struct list all;
static size_t all_n, waiting_bytes;

static const bool allowed[CONTEXT_STATES][CONTEXT_STATES] = {
	[CONTEXT_STARTING] = {[CONTEXT_IDLE] = true, [CONTEXT_ENDED] = true, [CONTEXT_DELETED] = true},
	[CONTEXT_IDLE] = {[CONTEXT_RUNNING] = true, [CONTEXT_ENDED] = true, [CONTEXT_DELETED] = true},
	[CONTEXT_RUNNING] = {[CONTEXT_IDLE] = true, [CONTEXT_ENDED] = true, [CONTEXT_DELETED] = true},
	[CONTEXT_ENDED] = {[CONTEXT_DELETED] = true},
	[CONTEXT_DELETED] = {0},
};

static void context_move(struct context *c, enum context_state to)
{
	INVARIANT(allowed[c->state][to]);
	c->state = to;
	INVARIANT(to == CONTEXT_DELETED || (to == CONTEXT_ENDED) == !c->worker);
	INVARIANT(to != CONTEXT_RUNNING || !list_empty(&c->runs));
	INVARIANT(to != CONTEXT_DELETED || list_empty(&c->runs));
}

struct list *context_all(void)
{
	if (!all.next)
		list_init(&all);
	return &all;
}

struct context *context_find(struct str id)
{
	list_each(it, context_all())
	{
		struct context *c = list_entry(it, struct context, node);
		if (str_eq_c(id, c->id))
			return c;
	}
	return NULL;
}

struct context *context_default(enum language l)
{
	list_each(it, context_all())
	{
		struct context *c = list_entry(it, struct context, node);
		if (c->is_default && c->language == l)
			return c;
	}
	return NULL;
}

const char *context_state_name(enum context_state s)
{
	static const char *const names[] = {"starting", "idle", "running", "ended", "deleted"};
	return names[s];
}

static void context_free(struct context *c)
{
	loop_timer_stop(&c->start_timer);
	loop_timer_stop(&c->limit);
	free(c->id);
	free(c->cwd);
	env_free(&c->env);
	buf_free(&c->between[0]);
	buf_free(&c->between[1]);
	free(c);
}

/* ---- runs ---- */

static struct code_run *current_run(struct context *c)
{
	return c->state == CONTEXT_RUNNING ? list_entry(c->runs.next, struct code_run, node) : NULL;
}

static void code_run_free_text(struct code_run *r)
{
	waiting_bytes -= r->code_n;
	free(take_ptr(&r->code));
	r->code_n = 0;
	env_free(&r->env);
}

/* Takes the run out of its context, tells its owner and frees it. */
static void code_run_end(struct code_run *r, enum code_run_over how, struct str json)
{
	list_del(&r->node);
	code_run_free_text(r);
	if (r->ops)
		r->ops->on_over(r, how, json);
	free(r);
}

static void code_runs_end(struct context *c, enum code_run_over how)
{
	while (!list_empty(&c->runs))
		code_run_end(list_entry(list_pop(&c->runs), struct code_run, node), how, STR_NULL);
}

static void on_grace_over(struct loop_timer *t)
{
	worker_kill(container_of(t, struct context, limit)->worker);
}

/* Interrupts again: the first interrupt may have come before the worker had read the run, or the code ignored it. */
static void on_half_grace(struct loop_timer *t)
{
	struct context *c = container_of(t, struct context, limit);
	worker_interrupt(c->worker);
	loop_timer_set(agent.loop, &c->limit, CODE_INTERRUPT_GRACE - CODE_INTERRUPT_GRACE / 2, on_grace_over);
}

static void context_interrupt(struct context *c, enum code_run_stop why)
{
	struct code_run *r = current_run(c);
	if (r->stop == STOP_NONE) {
		worker_interrupt(c->worker);
		loop_timer_set(agent.loop, &c->limit, CODE_INTERRUPT_GRACE / 2, on_half_grace);
	}
	r->stop = why;
}

static void on_limit(struct loop_timer *t)
{
	context_interrupt(container_of(t, struct context, limit), STOP_TIMEOUT);
}

static void deliver_between(struct context *c, struct code_run *r)
{
	if (c->between_dropped) {
		char note[96];
		int n = snprintf(note, sizeof note, "[%llu bytes of output between the runs were dropped]\n",
			(unsigned long long)c->between_dropped);
		c->between_dropped = 0;
		r->ops->on_output(r, CMD_STDERR, str_n(note, (size_t)n));
	}
	for (int i = 0; i < 2; i++) {
		if (buf_size(&c->between[i]))
			r->ops->on_output(r, i + 1, buf_str(&c->between[i]));
		buf_free(&c->between[i]);
	}
}

static void context_run_next(struct context *c)
{
	if (c->state != CONTEXT_IDLE || list_empty(&c->runs))
		return;
	struct code_run *r = list_entry(c->runs.next, struct code_run, node);
	context_move(c, CONTEXT_RUNNING);
	c->used_ms = clock_wall_ms();
	r->ops->on_begin(r);
	deliver_between(c, r);
	worker_run(c->worker, ++c->count, str_n(r->code, r->code_n), &r->env);
	code_run_free_text(r);
	if (r->timeout_ms)
		loop_timer_set(agent.loop, &c->limit, r->timeout_ms, on_limit);
}

size_t context_waiting(const struct context *c)
{
	size_t n = 0;
	list_each(it, &c->runs) n++;
	return n - (c->state == CONTEXT_RUNNING);
}

int context_run(struct context *c, struct code_run *r, struct err *e)
{
	if (context_waiting(c) >= CODE_QUEUE_MAX || (waiting_bytes && waiting_bytes + r->code_n > CODE_QUEUE_BYTES))
		return err_set(e, ERRC_LIMIT_REACHED, "too much code waits in this sandbox's contexts already");
	r->c = c;
	if (!r->timeout_ms)
		r->timeout_ms = c->timeout_ms;
	waiting_bytes += r->code_n;
	list_push(&c->runs, &r->node);
	context_run_next(c);
	return 0;
}

void context_run_drop(struct code_run *r)
{
	struct context *c = r->c;
	if (current_run(c) != r) {
		list_del(&r->node);
		code_run_free_text(r);
		free(r);
		return;
	}
	r->ops = NULL;
	context_interrupt(c, STOP_GONE);
	worker_resume(c->worker);
}

void context_run_resume(struct code_run *r)
{
	if (current_run(r->c) == r)
		worker_resume(r->c->worker);
}

/* ---- events from the worker ---- */

static void tell_started(struct context *c, const struct err *failure)
{
	void (*told)(void *, struct context *, const struct err *) = take_ptr(&c->on_started);
	if (told)
		told(c->started_arg, c, failure);
}

static void context_on_ready(void *arg)
{
	struct context *c = arg;
	if (c->state != CONTEXT_STARTING)
		return;
	loop_timer_stop(&c->start_timer);
	context_move(c, CONTEXT_IDLE);
	tell_started(c, NULL);
	context_run_next(c);
}

static void keep_between(struct context *c, int stream, struct str bytes)
{
	struct buf *b = &c->between[stream - 1];
	size_t room = CODE_BETWEEN_MAX - buf_size(b);
	size_t n = bytes.n < room ? bytes.n : room;
	buf_add(b, bytes.p, n);
	c->between_dropped += bytes.n - n;
}

static void context_on_output(void *arg, int stream, struct str bytes)
{
	struct context *c = arg;
	struct code_run *r = current_run(c);
	if (!r)
		keep_between(c, stream, bytes);
	else if (r->ops && !r->ops->on_output(r, stream, bytes))
		worker_pause(c->worker);
}

static void context_on_event(void *arg, struct str piece, bool first, bool last)
{
	struct context *c = arg;
	struct code_run *r = current_run(c);
	if (r && r->ops && !r->ops->on_event(r, piece, first, last))
		worker_pause(c->worker);
}

static void context_on_error(void *arg, struct str json)
{
	struct context *c = arg;
	struct code_run *r = current_run(c);
	if (c->state == CONTEXT_STARTING)
		err_set(&c->ended, ERRC_CODE_EXECUTION_ERROR, "The %s worker could not start: %.*s",
			language_name(c->language), (int)(json.n < 120 ? json.n : 120), json.p);
	if (!r)
		return;
	r->failed = true;
	if (r->ops && !r->ops->on_error(r, json))
		worker_pause(c->worker);
}

static void context_on_done(void *arg, struct str json)
{
	struct context *c = arg;
	struct code_run *r = current_run(c);
	if (!r)
		return;
	loop_timer_stop(&c->limit);
	context_move(c, CONTEXT_IDLE);
	c->used_ms = clock_wall_ms();
	code_run_end(r, RUN_DONE, json);
	context_run_next(c);
}

/* ---- the end ---- */

static void describe_end(struct context *c, const struct cmd_result *end)
{
	const struct code_run *r = current_run(c);
	const char *lang = language_name(c->language);
	c->outcome = end->outcome;
	if (end->outcome == OUTCOME_LOST) {
		err_set(&c->ended, ERRC_CODE_EXECUTION_ERROR, "The %s process was killed: it broke the protocol (%s)",
			lang, end->error.msg);
	} else if (r && r->stop == STOP_TIMEOUT) {
		c->outcome = OUTCOME_TIMEOUT;
		err_set(&c->ended, ERRC_CODE_EXECUTION_ERROR,
			"Execution timed out after %llu ms; the %s process %s, its state is lost",
			(unsigned long long)r->timeout_ms, lang,
			end->signal == SIGKILL ? "did not react to the interrupt in time and was killed"
					       : "was ended by the interrupt");
	} else if (r && r->stop == STOP_GONE) {
		err_set(&c->ended, ERRC_CODE_EXECUTION_ERROR,
			"Its client went away; the %s process did not react to the interrupt and was killed", lang);
	} else if (end->outcome == OUTCOME_OOM) {
		err_set(&c->ended, ERRC_CODE_EXECUTION_ERROR,
			"The %s process ran out of memory and was killed (SIGKILL)", lang);
	} else if (end->signal) {
		err_set(&c->ended, ERRC_CODE_EXECUTION_ERROR, "The %s process was killed by %s", lang,
			signal_name(end->signal));
	} else if (!c->ended.code) {
		err_set(&c->ended, ERRC_CODE_EXECUTION_ERROR, "The %s process exited with code %d", lang,
			end->exit_code);
	}
}

static void context_gone(struct context *c)
{
	void (*told)(void *) = c->on_deleted;
	void *arg = c->deleted_arg;
	context_free(c);
	if (told)
		told(arg);
}

static void remove_from_list(struct context *c)
{
	list_del(&c->node);
	all_n--;
}

static void context_on_end(void *arg, const struct cmd_result *end)
{
	struct context *c = arg;
	c->worker = NULL;
	loop_timer_stop(&c->start_timer);
	loop_timer_stop(&c->limit);
	if (c->state == CONTEXT_DELETED)
		return context_gone(c);
	describe_end(c, end);
	bool started = c->state != CONTEXT_STARTING;
	context_move(c, CONTEXT_ENDED);
	code_runs_end(c, started ? RUN_ENDED : RUN_REFUSED);
	if (started)
		return;
	/* No client knows a context that never started: free it here. */
	remove_from_list(c);
	tell_started(c, &c->ended);
	context_free(c);
}

void context_delete(struct context *c, void (*on_deleted)(void *arg), void *arg)
{
	struct err e;
	remove_from_list(c);
	code_runs_end(c, RUN_DELETED);
	context_move(c, CONTEXT_DELETED);
	loop_timer_stop(&c->start_timer);
	loop_timer_stop(&c->limit);
	c->on_deleted = on_deleted;
	c->deleted_arg = arg;
	err_set(&e, ERRC_CONTEXT_NOT_FOUND, "The context was deleted");
	tell_started(c, &e);
	if (!c->worker)
		return context_gone(c);
	worker_kill(c->worker);
	worker_resume(c->worker);
}

/* ---- start ---- */

static const struct worker_ops worker_events = {.on_ready = context_on_ready,
	.on_output = context_on_output,
	.on_event = context_on_event,
	.on_error = context_on_error,
	.on_done = context_on_done,
	.on_end = context_on_end};

static void on_start_timeout(struct loop_timer *t)
{
	struct context *c = container_of(t, struct context, start_timer);
	err_set(&c->ended, ERRC_INTERPRETER_NOT_READY, "The %s interpreter did not start within %d s",
		language_name(c->language), CODE_START_TIMEOUT / 1000);
	struct err why = c->ended;
	remove_from_list(c);
	code_runs_end(c, RUN_REFUSED);
	context_move(c, CONTEXT_DELETED);
	tell_started(c, &why);
	worker_kill(c->worker);
}

static char *new_id(const struct context_spec *s)
{
	if (s->is_default)
		return xasprintf("default-%s", language_name(s->language));
	unsigned char b[16];
	INVARIANT(getrandom(b, sizeof b, 0) == (ssize_t)sizeof b);
	b[6] = (unsigned char)((b[6] & 0x0f) | 0x40);
	b[8] = (unsigned char)((b[8] & 0x3f) | 0x80);
	return xasprintf("%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1], b[2], b[3],
		b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
}

/* Makes room for one more context: the oldest ended context goes. */
static int make_room(struct err *e)
{
	if (all_n < CODE_CONTEXTS_MAX)
		return 0;
	list_each(it, context_all())
	{
		struct context *c = list_entry(it, struct context, node);
		if (c->state == CONTEXT_ENDED) {
			context_delete(c, NULL, NULL);
			return 0;
		}
	}
	return err_set(e, ERRC_LIMIT_REACHED, "this sandbox has %d code contexts; delete one first", CODE_CONTEXTS_MAX);
}

struct context *context_create(const struct context_spec *s,
	void (*on_started)(void *arg, struct context *c, const struct err *failure), void *arg, struct err *e)
{
	if (make_room(e) < 0)
		return NULL;
	struct context *c = xcalloc(1, sizeof *c);
	c->id = new_id(s);
	c->cwd = xstrdup(s->cwd);
	c->timeout_ms = s->timeout_ms;
	c->language = s->language;
	c->is_default = s->is_default;
	c->created_ms = c->used_ms = clock_wall_ms();
	c->on_started = on_started;
	c->started_arg = arg;
	list_init(&c->runs);
	env_apply(&c->env, &agent.env);
	env_apply(&c->env, s->env);
	env_put(&c->env, STR("PWD"), str_of(c->cwd));
	struct worker_spec ws = {.language = c->language, .cwd = c->cwd, .context = c->id, .env = &c->env};
	if (worker_start(&ws, &worker_events, c, &c->worker, e) < 0) {
		context_free(c);
		return NULL;
	}
	loop_timer_set(agent.loop, &c->start_timer, CODE_START_TIMEOUT, on_start_timeout);
	list_push(context_all(), &c->node);
	all_n++;
	return c;
}
