#include "base/fd.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

int fd_set_nonblock(int fd, bool on)
{
	int flags = fcntl(fd, F_GETFL);
	if (flags < 0)
		return -errno;
	int want = on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK;
	return want == flags || fcntl(fd, F_SETFL, want) == 0 ? 0 : -errno;
}

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif

void fd_refuse_rights(int fd)
{
	int saved = errno;
	const int off = 0;
	setsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &off, sizeof off);
	errno = saved;
}

ssize_t fd_read_full(int fd, void *p, size_t n)
{
	size_t got = 0;
	while (got < n) {
		ssize_t r = read(fd, (char *)p + got, n - got);
		if (r == 0)
			break;
		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return -errno;
		got += (size_t)r;
	}
	return (ssize_t)got;
}

int fd_write_full(int fd, const void *p, size_t n)
{
	size_t put = 0;
	while (put < n) {
		ssize_t r = write(fd, (const char *)p + put, n - put);
		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return -errno;
		put += (size_t)r;
	}
	return 0;
}

int fd_read_file(int dirfd, const char *path, size_t max, struct buf *ret)
{
	auto_fd int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	auto_buf struct buf content = {.max = max ? max : 1};
	for (;;) {
		char chunk[4096];
		ssize_t r = fd_read_full(fd, chunk, sizeof chunk);
		if (r < 0)
			return (int)r;
		if (buf_size(&content) + (size_t)r > max)
			return -EFBIG;
		buf_add(&content, chunk, (size_t)r);
		if ((size_t)r < sizeof chunk)
			break;
	}
	return buf_add_str(ret, buf_str(&content)) ? 0 : -EFBIG;
}

int fd_write_file(int dirfd, const char *path, struct str content)
{
	auto_fd int fd = openat(dirfd, path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	ssize_t r;
	do
		r = write(fd, content.p, content.n);
	while (r < 0 && errno == EINTR);
	return r < 0 ? -errno : (size_t)r == content.n ? 0 : -EIO;
}

int fd_replace_file(int dirfd, const char *path, struct str content, mode_t mode)
{
	char tmp[512];
	if (snprintf(tmp, sizeof tmp, "%s.tmp", path) >= (int)sizeof tmp)
		return -ENAMETOOLONG;
	/* A file that is left over may be open elsewhere, or have a wider mode: the content must not go there. */
	if (unlinkat(dirfd, tmp, 0) < 0 && errno != ENOENT)
		return -errno;
	auto_fd int fd = openat(dirfd, tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
	if (fd < 0)
		return -errno;
	int r = fd_write_full(fd, content.p, content.n);
	if (r == 0 && fchmod(fd, mode) < 0)
		r = -errno;
	if (r == 0 && renameat(dirfd, tmp, dirfd, path) < 0)
		r = -errno;
	if (r < 0)
		unlinkat(dirfd, tmp, 0);
	return r;
}

static int unix_address(const char *path, struct sockaddr_un *ret)
{
	*ret = (struct sockaddr_un){.sun_family = AF_UNIX};
	size_t n = strlen(path);
	if (n == 0) /* the kernel would take it for an abstract address */
		return -EINVAL;
	if (n >= sizeof ret->sun_path)
		return -ENAMETOOLONG;
	memcpy(ret->sun_path, path, n + 1);
	return 0;
}

/* A socket, and the address for its bind or connect. */
static int unix_socket(const char *path, int type, struct sockaddr_un *ret)
{
	int r = unix_address(path, ret);
	if (r < 0)
		return r;
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	return fd < 0 ? -errno : fd;
}

int fd_unix_listen(const char *path, int type, mode_t mode, int backlog)
{
	struct sockaddr_un sa;
	auto_fd int fd = unix_socket(path, type, &sa);
	if (fd < 0)
		return fd;
	/* The socket node takes fchmod's mode at bind: no moment with a wider one. */
	if (fchmod(fd, mode) < 0)
		return -errno;
	unlink(path);
	if (bind(fd, (struct sockaddr *)&sa, sizeof sa) < 0)
		return -errno;
	if (chmod(path, mode) < 0 || listen(fd, backlog) < 0) {
		int r = -errno;
		unlink(path);
		return r;
	}
	return take_fd(&fd);
}

int fd_loopback_listen(uint16_t port, int backlog, uint16_t *ret_port)
{
	struct sockaddr_in at = {
		.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t n = sizeof at;
	int one = 1;
	auto_fd int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	if (bind(fd, (struct sockaddr *)&at, sizeof at) < 0 || listen(fd, backlog) < 0 ||
		getsockname(fd, (struct sockaddr *)&at, &n) < 0)
		return -errno;
	*ret_port = ntohs(at.sin_port);
	return take_fd(&fd);
}

int fd_unix_connect(const char *path, int type)
{
	struct sockaddr_un sa;
	auto_fd int fd = unix_socket(path, type, &sa);
	if (fd < 0)
		return fd;
	if (connect(fd, (struct sockaddr *)&sa, sizeof sa) < 0)
		return -errno;
	return take_fd(&fd);
}
