#include "agent/proc/spool.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/random.h>

#include "agent/fuse/mounts.h"
#include "agent/limits.h"
#include "base/fd.h"

void spool_free(struct spool *s)
{
	buf_free(&s->mem);
	fd_close(&s->fd);
	*s = SPOOL_INIT;
}

/* For file systems without O_TMPFILE: a name that nobody can guess, gone at once. */
static int named_tmpfile(const char *dir)
{
	unsigned char r[12];
	char path[64];
	if (getrandom(r, sizeof r, 0) != (ssize_t)sizeof r)
		return -EAGAIN;
	int n = snprintf(path, sizeof path, "%s/.atoll-", dir);
	for (size_t i = 0; i < sizeof r; i++)
		n += snprintf(path + n, sizeof path - (size_t)n, "%02x", r[i]);
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	unlink(path);
	return fd;
}

int spool_tmpfile(void)
{
	/* /var/tmp first: /tmp is often memory, which the box's commands need. */
	static const char *const dirs[] = {"/var/tmp", "/tmp", "/workspace", "/root", "/"};
	int first = 0;
	for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
		if (fuse_mounts_on(dirs[i]))
			continue;
		int fd = open(dirs[i], O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
		if (fd >= 0)
			return fd;
		fd = errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL ? named_tmpfile(dirs[i]) : -errno;
		if (fd >= 0)
			return fd;
		if (!first)
			first = fd;
	}
	return first;
}

static int to_file(struct spool *s, struct err *e)
{
	auto_fd int fd = spool_tmpfile();
	if (fd < 0)
		return err_os(e, errc_from_file_errno(-fd), -fd, "make a file for long output");
	struct str all = buf_str(&s->mem);
	int r = fd_write_full(fd, all.p, all.n);
	if (r < 0)
		return err_os(e, errc_from_file_errno(-r), -r, "store output");
	buf_free(&s->mem);
	s->fd = take_fd(&fd);
	return 0;
}

int spool_add(struct spool *s, struct str bytes, struct err *e)
{
	if (s->fd < 0 && s->size + bytes.n <= (s->mem_max ? s->mem_max : SPOOL_MEM)) {
		buf_add_str(&s->mem, bytes);
		s->size += bytes.n;
		return 0;
	}
	if (s->fd < 0 && to_file(s, e) < 0)
		return -1;
	size_t put = 0;
	while (put < bytes.n) {
		ssize_t r = pwrite(s->fd, bytes.p + put, bytes.n - put, (off_t)(s->size + put));
		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return err_os(e, errc_from_file_errno(errno), errno, "store output");
		put += (size_t)r;
	}
	s->size += bytes.n;
	return 0;
}

ssize_t spool_read(const struct spool *s, uint64_t at, char *p, size_t n)
{
	if (at >= s->size)
		return 0;
	if (n > s->size - at)
		n = (size_t)(s->size - at);
	if (s->fd < 0) {
		memcpy(p, buf_str(&s->mem).p + at, n);
		return (ssize_t)n;
	}
	ssize_t r;
	do
		r = pread(s->fd, p, n, (off_t)at);
	while (r < 0 && errno == EINTR);
	return r < 0 ? -errno : r;
}
