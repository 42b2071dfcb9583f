#include "agent/proc/cmd.h"

#include <fcntl.h>
#include <signal.h>

#include "agent/limits.h"
#include "agent/proc/children.h"
#include "agent/proc/ending.h"
#include "agent/proc/oom.h"
#include "agent/proc/proctree.h"
#include "base/buf.h"
#include "base/clock.h"

struct cmd {
	struct loop *loop;
	const struct cmd_ops *ops; /* NULL: abandoned */
	void *arg;
	struct child child;
	pid_t pid;
	struct output out;
	bool exited, timed_out, held;

	struct loop_io in_io;
	int in_fd;
	struct buf in;
	bool in_end, in_full;

	struct loop_timer limit;
	struct loop_task free_task;
	struct cmd_result result;
	uint64_t started_us, oom_before;
};

/* ---- start ---- */

struct cmd_pipes {
	int in[2], out[2], err[2];
};

static void pipes_close(struct cmd_pipes *p)
{
	int *all[] = {&p->in[0], &p->in[1], &p->out[0], &p->out[1], &p->err[0], &p->err[1]};
	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		fd_close(all[i]);
}

/* Only the agent's ends are non-blocking: a program with a non-blocking stdout would lose output. */
static int pipes_open(struct cmd_pipes *p, bool input)
{
	if (pipe2(p->out, O_CLOEXEC) < 0 || pipe2(p->err, O_CLOEXEC) < 0)
		return -1;
	if (fcntl(p->out[0], F_SETFL, O_NONBLOCK) < 0 || fcntl(p->err[0], F_SETFL, O_NONBLOCK) < 0)
		return -1;
	if (input && (pipe2(p->in, O_CLOEXEC) < 0 || fcntl(p->in[1], F_SETFL, O_NONBLOCK) < 0))
		return -1;
	return 0;
}

static void cmd_on_limit(struct loop_timer *t)
{
	struct cmd *c = container_of(t, struct cmd, limit);
	c->timed_out = true;
	cmd_kill(c);
}

static void on_bytes(struct output *o, int stream, struct str bytes)
{
	struct cmd *c = container_of(o, struct cmd, out);
	c->ops->on_output(c, stream, bytes);
}

static void free_cmd(struct loop_task *t)
{
	struct cmd *c = container_of(t, struct cmd, free_task);
	buf_free(&c->in);
	free(c);
}

static void input_close(struct cmd *c)
{
	loop_del(&c->in_io);
	fd_close(&c->in_fd);
	buf_free(&c->in);
}

static void cmd_on_done(struct output *o)
{
	struct cmd *c = container_of(o, struct cmd, out);
	input_close(c);
	if (c->ops)
		c->ops->on_end(c, &c->result);
	loop_defer(c->loop, &c->free_task, free_cmd);
}

static void cmd_on_exit(struct child *child, int wstatus)
{
	struct cmd *c = container_of(child, struct cmd, child);
	c->exited = true;
	loop_timer_stop(&c->limit);
	c->result = cmd_result_of(wstatus, c->oom_before);
	c->result.duration = (clock_us() - c->started_us + 500) / 1000;
	if (c->timed_out)
		c->result.outcome = OUTCOME_TIMEOUT;
	if (c->held && c->ops) {
		if (c->ops->on_held)
			c->ops->on_held(c);
	} else if (c->out.done)
		cmd_on_done(&c->out); /* abandoned: output_drop was called before */
	else
		output_finish(&c->out);
}

static struct cmd *cmd_new(struct loop *l, const struct cmd_adoption *a, int in_fd)
{
	struct cmd *c = xcalloc(1, sizeof *c);
	*c = (struct cmd){.loop = l,
		.ops = a->ops,
		.arg = a->arg,
		.pid = a->pid,
		.in_fd = in_fd,
		.started_us = clock_us(),
		.in = {.max = CMD_STDIN_HIGH + AGENT_BODY_MAX},
		.out = {.on_bytes = on_bytes, .on_done = cmd_on_done}};
	output_open(&c->out, l, a->out_fd, a->err_fd);
	child_watch(&c->child, a->pid, cmd_on_exit);
	if (a->timeout_ms)
		loop_timer_set(l, &c->limit, a->timeout_ms, cmd_on_limit);
	return c;
}

struct cmd *cmd_adopt(struct loop *l, const struct cmd_adoption *a)
{
	struct cmd *c = cmd_new(l, a, -1);
	c->oom_before = oom_kills();
	return c;
}

int cmd_start(struct loop *l, const struct cmd_spec *s, struct cmd **ret, enum spawn_step *ret_step, struct err *e)
{
	struct cmd_pipes p = {{-1, -1}, {-1, -1}, {-1, -1}};
	*ret_step = SPAWN_CLONE;
	if (pipes_open(&p, s->input) < 0) {
		err_os(e, ERRC_COMMAND_EXECUTION_ERROR, errno, "make pipes for a command");
		pipes_close(&p);
		return -1;
	}
	uint64_t oom_before = oom_kills(), started = clock_us();
	struct spawn_spec sp = {
		.path = s->path, .argv = s->argv, .envp = s->envp, .cwd = s->cwd, .fd = {p.in[0], p.out[1], p.err[1]}};
	pid_t pid;
	int r = spawn(&sp, &pid, ret_step, e);
	if (r == 0) {
		struct cmd_adoption a = {.pid = pid,
			.out_fd = take_fd(&p.out[0]),
			.err_fd = take_fd(&p.err[0]),
			.timeout_ms = s->timeout_ms,
			.ops = s->ops,
			.arg = s->arg};
		struct cmd *c = cmd_new(l, &a, take_fd(&p.in[1]));
		c->started_us = started;
		c->oom_before = oom_before;
		*ret = c;
	}
	pipes_close(&p);
	return r;
}

void *cmd_arg(const struct cmd *c)
{
	return c->arg;
}

pid_t cmd_pid(const struct cmd *c)
{
	return c->pid;
}

/* ---- output ---- */

void cmd_pause(struct cmd *c)
{
	output_pause(&c->out);
}

void cmd_resume(struct cmd *c)
{
	output_resume(&c->out);
}

void cmd_hold(struct cmd *c)
{
	c->held = true;
}

bool cmd_has_ended(const struct cmd *c)
{
	return c->exited;
}

const struct cmd_result *cmd_result(const struct cmd *c)
{
	return &c->result;
}

void cmd_release(struct cmd *c)
{
	INVARIANT(c->exited);
	output_finish(&c->out);
}

void cmd_abandon(struct cmd *c)
{
	c->ops = NULL;
	input_close(c);
	if (!c->out.done)
		output_drop(&c->out);
}

/* ---- input ---- */

static void input_flush(struct cmd *c);

static void on_input_room(struct loop_io *io, uint32_t events)
{
	(void)events;
	input_flush(container_of(io, struct cmd, in_io));
}

static void input_flush(struct cmd *c)
{
	while (c->in_fd >= 0 && buf_size(&c->in)) {
		struct str s = buf_str(&c->in);
		ssize_t n = write(c->in_fd, s.p, s.n);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN) {
			if (!c->in_io.loop)
				loop_add(c->loop, &c->in_io, c->in_fd, EPOLLOUT, on_input_room);
			break;
		}
		if (n < 0) {
			/* The command has closed its input: the rest is dropped, as in a shell's pipe. */
			input_close(c);
			break;
		}
		buf_consume(&c->in, (size_t)n);
	}
	size_t waits = c->in_fd >= 0 ? buf_size(&c->in) : 0;
	if (waits == 0 && c->in_end)
		input_close(c);
	else if (waits == 0)
		loop_del(&c->in_io);
	if (c->in_full && waits <= CMD_STDIN_LOW) {
		c->in_full = false;
		if (c->ops && c->ops->on_input_low)
			c->ops->on_input_low(c);
	}
}

bool cmd_input(struct cmd *c, struct str bytes)
{
	if (c->in_fd < 0 || c->in_end)
		return true;
	buf_add_str(&c->in, bytes);
	input_flush(c);
	if (c->in_fd >= 0 && buf_size(&c->in) > CMD_STDIN_HIGH)
		c->in_full = true;
	return !c->in_full;
}

void cmd_input_end(struct cmd *c)
{
	c->in_end = true;
	input_flush(c);
}

/* ---- signals ---- */

void cmd_signal(struct cmd *c, int sig)
{
	if (!c->exited)
		kill(-c->pid, sig);
}

void cmd_kill(struct cmd *c)
{
	if (!c->exited)
		proctree_kill(c->pid, SIGKILL);
}

void cmd_hangup(struct cmd *c)
{
	if (c->exited)
		return;
	const struct ending_spec spec = {.leader = c->pid, .sig = SIGHUP, .grace_ms = CMD_HANGUP_GRACE};
	ending_begin(c->loop, &spec);
}
