#include "agent/code/worker.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "agent/agent.h"
#include "agent/code/spare.h"
#include "agent/code/zygote_client.h"
#include "agent/limits.h"
#include "agent/proc/children.h"
#include "agent/proc/drain.h"
#include "agent/proc/oom.h"
#include "agent/proc/proctree.h"

/*
 * Reading. Three descriptors: the socket and two pipes. Bytes of the socket lie in `in` until they are dealt with. At
 * the first byte of each frame the pipes' fill is noted (pipe.left) and delivered before the frame goes on. A pause can
 * come at any point in between and simply stops the stepping.
 *
 * The start. A Python worker may come from the zygote (zygote_client.h): then there is no process until the answer
 * comes, and until it has said that it is ready, whatever goes wrong leads to a plain start.
 *
 * The end. When the process has been reaped, what lies in the socket and the pipes is all that it has said: that much
 * is still delivered, then on_end. A child of it that holds a descriptor open cannot delay that.
 */

enum { FRAME_HEAD = 5, FRAME_LENGTH = 4 };

struct worker_pipe {
	struct loop_io io;
	int fd;
	size_t left; /* to be delivered before the frame at hand */
	struct worker *w;
};

struct worker {
	const struct worker_ops *ops; /* NULL: abandoned */
	void *arg;
	struct worker_spec spec;
	struct zygote_call call; /* while the zygote is asked */
	bool joined;		 /* from the zygote, and not ready yet: failing means that it is started plainly */
	bool preloaded;		 /* from the zygote */
	struct child child;
	pid_t pid;
	int fd, interrupt_fd; /* the second may be -1 */
	uint64_t run;	      /* the last one that was sent */
	struct loop_io io;
	struct buf in, out;
	struct worker_pipe pipe[2];
	size_t socket_left;  /* once exited: what is still in the socket */
	uint64_t frame_left; /* payload of the event that is being passed through */
	bool frame_seen;     /* the pipes have been looked at for the frame at hand */
	bool passing, passed_any;
	bool closed;   /* the end of the socket was read */
	bool unwanted; /* killed before there was a process */
	bool paused, exited, ended, stepping;
	struct loop_timer closed_timer;
	uint64_t oom_before;
	struct worker_end end;
	struct loop_task step_task, plain_task, never_task, free_task;
};

static void on_ready_io(struct loop_io *io, uint32_t events);
static void on_pipe(struct loop_io *io, uint32_t events);
static void step_all(struct worker *w);

/* ---- what is watched ---- */

static void watch(struct worker *w)
{
	uint32_t want =
		w->ended || w->closed || w->fd < 0 ? 0 : (w->paused ? 0 : EPOLLIN) | (buf_size(&w->out) ? EPOLLOUT : 0);
	if (!want)
		loop_del(&w->io);
	else if (!w->io.loop)
		loop_add(agent.loop, &w->io, w->fd, want, on_ready_io);
	else if (w->io.events != want)
		loop_set_events(&w->io, want);
	for (int i = 0; i < 2; i++) {
		struct worker_pipe *p = &w->pipe[i];
		bool on = p->fd >= 0 && !w->paused && !w->ended;
		if (on && !p->io.loop)
			loop_add(agent.loop, &p->io, p->fd, EPOLLIN, on_pipe);
		else if (!on)
			loop_del(&p->io);
	}
}

/* ---- the end ---- */

static void free_worker(struct loop_task *t)
{
	struct worker *w = container_of(t, struct worker, free_task);
	buf_free(&w->in);
	buf_free(&w->out);
	free(w);
}

static void let_go(struct worker *w)
{
	w->ended = true;
	zygote_forget(&w->call);
	loop_timer_stop(&w->closed_timer);
	watch(w);
	fd_close(&w->fd);
	fd_close(&w->interrupt_fd);
	/* Children that were let live may still hold the pipes. */
	for (int i = 0; i < 2; i++)
		if (w->pipe[i].fd >= 0)
			drain_adopt(agent.loop, take_fd(&w->pipe[i].fd), NULL, NULL);
	if (w->exited)
		loop_defer(agent.loop, &w->free_task, free_worker);
}

static void finish(struct worker *w)
{
	const struct worker_ops *ops = w->ops;
	let_go(w);
	if (ops)
		ops->on_end(w->arg, &w->end);
}

static void start_again(struct worker *w);

static size_t waiting(int fd)
{
	int n = 0;
	return fd >= 0 && ioctl(fd, FIONREAD, &n) == 0 && n > 0 ? (size_t)n : 0;
}

static void on_exit_status(struct child *child, int wstatus)
{
	struct worker *w = container_of(child, struct worker, child);
	if (w->joined && !w->ended)
		return start_again(w);
	w->exited = true;
	loop_timer_stop(&w->closed_timer);
	w->end.result = cmd_result_of(wstatus, w->oom_before);
	proctree_kill(w->pid, SIGKILL); /* what it has left behind */
	if (w->ended) {
		loop_defer(agent.loop, &w->free_task, free_worker);
		return;
	}
	w->socket_left = waiting(w->fd);
	step_all(w);
}

/* It does not keep to the protocol: nothing it says from now on counts. */
static void broke(struct worker *w, const char *how)
{
	if (w->end.broken)
		return;
	if (w->joined)
		return start_again(w);
	w->end.broken = how;
	buf_clear(&w->in);
	w->passing = false;
	w->socket_left = 0;
	loop_del(&w->io);
	fd_close(&w->fd);
	worker_kill(w);
}

/* ---- pipes ---- */

static char scratch[CMD_READ_CHUNK];

static bool pipe_read(struct worker_pipe *p, size_t max)
{
	ssize_t n = read(p->fd, scratch, max < sizeof scratch ? max : sizeof scratch);
	if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
		p->left = 0;
		return false;
	}
	if (n <= 0) {
		loop_del(&p->io);
		fd_close(&p->fd);
		p->left = 0;
		return false;
	}
	p->left -= p->left < (size_t)n ? p->left : (size_t)n;
	p->w->ops->on_output(p->w->arg, p == &p->w->pipe[0] ? CMD_STDOUT : CMD_STDERR, str_n(scratch, (size_t)n));
	return true;
}

static void on_pipe(struct loop_io *io, uint32_t events)
{
	(void)events;
	struct worker_pipe *p = container_of(io, struct worker_pipe, io);
	pipe_read(p, sizeof scratch);
}

/* Notes what must go out before the next frame. */
static void look_at_pipes(struct worker *w)
{
	for (int i = 0; i < 2; i++)
		w->pipe[i].left = waiting(w->pipe[i].fd);
	w->frame_seen = true;
}

/* ---- frames ---- */

static bool printable(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] < 0x20 || s.p[i] > 0x7e)
			return false;
	return true;
}

static size_t frame_max(char type)
{
	switch (type) {
	case 'E':
		return CODE_FRAME_MAX;
	case 'X':
		return CODE_ERROR_MAX;
	case 'Y':
	case 'D':
	case 'S':
		return CODE_REPLY_MAX;
	default:
		return 0;
	}
}

static void put_frame(struct worker *w, char type, struct str json)
{
	uint32_t n = (uint32_t)json.n + 1;
	char head[FRAME_HEAD] = {(char)n, (char)(n >> 8), (char)(n >> 16), (char)(n >> 24), type};
	buf_add(&w->out, head, sizeof head);
	buf_add_str(&w->out, json);
}

static void flush_out(struct worker *w)
{
	while (w->fd >= 0 && buf_size(&w->out)) {
		struct str s = buf_str(&w->out);
		ssize_t n = send(w->fd, s.p, s.n, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			break; /* full: later; broken: reading will tell */
		buf_consume(&w->out, (size_t)n);
	}
	if (!w->ended)
		watch(w);
}

/* A piece of an event: as much as is there. */
static bool pass_through(struct worker *w)
{
	struct str s = buf_str(&w->in);
	if (s.n > w->frame_left)
		s.n = (size_t)w->frame_left;
	if (!s.n)
		return false;
	if (!printable(s)) {
		broke(w, "an event that is not one line of ASCII");
		return true;
	}
	bool first = !w->passed_any, last = s.n == w->frame_left;
	w->passed_any = true;
	w->frame_left -= s.n;
	if (last)
		w->passing = w->frame_seen = false;
	w->ops->on_event(w->arg, s, first, last);
	buf_consume(&w->in, s.n);
	return true;
}

static void take_frame(struct worker *w, char type, struct str json)
{
	if (!printable(json))
		return broke(w, "a frame that is not one line of ASCII");
	switch (type) {
	case 'Y':
		w->joined = false;
		return w->ops->on_ready(w->arg);
	case 'X':
		return w->ops->on_error(w->arg, json);
	case 'D':
		return w->ops->on_done(w->arg, json);
	default:
		put_frame(w, 'S', STR("{}"));
		return flush_out(w);
	}
}

/* What lies in the buffer. False: more is needed. */
static bool step_frame(struct worker *w)
{
	if (w->passing)
		return pass_through(w);
	struct str s = buf_str(&w->in);
	if (s.n < FRAME_HEAD)
		return false;
	const unsigned char *h = (const unsigned char *)s.p;
	uint64_t n = h[0] | (uint64_t)h[1] << 8 | (uint64_t)h[2] << 16 | (uint64_t)h[3] << 24;
	char type = s.p[FRAME_LENGTH];
	if (n < 1 || n - 1 > frame_max(type) || (type == 'E' && n == 1)) {
		broke(w, "a frame of unknown type or size");
		return true;
	}
	if (!w->frame_seen) {
		look_at_pipes(w);
		return true;
	}
	if (type == 'E') {
		buf_consume(&w->in, FRAME_HEAD);
		w->passing = true;
		w->passed_any = false;
		w->frame_left = n - 1;
		return true;
	}
	if (s.n < n + FRAME_LENGTH)
		return false;
	w->frame_seen = false;
	take_frame(w, type, str_n(s.p + FRAME_HEAD, (size_t)n - 1));
	if (!w->end.broken)
		buf_consume(&w->in, (size_t)n + FRAME_LENGTH);
	return true;
}

/* A process that ends closes its socket a moment before it can be waited for. One that lives on cannot be talked to. */
static void on_closed_for_long(struct loop_timer *t)
{
	broke(container_of(t, struct worker, closed_timer), "its end of the protocol's socket was closed");
}

/* Reads from the socket once. False: nothing there. */
static bool step_socket(struct worker *w)
{
	size_t max = CMD_READ_CHUNK;
	if (w->exited && w->socket_left < max)
		max = w->socket_left;
	char *room = w->fd >= 0 && !w->closed && max ? buf_room(&w->in, max) : NULL;
	if (!room)
		return false;
	ssize_t n = recv(w->fd, room, max, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
		w->socket_left = 0;
		return false;
	}
	if (n <= 0) {
		w->socket_left = 0;
		w->closed = true;
		if (w->joined)
			start_again(w);
		else if (!w->exited)
			loop_timer_set(agent.loop, &w->closed_timer, CODE_CLOSED_WAIT, on_closed_for_long);
		return false;
	}
	buf_commit(&w->in, (size_t)n);
	w->socket_left -= w->socket_left < (size_t)n ? w->socket_left : (size_t)n;
	return true;
}

static bool step(struct worker *w)
{
	for (int i = 0; i < 2; i++)
		if (w->pipe[i].left)
			return pipe_read(&w->pipe[i], w->pipe[i].left) || true;
	if (step_frame(w) || step_socket(w))
		return true;
	if (!w->exited)
		return false;
	/* All frames have been taken; what is left in the pipes is the last. */
	if (!w->frame_seen) {
		look_at_pipes(w);
		return true;
	}
	finish(w);
	return false;
}

static void step_all(struct worker *w)
{
	if (w->stepping)
		return;
	w->stepping = true;
	while (!w->paused && !w->ended && step(w))
		;
	w->stepping = false;
	if (!w->ended)
		watch(w);
}

static void on_ready_io(struct loop_io *io, uint32_t events)
{
	struct worker *w = container_of(io, struct worker, io);
	if (events & EPOLLOUT)
		flush_out(w);
	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		step_all(w);
}

void worker_pause(struct worker *w)
{
	if (w->paused)
		return;
	w->paused = true;
	watch(w);
}

static void resume_step(struct loop_task *t)
{
	struct worker *w = container_of(t, struct worker, step_task);
	if (!w->ended)
		step_all(w);
}

void worker_resume(struct worker *w)
{
	if (!w->paused)
		return;
	w->paused = false;
	if (!w->ended)
		loop_defer(agent.loop, &w->step_task, resume_step);
}

/* ---- start, run, stop ---- */

static void put_init(struct worker *w, const struct worker_spec *s, bool with_env)
{
	auto_buf struct buf b = {0};
	worker_text_init(&b, s, with_env);
	put_frame(w, 'I', buf_str(&b));
	flush_out(w);
}

/* It is not wanted any more before there is a process. */
static void tell_never_was(struct loop_task *t)
{
	struct worker *w = container_of(t, struct worker, never_task);
	w->exited = true;
	w->end.result = (struct cmd_result){.outcome = OUTCOME_KILLED, .exit_code = 128 + SIGKILL, .signal = SIGKILL};
	if (!w->ended)
		finish(w);
	else
		loop_defer(agent.loop, &w->free_task, free_worker);
}

static void never_was(struct worker *w)
{
	w->unwanted = true;
	zygote_forget(&w->call);
	loop_defer(agent.loop, &w->never_task, tell_never_was);
}

/* A process is there, with our ends of what connects us. */
static void adopt(struct worker *w, pid_t pid, const struct worker_fds *fds, bool with_env)
{
	w->pid = pid;
	w->fd = fds->socket;
	w->interrupt_fd = fds->interrupt;
	w->pipe[0].fd = fds->out;
	w->pipe[1].fd = fds->err;
	child_watch(&w->child, pid, on_exit_status);
	put_init(w, &w->spec, with_env);
}

static int start_plain(struct worker *w, struct err *e)
{
	struct worker_fds fds;
	pid_t pid;
	w->joined = false;
	w->oom_before = oom_kills();
	bool spared = spare_take(&w->spec, &fds, &pid);
	if (!spared && worker_start_plain(&w->spec, &fds, &pid, e) < 0)
		return -1;
	adopt(w, pid, &fds, spared);
	spare_want(w->spec.language);
	return 0;
}

static void start_plain_later(struct loop_task *t)
{
	struct worker *w = container_of(t, struct worker, plain_task);
	struct err e;
	if (w->ended || w->unwanted || start_plain(w, &e) == 0)
		return;
	w->exited = true;
	w->end = (struct worker_end){
		.result = {.outcome = OUTCOME_LOST, .exit_code = 1}, .broken = "it could not be started"};
	finish(w);
}

/* The one from the zygote came to nothing. */
static void start_again(struct worker *w)
{
	w->joined = w->preloaded = false;
	if (w->child.pid)
		proctree_kill(w->pid, SIGKILL);
	child_forget(&w->child);
	loop_del(&w->io);
	fd_close(&w->fd);
	fd_close(&w->interrupt_fd);
	for (int i = 0; i < 2; i++) {
		loop_del(&w->pipe[i].io);
		fd_close(&w->pipe[i].fd);
		w->pipe[i].left = 0;
	}
	buf_clear(&w->in);
	buf_clear(&w->out);
	w->closed = w->frame_seen = w->passing = false;
	loop_defer(agent.loop, &w->plain_task, start_plain_later);
}

static void on_zygote(struct zygote_call *c, pid_t pid, struct worker_fds fds)
{
	struct worker *w = container_of(c, struct worker, call);
	if (!pid)
		return start_again(w);
	w->joined = w->preloaded = true;
	adopt(w, pid, &fds, true);
}

int worker_start(
	const struct worker_spec *s, const struct worker_ops *ops, void *arg, struct worker **ret, struct err *e)
{
	struct worker *w = xcalloc(1, sizeof *w);
	*w = (struct worker){.ops = ops,
		.arg = arg,
		.spec = *s,
		.fd = -1,
		.interrupt_fd = -1,
		.oom_before = oom_kills(),
		.in = {.max = CODE_ERROR_MAX + 2 * CMD_READ_CHUNK},
		.out = {.max = AGENT_BODY_MAX * 2},
		.pipe = {{.fd = -1, .w = w}, {.fd = -1, .w = w}}};
	*ret = w;
	if (worker_may_join(s) && zygote_ask(&w->call, on_zygote))
		return 0;
	if (start_plain(w, e) == 0)
		return 0;
	free(w);
	return -1;
}

void worker_run(struct worker *w, uint64_t id, struct str code, const struct env *env)
{
	auto_buf struct buf b = {.max = AGENT_BODY_MAX * 2};
	worker_text_run(&b, id, code, env);
	w->oom_before = oom_kills();
	w->run = id;
	put_frame(w, 'R', buf_str(&b));
	flush_out(w);
}

pid_t worker_pid(const struct worker *w)
{
	return w->pid;
}

bool worker_preloaded(const struct worker *w)
{
	return w->preloaded;
}

void worker_interrupt(struct worker *w)
{
	if (w->exited || !w->pid)
		return;
	if (w->interrupt_fd >= 0) {
		char text[24];
		int n = snprintf(text, sizeof text, "%llu\n", (unsigned long long)w->run);
		/* Full only when nobody reads it: the kill that follows does without. */
		(void)!write(w->interrupt_fd, text, (size_t)n);
	}
	kill(-w->pid, SIGINT);
}

void worker_kill(struct worker *w)
{
	w->joined = false;
	if (!w->exited && w->child.pid)
		proctree_kill(w->pid, SIGKILL);
	else if (!w->exited)
		never_was(w);
}

void worker_abandon(struct worker *w)
{
	w->ops = NULL;
	worker_kill(w);
	if (!w->ended)
		let_go(w);
}
