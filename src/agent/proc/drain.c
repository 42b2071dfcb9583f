#include "agent/proc/drain.h"

#include <fcntl.h>

#include "agent/limits.h"
#include "agent/proc/spawn.h"

struct drain {
	struct loop_io io;
	struct loop_timer pause;
	struct loop_task free_task;
	struct loop *loop;
	int fd;
	void (*on_over)(void *arg);
	void *arg;
};

static size_t count;

static void end(struct loop_task *t)
{
	struct drain *d = container_of(t, struct drain, free_task);
	count--;
	if (d->on_over)
		d->on_over(d->arg);
	free(d);
}

static void on_pause_over(struct loop_timer *t)
{
	struct drain *d = container_of(t, struct drain, pause);
	loop_set_events(&d->io, EPOLLIN);
}

static void on_ready(struct loop_io *io, uint32_t events)
{
	(void)events;
	struct drain *d = container_of(io, struct drain, io);
	/* Straight from the pipe to /dev/null: the bytes are never copied. */
	ssize_t n = splice(d->fd, NULL, spawn_null(), NULL, MIB, SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
	if (n > 0) {
		loop_set_events(&d->io, 0);
		loop_timer_set(d->loop, &d->pause, DRAIN_PAUSE, on_pause_over);
		return;
	}
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	loop_timer_stop(&d->pause);
	loop_del(&d->io);
	close(d->fd);
	loop_defer(d->loop, &d->free_task, end);
}

struct drain *drain_adopt(struct loop *l, int fd, void (*on_over)(void *arg), void *arg)
{
	struct drain *d = xcalloc(1, sizeof *d);
	d->loop = l;
	d->fd = fd;
	d->on_over = on_over;
	d->arg = arg;
	count++;
	if (loop_add(l, &d->io, fd, EPOLLIN, on_ready) < 0) {
		close(fd);
		loop_defer(l, &d->free_task, end);
	}
	return d;
}

void drain_forget(struct drain *d)
{
	d->on_over = NULL;
}

size_t drain_count(void)
{
	return count;
}
