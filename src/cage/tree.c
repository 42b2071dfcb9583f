#include "cage/tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include "base/base.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/map.h"
#include "cage/limits.h"

/* Hard links: a file that was copied before, by its number. */
struct tree {
	struct map seen; /* inode number -> path from the copy's root; both live until the end */
	int root;
};

/* The bytes [at, end), which are no hole. */
static int copy_range(int from, int to, off_t at, off_t end)
{
	static char piece[1 << 18];
	while (at < end) {
		off_t out = at;
		ssize_t n = copy_file_range(from, &at, to, &out, (size_t)(end - at), 0);
		if (n == 0 || (n < 0 && errno != EINTR))
			break; /* not between these file systems: by hand */
	}
	while (at < end) {
		size_t want = end - at < (off_t)sizeof piece ? (size_t)(end - at) : sizeof piece;
		ssize_t n = pread(from, piece, want, at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : 0; /* the file has become shorter */
		if (lseek(to, at, SEEK_SET) < 0)
			return -errno;
		/* A disk that fills up takes a part first, and says so with the next piece only. */
		int r = fd_write_full(to, piece, (size_t)n);
		if (r < 0)
			return r;
		at += n;
	}
	return 0;
}

/* Holes stay holes: a sparse file may be larger than any disk. */
static int copy_bytes(int from, int to, off_t size)
{
	for (off_t at = 0; at < size;) {
		off_t data = lseek(from, at, SEEK_DATA);
		if (data < 0)
			return errno == ENXIO ? 0 : -errno;
		at = lseek(from, data, SEEK_HOLE);
		int r = at < 0 ? -errno : copy_range(from, to, data, at < size ? at : size);
		if (r < 0)
			return r;
	}
	return 0;
}

/* By the descriptors' names in /proc: symbolic links and O_PATH have no other way. */
static int copy_attributes(int from, int to)
{
	char names[65536], value[65536], a[48], b[48];
	snprintf(a, sizeof a, "/proc/self/fd/%d", from);
	snprintf(b, sizeof b, "/proc/self/fd/%d", to);
	ssize_t n = listxattr(a, names, sizeof names);
	if (n < 0)
		return errno == ENOTSUP ? 0 : -errno;
	for (const char *name = names; name < names + n; name += strlen(name) + 1) {
		/* Only the origin of a copy-up is of the old file system alone. */
		if (strcmp(name, "trusted.overlay.origin") == 0)
			continue;
		ssize_t size = getxattr(a, name, value, sizeof value);
		if (size >= 0 && setxattr(b, name, value, (size_t)size, 0) < 0)
			return -errno;
	}
	return 0;
}

static int copy_state(int to, const struct stat *st)
{
	const struct timespec times[2] = {st->st_atim, st->st_mtim};
	return fchown(to, st->st_uid, st->st_gid) < 0 || fchmod(to, st->st_mode & 07777) < 0 || futimens(to, times) < 0
		       ? -errno
		       : 0;
}

static int copy_file(int from_dir, const char *name, int to_dir, const struct stat *st)
{
	auto_fd int from = openat(from_dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	auto_fd int to = from < 0 ? -1 : openat(to_dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (to < 0)
		return -errno;
	int r = copy_bytes(from, to, st->st_size);
	r = r < 0 ? r : ftruncate(to, st->st_size) < 0 ? -errno : copy_attributes(from, to);
	return r < 0 ? r : copy_state(to, st);
}

static int copy_special(int from_dir, const char *name, int to_dir, const struct stat *st)
{
	const struct timespec times[2] = {st->st_atim, st->st_mtim};
	if (S_ISLNK(st->st_mode)) {
		char target[4097];
		ssize_t n = readlinkat(from_dir, name, target, sizeof target - 1);
		if (n < 0)
			return -errno;
		target[n] = 0;
		if (symlinkat(target, to_dir, name) < 0)
			return -errno;
	} else if (S_ISCHR(st->st_mode) && st->st_rdev != makedev(0, 0)) {
		return 0; /* no device but a whiteout */
	} else if (S_ISBLK(st->st_mode) || S_ISSOCK(st->st_mode)) {
		return 0;
	} else if (mknodat(to_dir, name, st->st_mode, st->st_rdev) < 0) {
		return -errno;
	}
	return fchownat(to_dir, name, st->st_uid, st->st_gid, AT_SYMLINK_NOFOLLOW) < 0 ||
			       utimensat(to_dir, name, times, AT_SYMLINK_NOFOLLOW) < 0
		       ? -errno
		       : 0;
}

static int copy_dir(struct tree *t, int from, int to, const char *path, int depth);

static int copy_subdir(struct tree *t, int from_dir, const char *name, int to_dir, const char *path, int depth)
{
	auto_fd int from = openat(from_dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (from < 0 || mkdirat(to_dir, name, 0700) < 0)
		return -errno;
	auto_fd int to = openat(to_dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return to < 0 ? -errno : copy_dir(t, from, to, path, depth + 1);
}

static int copy_entry(struct tree *t, int from, int to, const char *name, const char *path, int depth)
{
	struct stat st;
	char inode[24];
	auto_buf struct buf full = {0};
	buf_printf(&full, "%s%s%s", path, *path ? "/" : "", name);
	if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (S_ISDIR(st.st_mode))
		return copy_subdir(t, from, name, to, buf_cstr(&full), depth);
	bool linked = st.st_nlink > 1 && S_ISREG(st.st_mode);
	snprintf(inode, sizeof inode, "%llu", (unsigned long long)st.st_ino);
	const char *first = linked ? map_get(&t->seen, str_of(inode)) : NULL;
	if (first)
		return linkat(t->root, first, to, name, 0) < 0 ? -errno : 0;
	if (linked)
		map_put(&t->seen, str_of(inode), xstrdup(buf_cstr(&full)));
	return S_ISREG(st.st_mode) ? copy_file(from, name, to, &st) : copy_special(from, name, to, &st);
}

static int copy_dir(struct tree *t, int from, int to, const char *path, int depth)
{
	struct stat st;
	if (depth > TREE_DEPTH_MAX)
		return -ELOOP;
	int again = openat(from, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = again < 0 ? NULL : fdopendir(again);
	int r = d ? 0 : -errno;
	for (struct dirent *entry; d && r == 0 && (entry = readdir(d));)
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			r = copy_entry(t, from, to, entry->d_name, path, depth);
	if (d)
		closedir(d);
	r = r < 0 ? r : copy_attributes(from, to);
	return r < 0 ? r : fstat(from, &st) < 0 ? -errno : copy_state(to, &st);
}

int tree_copy(int from, int dir, const char *name)
{
	struct tree t = {0};
	if (mkdirat(dir, name, 0700) < 0)
		return -errno;
	auto_fd int to = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	t.root = to;
	return to < 0 ? -errno : copy_dir(&t, from, to, "", 0);
}

/* ---- size ---- */

static int64_t size_dir(struct map *seen, int dir, int depth);

static int64_t size_entry(struct map *seen, int dir, const char *name, int depth)
{
	struct stat st;
	char inode[24];
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (S_ISDIR(st.st_mode)) {
		auto_fd int sub = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		return sub < 0 ? -errno : size_dir(seen, sub, depth + 1);
	}
	if (st.st_nlink > 1) {
		snprintf(inode, sizeof inode, "%llu", (unsigned long long)st.st_ino);
		if (map_get(seen, str_of(inode)))
			return 0;
		map_put(seen, str_of(inode), seen);
	}
	return (int64_t)st.st_blocks * 512;
}

static int64_t size_dir(struct map *seen, int dir, int depth)
{
	struct stat st;
	if (depth > TREE_DEPTH_MAX)
		return -ELOOP;
	int again = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = again < 0 ? NULL : fdopendir(again);
	if (!d || fstat(dir, &st) < 0)
		return -errno;
	int64_t total = (int64_t)st.st_blocks * 512;
	for (struct dirent *entry; total >= 0 && (entry = readdir(d));) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		int64_t n = size_entry(seen, dir, entry->d_name, depth);
		total = n < 0 ? n : total + n;
	}
	closedir(d);
	return total;
}

int64_t tree_size(int dir)
{
	struct map seen = {0};
	int64_t n = size_dir(&seen, dir, 0);
	map_free(&seen);
	return n;
}
