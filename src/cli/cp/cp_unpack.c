#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "cli/cp/cp.h"
#include "cli/cp/tar.h"

enum { UNPACK_DEPTH_MAX = 256 };

struct cp_unpack {
	int root;
	struct cp_progress *progress;
	mode_t umask;
	char block[TAR_BLOCK];
	size_t have;		/* bytes of the header so far */
	uint64_t left, padding; /* bytes left of the entry's content */
	struct buf name, link;	/* from 'L' and 'K', for the next entry */
	struct buf *gather;	/* buffer for the content, or … */
	int file;		/* … descriptor for the content; -1: the content is dropped */
	struct timespec times[2];
	mode_t mode;
	bool begun, single, ended; /* single: the top is a file */
	uint64_t skipped;
};

struct cp_unpack *cp_unpack_new(int root, struct cp_progress *progress)
{
	struct cp_unpack *u = xcalloc(1, sizeof *u);
	u->root = root;
	u->progress = progress;
	u->file = -1;
	u->umask = umask(0);
	umask(u->umask);
	u->name.max = u->link.max = TAR_LONG_MAX;
	return u;
}

void cp_unpack_free(struct cp_unpack *u)
{
	fd_close(&u->file);
	buf_free(&u->name);
	buf_free(&u->link);
	free(u);
}

static int hostile(struct err *e, struct str name, const char *why)
{
	return err_set(e, ERRC_INVALID_REQUEST, "the box sent the name '%.*s', which %s: nothing was copied",
		(int)(name.n < 80 ? name.n : 80), name.p, why);
}

/* ---- headers ---- */

static bool read_number(const char *p, size_t n, uint64_t *ret)
{
	uint64_t v = 0;
	if ((unsigned char)p[0] & 0x80) {
		v = (unsigned char)p[0] & 0x7f;
		for (size_t i = 1; i < n; i++) {
			if (v >> 55)
				return false;
			v = v << 8 | (unsigned char)p[i];
		}
		*ret = v;
		return true;
	}
	size_t i = 0;
	while (i < n && p[i] == ' ')
		i++;
	for (; i < n && p[i] >= '0' && p[i] <= '7'; i++)
		v = v << 3 | (uint64_t)(p[i] - '0');
	*ret = v;
	return i == n || p[i] == 0 || p[i] == ' ';
}

static struct str field(const char *p, size_t n)
{
	return str_n(p, strnlen(p, n));
}

static struct str long_or(struct buf *lng, const char *p, size_t n)
{
	struct str s = buf_str(lng);
	return s.n ? str_n(s.p, strnlen(s.p, s.n)) : field(p, n);
}

static bool is_zero(const char *block)
{
	for (size_t i = 0; i < TAR_BLOCK; i++)
		if (block[i])
			return false;
	return true;
}

/* ---- places ---- */

/* Opens `name` below *dir and replaces *dir by it; makes it if it does not exist. */
static int step_into(int *dir, const char *name, struct str whole, struct err *e)
{
	int fd = openat(*dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT && mkdirat(*dir, name, 0700) == 0)
		fd = openat(*dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0) {
		fd_close(dir);
		*dir = fd;
		return 0;
	}
	if (errno == ELOOP || errno == ENOTDIR)
		return hostile(e, whole, "has a parent that is not a directory");
	return err_os(e, errc_from_file_errno(errno), errno, "making '%.*s'", STR_ARG(whole));
}

/* Opens the parent directory of `path`, for the caller to close, and returns its last component: "x" for the top. */
static int find_place(struct cp_unpack *u, struct str path, int *ret_dir, char last[256], struct err *e)
{
	struct str rest = u->single ? STR_NULL : path;
	int depth = 0;
	auto_fd int dir = openat(u->root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return err_os(e, ERRC_FILESYSTEM_ERROR, errno, "the directory to gather in");
	snprintf(last, 256, "x");
	if (path.n && path.p[0] == '/')
		return hostile(e, path, "is absolute");
	while (rest.n) {
		struct str part = str_split(rest, '/', &rest);
		if (part.n == 0 || str_eq_c(part, "."))
			continue;
		if (str_eq_c(part, ".."))
			return hostile(e, path, "leads outside");
		if (part.n > 255 || ++depth > UNPACK_DEPTH_MAX)
			return hostile(e, path, "is too long");
		if (step_into(&dir, last, path, e) < 0)
			return -1;
		snprintf(last, 256, "%.*s", STR_ARG(part));
	}
	*ret_dir = take_fd(&dir);
	return 0;
}

/* ---- entries ---- */

static int make_dir(struct cp_unpack *u, int dir, const char *name, struct err *e)
{
	/* Always writable for this process, and never more open than the umask allows. */
	mode_t mode = (u->mode & 0777 & ~u->umask) | 0700;
	if (mkdirat(dir, name, mode) < 0 && errno != EEXIST)
		return err_os(e, errc_from_file_errno(errno), errno, "making the directory '%s'", name);
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return hostile(e, str_of(name), "appears twice, once not as a directory");
	fchmod(fd, mode);
	close(fd);
	return 0;
}

/* If a name comes twice in a stream, the later entry counts, as in tar. */
static int make_file(struct cp_unpack *u, int dir, const char *name, struct err *e)
{
	unlinkat(dir, name, 0);
	u->file = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	return u->file < 0 ? err_os(e, errc_from_file_errno(errno), errno, "making '%s'", name) : 0;
}

static int make_link(int dir, const char *name, struct str target, struct err *e)
{
	auto_free char *text = str_dup(target);
	unlinkat(dir, name, 0);
	return symlinkat(text, dir, name) < 0
		       ? err_os(e, errc_from_file_errno(errno), errno, "making the link '%s'", name)
		       : 0;
}

static int make_entry(struct cp_unpack *u, char type, struct str name, struct str link, struct err *e)
{
	char last[256];
	auto_fd int dir = -1;
	if (!u->begun)
		u->single = type != '5';
	else if (u->single)
		return hostile(e, name, "was not asked for");
	if (find_place(u, name, &dir, last, e) < 0)
		return -1;
	u->begun = true;
	u->progress->files++;
	return type == '5'   ? make_dir(u, dir, last, e)
	       : type == '2' ? make_link(dir, last, link, e)
			     : make_file(u, dir, last, e);
}

static int end_file(struct cp_unpack *u, struct err *e)
{
	if (u->file < 0)
		return 0;
	fchmod(u->file, u->mode & 0777 & ~u->umask);
	futimens(u->file, u->times);
	int r = close(take_fd(&u->file));
	return r < 0 ? err_os(e, errc_from_file_errno(errno), errno, "writing a file") : 0;
}

static int begin_entry(struct cp_unpack *u, struct err *e)
{
	const struct tar_header *h = (const void *)u->block;
	uint64_t size, mode, mtime, sum;
	if (is_zero(u->block)) {
		u->ended = true;
		return 0;
	}
	if (!read_number(h->checksum, sizeof h->checksum, &sum) || sum != tar_checksum(h) ||
		!read_number(h->size, sizeof h->size, &size) || !read_number(h->mode, sizeof h->mode, &mode) ||
		!read_number(h->mtime, sizeof h->mtime, &mtime))
		return err_set(e, ERRC_INVALID_REQUEST, "the box did not send a tar stream: nothing was copied");
	char type = h->type == 0 || h->type == '7' ? '0' : h->type;
	bool content = type == '0' || type == 'L' || type == 'K';
	u->left = content || !strchr("25", type) ? size : 0;
	u->padding = tar_padding(u->left);
	u->gather = type == 'L' ? &u->name : type == 'K' ? &u->link : NULL;
	if (u->gather) {
		buf_clear(u->gather);
		return size < TAR_LONG_MAX ? 0
					   : err_set(e, ERRC_INVALID_REQUEST, "the box sent a name that is too long");
	}
	u->mode = (mode_t)mode;
	u->times[0] = (struct timespec){.tv_nsec = UTIME_OMIT};
	u->times[1] = (struct timespec){.tv_sec = (time_t)(mtime >> 40 ? 0 : mtime)};
	int r = 0;
	if (strchr("025", type))
		r = make_entry(u, type, long_or(&u->name, h->name, sizeof h->name),
			long_or(&u->link, h->link, sizeof h->link), e);
	else if (strchr("346", type))
		u->skipped++;
	else
		r = err_set(e, ERRC_INVALID_REQUEST, "the box sent an entry of kind '%c', which was not asked for",
			type > ' ' && type < 127 ? type : '?');
	buf_clear(&u->name);
	buf_clear(&u->link);
	return r == 0 && !u->left ? end_file(u, e) : r;
}

static int take_content(struct cp_unpack *u, struct str bytes, struct err *e)
{
	if (u->gather)
		buf_add_str(u->gather, bytes);
	else if (u->file >= 0) {
		int r = fd_write_full(u->file, bytes.p, bytes.n);
		if (r < 0)
			return err_os(e, errc_from_file_errno(-r), -r, "writing");
	}
	u->left -= bytes.n;
	return u->left ? 0 : end_file(u, e);
}

int cp_unpack_feed(struct cp_unpack *u, struct str bytes, struct err *e)
{
	cp_progress_add(u->progress, bytes.n);
	while (bytes.n && !u->ended) {
		uint64_t want = u->left ? u->left : u->padding ? u->padding : TAR_BLOCK - u->have;
		size_t n = want < bytes.n ? (size_t)want : bytes.n;
		if (u->left) {
			if (take_content(u, str_n(bytes.p, n), e) < 0)
				return -1;
		} else if (u->padding) {
			u->padding -= n;
		} else {
			memcpy(u->block + u->have, bytes.p, n);
			u->have += n;
			if (u->have == TAR_BLOCK) {
				u->have = 0;
				if (begin_entry(u, e) < 0)
					return -1;
			}
		}
		bytes = str_skip(bytes, n);
	}
	return 0;
}

int cp_unpack_end(struct cp_unpack *u, uint64_t *ret_skipped, struct err *e)
{
	*ret_skipped = u->skipped;
	if (!u->begun && u->skipped)
		return err_set(e, ERRC_INVALID_REQUEST, "it is neither a file nor a directory");
	return u->begun && u->ended ? 0 : err_set(e, ERRC_CONTAINER_LOST, "the stream ended too early");
}
