#include "agent/proc/output.h"

#include <poll.h>
#include <sys/ioctl.h>

#include "agent/limits.h"
#include "agent/proc/drain.h"

static char scratch[CMD_READ_CHUNK];

static void on_ready(struct loop_io *io, uint32_t events);

static void pipe_close(struct output_pipe *p)
{
	loop_del(&p->io);
	fd_close(&p->fd);
	p->left = 0;
}

static void pipe_watch(struct output_pipe *p)
{
	if (p->fd >= 0 && !p->io.loop && loop_add(p->owner->loop, &p->io, p->fd, EPOLLIN, on_ready) < 0)
		pipe_close(p);
}

/* Reads once. False: there is nothing more now. */
static bool pipe_read(struct output_pipe *p)
{
	struct output *o = p->owner;
	size_t want = o->finishing && p->left < sizeof scratch ? p->left : sizeof scratch;
	ssize_t n = read(p->fd, scratch, want);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	o->seen = true;
	if (n <= 0) {
		pipe_close(p);
		return false;
	}
	if (o->finishing)
		p->left -= (size_t)n;
	o->on_bytes(o, p == &o->pipe[0] ? CMD_STDOUT : CMD_STDERR, str_n(scratch, (size_t)n));
	return true;
}

static void on_ready(struct loop_io *io, uint32_t events)
{
	(void)events;
	pipe_read(container_of(io, struct output_pipe, io));
}

void output_open(struct output *o, struct loop *l, int out_fd, int err_fd)
{
	o->loop = l;
	o->paused = o->finishing = o->done = o->seen = false;
	o->pipe[0] = (struct output_pipe){.fd = out_fd, .owner = o};
	o->pipe[1] = (struct output_pipe){.fd = err_fd, .owner = o};
	for (int i = 0; i < 2; i++)
		pipe_watch(&o->pipe[i]);
}

/* True at the end of the file: no writer is left, or none ever came. poll cannot tell an absent writer from a silent
 * one. A byte that is read here is dropped: all bytes of the command have been read before. */
static bool pipe_is_over(int fd)
{
	char byte;
	ssize_t n = read(fd, &byte, 1);
	return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

static void pipe_let_go(struct output_pipe *p)
{
	struct output *o = p->owner;
	if (p->fd < 0)
		return;
	loop_del(&p->io);
	if (pipe_is_over(p->fd))
		fd_close(&p->fd);
	else if (o->on_held)
		o->on_held(o, p == &o->pipe[0] ? CMD_STDOUT : CMD_STDERR, take_fd(&p->fd));
	else
		drain_adopt(o->loop, take_fd(&p->fd), NULL, NULL);
}

static void advance(struct output *o)
{
	if (!o->finishing || o->done)
		return;
	for (int i = 0; i < 2; i++)
		while (!o->paused && o->pipe[i].fd >= 0 && o->pipe[i].left > 0 && pipe_read(&o->pipe[i]))
			;
	if (o->paused)
		return;
	o->done = true;
	for (int i = 0; i < 2; i++)
		pipe_let_go(&o->pipe[i]);
	o->on_done(o);
}

void output_finish(struct output *o)
{
	if (o->finishing)
		return;
	o->finishing = true;
	for (int i = 0; i < 2; i++) {
		int n = 0;
		struct output_pipe *p = &o->pipe[i];
		loop_del(&p->io);
		if (p->fd >= 0 && ioctl(p->fd, FIONREAD, &n) == 0)
			p->left = (size_t)n;
	}
	advance(o);
}

void output_read(struct output *o)
{
	for (int i = 0; i < 2; i++) {
		int n = 0;
		struct output_pipe *p = &o->pipe[i];
		if (p->fd < 0 || ioctl(p->fd, FIONREAD, &n) < 0)
			continue;
		for (; n > 0 && !o->paused && p->fd >= 0 && pipe_read(p); n -= (int)sizeof scratch)
			;
	}
}

void output_pause(struct output *o)
{
	if (o->paused)
		return;
	o->paused = true;
	/* Out of the loop altogether: with no event asked for, a hung-up pipe would still be reported for ever. */
	for (int i = 0; i < 2; i++)
		loop_del(&o->pipe[i].io);
}

void output_resume(struct output *o)
{
	if (!o->paused || o->done)
		return;
	o->paused = false;
	if (o->finishing)
		advance(o);
	else
		for (int i = 0; i < 2; i++)
			pipe_watch(&o->pipe[i]);
}

/* Whether the pipe has a writer, or had one since it was opened. A named pipe whose reader came first reports the end
 * of the file only after a writer has come and gone; reading tells an absent writer (0) from a silent one (EAGAIN). */
static bool pipe_touched(struct output_pipe *p)
{
	char byte;
	struct pollfd pf = {.fd = p->fd, .events = POLLIN};
	if (p->fd < 0 || poll(&pf, 1, 0) > 0)
		return true;
	ssize_t n = read(p->fd, &byte, 1);
	if (n == 1)
		p->owner->on_bytes(p->owner, p == &p->owner->pipe[0] ? CMD_STDOUT : CMD_STDERR, str_n(&byte, 1));
	return n != 0;
}

bool output_touched(struct output *o)
{
	return o->seen || pipe_touched(&o->pipe[0]) || pipe_touched(&o->pipe[1]);
}

void output_drop(struct output *o)
{
	o->done = o->finishing = true;
	o->on_held = NULL;
	for (int i = 0; i < 2; i++)
		if (o->loop)
			pipe_let_go(&o->pipe[i]);
}
