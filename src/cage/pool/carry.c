/*
 * A tree is copied directory by directory, with two descriptors on each level of the path that is open now. Names have
 * at most 255 bytes and a box cannot make a path deeper than its own open files allow, but it can nest deeper than
 * ours: past CARRY_DEPTH_MAX the copy fails with ELOOP, and the layer stays where it is.
 */
#include "cage/pool/carry.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "base/fd.h"
#include "base/map.h"
#include "cage/limits.h"

struct carry {
	int root;	  /* of the copy */
	struct map links; /* "device:inode" of a file with several names → its first path in the copy */
	char path[CARRY_PATH_MAX];
	size_t n;
	unsigned depth;
};

/* ---- attributes ---- */

static int copy_xattrs(int from, int to)
{
	char names[CARRY_XATTRS_MAX], value[CARRY_XATTR_MAX];
	ssize_t n = flistxattr(from, names, sizeof names);
	if (n < 0)
		return errno == ENOTSUP ? 0 : -errno;
	for (ssize_t i = 0; i < n; i += (ssize_t)strlen(names + i) + 1) {
		ssize_t size = fgetxattr(from, names + i, value, sizeof value);
		if (size < 0 && errno == ENODATA)
			continue;
		if (size < 0 || fsetxattr(to, names + i, value, (size_t)size, 0) < 0)
			return -errno;
	}
	return 0;
}

/* The mode follows the owner, whose change takes bits away; the attributes follow the mode; the times come last. */
static int copy_inside(int from, int to, const struct stat *st)
{
	if (fchown(to, st->st_uid, st->st_gid) < 0 || fchmod(to, st->st_mode & 07777) < 0)
		return -errno;
	int r = copy_xattrs(from, to);
	const struct timespec times[2] = {st->st_atim, st->st_mtim};
	if (r == 0 && futimens(to, times) < 0)
		r = -errno;
	return r;
}

/* Of what cannot be opened. The overlay's marks on links are hints, and are left out. */
static int copy_outside(int dir, const char *name, const struct stat *st)
{
	const struct timespec times[2] = {st->st_atim, st->st_mtim};
	if (fchownat(dir, name, st->st_uid, st->st_gid, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (!S_ISLNK(st->st_mode) && fchmodat(dir, name, st->st_mode & 07777, 0) < 0)
		return -errno;
	return utimensat(dir, name, times, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

/* ---- files ---- */

/* The parts of a file between holes. */
static int copy_data(int from, int to, off_t size)
{
	off_t at = 0;
	if (ftruncate(to, size) < 0)
		return -errno;
	while (at < size) {
		off_t data = lseek(from, at, SEEK_DATA);
		if (data < 0)
			return errno == ENXIO ? 0 : -errno;
		off_t end = lseek(from, data, SEEK_HOLE);
		if (end < 0 || lseek(to, data, SEEK_SET) < 0)
			return -errno;
		for (off_t offset = data; offset < end;) {
			ssize_t n = sendfile(to, from, &offset, (size_t)(end - offset));
			if (n < 0)
				return -errno;
			if (n == 0)
				return -EIO;
		}
		at = end;
	}
	return 0;
}

static int copy_file(int dir, int to_dir, const char *name, const struct stat *st)
{
	auto_fd int from = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	auto_fd int to = openat(to_dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (from < 0 || to < 0)
		return -errno;
	int r = copy_data(from, to, st->st_size);
	return r < 0 ? r : copy_inside(from, to, st);
}

static int copy_link(int dir, int to_dir, const char *name)
{
	char target[CARRY_PATH_MAX];
	ssize_t n = readlinkat(dir, name, target, sizeof target - 1);
	if (n < 0)
		return -errno;
	target[n] = 0;
	return symlinkat(target, to_dir, name) < 0 ? -errno : 0;
}

/* 1: the file has another name in the copy already and got this one too. */
static int copy_as_link(struct carry *c, const struct stat *st, int to_dir, const char *name)
{
	char key[48];
	snprintf(key, sizeof key, "%llx:%llx", (unsigned long long)st->st_dev, (unsigned long long)st->st_ino);
	if (st->st_nlink < 2 || S_ISDIR(st->st_mode))
		return 0;
	const char *first = map_get(&c->links, str_of(key));
	if (first)
		return linkat(c->root, first, to_dir, name, 0) < 0 ? -errno : 1;
	if (c->links.count >= CARRY_LINKS_MAX)
		return -E2BIG;
	map_put(&c->links, str_of(key), xstrdup(c->path));
	return 0;
}

static int copy_dir(struct carry *c, int from, int to);

static int copy_below(struct carry *c, int dir, int to_dir, const char *name, const struct stat *st)
{
	if (mkdirat(to_dir, name, 0700) < 0)
		return -errno;
	auto_fd int from = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	auto_fd int to = openat(to_dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int r = from < 0 || to < 0 ? -errno : copy_dir(c, from, to);
	return r < 0 ? r : copy_inside(from, to, st);
}

/* Copies one entry; c->path names it. */
static int copy_entry(struct carry *c, int dir, int to_dir, const char *name)
{
	struct stat st = {0};
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	int r = copy_as_link(c, &st, to_dir, name);
	if (r != 0)
		return r < 0 ? r : 0;
	if (S_ISREG(st.st_mode))
		return copy_file(dir, to_dir, name, &st);
	if (S_ISDIR(st.st_mode))
		return copy_below(c, dir, to_dir, name, &st);
	if (S_ISLNK(st.st_mode))
		r = copy_link(dir, to_dir, name);
	else if (mknodat(to_dir, name, st.st_mode & (S_IFMT | 0600), st.st_rdev) < 0)
		r = -errno;
	return r < 0 ? r : copy_outside(to_dir, name, &st);
}

static int copy_named(struct carry *c, int from, int to, const char *name)
{
	size_t before = c->n;
	int n = snprintf(c->path + before, sizeof c->path - before, "%s%s", before ? "/" : "", name);
	if (n < 0 || (size_t)n >= sizeof c->path - before)
		return -ENAMETOOLONG;
	c->n += (size_t)n;
	int r = copy_entry(c, from, to, name);
	c->n = before;
	c->path[before] = 0;
	return r;
}

static int copy_dir(struct carry *c, int from, int to)
{
	if (c->depth >= CARRY_DEPTH_MAX)
		return -ELOOP;
	int fd = openat(from, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	int r = 0;
	if (!d) {
		fd_close(&fd);
		return -errno;
	}
	c->depth++;
	for (struct dirent *entry; r == 0 && (entry = readdir(d));)
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			r = copy_named(c, from, to, entry->d_name);
	c->depth--;
	closedir(d);
	return r;
}

static void free_links(struct map *m)
{
	size_t it = 0;
	struct str key;
	void *value;
	while (map_next(m, &it, &key, &value))
		free(value);
	map_free(m);
}

int carry_tree(int from, int to)
{
	struct carry *c = xcalloc(1, sizeof *c);
	struct stat st = {0};
	c->root = to;
	int r = fstat(from, &st) < 0 ? -errno : copy_dir(c, from, to);
	if (r == 0)
		r = copy_inside(from, to, &st);
	free_links(&c->links);
	free(c);
	return r;
}
