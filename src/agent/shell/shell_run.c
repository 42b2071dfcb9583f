#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

#include "agent/limits.h"
#include "agent/proc/proctree.h"
#include "agent/shell/shell_impl.h"
#include "base/fd.h"

/* ---- telling the shell ---- */

/* Each line is a packet of its own: bash gets the second only when it asks for it, after the first is over. A few
 * hundred bytes into a pipe that it has emptied: they fit. */
static int feed_lines(struct shell *s, const struct buf *feed, struct err *e)
{
	struct str rest = buf_str(feed);
	while (rest.n) {
		ssize_t end = str_index(rest, '\n');
		INVARIANT(end >= 0 && end < SHELL_LINE_MAX);
		/* EPIPE: it is ending, or has run the command and ended already; SIGCHLD tells how. */
		if (write(s->feed_fd, rest.p, (size_t)end + 1) != end + 1 && errno != EPIPE)
			return err_os(e, ERRC_COMMAND_EXECUTION_ERROR, errno, "reach the session's shell");
		rest = str_skip(rest, (size_t)end + 1);
	}
	return 0;
}

static int tell(struct shell *s, const struct buf *script, const struct buf *feed, struct err *e)
{
	struct str text = buf_str(script);
	if (ftruncate(s->script_fd, 0) < 0)
		return err_os(e, ERRC_COMMAND_EXECUTION_ERROR, errno, "hand over a command");
	for (size_t at = 0; at < text.n;) {
		ssize_t n = pwrite(s->script_fd, text.p + at, text.n - at, (off_t)at);
		if (n < 0 && errno != EINTR)
			return err_os(e, ERRC_COMMAND_EXECUTION_ERROR, errno, "hand over a command");
		at += n > 0 ? (size_t)n : 0;
	}
	return feed_lines(s, feed, e);
}

/* ---- is it still on its way back? ---- */

static char state_of(pid_t pid)
{
	struct proc p;
	return proc_read(pid, &p) ? p.state : 'X';
}

/* The shell reads its second line only when the first is over. If it has read both, sleeps and has reported nothing, it
 * never will: a command closed its descriptors, or redefined `builtin`. A runnable shell may be waiting for a
 * processor, so it gets more time. A stopped shell (`kill -STOP $$`) is continued here, because nobody else would do
 * it. */
static void on_watch(struct loop_timer *t)
{
	struct shell *s = container_of(t, struct shell, watch);
	char state = state_of(s->pid);
	int unread = 1;
	ioctl(s->feed_fd, FIONREAD, &unread);
	if (state == 'T')
		kill(s->pid, SIGCONT);
	s->looks = unread || state == 'T' ? 0 : s->looks + (state == 'S' ? SHELL_LOOKS_MAX / 2 : 1);
	if (s->looks >= SHELL_LOOKS_MAX) {
		s->lost = true;
		shell_kill(s);
		return;
	}
	loop_timer_set(s->loop, &s->watch, SHELL_WATCH, on_watch);
}

static void watch(struct shell *s)
{
	s->lost = false;
	s->looks = 0;
	loop_timer_set(s->loop, &s->watch, SHELL_WATCH, on_watch);
}

/* ---- foreground: output ---- */

/* bash reports the job that the agent has killed on the command's stderr, as it would in a terminal. The report is not
 * the command's. */
static void fg_late_bytes(struct shell *s)
{
	static const struct str report = STR("Killed\n");
	struct str rest = buf_str(&s->fg.late);
	while (rest.n) {
		const char *hit = memmem(rest.p, rest.n, report.p, report.n);
		size_t n = hit ? (size_t)(hit - rest.p) : rest.n;
		if (n)
			s->fg.ops->on_output(s->fg.arg, CMD_STDERR, str_n(rest.p, n));
		rest = str_skip(rest, hit ? n + report.n : n);
	}
	buf_free(&s->fg.late);
}

static void fg_bytes(struct output *o, int stream, struct str bytes)
{
	struct shell *s = container_of(o, struct shell, fg.out);
	if (!s->fg.aborting || stream != CMD_STDERR)
		return s->fg.ops->on_output(s->fg.arg, stream, bytes);
	buf_add_str(&s->fg.late, bytes);
	if (buf_size(&s->fg.late) > SHELL_LATE_MAX)
		fg_late_bytes(s);
}

static void out_free_again(void *arg)
{
	((struct shell *)arg)->held[0] = NULL;
}

static void err_free_again(void *arg)
{
	((struct shell *)arg)->held[1] = NULL;
}

/* A background job holds the pipe: commands use another pipe until the job is gone. */
static void fg_held(struct output *o, int stream, int fd)
{
	struct shell *s = container_of(o, struct shell, fg.out);
	int i = stream == CMD_STDOUT ? 0 : 1;
	bool own_pipe = i == 0 ? s->out.path[0] == 0 : s->err.path[0] == 0;
	if (own_pipe && !s->held[i])
		s->held[i] = drain_adopt(s->loop, fd, i == 0 ? out_free_again : err_free_again, s);
	else
		drain_adopt(s->loop, fd, NULL, NULL);
}

static void fg_over(struct output *o)
{
	struct shell *s = container_of(o, struct shell, fg.out);
	handoff_free(&s->in);
	handoff_free(&s->out);
	handoff_free(&s->err);
	env_free(&s->fg.env);
	proclist_free(&s->fg.spare);
	free(take_ptr(&s->fg.command));
	free(take_ptr(&s->fg.cwd));
	fg_late_bytes(s);
	s->fg.ops->on_end(s->fg.arg, &s->fg.result);
}

/* ---- foreground: end ---- */

/* Sends a line that the shell answers with y, again and again: an interrupt may have eaten the line before. */
static void send_sync(struct loop_timer *t)
{
	struct shell *s = container_of(t, struct shell, limit);
	auto_buf struct buf feed = {0};
	if (loop_now(s->loop) - s->fg.abort_at > SHELL_ABORT_MAX) {
		shell_kill(s);
		return;
	}
	shell_text_sync(s->seq, &feed);
	feed_lines(s, &feed, NULL); /* a shell that cannot be told is killed above when its time is up */
	loop_timer_set(s->loop, &s->limit, SHELL_SYNC_AGAIN, send_sync);
}

/* The exit code is the last status that the shell reported, or its own when it has ended. */
static void fg_finish(struct shell *s, struct cmd_result r)
{
	bool aborted = s->fg.aborting;
	loop_timer_stop(&s->limit);
	loop_timer_stop(&s->watch);
	r.exit_code = s->fg.status;
	if (aborted && r.outcome != OUTCOME_LOST) {
		r.outcome = OUTCOME_TIMEOUT;
		r.signal = 0;
	}
	s->fg.result = r;
	if (r.session_ended) {
		shell_move(s, SHELL_DEAD);
		output_finish(&s->fg.out);
		return;
	}
	shell_move(s, aborted ? SHELL_SYNC : SHELL_IDLE);
	if (aborted)
		send_sync(&s->limit);
	output_finish(&s->fg.out);
	if (!aborted)
		shell_went_idle(s);
}

/* Once the shell has begun to read its next line an interrupt would do harm: it would eat that line. */
static bool is_back(const struct shell *s)
{
	int unread = 0;
	ioctl(s->feed_fd, FIONREAD, &unread);
	return unread < s->fg.last_line;
}

/* Time is up: interrupt the shell and kill its processes. A loop that is just between two children needs a second
 * round; a shell that has been told to ignore interrupts does not come back at all and is killed in the end. */
static void abort_round(struct loop_timer *t)
{
	struct shell *s = container_of(t, struct shell, limit);
	if (!s->fg.aborting) {
		output_read(&s->fg.out); /* what came before the kill is the command's, whatever it looks like */
		s->fg.aborting = true;
		s->fg.abort_at = loop_now(s->loop);
	}
	if (loop_now(s->loop) - s->fg.abort_at > SHELL_ABORT_MAX) {
		shell_kill(s);
		return;
	}
	if (is_back(s)) {
		loop_timer_set(s->loop, &s->limit, SHELL_SYNC_AGAIN, send_sync);
		return;
	}
	kill(s->pid, SIGINT);
	kill(s->pid, SIGCONT);
	proctree_kill_session(s->pid, SIGKILL, &s->fg.spare);
	loop_timer_set(s->loop, &s->limit, SHELL_ABORT_AGAIN, abort_round);
}

/* ---- foreground: start ---- */

static int fg_tell(struct shell *s, struct err *e)
{
	auto_buf struct buf script = {0}, feed = {0};
	struct shell_text t = {.command = str_of(s->fg.command),
		.env = &s->fg.env,
		.cwd = s->fg.cwd,
		.in = handoff_path(&s->in),
		.out = handoff_path(&s->out),
		.err = handoff_path(&s->err),
		.seq = s->seq,
		.last_status = s->fg.last_status,
		.stoppable = s->fg.timeout_ms > 0};
	(s->fg.as_eval ? shell_text_eval : shell_text_group)(&t, &script, &feed);
	s->fg.last_line = (int)(buf_size(&feed) - (size_t)str_index(buf_str(&feed), '\n') - 1);
	return tell(s, &script, &feed, e);
}

static int open_pipe(struct shell *s, int i, struct handoff *h, struct err *e)
{
	if (s->held[i]) {
		if (handoff_pipe(h, e) < 0)
			return -1;
		return take_fd(&h->fd);
	}
	char name[32];
	snprintf(name, sizeof name, "/proc/self/fd/%d", s->path_fd[i]);
	int fd = open(name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	return fd < 0 ? err_os(e, ERRC_COMMAND_EXECUTION_ERROR, errno, "open a pipe for a command") : fd;
}

static int fg_open(struct shell *s, const struct shell_cmd *c, struct err *e)
{
	if (c->has_input && handoff_file(&s->in, c->input, e) < 0)
		return -1;
	auto_fd int out = open_pipe(s, 0, &s->out, e);
	if (out < 0)
		return -1;
	auto_fd int err = open_pipe(s, 1, &s->err, e);
	if (err < 0)
		return -1;
	s->fg.out = (struct output){.on_bytes = fg_bytes, .on_done = fg_over, .on_held = fg_held};
	output_open(&s->fg.out, s->loop, take_fd(&out), take_fd(&err));
	return 0;
}

static void fg_forget(struct shell *s)
{
	if (s->fg.out.loop)
		output_drop(&s->fg.out);
	handoff_free(&s->in);
	handoff_free(&s->out);
	handoff_free(&s->err);
	env_free(&s->fg.env);
	proclist_free(&s->fg.spare);
	buf_free(&s->fg.late);
	free(take_ptr(&s->fg.command));
	free(take_ptr(&s->fg.cwd));
}

/* A brace more than it opened: as the text of a group it would end that too early and could go on behind it. */
static bool closes_group(struct str command)
{
	int open = 0;
	for (size_t i = 0; i < command.n && open >= 0; i++)
		open += command.p[i] == '{' ? 1 : command.p[i] == '}' ? -1 : 0;
	return open < 0;
}

int shell_run(struct shell *s, const struct shell_cmd *c, const struct shell_run_ops *ops, void *arg, struct err *e)
{
	INVARIANT(s->state == SHELL_IDLE);
	s->seq++;
	s->fg = (struct shell_fg){.ops = ops,
		.arg = arg,
		.command = str_dup(c->command),
		.cwd = c->cwd ? xstrdup(c->cwd) : NULL,
		.timeout_ms = c->timeout_ms,
		.as_eval = closes_group(c->command),
		.began = proc_ticks(),
		.last_status = c->last_status};
	if (c->env)
		env_apply_raw(&s->fg.env, c->env);
	if (c->timeout_ms && proclist_read(&s->fg.spare) == 0)
		proclist_keep_session(&s->fg.spare, s->pid);
	if (fg_open(s, c, e) < 0 || fg_tell(s, e) < 0) {
		fg_forget(s);
		return -1;
	}
	shell_move(s, SHELL_FOREGROUND);
	if (c->timeout_ms)
		loop_timer_set(s->loop, &s->limit, c->timeout_ms, abort_round);
	watch(s);
	return 0;
}

static void quiet_output(void *arg, int stream, struct str bytes)
{
	(void)arg;
	(void)stream;
	(void)bytes;
}

static void quiet_end(void *arg, const struct cmd_result *r)
{
	(void)arg;
	(void)r;
}

static void quiet_spawned(void *arg, pid_t pid, int out_fd, int err_fd, const struct err *e)
{
	(void)arg;
	(void)e;
	fd_close(&out_fd);
	fd_close(&err_fd);
	if (pid > 0)
		kill(-pid, SIGHUP);
}

void shell_run_silence(struct shell *s)
{
	static const struct shell_run_ops quiet = {.on_output = quiet_output, .on_end = quiet_end};
	s->fg.ops = &quiet;
	if (s->on_spawned)
		s->on_spawned = quiet_spawned;
}

/* ---- background ---- */

static bool is_our_child(pid_t pid)
{
	siginfo_t si;
	return waitid(P_PID, (id_t)pid, &si, WEXITED | WNOHANG | WNOWAIT) == 0;
}

/* Any process of the box can write a pid into the control pipe. So the pid must not be a watched child, and must be in
 * the shell's session. The session of a process that has ended already is not known. */
static bool could_be_spawned(const struct shell *s, pid_t pid)
{
	pid_t session = getsid(pid);
	return pid > 1 && !child_find(pid) && (session == s->pid || (session < 0 && errno == ESRCH));
}

/* The owner hears of the process only after the subshell between has gone: a process that ended earlier would be reaped
 * by that subshell, not by the agent. */
static void bg_settle(struct shell *s, bool started, const char *failure)
{
	shell_on_spawned told = s->on_spawned;
	pid_t pid = s->spawned;
	struct err e;
	s->spawned = 0;
	s->on_spawned = NULL;
	handoff_free(&s->in);
	handoff_unlink(&s->out);
	handoff_unlink(&s->err);
	if (started) {
		told(s->spawn_arg, pid, take_fd(&s->out.fd), take_fd(&s->err.fd), NULL);
	} else {
		if (pid > 0)
			kill(-pid, SIGKILL);
		err_set(&e, ERRC_COMMAND_EXECUTION_ERROR, "%s", failure);
		told(s->spawn_arg, -1, -1, -1, &e);
	}
	handoff_free(&s->out);
	handoff_free(&s->err);
	handoff_free(&s->go);
}

int shell_spawn(struct shell *s, const struct shell_cmd *c, shell_on_spawned on_spawned, void *arg, struct err *e)
{
	INVARIANT(s->state == SHELL_IDLE);
	s->seq++;
	auto_buf struct buf script = {0}, feed = {0};
	int r = c->has_input ? handoff_file(&s->in, c->input, e) : 0;
	if (r == 0)
		r = handoff_pipe(&s->out, e);
	if (r == 0)
		r = handoff_pipe(&s->err, e);
	if (r == 0)
		r = handoff_pipe(&s->go, e);
	if (r == 0) {
		struct shell_text t = {.command = c->command,
			.env = c->env,
			.cwd = c->cwd,
			.in = handoff_path(&s->in),
			.out = s->out.path,
			.err = s->err.path,
			.go = s->go.path,
			.seq = s->seq,
			.last_status = c->last_status};
		shell_text_background(&t, &script, &feed);
		r = tell(s, &script, &feed, e);
	}
	if (r < 0) {
		fg_forget(s);
		handoff_free(&s->go);
		return -1;
	}
	s->on_spawned = on_spawned;
	s->spawn_arg = arg;
	shell_move(s, SHELL_BACKGROUND);
	watch(s);
	return 0;
}

/* ---- reports ---- */

/* The shell is back for the second time and has not opened the command's output: it cannot run anything any more
 * (restricted, out of descriptors, its own descriptors closed). No status that it reports is the command's. */
static void fg_is_useless(struct shell *s)
{
	s->lost = true;
	loop_timer_stop(&s->limit);
	shell_kill(s);
}

static void fg_done(struct shell *s, char letter, int value)
{
	/* Something before the command failed, and bash went on with the next line: the status is not the command's. */
	if (letter == 'd' && !output_touched(&s->fg.out))
		return;
	s->fg.report = letter == 'c' ? FG_NO_DIRECTORY : FG_DONE;
	s->fg.status = value;
	/* With a directory of its own the shell has still to go back to where it was. */
	if (!s->fg.cwd && !s->fg.aborting)
		fg_finish(s, (struct cmd_result){.outcome = OUTCOME_EXITED});
}

static void fg_back(struct shell *s, int value)
{
	struct err e;
	bool ran = s->fg.report != FG_RUNNING || s->fg.aborting || output_touched(&s->fg.out);
	if (!ran && s->fg.as_eval) {
		fg_is_useless(s);
	} else if (!ran) {
		/* bash could not parse it. Let bash say why. */
		s->fg.as_eval = true;
		if (fg_tell(s, &e) < 0)
			fg_is_useless(s);
	} else {
		if (s->fg.report == FG_RUNNING)
			s->fg.status = value;
		fg_finish(s, (struct cmd_result){.outcome = s->fg.report == FG_NO_DIRECTORY ? OUTCOME_NO_DIRECTORY
											    : OUTCOME_EXITED});
	}
}

static void fg_reported(struct shell *s, char letter, int value)
{
	if (s->lost && letter != 'y')
		return; /* it has been given up */
	if (letter == 'd' || letter == 'c')
		fg_done(s, letter, value);
	else if (letter == 'e')
		fg_back(s, value);
	else if (letter == 'y')
		fg_finish(s, (struct cmd_result){.outcome = OUTCOME_TIMEOUT});
}

static void bg_reported(struct shell *s, char letter, int value)
{
	if (letter == 'p' && s->on_spawned && could_be_spawned(s, value))
		s->spawned = value;
	else if (letter == 'g' && s->spawned)
		bg_settle(s, true, NULL);
	if (letter != 'e')
		return;
	loop_timer_stop(&s->watch);
	/* The process may have begun while its report is still on the way. */
	if (s->on_spawned)
		bg_settle(s, s->spawned && is_our_child(s->spawned), "the session's shell could not start a process");
	shell_went_idle(s);
}

void shell_reported(struct shell *s, char letter, uint64_t seq, int value)
{
	if (seq != s->seq)
		return;
	if (s->state == SHELL_FOREGROUND) {
		fg_reported(s, letter, value);
	} else if (s->state == SHELL_BACKGROUND) {
		bg_reported(s, letter, value);
	} else if (s->state == SHELL_SYNC && letter == 'y') {
		loop_timer_stop(&s->limit);
		shell_went_idle(s);
	}
}

bool shell_run_died(struct shell *s, const struct cmd_result *r)
{
	if (s->state == SHELL_FOREGROUND) {
		struct cmd_result own = {.outcome = r->outcome, .signal = r->signal, .session_ended = true};
		if (s->lost && !s->fg.aborting)
			own = (struct cmd_result){.outcome = OUTCOME_LOST, .session_ended = true};
		s->fg.status = r->exit_code;
		fg_finish(s, own);
	} else if (s->on_spawned) {
		bg_settle(s, s->spawned && is_our_child(s->spawned), "the session's shell ended");
	} else {
		return false;
	}
	return true;
}
