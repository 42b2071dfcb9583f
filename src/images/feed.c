/*
 * An archive on its way to the mover. The mover listens on a port of its box; a child of this process connects a socket
 * of the box's network, which the warden has made, and sends the file's bytes from the page cache. They pass neither
 * the daemon nor the agent: the streams of a command took longer than all the rest of an import.
 */
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "images/images.h"

/* The bytes that are in the file by now. */
static uint64_t end_now(const struct layer_source *from)
{
	struct stat st;
	uint64_t end = from->offset + from->size;
	if (fstat(from->fd, &st) < 0)
		return 0;
	return (uint64_t)st.st_size < end ? (uint64_t)st.st_size : end;
}

_Noreturn static void child_life(const struct layer_source *from, int sock, pid_t parent)
{
	off_t offset = (off_t)from->offset;
	uint64_t end = from->offset + from->size;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent || fd_set_nonblock(sock, false) < 0)
		_exit(1);
	while ((uint64_t)offset < end) {
		uint64_t now = end_now(from);
		if (now <= (uint64_t)offset && from->growing) {
			poll(NULL, 0, SERVICE_FEED_PAUSE);
			continue;
		}
		if (now <= (uint64_t)offset || sendfile(sock, from->fd, &offset, (size_t)(now - (uint64_t)offset)) <= 0)
			_exit(1);
	}
	_exit(0);
}

/* The connection is made before the child is: one that is killed at once would leave the mover waiting for it. */
static int start(struct feed *f, uint16_t port, struct err *e)
{
	const struct sockaddr_in at = {
		.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	pid_t self = getpid();
	if (f->from->feeder && *f->from->feeder < 0)
		return err_set(e, ERRC_BAD_GATEWAY, "the fetching has failed");
	auto_fd int sock = store_socket(f->store, f->box, e);
	if (sock < 0)
		return -1;
	if (connect(sock, (const struct sockaddr *)&at, sizeof at) < 0 && errno != EINPROGRESS)
		return err_os(e, ERRC_INTERNAL_ERROR, errno, "connect to the mover");
	f->pid = fork();
	if (f->pid == 0)
		child_life(f->from, sock, self);
	if (f->pid > 0) {
		if (f->from->feeder)
			*f->from->feeder = f->pid;
		return 0;
	}
	f->pid = 0;
	return err_os(e, ERRC_INTERNAL_ERROR, errno, "start a process that sends the archive");
}

int feed_output(struct feed *f, struct str *bytes, struct err *e)
{
	uint64_t port = 0;
	ssize_t end = str_index(*bytes, '\n');
	if (f->pid)
		return 0;
	buf_add(&f->said, bytes->p, end < 0 ? bytes->n : (size_t)end);
	*bytes = str_skip(*bytes, end < 0 ? bytes->n : (size_t)end + 1);
	if (end < 0 && buf_size(&f->said) < 16)
		return 0;
	if (!str_to_u64(buf_str(&f->said), UINT16_MAX, &port) || !port)
		return err_set(e, ERRC_INTERNAL_ERROR, "the mover's port cannot be read");
	return start(f, (uint16_t)port, e);
}

void feed_end(struct feed *f)
{
	if (f->pid) {
		kill(f->pid, SIGKILL);
		waitpid(f->pid, &(int){0}, 0);
		if (f->from->feeder && *f->from->feeder == f->pid)
			*f->from->feeder = 0;
	}
	buf_free(&f->said);
}
