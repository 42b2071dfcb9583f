#include "agent/file/replace.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "agent/file/path.h"
#include "agent/proc/spool.h"
#include "agent/proc/user.h"
#include "base/fd.h"
#include "http/limits.h"

enum { LINKS_MAX = 40, NONCE_DIGITS = 16 }; /* LINKS_MAX: the kernel's own limit of links in a row */
enum { ATTRIBUTES_MAX = 4 * KIB }; /* all names together, and one value; a file with more is written in place */

static int replace_fail(struct err *e, int os, const char *path)
{
	return err_os(e, errc_from_file_errno(os), os, "write '%.150s'", path);
}

/* ---- names ---- */

char *file_replace_temp_name(bool replaces)
{
	uint64_t nonce;
	if (getrandom(&nonce, sizeof nonce, 0) != (ssize_t)sizeof nonce)
		nonce = (uint64_t)getpid();
	return xasprintf(FILE_REPLACE_TEMP_PREFIX "%c%016llx", replaces ? 'm' : 'n', (unsigned long long)nonce);
}

bool file_replace_is_temp(const char *name, char *ret_kind)
{
	struct str s = str_of(name);
	if (!str_starts(s, STR(FILE_REPLACE_TEMP_PREFIX)))
		return false;
	s = str_skip(s, sizeof FILE_REPLACE_TEMP_PREFIX - 1);
	if (s.n != NONCE_DIGITS + 1 || (s.p[0] != 'n' && s.p[0] != 'm'))
		return false;
	*ret_kind = s.p[0];
	return strspn(s.p + 1, "0123456789abcdef") == NONCE_DIGITS;
}

/* Follows one link, whose target need not exist; NULL when `path` is not a link. */
static char *link_target(const char *path)
{
	char link[PATH_MAX];
	ssize_t n = readlink(path, link, sizeof link - 1);
	if (n <= 0)
		return NULL;
	link[n] = 0;
	auto_free char *dir = path_dirname(path);
	return link[0] == '/' ? xstrdup(link) : xasprintf("%s/%s", dir, link);
}

/* The path that the content is written to: a link's target, even if it does not exist yet. */
static char *resolve(const char *path)
{
	char *at = realpath(path, NULL);
	if (at)
		return at;
	at = xstrdup(path);
	for (int i = 0; i < LINKS_MAX; i++) {
		char *next = link_target(at);
		if (!next)
			break;
		free(at);
		at = next;
	}
	return at;
}

/* ---- opening ---- */

/* The target as it is now; st_mode is 0 when it does not exist. */
static int look(const char *target, const char *path, struct stat *ret, struct err *e)
{
	*ret = (struct stat){0};
	if (stat(target, ret) < 0) {
		int os = errno == ENOENT && str_ends(str_of(target), STR("/")) ? ENOTDIR : errno;
		return os == ENOENT ? 0 : replace_fail(e, os, path);
	}
	if (S_ISDIR(ret->st_mode))
		return replace_fail(e, EISDIR, path);
	if (!S_ISREG(ret->st_mode))
		return err_set(e, ERRC_NOT_REGULAR_FILE, "write '%.150s': not a regular file", path);
	return 0;
}

/* Gives fd the owner of the old file, or a new file to the box's user. 0 or a positive errno. */
static int adopt_owner(int fd, const struct stat *old)
{
	struct stat own;
	if (!old->st_mode)
		return -box_user_give_fd(fd);
	if (fstat(fd, &own) < 0)
		return errno;
	bool same = own.st_uid == old->st_uid && own.st_gid == old->st_gid;
	return !same && fchown(fd, old->st_uid, old->st_gid) < 0 ? errno : 0;
}

/* Attributes that a write keeps. The kernel's own (security.capability) are dropped, as a plain write drops them. */
static bool is_kept_attribute(const char *name)
{
	return str_starts(str_of(name), STR("user.")) || strcmp(name, "system.posix_acl_access") == 0;
}

/* Copies the kept attributes of the old file to fd. 0 or a positive errno. */
static int adopt_attributes(int fd, const char *target, const struct stat *old)
{
	char names[ATTRIBUTES_MAX], value[ATTRIBUTES_MAX];
	ssize_t total = old->st_mode ? listxattr(target, names, sizeof names) : 0;
	if (total < 0)
		return errno == ENOTSUP ? 0 : errno;
	for (const char *name = names; name < names + total; name += strlen(name) + 1) {
		if (!is_kept_attribute(name))
			continue;
		ssize_t n = getxattr(target, name, value, sizeof value);
		if (n < 0 || fsetxattr(fd, name, value, (size_t)n, 0) < 0)
			return errno;
	}
	return 0;
}

/* The mode of the old file; a new file gets 0666 under the umask. */
static mode_t mode_for(const struct stat *old)
{
	if (old->st_mode)
		return old->st_mode & 07777;
	mode_t mask = umask(0);
	umask(mask);
	return 0666 & ~mask;
}

/* Opens the target's directory; `make` makes it when it is missing. 0 or a positive errno. */
static int open_directory(struct file_replace *s, bool make)
{
	const int flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
	auto_free char *dir = path_dirname(s->target);
	s->dir = open(dir, flags);
	if (s->dir < 0 && errno == ENOENT && make) {
		int r = path_make_dirs(dir);
		if (r < 0)
			return r == -EEXIST ? ENOTDIR : -r;
		s->dir = open(dir, flags);
	}
	return s->dir < 0 ? errno : 0;
}

/* Opens a temporary file beside the target. 0 or a positive errno. */
static int open_beside(struct file_replace *s, const struct stat *old)
{
	int os = open_directory(s, !old->st_mode);
	if (os)
		return os;
	auto_free char *temp = file_replace_temp_name(old->st_mode != 0);
	auto_fd int fd = openat(s->dir, temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return errno;
	os = adopt_owner(fd, old);
	if (!os)
		os = adopt_attributes(fd, s->target, old);
	if (os) {
		unlinkat(s->dir, temp, 0);
		return os;
	}
	s->mode = mode_for(old);
	s->fd = take_fd(&fd);
	s->temp = take_ptr(&temp);
	return 0;
}

/* For a target that can be written to but not replaced. 0 or a positive errno. */
static int open_unnamed(struct file_replace *s)
{
	auto_fd int probe = path_open_regular(s->target, O_WRONLY);
	if (probe < 0)
		return -probe;
	int fd = spool_tmpfile();
	if (fd < 0)
		return -fd;
	s->fd = fd;
	return 0;
}

static bool says_full(int os)
{
	return os == ENOSPC || os == EDQUOT || os == EMFILE || os == ENFILE;
}

int file_replace_open(struct file_replace *s, const char *path, struct err *e)
{
	struct stat old;
	*s = FILE_REPLACE_INIT;
	s->target = resolve(path);
	if (look(s->target, path, &old, e) == 0) {
		int os = open_beside(s, &old);
		if (os && old.st_mode && !says_full(os))
			os = open_unnamed(s);
		if (!os)
			return 0;
		replace_fail(e, os, path);
	}
	file_replace_abort(s);
	return -1;
}

int file_replace_write(struct file_replace *s, struct str bytes, struct err *e)
{
	while (bytes.n) {
		ssize_t n = pwrite(s->fd, bytes.p, bytes.n, (off_t)s->size);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return replace_fail(e, errno, s->target);
		s->size += (uint64_t)n;
		bytes = str_skip(bytes, (size_t)n);
	}
	return 0;
}

/* ---- putting it in place ---- */

/* 0 or a positive errno. */
static int copy_into_target(struct file_replace *s)
{
	char piece[HTTP_READ_CHUNK];
	auto_fd int to = path_open_regular(s->target, O_WRONLY | O_TRUNC);
	if (to < 0)
		return -to;
	for (uint64_t at = 0; at < s->size;) {
		ssize_t n = pread(s->fd, piece, sizeof piece, (off_t)at);
		if (n < 0)
			return errno;
		if (n == 0)
			return EIO;
		int r = fd_write_full(to, piece, (size_t)n);
		if (r < 0)
			return -r;
		at += (uint64_t)n;
	}
	return 0;
}

int file_replace_finish(struct file_replace *s, struct err *e)
{
	int os = 0;
	if (!s->temp) {
		os = copy_into_target(s);
	} else if (fchmod(s->fd, s->mode) == 0 &&
		   renameat(s->dir, s->temp, s->dir, path_basename(str_of(s->target)).p) == 0) {
		/* The mode comes last: writing takes set-uid bits away. */
		free(take_ptr(&s->temp));
	} else {
		os = errno;
		if (os == EBUSY)
			os = copy_into_target(s);
	}
	int r = os ? replace_fail(e, os, s->target) : 0;
	file_replace_abort(s);
	return r;
}

void file_replace_abort(struct file_replace *s)
{
	if (s->temp)
		unlinkat(s->dir, s->temp, 0);
	fd_close(&s->fd);
	fd_close(&s->dir);
	free(take_ptr(&s->temp));
	free(take_ptr(&s->target));
}
