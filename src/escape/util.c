#include "escape/escape.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

static const struct {
	int os;
	const char *name;
} errnos[] = {
	{EPERM, "EPERM"},
	{ENOENT, "ENOENT"},
	{ESRCH, "ESRCH"},
	{EINTR, "EINTR"},
	{EIO, "EIO"},
	{ENXIO, "ENXIO"},
	{E2BIG, "E2BIG"},
	{ENOEXEC, "ENOEXEC"},
	{EBADF, "EBADF"},
	{ECHILD, "ECHILD"},
	{EAGAIN, "EAGAIN"},
	{ENOMEM, "ENOMEM"},
	{EACCES, "EACCES"},
	{EFAULT, "EFAULT"},
	{EBUSY, "EBUSY"},
	{EEXIST, "EEXIST"},
	{EXDEV, "EXDEV"},
	{ENODEV, "ENODEV"},
	{ENOTDIR, "ENOTDIR"},
	{EISDIR, "EISDIR"},
	{EINVAL, "EINVAL"},
	{ENFILE, "ENFILE"},
	{EMFILE, "EMFILE"},
	{ENOTTY, "ENOTTY"},
	{ETXTBSY, "ETXTBSY"},
	{EFBIG, "EFBIG"},
	{ENOSPC, "ENOSPC"},
	{EROFS, "EROFS"},
	{EPIPE, "EPIPE"},
	{ENOSYS, "ENOSYS"},
	{ELOOP, "ELOOP"},
	{EOVERFLOW, "EOVERFLOW"},
	{EPROTONOSUPPORT, "EPROTONOSUPPORT"},
	{ESOCKTNOSUPPORT, "ESOCKTNOSUPPORT"},
	{EOPNOTSUPP, "EOPNOTSUPP"},
	{EAFNOSUPPORT, "EAFNOSUPPORT"},
	{EADDRNOTAVAIL, "EADDRNOTAVAIL"},
	{ENETUNREACH, "ENETUNREACH"},
	{ENOPROTOOPT, "ENOPROTOOPT"},
	{ECONNREFUSED, "ECONNREFUSED"},
	{ETIMEDOUT, "ETIMEDOUT"},
	{EHOSTUNREACH, "EHOSTUNREACH"},
	{EDQUOT, "EDQUOT"},
	{ENOKEY, "ENOKEY"},
	{ESTALE, "ESTALE"},
	{ENOBUFS, "ENOBUFS"},
	{EUSERS, "EUSERS"},
	{ENAMETOOLONG, "ENAMETOOLONG"},
	{ECONNRESET, "ECONNRESET"},
	{ENOTCONN, "ENOTCONN"},
	{EDEADLK, "EDEADLK"},
	{ENOLCK, "ENOLCK"},
};

const char *errno_name(int os)
{
	static char other[24];
	for (size_t i = 0; i < ARRAY_LEN(errnos); i++)
		if (errnos[i].os == os)
			return errnos[i].name;
	snprintf(other, sizeof(other), "errno %d", os);
	return other;
}

/* Appends ", text" unless it is there already; silently stops at the end of the buffer. */
static void join(char *to, size_t size, const char *text)
{
	size_t n = strlen(to);
	if (strstr(to, text) || n + 8 > size)
		return;
	snprintf(to + n, size - n, "%s%s", n ? ", " : "", text);
}

void say(struct outcome *o, enum verdict v, const char *fmt, ...)
{
	char text[400];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (v < o->verdict)
		return;
	if (v > o->verdict)
		o->how[0] = 0;
	o->verdict = v;
	join(o->how, sizeof(o->how), text);
}

void expect(struct outcome *o, const char *text)
{
	join(o->expected, sizeof(o->expected), text);
}

void attempt(struct outcome *o, const char *what, long rc, int os, const int *right)
{
	bool ok = false;
	char list[80] = "";
	for (; *right; right++) {
		ok |= os == *right;
		snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s%s", *list ? " or " : "",
			errno_name(*right));
	}
	expect(o, list);
	if (rc >= 0)
		escaped(o, "%s succeeded", what);
	else if (ok)
		refused(o, "%s: %s", what, errno_name(os));
	else
		errored(o, "%s: %s, expected %s", what, errno_name(os), list);
}

bool arg_need(struct outcome *o, const char *key, long *ret)
{
	*ret = arg_number(key);
	if (*ret < 0)
		errored(o, "the argument %s=NUMBER is missing", key);
	return *ret >= 0;
}

static bool same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

bool climbs_out(int dirfd, char *why, size_t n)
{
	struct stat here, up, root;
	auto_fd int at = openat(dirfd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (at < 0 || fstat(at, &here) < 0 || stat("/", &root) < 0)
		return false;
	for (int level = 0; level < 256; level++) {
		int next = openat(at, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (next < 0)
			break;
		close(at);
		at = next;
		if (fstat(at, &up) < 0 || same_file(&here, &up))
			break;
		here = up;
	}
	if (same_file(&here, &root))
		return false;
	snprintf(why, n, "its top is device %lu:%lu inode %lu, not ours", (unsigned long)(here.st_dev >> 8),
		(unsigned long)(here.st_dev & 255), (unsigned long)here.st_ino);
	return true;
}

int in_child(int (*fn)(void *arg), void *arg)
{
	pid_t pid = fork();
	if (pid == 0)
		_exit(fn(arg) & 255);
	int status = 0;
	if (pid < 0)
		return 255;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return 255;
	return WIFSIGNALED(status) ? 256 + WTERMSIG(status) : WEXITSTATUS(status);
}

ssize_t slurp(const char *path, char *buf, size_t n)
{
	auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return -errno;
	size_t got = 0;
	while (got < n - 1) {
		ssize_t r = read(fd, buf + got, n - 1 - got);
		if (r < 0 && got == 0)
			return -errno;
		if (r <= 0)
			break;
		got += (size_t)r;
	}
	buf[got] = 0;
	return (ssize_t)got;
}

void hold(void)
{
	struct timespec t = {HOLD_MS / 1000, (HOLD_MS % 1000) * 1000000l};
	nanosleep(&t, NULL);
}

long leading_number(const char *text)
{
	char *end;
	errno = 0;
	long v = strtol(text, &end, 10);
	return end == text || errno || v < 0 ? -1 : v;
}

void each_pid(void (*fn)(struct outcome *o, int pid), struct outcome *o)
{
	DIR *d = opendir("/proc");
	if (!d) {
		errored(o, "/proc: %s", errno_name(errno));
		return;
	}
	for (struct dirent *e; (e = readdir(d));)
		if (leading_number(e->d_name) > 0)
			fn(o, (int)leading_number(e->d_name));
	closedir(d);
}

/* Named by the process that runs the check, so that it can clean up after a child that was killed. */
static char scratch[64];

void scratch_name(void)
{
	snprintf(scratch, sizeof(scratch), "/var/tmp/atoll-escape.%d", getpid());
}

const char *scratch_dir(void)
{
	mkdir(scratch, 0700);
	return scratch;
}

void scratch_remove(void)
{
	char path[400];
	DIR *d = opendir(scratch);
	for (struct dirent *e; d && (e = readdir(d));) {
		snprintf(path, sizeof(path), "%s/%s", scratch, e->d_name);
		if (unlink(path) < 0)
			rmdir(path);
	}
	if (d)
		closedir(d);
	rmdir(scratch);
}

int copy_self(const char *path, mode_t mode)
{
	char block[65536];
	auto_fd int in = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	auto_fd int out = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);
	if (in < 0 || out < 0)
		return -errno;
	for (ssize_t n; (n = read(in, block, sizeof(block))) != 0;)
		if (n < 0 || write(out, block, (size_t)n) != n)
			return -errno;
	return fchmod(out, mode) < 0 ? -errno : 0;
}
