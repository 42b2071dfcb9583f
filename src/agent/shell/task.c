#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>

#include "agent/agent.h"
#include "agent/fuse/mounts.h"
#include "agent/limits.h"
#include "agent/proc/oom.h"
#include "agent/proc/plain.h"
#include "agent/shell/ahead.h"
#include "base/clock.h"

struct task {
	struct list node; /* in the session's queue while it waits */
	struct session *s;
	struct run_spec spec;
	bool cancelled;
	bool refused;		/* too many wait before it */
	struct loop_task alone; /* without a session there is nothing to wait for */

	const struct task_ops *ops; /* runs in the session … */
	void *arg;
	const struct cmd_ops *cmd_ops; /* … or starts a process */
	void *cmd_arg;
	session_on_started on_started;

	struct cmd *cmd; /* executed directly, without the shell */
	uint64_t accepted_us, began_us, oom_before;
	struct loop_timer limit; /* while it waits in the session's queue */
};

static void run_next(struct loop_task *t);

static size_t running;

size_t tasks_running(void)
{
	return running;
}

static void task_free(struct task *t)
{
	running -= t->ops != NULL;
	loop_timer_stop(&t->limit);
	run_spec_free(&t->spec);
	free(t);
}

/* ---- ends ---- */

/* Tells the owner and frees. The session's turn is not passed on here. */
static void task_over(struct task *t, const struct cmd_result *r)
{
	if (!t->cancelled && t->ops)
		t->ops->on_end(t->arg, r);
	else if (!t->cancelled)
		t->on_started(t->arg, NULL, r);
	task_free(t);
}

/* The current task is over; the next waiting task begins. */
static void pass_on(struct session *s)
{
	s->current = NULL;
	if (!s->deleted)
		loop_defer(agent.loop, &s->next_task, run_next);
}

static void task_finish(struct task *t, struct cmd_result *r)
{
	struct session *s = t->s;
	if (t->began_us)
		r->duration = (clock_us() - t->began_us + 500) / 1000;
	if (s)
		s->oom_seen = oom_kills();
	task_over(t, r);
	if (s)
		pass_on(s);
}

static void task_fail(struct task *t, const struct err *e)
{
	struct cmd_result r = cmd_result_not_started(e);
	task_finish(t, &r);
}

/* Adds the error that says how the session's shell ended. A process that could not start has no other result. */
static void describe_shell_end(const struct task *t, struct cmd_result *r)
{
	char how[96];
	if (r->outcome == OUTCOME_OOM)
		snprintf(how, sizeof how, "was killed: the sandbox ran out of memory (exit code: %d)", r->exit_code);
	else if (r->outcome == OUTCOME_LOST)
		snprintf(how, sizeof how, "stopped answering; how the command ended is not known (exit code: unknown)");
	else if (r->signal)
		snprintf(how, sizeof how, "was killed by %s (exit code: %d)", signal_name(r->signal), r->exit_code);
	else
		snprintf(how, sizeof how, "exited (exit code: %d)", r->exit_code);
	if (!t->ops)
		r->outcome = OUTCOME_NOT_STARTED;
	err_set(&r->error, ERRC_SESSION_TERMINATED, "Session '%.100s' terminated: its shell %s%s", t->s->id, how,
		r->skipped ? " before this command, which was not run" : "");
}

/* The shell ended between two commands; this is the first command that can be told. */
static void fail_died(struct task *t)
{
	struct cmd_result r = t->s->death;
	r.session_ended = r.skipped = true;
	struct session *s = t->s;
	s->died = false;
	describe_shell_end(t, &r);
	task_finish(t, &r);
	session_start_over(s);
}

static void fail_no_directory(struct task *t)
{
	struct cmd_result r = {.outcome = OUTCOME_NO_DIRECTORY, .exit_code = 1};
	task_finish(t, &r);
}

/* Its time was over before its turn came: it is not run. */
static struct cmd_result waited_too_long(const struct task *t)
{
	return (struct cmd_result){
		.outcome = OUTCOME_TIMEOUT, .duration = (clock_us() - t->accepted_us + 500) / 1000, .skipped = true};
}

static void on_wait_over(struct loop_timer *timer)
{
	struct task *t = container_of(timer, struct task, limit);
	struct cmd_result r = waited_too_long(t);
	list_del(&t->node);
	t->s->waiting--;
	task_over(t, &r);
}

static struct task *take_first(struct session *s)
{
	s->waiting--;
	return list_entry(list_pop(&s->queue), struct task, node);
}

void session_fail_all(struct session *s)
{
	struct cmd_result r = {.outcome = OUTCOME_NOT_STARTED};
	err_set(&r.error, ERRC_SESSION_DESTROYED, "Session '%.100s' was destroyed", s->id);
	struct task *current = take_ptr(&s->current);
	if (current) {
		if (current->cmd) {
			cmd_hangup(current->cmd);
			cmd_abandon(current->cmd);
		}
		task_over(current, &r);
	}
	while (!list_empty(&s->queue)) {
		struct task *t = take_first(s);
		task_over(t, &r);
	}
}

/* ---- directly ---- */

static void direct_output(struct cmd *c, int stream, struct str bytes)
{
	struct task *t = cmd_arg(c);
	if (!t->cancelled)
		t->ops->on_output(t->arg, stream, bytes);
}

static void direct_end(struct cmd *c, const struct cmd_result *r)
{
	struct task *t = cmd_arg(c);
	struct cmd_result own = *r;
	if (t->s)
		t->s->last_status = r->exit_code;
	t->cmd = NULL;
	task_finish(t, &own);
}

static const struct cmd_ops direct_ops = {.on_output = direct_output, .on_end = direct_end};

/* The directory of the command: its own, or the session's. NULL: its own cannot be entered. */
static char *directory(const struct task *t)
{
	struct stat st;
	char *dir = t->spec.cwd ? session_path(t->s, t->spec.cwd) : t->s ? session_cwd(t->s) : xstrdup(agent.workdir);
	/* Only the command itself can wait for the answer of a FUSE server. */
	if (fuse_mounts_on(dir))
		return dir;
	if (stat(dir, &st) == 0 && S_ISDIR(st.st_mode) && faccessat(AT_FDCWD, dir, X_OK, AT_EACCESS) == 0)
		return dir;
	free(dir);
	/* A session whose first directory is gone begins in $HOME, as with upstream. */
	const char *home = env_get(&agent.env, "HOME");
	return t->spec.cwd ? NULL : xstrdup(home && stat(home, &st) == 0 ? home : "/");
}

static void input_all(struct cmd *c, struct run_spec *s)
{
	if (!s->has_input)
		return;
	cmd_input(c, buf_str(&s->input));
	cmd_input_end(c);
}

/* A session in an image without bash. */
static int start_kept(
	struct task *t, const struct run_place *at, struct cmd **ret, enum spawn_step *step, struct err *e)
{
	static unsigned last;
	char state[SESSION_STATE_PATH];
	if (!t->s->kept)
		t->s->kept = ++last;
	session_state_path(t->s, state);
	bool process = !t->ops;
	const struct run_kept kept = {state, t->spec.cwd ? (process ? "" : "s") : process ? "d" : "dsS"};
	return run_start_kept(&t->spec, at, &kept, ret, step, e);
}

/* Starts the command without the session's shell. Returns 0 when it runs, -1 on failure, and 1 when it needs a shell,
 * unless it is `forced`: then it gets a fresh bash. */
static int start_directly(
	struct task *t, const char *dir, bool forced, struct cmd **ret, enum spawn_step *step, struct err *e)
{
	auto_env struct env env = {0};
	session_env(t->s, &env);
	env_apply(&env, &t->spec.env);
	struct run_place at = {
		.env = &env, .cwd = dir, .ops = t->ops ? &direct_ops : t->cmd_ops, .arg = t->ops ? t : t->cmd_arg};
	int r;
	if (t->s && !agent.shell && run_has_sh() && (forced || t->s->kept))
		r = start_kept(t, &at, ret, step, e);
	else
		r = (forced ? run_start : run_start_plain)(&t->spec, &at, ret, step, e);
	if (r == 0)
		input_all(*ret, &t->spec);
	return r;
}

/* ---- in the shell ---- */

static void on_shell_idle(void *owner)
{
	struct session *s = owner;
	if (!s->current)
		loop_defer(agent.loop, &s->next_task, run_next);
}

static void on_shell_gone(void *owner, const struct cmd_result *untold)
{
	struct session *s = owner;
	s->shell = NULL;
	s->last_status = 0;
	if (untold) {
		s->died = true;
		s->death = *untold;
		cmd_result_check_oom(&s->death, s->oom_seen);
	} else {
		session_start_over(s);
	}
	if (!s->current && !s->deleted)
		loop_defer(agent.loop, &s->next_task, run_next);
}

static const struct shell_owner_ops shell_ops = {.on_idle = on_shell_idle, .on_gone = on_shell_gone};

static int need_shell(struct session *s, struct err *e)
{
	if (!s->shell)
		s->shell = ahead_take(s, &shell_ops);
	if (s->shell)
		return 0;
	if (!agent.shell)
		return err_set(
			e, ERRC_COMMAND_EXECUTION_ERROR, "the image has no shell: sessions run plain commands only");
	auto_env struct env env = {0};
	session_env(s, &env);
	struct shell_spec spec = {.bash = agent.shell,
		.env = &env,
		.cwd = s->cwd ? s->cwd : agent.workdir,
		.ops = &shell_ops,
		.owner = s};
	s->shell = shell_start(agent.loop, &spec, e);
	return s->shell ? 0 : -1;
}

static void shell_output(void *arg, int stream, struct str bytes)
{
	struct task *t = arg;
	if (!t->cancelled)
		t->ops->on_output(t->arg, stream, bytes);
}

static void shell_end(void *arg, const struct cmd_result *r)
{
	struct task *t = arg;
	struct cmd_result own = *r;
	if (own.outcome == OUTCOME_EXITED || own.outcome == OUTCOME_KILLED)
		cmd_result_check_oom(&own, t->oom_before);
	if (own.outcome == OUTCOME_TIMEOUT)
		t->s->last_status = 128 + SIGINT;
	else if (own.session_ended)
		describe_shell_end(t, &own);
	else if (own.outcome != OUTCOME_NO_DIRECTORY)
		t->s->last_status = own.exit_code;
	task_finish(t, &own);
}

static const struct shell_run_ops run_ops = {.on_output = shell_output, .on_end = shell_end};

static void on_spawned(void *arg, pid_t pid, int out_fd, int err_fd, const struct err *e)
{
	struct task *t = arg;
	struct session *s = t->s;
	if (pid < 0) {
		task_fail(t, e);
		return;
	}
	struct cmd_adoption a = {.pid = pid,
		.out_fd = out_fd,
		.err_fd = err_fd,
		.timeout_ms = t->spec.timeout_ms,
		.ops = t->cmd_ops,
		.arg = t->cmd_arg};
	struct cmd *c = cmd_adopt(agent.loop, &a);
	if (t->cancelled) {
		cmd_hangup(c);
		cmd_abandon(c);
	} else {
		t->on_started(t->arg, c, NULL);
	}
	task_free(t);
	pass_on(s);
}

static void run_in_shell(struct task *t, const char *dir)
{
	struct session *s = t->s;
	struct err e;
	INVARIANT(s); /* a task without a session is executed directly */
	struct shell_cmd c = {.command = t->spec.command,
		.env = &t->spec.env,
		.cwd = t->spec.cwd ? dir : NULL,
		.has_input = t->spec.has_input,
		.input = buf_str(&t->spec.input),
		.timeout_ms = t->spec.timeout_ms,
		.last_status = s->last_status};
	int r = need_shell(s, &e);
	if (r == 0)
		r = t->ops ? shell_run(s->shell, &c, &run_ops, t, &e) : shell_spawn(s->shell, &c, on_spawned, t, &e);
	if (r < 0)
		task_fail(t, &e);
}

/* ---- turns ---- */

/* Starts a process without the session's shell: the session has none yet, or there is no session. The first process
 * that needs a shell gets a bash of its own, which begins sooner, unless a shell waits for the session. For the second
 * the session starts its shell, because a copy of a running shell is faster. */
static void start_process(struct task *t, const char *dir)
{
	struct err e;
	enum spawn_step step;
	struct session *s = t->s;
	struct cmd *c;
	int r = s ? start_directly(t, dir, false, &c, &step, &e) : 1;
	if (r == 1 && s && (s->had_process || s->ahead.shell) && agent.shell)
		return run_in_shell(t, dir);
	if (r == 1) {
		if (s)
			s->had_process = true;
		r = start_directly(t, dir, true, &c, &step, &e);
	}
	if (r < 0) {
		if (step == SPAWN_CHDIR)
			fail_no_directory(t);
		else
			task_fail(t, &e);
		return;
	}
	t->on_started(t->arg, c, NULL);
	task_free(t);
	if (s)
		pass_on(s);
}

static void run_directly(struct task *t, const char *dir)
{
	struct err e;
	enum spawn_step step;
	int r = start_directly(t, dir, !t->s, &t->cmd, &step, &e);
	if (r == 1 && !agent.shell && run_has_sh())
		r = start_directly(t, dir, true, &t->cmd, &step, &e);
	if (r == 1)
		run_in_shell(t, dir);
	else if (r < 0 && step == SPAWN_CHDIR)
		fail_no_directory(t);
	else if (r < 0)
		task_fail(t, &e);
}

/* The time limit counts from acceptance: takes off the time for which the task has waited. False: none is left. */
static bool has_time_left(struct task *t)
{
	if (!t->spec.timeout_ms)
		return true;
	loop_timer_stop(&t->limit);
	uint64_t waited = (clock_us() - t->accepted_us) / 1000;
	if (waited >= t->spec.timeout_ms)
		return false;
	t->spec.timeout_ms -= waited;
	return true;
}

static void task_begin(struct task *t)
{
	if (!has_time_left(t)) {
		struct cmd_result r = waited_too_long(t);
		task_finish(t, &r);
		return;
	}
	auto_free char *dir = directory(t);
	t->began_us = clock_us();
	t->oom_before = oom_kills();
	if (t->s && t->s->died)
		fail_died(t);
	else if (!dir)
		fail_no_directory(t);
	else if (t->s && t->s->shell)
		run_in_shell(t, dir);
	else if (t->ops)
		run_directly(t, dir);
	else
		start_process(t, dir);
}

static void run_next(struct loop_task *lt)
{
	struct session *s = container_of(lt, struct session, next_task);
	if (s->deleted || s->current || list_empty(&s->queue) || (s->shell && !shell_is_idle(s->shell)))
		return;
	s->current = take_first(s);
	if (s->current->cancelled) {
		task_free(s->current);
		return pass_on(s);
	}
	task_begin(s->current);
}

static void begin_alone(struct loop_task *lt)
{
	struct task *t = container_of(lt, struct task, alone);
	struct err e;
	if (t->cancelled) {
		task_free(t);
	} else if (t->refused) {
		err_set(&e, ERRC_LIMIT_REACHED, "%d commands wait in this session already", SESSION_QUEUE_MAX);
		task_fail(t, &e);
	} else {
		task_begin(t);
	}
}

static struct task *enqueue(struct session *s, struct task *t)
{
	t->accepted_us = clock_us();
	if (s && s->waiting == SESSION_QUEUE_MAX) {
		t->refused = true;
		t->s = NULL;
	}
	if (!t->s) {
		loop_defer(agent.loop, &t->alone, begin_alone);
		return t;
	}
	s->waiting++;
	list_push(&s->queue, &t->node);
	if (t->spec.timeout_ms)
		loop_timer_set(agent.loop, &t->limit, t->spec.timeout_ms, on_wait_over);
	loop_defer(agent.loop, &s->next_task, run_next);
	return t;
}

struct task *session_run(struct session *s, struct run_spec *spec, const struct task_ops *ops, void *arg)
{
	struct task *t = xcalloc(1, sizeof *t);
	*t = (struct task){.s = s, .spec = run_spec_take(spec), .ops = ops, .arg = arg};
	running++;
	return enqueue(s, t);
}

struct task *session_start(struct session *s, struct run_spec *spec, const struct cmd_ops *ops, void *cmd_arg,
	session_on_started on_started, void *arg)
{
	struct task *t = xcalloc(1, sizeof *t);
	*t = (struct task){.s = s,
		.spec = run_spec_take(spec),
		.cmd_ops = ops,
		.cmd_arg = cmd_arg,
		.on_started = on_started,
		.arg = arg};
	return enqueue(s, t);
}

void task_cancel(struct task *t)
{
	t->cancelled = true;
}
