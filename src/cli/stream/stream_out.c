#include "cli/stream/stream_out.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <sys/stat.h>

enum { OUT_CHUNK = 64 * 1024 };

void stream_out_open(struct stream_out *o, struct loop *l, int fd)
{
	struct stat st;
	char path[32];
	o->fd = fd;
	o->own_fd = -1;
	o->loop = l;
	o->chunk = PIPE_BUF;
	if (fstat(fd, &st) < 0)
		return;
	if (S_ISREG(st.st_mode) || (S_ISCHR(st.st_mode) && !isatty(fd))) {
		o->chunk = OUT_CHUNK;
	} else if (S_ISFIFO(st.st_mode)) {
		snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
		o->own_fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
		if (o->own_fd >= 0)
			o->chunk = OUT_CHUNK;
	}
}

void stream_out_close(struct stream_out *o)
{
	loop_del(&o->io);
	fd_close(&o->own_fd);
	buf_free(&o->pending);
}

static bool takes_more(const struct stream_out *o)
{
	struct pollfd p = {.fd = o->fd, .events = POLLOUT};
	return o->own_fd >= 0 || poll(&p, 1, 0) == 1;
}

static void fail(struct stream_out *o, int os)
{
	o->broken = true;
	buf_clear(&o->pending);
	o->on_broken(o, os);
}

static void flush(struct stream_out *o);

static void on_ready(struct loop_io *io, uint32_t events)
{
	(void)events;
	flush(container_of(io, struct stream_out, io));
}

static void flush(struct stream_out *o)
{
	int fd = o->own_fd >= 0 ? o->own_fd : o->fd;
	while (buf_size(&o->pending) && takes_more(o)) {
		size_t n = buf_size(&o->pending);
		ssize_t r = write(fd, o->pending.p + o->pending.off, n < o->chunk ? n : o->chunk);
		if (r >= 0)
			buf_consume(&o->pending, (size_t)r);
		else if (errno == EAGAIN)
			break;
		else if (errno != EINTR)
			fail(o, errno);
	}
	bool wait = buf_size(&o->pending) > 0;
	if (!wait)
		loop_del(&o->io);
	else if (!o->io.loop && loop_add(o->loop, &o->io, fd, EPOLLOUT, on_ready) < 0)
		fail(o, errno);
	o->on_progress(o);
}

void stream_out_add(struct stream_out *o, struct str bytes)
{
	if (o->broken)
		return;
	buf_add_str(&o->pending, bytes);
	flush(o);
}
