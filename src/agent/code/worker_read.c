/*
 * Reading from a worker's process: frames from its socket, output from its two pipes.
 *
 * Bytes of the socket lie in `in` until they are dealt with. At the first byte of each frame the reader notes how much
 * lies in the pipes (pipe.left) and delivers that much before the frame. A pause may come at any point in between; it
 * stops the stepping, and worker_resume goes on at the same point.
 *
 * When the process has been reaped, the bytes in the socket and the pipes are all that it has said. The reader delivers
 * that much, then worker_finish is called. A child of the process that holds a descriptor open cannot delay it.
 */
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "agent/agent.h"
#include "agent/code/worker_impl.h"

enum { FRAME_HEAD = 5, FRAME_LENGTH = 4 };

static void on_socket(struct loop_io *io, uint32_t events);
static void on_pipe(struct loop_io *io, uint32_t events);

static void watch(struct worker *w)
{
	uint32_t want = w->closed || w->fd < 0 ? 0 : (w->paused ? 0 : EPOLLIN) | (buf_size(&w->out) ? EPOLLOUT : 0);
	if (w->state == WORKER_ENDED)
		return;
	if (!want)
		loop_del(&w->io);
	else if (!w->io.loop)
		loop_add(agent.loop, &w->io, w->fd, want, on_socket);
	else if (w->io.events != want)
		loop_set_events(&w->io, want);
	for (int i = 0; i < 2; i++) {
		struct worker_pipe *p = &w->pipe[i];
		bool on = p->fd >= 0 && !w->paused;
		if (on && !p->io.loop)
			loop_add(agent.loop, &p->io, p->fd, EPOLLIN, on_pipe);
		else if (!on)
			loop_del(&p->io);
	}
}

static size_t unread_bytes(int fd)
{
	int n = 0;
	return fd >= 0 && ioctl(fd, FIONREAD, &n) == 0 && n > 0 ? (size_t)n : 0;
}

/* ---- pipes ---- */

static char scratch[CMD_READ_CHUNK];

static void pipe_read(struct worker_pipe *p, size_t max)
{
	ssize_t n = read(p->fd, scratch, max < sizeof scratch ? max : sizeof scratch);
	if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
		p->left = 0;
		return;
	}
	if (n <= 0) {
		loop_del(&p->io);
		fd_close(&p->fd);
		p->left = 0;
		return;
	}
	p->left -= p->left < (size_t)n ? p->left : (size_t)n;
	p->w->ops->on_output(p->w->arg, p == &p->w->pipe[0] ? CMD_STDOUT : CMD_STDERR, str_n(scratch, (size_t)n));
}

static void on_pipe(struct loop_io *io, uint32_t events)
{
	(void)events;
	pipe_read(container_of(io, struct worker_pipe, io), sizeof scratch);
}

/* Notes how much output must be delivered before the next frame. */
static void look_at_pipes(struct worker *w)
{
	for (int i = 0; i < 2; i++)
		w->pipe[i].left = unread_bytes(w->pipe[i].fd);
	w->part = PART_PIPES_SEEN;
}

/* ---- frames to the process ---- */

static void flush_out(struct worker *w)
{
	while (w->fd >= 0 && buf_size(&w->out)) {
		struct str s = buf_str(&w->out);
		ssize_t n = send(w->fd, s.p, s.n, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			break; /* full: EPOLLOUT goes on; broken: reading will tell */
		buf_consume(&w->out, (size_t)n);
	}
	watch(w);
}

void worker_send(struct worker *w, char type, struct str json)
{
	uint32_t n = (uint32_t)json.n + 1;
	char head[FRAME_HEAD] = {(char)n, (char)(n >> 8), (char)(n >> 16), (char)(n >> 24), type};
	buf_add(&w->out, head, sizeof head);
	buf_add_str(&w->out, json);
	flush_out(w);
}

/* ---- frames from the process ---- */

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

/* Delivers a piece of an event: as much of it as has been read. */
static bool pass_through(struct worker *w)
{
	struct str s = buf_str(&w->in);
	if (s.n > w->event_left)
		s.n = (size_t)w->event_left;
	if (!s.n)
		return false;
	if (!printable(s)) {
		worker_broke(w, "an event that is not one line of ASCII");
		return true;
	}
	bool first = w->part == PART_EVENT_FIRST, last = s.n == w->event_left;
	w->event_left -= s.n;
	w->part = last ? PART_NONE : PART_EVENT_REST;
	w->ops->on_event(w->arg, s, first, last);
	buf_consume(&w->in, s.n);
	return true;
}

static void deliver_frame(struct worker *w, char type, struct str json)
{
	switch (type) {
	case 'Y':
		if (w->state == WORKER_JOINING)
			worker_move(w, WORKER_RUNNING);
		return w->ops->on_ready(w->arg);
	case 'X':
		return w->ops->on_error(w->arg, json);
	case 'D':
		return w->ops->on_done(w->arg, json);
	default:
		return worker_send(w, 'S', STR("{}"));
	}
}

/* Takes one step with the bytes in the buffer. False: more bytes are needed. */
static bool step_frame(struct worker *w)
{
	if (w->part >= PART_EVENT_FIRST)
		return pass_through(w);
	struct str s = buf_str(&w->in);
	if (s.n < FRAME_HEAD)
		return false;
	const unsigned char *h = (const unsigned char *)s.p;
	uint64_t n = h[0] | (uint64_t)h[1] << 8 | (uint64_t)h[2] << 16 | (uint64_t)h[3] << 24;
	char type = s.p[FRAME_LENGTH];
	if (n < 1 || n - 1 > frame_max(type) || (type == 'E' && n == 1)) {
		worker_broke(w, "a frame of unknown type or size");
		return true;
	}
	if (w->part == PART_NONE) {
		look_at_pipes(w);
		return true;
	}
	if (type == 'E') {
		buf_consume(&w->in, FRAME_HEAD);
		w->part = PART_EVENT_FIRST;
		w->event_left = n - 1;
		return true;
	}
	if (s.n < n + FRAME_LENGTH)
		return false;
	struct str json = str_n(s.p + FRAME_HEAD, (size_t)n - 1);
	w->part = PART_NONE;
	if (!printable(json)) {
		worker_broke(w, "a frame that is not one line of ASCII");
		return true;
	}
	deliver_frame(w, type, json);
	buf_consume(&w->in, (size_t)n + FRAME_LENGTH);
	return true;
}

/* A process that ends closes its socket a moment before it can be reaped. A process that lives on without its socket
 * cannot be talked to. */
static void on_closed_for_long(struct loop_timer *t)
{
	worker_broke(container_of(t, struct worker, closed_timer), "its end of the protocol's socket was closed");
}

/* Reads from the socket once. False: it had nothing. */
static bool step_socket(struct worker *w)
{
	size_t max = CMD_READ_CHUNK;
	if (w->state == WORKER_EXITED && w->socket_left < max)
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
		if (w->state == WORKER_JOINING)
			worker_restart(w);
		else if (w->state != WORKER_EXITED)
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
		if (w->pipe[i].left) {
			pipe_read(&w->pipe[i], w->pipe[i].left);
			return true;
		}
	if (step_frame(w) || step_socket(w))
		return true;
	if (w->state != WORKER_EXITED)
		return false;
	/* All frames have been delivered. The rest of the output comes last. */
	if (w->part == PART_NONE) {
		look_at_pipes(w);
		return true;
	}
	worker_finish(w);
	return false;
}

void worker_read(struct worker *w)
{
	if (w->stepping)
		return;
	w->stepping = true;
	while (!w->paused && w->state != WORKER_ENDED && step(w))
		;
	w->stepping = false;
	watch(w);
}

static void on_socket(struct loop_io *io, uint32_t events)
{
	struct worker *w = container_of(io, struct worker, io);
	if (events & EPOLLOUT)
		flush_out(w);
	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		worker_read(w);
}

void worker_read_last(struct worker *w)
{
	w->socket_left = unread_bytes(w->fd);
}

void worker_read_reset(struct worker *w)
{
	loop_timer_stop(&w->closed_timer);
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
	w->closed = false;
	w->part = PART_NONE;
}

/* ---- backpressure ---- */

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
	if (w->state != WORKER_ENDED)
		worker_read(w);
}

void worker_resume(struct worker *w)
{
	if (!w->paused)
		return;
	w->paused = false;
	if (w->state != WORKER_ENDED)
		loop_defer(agent.loop, &w->step_task, resume_step);
}
