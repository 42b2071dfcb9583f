#include "cage/pool/receive.h"

#include <assert.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <linux/limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "base/buf.h"
#include "base/fd.h"
#include "cage/limits.h"
#include "cage/sys.h"
#include "proto/stream.h"

enum { TIME = 12 };
static_assert(sizeof RECEIVE_END == STREAM_HEAD, "the marker is as long as a head");

struct receive {
	int in, root;
	int file; /* the file of the last write, open; -1: none */
	char path[PATH_MAX];
	char room[RECEIVE_COMMAND_MAX];
	struct str a[STREAM_A_COUNT]; /* attributes of the command */
	bool has[STREAM_A_COUNT];
};

/* ---- attributes ---- */

static uint64_t little(const char *p, size_t n)
{
	uint64_t v = 0;
	memcpy(&v, p, n);
	return le64toh(v);
}

static int take_attributes(struct receive *r, size_t size)
{
	memset(r->has, 0, sizeof r->has);
	for (size_t at = 0; at < size;) {
		if (size - at < STREAM_ATTRIBUTE_HEAD)
			return -EBADMSG;
		uint64_t type = little(r->room + at, 2), n = little(r->room + at + 2, 2);
		at += STREAM_ATTRIBUTE_HEAD;
		if (n > size - at)
			return -EBADMSG;
		if (type < STREAM_A_COUNT) {
			r->a[type] = str_n(r->room + at, n);
			r->has[type] = true;
		}
		at += n;
	}
	return 0;
}

static int number(const struct receive *r, enum stream_attribute which, uint64_t *ret)
{
	if (!r->has[which] || r->a[which].n != sizeof *ret)
		return -EBADMSG;
	*ret = little(r->a[which].p, sizeof *ret);
	return 0;
}

static int moment(const struct receive *r, enum stream_attribute which, struct timespec *ret)
{
	if (!r->has[which] || r->a[which].n != TIME)
		return -EBADMSG;
	ret->tv_sec = (time_t)little(r->a[which].p, 8);
	ret->tv_nsec = (long)little(r->a[which].p + 8, 4);
	return ret->tv_nsec < 1000000000 ? 0 : -EBADMSG;
}

static int text(const struct receive *r, enum stream_attribute which, size_t max, char *ret)
{
	struct str s = r->a[which];
	if (!r->has[which] || s.n >= max || memchr(s.p, 0, s.n))
		return -EBADMSG;
	memcpy(ret, s.p, s.n);
	ret[s.n] = 0;
	return 0;
}

/* ---- paths ---- */

/* The last name of a path, and its directory, open. The root of the tree has the name ".". */
struct place {
	int dir;
	char name[NAME_MAX + 1];
};

static int open_inside(const struct receive *r, const char *path, int flags)
{
	struct open_how how = {.flags = (uint64_t)flags | O_CLOEXEC | O_NOFOLLOW,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
	int fd = (int)syscall(SYS_openat2, r->root, path, &how, sizeof how);
	return fd < 0 ? -errno : fd;
}

static int find(const struct receive *r, enum stream_attribute which, struct place *ret)
{
	char path[PATH_MAX];
	int n = text(r, which, sizeof path, path);
	if (n < 0)
		return n;
	char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : *path ? path : ".";
	if (strlen(name) > NAME_MAX || !*name || strcmp(name, "..") == 0 || (slash && strcmp(name, ".") == 0))
		return -EBADMSG;
	snprintf(ret->name, sizeof ret->name, "%s", name);
	if (slash)
		*slash = 0;
	ret->dir = open_inside(r, slash ? path : ".", O_PATH | O_DIRECTORY);
	return ret->dir < 0 ? ret->dir : 0;
}

static int status(int result)
{
	return result < 0 ? -errno : 0;
}

/* The calls for attributes know no directory descriptors. */
static int go_to(const struct place *p)
{
	return status(fchdir(p->dir));
}

/* ---- files ---- */

static void file_close(struct receive *r)
{
	fd_close(&r->file);
}

static int file_open(struct receive *r)
{
	char path[PATH_MAX];
	int n = text(r, STREAM_A_PATH, sizeof path, path);
	if (n < 0 || (r->file >= 0 && strcmp(path, r->path) == 0))
		return n;
	file_close(r);
	n = open_inside(r, path, O_RDWR | O_NONBLOCK);
	if (n < 0)
		return n;
	r->file = n;
	memcpy(r->path, path, sizeof path);
	return 0;
}

static int do_write(struct receive *r)
{
	uint64_t offset;
	int n = number(r, STREAM_A_FILE_OFFSET, &offset);
	if (n == 0)
		n = r->has[STREAM_A_DATA] ? file_open(r) : -EBADMSG;
	for (size_t at = 0; n == 0 && at < r->a[STREAM_A_DATA].n;) {
		ssize_t done =
			pwrite(r->file, r->a[STREAM_A_DATA].p + at, r->a[STREAM_A_DATA].n - at, (off_t)(offset + at));
		if (done <= 0)
			return done < 0 ? -errno : -EIO;
		at += (size_t)done;
	}
	return n;
}

/* Only from files of this tree: no other one was offered when the stream was made. */
static int do_clone(struct receive *r)
{
	char path[PATH_MAX];
	uint64_t to = 0, from = 0, size = 0;
	int n = text(r, STREAM_A_CLONE_PATH, sizeof path, path);
	if (n == 0)
		n = number(r, STREAM_A_FILE_OFFSET, &to);
	if (n == 0)
		n = number(r, STREAM_A_CLONE_OFFSET, &from);
	if (n == 0)
		n = number(r, STREAM_A_CLONE_LEN, &size);
	if (n == 0)
		n = file_open(r);
	auto_fd int source = n < 0 ? -1 : open_inside(r, path, O_RDONLY | O_NONBLOCK);
	if (n < 0 || source < 0)
		return n < 0 ? n : source;
	struct file_clone_range c = {.src_fd = source, .src_offset = from, .src_length = size, .dest_offset = to};
	return status(ioctl(r->file, FICLONERANGE, &c));
}

static int do_truncate(struct receive *r)
{
	uint64_t size;
	int n = number(r, STREAM_A_SIZE, &size);
	if (n == 0)
		n = file_open(r);
	return n < 0 ? n : status(ftruncate(r->file, (off_t)size));
}

/* A hole. It takes the place of zeros that would have been written, so the file ends no sooner than the hole. */
static int do_punch(struct receive *r)
{
	uint64_t offset = 0, size = 0;
	struct stat st;
	int n = number(r, STREAM_A_FILE_OFFSET, &offset);
	if (n == 0)
		n = number(r, STREAM_A_SIZE, &size);
	if (n == 0 && (size == 0 || offset > INT64_MAX || size > INT64_MAX - offset))
		n = -EBADMSG;
	if (n == 0)
		n = file_open(r);
	if (n == 0)
		n = status(fallocate(r->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)size));
	if (n == 0)
		n = status(fstat(r->file, &st));
	return n == 0 && st.st_size < (off_t)(offset + size) ? status(ftruncate(r->file, (off_t)(offset + size))) : n;
}

/* ---- names ---- */

static int make_node(const struct place *p, enum stream_command c, uint64_t mode, uint64_t device)
{
	mode_t type = c == STREAM_C_MKFILE   ? S_IFREG
		      : c == STREAM_C_MKFIFO ? S_IFIFO
		      : c == STREAM_C_MKSOCK ? S_IFSOCK
					     : S_IFCHR;
	if (c == STREAM_C_MKDIR)
		return status(mkdirat(p->dir, p->name, 0700));
	/* A whiteout of the overlay; a box cannot make another device. */
	if (c == STREAM_C_MKNOD && (!S_ISCHR(mode) || device != 0))
		return -EPERM;
	return status(mknodat(p->dir, p->name, type | 0600, 0));
}

static int do_make(struct receive *r, enum stream_command c)
{
	struct place p = {.dir = -1};
	uint64_t mode = 0, device = 0;
	int n = find(r, STREAM_A_PATH, &p);
	if (n == 0 && c == STREAM_C_MKNOD)
		n = number(r, STREAM_A_MODE, &mode);
	if (n == 0 && c == STREAM_C_MKNOD)
		n = number(r, STREAM_A_RDEV, &device);
	if (n == 0)
		n = make_node(&p, c, mode, device);
	fd_close(&p.dir);
	return n;
}

static int do_symlink(struct receive *r)
{
	struct place p = {.dir = -1};
	char target[PATH_MAX];
	int n = find(r, STREAM_A_PATH, &p);
	if (n == 0)
		n = text(r, STREAM_A_PATH_LINK, sizeof target, target);
	if (n == 0)
		n = status(symlinkat(target, p.dir, p.name));
	fd_close(&p.dir);
	return n;
}

/* A link's new name is the path, its old one the link's path; a rename goes from the path to another. */
static int do_two(struct receive *r, enum stream_command c)
{
	struct place a = {.dir = -1}, b = {.dir = -1};
	int n = find(r, STREAM_A_PATH, &a);
	if (n == 0)
		n = find(r, c == STREAM_C_LINK ? STREAM_A_PATH_LINK : STREAM_A_PATH_TO, &b);
	if (n == 0)
		n = status(c == STREAM_C_LINK ? linkat(b.dir, b.name, a.dir, a.name, 0)
					      : renameat(a.dir, a.name, b.dir, b.name));
	fd_close(&a.dir);
	fd_close(&b.dir);
	return n;
}

static int do_remove(struct receive *r, enum stream_command c)
{
	struct place p = {.dir = -1};
	int n = find(r, STREAM_A_PATH, &p);
	if (n == 0)
		n = status(unlinkat(p.dir, p.name, c == STREAM_C_RMDIR ? AT_REMOVEDIR : 0));
	fd_close(&p.dir);
	return n;
}

/* ---- attributes of files ---- */

static int set_mode(const struct receive *r, const struct place *p)
{
	struct stat st;
	uint64_t mode;
	int n = number(r, STREAM_A_MODE, &mode);
	if (n < 0)
		return n;
	if (fstatat(p->dir, p->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	return S_ISLNK(st.st_mode) ? -EBADMSG : status(fchmodat(p->dir, p->name, (mode_t)mode & 07777, 0));
}

static int set_owner(const struct receive *r, const struct place *p)
{
	uint64_t uid, gid;
	int n = number(r, STREAM_A_UID, &uid);
	if (n == 0)
		n = number(r, STREAM_A_GID, &gid);
	if (n == 0 && (uid >= UINT32_MAX || gid >= UINT32_MAX))
		n = -EBADMSG;
	return n < 0 ? n : status(fchownat(p->dir, p->name, (uid_t)uid, (gid_t)gid, AT_SYMLINK_NOFOLLOW));
}

static int set_times(const struct receive *r, const struct place *p)
{
	struct timespec t[2];
	int n = moment(r, STREAM_A_ATIME, &t[0]);
	if (n == 0)
		n = moment(r, STREAM_A_MTIME, &t[1]);
	return n < 0 ? n : status(utimensat(p->dir, p->name, t, AT_SYMLINK_NOFOLLOW));
}

static int set_xattr(const struct receive *r, const struct place *p, bool remove)
{
	char name[XATTR_NAME_MAX + 1];
	struct str value = r->a[STREAM_A_XATTR_DATA];
	int n = text(r, STREAM_A_XATTR_NAME, sizeof name, name);
	if (n == 0)
		n = go_to(p);
	if (n == 0 && remove)
		return status(lremovexattr(p->name, name));
	if (n == 0 && !r->has[STREAM_A_XATTR_DATA])
		n = -EBADMSG;
	return n < 0 ? n : status(lsetxattr(p->name, name, value.p, value.n, 0));
}

static int do_attribute(struct receive *r, enum stream_command c)
{
	struct place p = {.dir = -1};
	int n = find(r, STREAM_A_PATH, &p);
	if (n == 0)
		n = c == STREAM_C_CHMOD	   ? set_mode(r, &p)
		    : c == STREAM_C_CHOWN  ? set_owner(r, &p)
		    : c == STREAM_C_UTIMES ? set_times(r, &p)
					   : set_xattr(r, &p, c == STREAM_C_REMOVE_XATTR);
	fd_close(&p.dir);
	return n;
}

/* ---- streams ---- */

static int apply(struct receive *r, enum stream_command c)
{
	/* Names and attributes change under a file that stays open for writes; only writes use it. */
	if (c != STREAM_C_WRITE && c != STREAM_C_CLONE && c != STREAM_C_TRUNCATE && c != STREAM_C_PUNCH)
		file_close(r);
	switch (c) {
	case STREAM_C_SUBVOL:
	case STREAM_C_SNAPSHOT:
		return 0; /* the tree is there */
	case STREAM_C_MKFILE:
	case STREAM_C_MKDIR:
	case STREAM_C_MKNOD:
	case STREAM_C_MKFIFO:
	case STREAM_C_MKSOCK:
		return do_make(r, c);
	case STREAM_C_SYMLINK:
		return do_symlink(r);
	case STREAM_C_RENAME:
	case STREAM_C_LINK:
		return do_two(r, c);
	case STREAM_C_UNLINK:
	case STREAM_C_RMDIR:
		return do_remove(r, c);
	case STREAM_C_WRITE:
		return do_write(r);
	case STREAM_C_CLONE:
		return do_clone(r);
	case STREAM_C_TRUNCATE:
		return do_truncate(r);
	case STREAM_C_PUNCH:
		return do_punch(r);
	case STREAM_C_SET_XATTR:
	case STREAM_C_REMOVE_XATTR:
	case STREAM_C_CHMOD:
	case STREAM_C_CHOWN:
	case STREAM_C_UTIMES:
		return do_attribute(r, c);
	case STREAM_C_END:
	case STREAM_C_COUNT:
		break;
	}
	return -EBADMSG;
}

/* The checksum of a command is not looked at: the objects' own have held. */
static int one_command(struct receive *r, bool *ret_end)
{
	char head[STREAM_COMMAND_HEAD];
	ssize_t got = fd_read_full(r->in, head, sizeof head);
	if (got != (ssize_t)sizeof head)
		return got < 0 ? (int)got : -EBADMSG;
	uint64_t size = little(head, 4), command = little(head + 4, 2);
	if (size > sizeof r->room || command == 0 || command >= STREAM_C_COUNT)
		return -EBADMSG;
	got = fd_read_full(r->in, r->room, size);
	if (got != (ssize_t)size)
		return got < 0 ? (int)got : -EBADMSG;
	int n = take_attributes(r, size);
	*ret_end = command == STREAM_C_END;
	return n < 0 || *ret_end ? n : apply(r, (enum stream_command)command);
}

static int one_stream(struct receive *r)
{
	int n = 0;
	for (bool end = false; n == 0 && !end;)
		n = one_command(r, &end);
	file_close(r);
	return n;
}

int receive_streams(int in, int root)
{
	struct receive *r = xcalloc(1, sizeof *r);
	char head[STREAM_HEAD];
	int n = 0;
	bool end = false, first = true;
	r->in = in;
	r->root = root;
	r->file = -1;
	while (n == 0 && !end) {
		ssize_t got = fd_read_full(in, head, sizeof head);
		end = got == (ssize_t)sizeof head && memcmp(head, RECEIVE_END, sizeof head) == 0;
		if (end)
			break;
		if (got != (ssize_t)sizeof head || memcmp(head, "btrfs-stream", STREAM_MAGIC) != 0 ||
			little(head + STREAM_MAGIC, 4) != STREAM_VERSION)
			n = got < 0 ? (int)got : -EBADMSG;
		else if (!first)
			n = status(syncfs(root)); /* space that the stream before gave up is free now */
		if (n == 0)
			n = one_stream(r);
		first = false;
	}
	free(r);
	return n;
}
