#include "daemon/storage/image_job_input.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/fd.h"

enum { PIPE = 1 << 20 };

void job_input_init(struct job_input *in, struct loop *l, void (*on_room)(struct job_input *in))
{
	*in = (struct job_input){.fd = -1, .loop = l, .on_room = on_room};
}

static void close_pipe(struct job_input *in)
{
	loop_del(&in->io);
	fd_close(&in->fd);
	buf_clear(&in->waiting);
}

static void on_writable(struct loop_io *io, uint32_t events);

/* Writes until the pipe is full, and closes it behind the last byte. */
static void flush(struct job_input *in)
{
	while (buf_size(&in->waiting)) {
		struct str s = buf_str(&in->waiting);
		ssize_t n = write(in->fd, s.p, s.n);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN) {
			if (!in->io.loop)
				loop_add(in->loop, &in->io, in->fd, EPOLLOUT, on_writable);
			return;
		}
		if (n < 0)
			return close_pipe(in); /* it has read all that it wants */
		buf_consume(&in->waiting, (size_t)n);
	}
	loop_del(&in->io);
	if (in->ended)
		close_pipe(in);
}

static void on_writable(struct loop_io *io, uint32_t events)
{
	struct job_input *in = container_of(io, struct job_input, io);
	(void)events;
	flush(in);
	if (!buf_size(&in->waiting))
		in->on_room(in);
}

int job_input_open(struct job_input *in)
{
	int ends[2];
	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	fcntl(ends[1], F_SETPIPE_SZ, PIPE);
	fd_set_nonblock(ends[1], true);
	in->fd = ends[1];
	in->opened = true;
	/* What came before, and the room for more, from the loop. */
	if (loop_add(in->loop, &in->io, in->fd, EPOLLOUT, on_writable) < 0)
		flush(in);
	return ends[0];
}

bool job_input_write(struct job_input *in, struct str bytes)
{
	if (in->opened && in->fd < 0)
		return true;
	buf_add_str(&in->waiting, bytes);
	if (in->opened)
		flush(in);
	return in->opened && !buf_size(&in->waiting);
}

void job_input_end(struct job_input *in)
{
	in->ended = true;
	if (in->fd >= 0)
		flush(in);
}

void job_input_free(struct job_input *in)
{
	close_pipe(in);
	buf_free(&in->waiting);
}
