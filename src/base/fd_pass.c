#include "base/fd_pass.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Room for the descriptors and for the sender's credentials, aligned as the kernel wants it. */
union control {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(FD_PASS_MAX * sizeof(int)) + CMSG_SPACE(sizeof(struct ucred))];
};

ssize_t fd_send(int sock, const void *data, size_t size, const int *fds, size_t fds_n, int flags)
{
	union control control;
	struct iovec iov = {(void *)data, size};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
	INVARIANT(fds_n <= FD_PASS_MAX);
	if (fds_n) {
		memset(&control, 0, CMSG_SPACE(fds_n * sizeof *fds));
		m.msg_control = control.bytes;
		m.msg_controllen = (unsigned)CMSG_SPACE(fds_n * sizeof *fds);
		struct cmsghdr *h = CMSG_FIRSTHDR(&m);
		h->cmsg_level = SOL_SOCKET;
		h->cmsg_type = SCM_RIGHTS;
		h->cmsg_len = (unsigned)CMSG_LEN(fds_n * sizeof *fds);
		memcpy(CMSG_DATA(h), fds, fds_n * sizeof *fds);
	}
	ssize_t n;
	do
		n = sendmsg(sock, &m, flags | MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

static void take_fds(const struct cmsghdr *h, struct fd_record *r, bool *surplus)
{
	size_t n = (h->cmsg_len - CMSG_LEN(0)) / sizeof(int);
	for (size_t i = 0; i < n; i++) {
		int fd;
		memcpy(&fd, CMSG_DATA(h) + i * sizeof fd, sizeof fd);
		if (r->fds_n < r->fds_max) {
			r->fds[r->fds_n++] = fd;
		} else {
			close(fd);
			*surplus = true;
		}
	}
}

ssize_t fd_recv(int sock, struct fd_record *r, int flags)
{
	union control control;
	struct iovec iov = {r->data, r->size};
	struct msghdr m = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
	r->fds_n = 0;
	r->pid = 0;
	ssize_t n;
	do
		n = recvmsg(sock, &m, flags | MSG_CMSG_CLOEXEC | MSG_TRUNC);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	bool surplus = m.msg_flags & MSG_CTRUNC;
	for (struct cmsghdr *h = CMSG_FIRSTHDR(&m); h; h = CMSG_NXTHDR(&m, h)) {
		struct ucred who;
		if (h->cmsg_level != SOL_SOCKET)
			continue;
		if (h->cmsg_type == SCM_RIGHTS)
			take_fds(h, r, &surplus);
		if (h->cmsg_type == SCM_CREDENTIALS && h->cmsg_len == CMSG_LEN(sizeof who)) {
			memcpy(&who, CMSG_DATA(h), sizeof who);
			r->pid = who.pid;
		}
	}
	if (!surplus)
		return n;
	fd_record_close(r);
	return -EPROTO;
}

void fd_record_close(struct fd_record *r)
{
	for (size_t i = 0; i < r->fds_n; i++)
		close(r->fds[i]);
	r->fds_n = 0;
}
