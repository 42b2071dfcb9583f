#include "agent/proc/handoff.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "agent/fuse/mounts.h"
#include "agent/limits.h"
#include "agent/proc/user.h"
#include "base/fd.h"

/* The name gets a directory of its own, so that a shell that comes too late fails: bash would create a file under a
 * name that has been removed. */
static int directory_in(const char *dir, char *ret, size_t size)
{
	unsigned char r[12];
	if (getrandom(r, sizeof r, 0) != (ssize_t)sizeof r)
		return -EAGAIN;
	int n = snprintf(ret, size, "%s/.atoll-%d-", strcmp(dir, "/") == 0 ? "" : dir, getpid());
	for (size_t i = 0; i < sizeof r; i++)
		n += snprintf(ret + n, size - (size_t)n, "%02x", r[i]);
	if (mkdir(ret, 0700) < 0) {
		*ret = 0;
		return -errno;
	}
	int given = box_user_give(ret);
	snprintf(ret + n, size - (size_t)n, "/p");
	return given;
}

static int pipe_in(const char *path, struct str content)
{
	(void)content;
	if (mkfifo(path, 0600) < 0)
		return -errno;
	int r = box_user_give(path);
	if (r < 0)
		return r;
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int path_in(const char *path, struct str content)
{
	(void)content;
	if (mkfifo(path, 0600) < 0)
		return -errno;
	int r = box_user_give(path);
	if (r < 0)
		return r;
	int fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int file_in(const char *path, struct str content)
{
	auto_fd int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	int r = box_user_give_fd(fd);
	return r < 0 ? r : fd_write_full(fd, content.p, content.n);
}

/* A name costs 14 us in memory and 700 in a layer on disk. Much content belongs on disk: memory is counted. */
static const char *const memory_first[] = {"/dev/shm", "/tmp", "/var/tmp", "/workspace", "/", NULL};
static const char *const disk_first[] = {"/tmp", "/var/tmp", "/dev/shm", "/workspace", "/", NULL};

/* Uses the first directory that works. When none does, returns the first failure. */
static int make(struct handoff *ret, const char *const *dirs, int (*in)(const char *path, struct str content),
	struct str content)
{
	int first = 0;
	for (size_t i = 0; dirs[i]; i++) {
		*ret = HANDOFF_NONE;
		if (fuse_mounts_on(dirs[i]))
			continue;
		int r = directory_in(dirs[i], ret->path, sizeof ret->path);
		if (r == 0)
			r = in(ret->path, content);
		if (r >= 0)
			return r;
		handoff_unlink(ret);
		if (!first)
			first = r;
	}
	*ret = HANDOFF_NONE;
	return first;
}

static int made(struct handoff *ret, int r, struct err *e)
{
	if (r < 0)
		return err_os(e, errc_from_file_errno(-r), -r, "make a pipe for the session's shell");
	ret->fd = r;
	return 0;
}

int handoff_pipe(struct handoff *ret, struct err *e)
{
	return made(ret, make(ret, memory_first, pipe_in, STR_NULL), e);
}

int handoff_nameless(struct err *e)
{
	struct handoff h;
	int fd = make(&h, memory_first, path_in, STR_NULL);
	handoff_unlink(&h);
	return fd < 0 ? err_os(e, errc_from_file_errno(-fd), -fd, "make a pipe for the session's shell") : fd;
}

int handoff_file(struct handoff *ret, struct str content, struct err *e)
{
	int r = make(ret, content.n <= HANDOFF_MEMORY_MAX ? memory_first : disk_first, file_in, content);
	return r < 0 ? err_os(e, errc_from_file_errno(-r), -r, "store the command's input") : 0;
}

const char *handoff_path(const struct handoff *h)
{
	return *h->path ? h->path : NULL;
}

void handoff_unlink(struct handoff *h)
{
	if (!*h->path)
		return;
	unlink(h->path);
	*strrchr(h->path, '/') = 0;
	rmdir(h->path);
	*h->path = 0;
}

void handoff_free(struct handoff *h)
{
	handoff_unlink(h);
	fd_close(&h->fd);
}
