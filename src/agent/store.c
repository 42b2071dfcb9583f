#include "agent/store.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "agent/path.h"
#include "base/fd.h"

static int fail(struct err *e, int os, const char *what, const char *path)
{
	return err_os(e, errc_from_file_errno(os), os, "%s '%.150s'", what, path);
}

/* Where the bytes go in the end: a link's target, also when it does not exist yet. */
static char *resolve(const char *path)
{
	char *real = realpath(path, NULL);
	if (real)
		return real;
	char link[PATH_MAX];
	ssize_t n = readlink(path, link, sizeof link - 1);
	if (n <= 0)
		return xstrdup(path);
	link[n] = 0;
	auto_free char *dir = path_dirname(path);
	return link[0] == '/' ? xstrdup(link) : xasprintf("%s/%s", dir, link);
}

/* What is there now; st_mode 0 when there is nothing. */
static int look(const char *target, struct stat *ret, struct err *e)
{
	*ret = (struct stat){0};
	if (stat(target, ret) < 0)
		return errno == ENOENT ? 0 : fail(e, errno, "write", target);
	if (S_ISDIR(ret->st_mode))
		return fail(e, EISDIR, "write", target);
	if (!S_ISREG(ret->st_mode))
		return err_set(e, ERRC_FILESYSTEM_ERROR, "write '%.150s': not a regular file", target);
	return 0;
}

/* Owner and mode of what is there; a new file gets 0666 under the umask. */
static int adopt_mode(struct store *s, const struct stat *old, struct err *e)
{
	if (!old->st_mode) {
		mode_t mask = umask(0);
		umask(mask);
		return fchmod(s->fd, 0666 & ~mask) < 0 ? fail(e, errno, "write", s->target) : 0;
	}
	if (fchown(s->fd, old->st_uid, old->st_gid) < 0 || fchmod(s->fd, old->st_mode & 07777) < 0)
		return fail(e, errno, "keep owner and mode of", s->target);
	return 0;
}

int store_open(struct store *s, const char *path, struct err *e)
{
	*s = (struct store){.fd = -1, .target = resolve(path)};
	auto_free char *dir = path_dirname(s->target);
	struct stat old;
	uint64_t nonce;
	if (look(s->target, &old, e) < 0) {
		store_abort(s);
		return -1;
	}
	if (getrandom(&nonce, sizeof nonce, 0) != (ssize_t)sizeof nonce)
		nonce = (uint64_t)getpid();
	s->temp =
		xasprintf("%s/" STORE_TEMP_PREFIX "%c%016llx", dir, old.st_mode ? 'm' : 'n', (unsigned long long)nonce);
	const int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
	s->fd = open(s->temp, flags, 0600);
	if (s->fd < 0 && errno == ENOENT && path_make_dirs(dir) == 0)
		s->fd = open(s->temp, flags, 0600);
	if (s->fd < 0)
		fail(e, errno, "write", path);
	if (s->fd >= 0 && adopt_mode(s, &old, e) == 0)
		return 0;
	store_abort(s);
	return -1;
}

int store_write(struct store *s, struct str bytes, struct err *e)
{
	int r = fd_write_full(s->fd, bytes.p, bytes.n);
	return r < 0 ? fail(e, -r, "write", s->target) : 0;
}

int store_finish(struct store *s, struct err *e)
{
	int r = rename(s->temp, s->target) < 0 ? fail(e, errno, "write", s->target) : 0;
	if (r == 0) {
		free(take_ptr(&s->temp));
		fd_close(&s->fd);
	}
	store_abort(s);
	return r;
}

void store_abort(struct store *s)
{
	if (s->fd >= 0 && s->temp)
		unlink(s->temp);
	fd_close(&s->fd);
	free(take_ptr(&s->temp));
	free(take_ptr(&s->target));
}
