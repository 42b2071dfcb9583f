#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "cli/cp/cp.h"
#include "cli/cp/tar.h"

enum { PACK_CHUNK = 128 * 1024, PACK_DEPTH_MAX = 256 };

struct pack {
	int fd;
	struct buf name; /* name of the entry: "x/a/b" */
	int depth;
	cp_skips skips; /* or NULL */
	void *arg;
};

static int put(struct pack *p, const void *bytes, size_t n, struct err *e)
{
	int r = fd_write_full(p->fd, bytes, n);
	return r < 0 ? err_os(e, ERRC_FILESYSTEM_ERROR, -r, "sending") : 0;
}

static int put_padding(struct pack *p, uint64_t n, struct err *e)
{
	static const char zeros[TAR_BLOCK];
	return put(p, zeros, (size_t)tar_padding(n), e);
}

static void put_octal(char *to, size_t n, uint64_t v)
{
	if (v >> (3 * (n - 1))) { /* base 256, marked by the highest bit */
		for (size_t i = n; i-- > 0; v >>= 8)
			to[i] = (char)(v & 0xff);
		to[0] = (char)(to[0] | 0x80);
		return;
	}
	to[n - 1] = 0;
	for (size_t i = n - 1; i-- > 0; v >>= 3)
		to[i] = (char)('0' + (v & 7));
}

static void fill(struct tar_header *h, char type, uint64_t size, const struct stat *st)
{
	put_octal(h->mode, sizeof h->mode, st ? st->st_mode & 07777 : 0644);
	put_octal(h->uid, sizeof h->uid, 0);
	put_octal(h->gid, sizeof h->gid, 0);
	put_octal(h->size, sizeof h->size, size);
	put_octal(h->mtime, sizeof h->mtime, st && st->st_mtime > 0 ? (uint64_t)st->st_mtime : 0);
	h->type = type;
	memcpy(h->magic, "ustar  ", sizeof h->magic);
	snprintf(h->checksum, sizeof h->checksum, "%06o", tar_checksum(h));
	h->checksum[7] = ' ';
}

/* Writes a name or link target that is too long for the header as an entry before it. */
static int put_long(struct pack *p, char type, struct str text, struct err *e)
{
	struct tar_header h = {.name = "././@LongLink"};
	if (text.n < TAR_NAME)
		return 0;
	fill(&h, type, text.n + 1, NULL);
	if (put(p, &h, sizeof h, e) < 0 || put(p, text.p, text.n, e) < 0 || put(p, "", 1, e) < 0)
		return -1;
	return put_padding(p, text.n + 1, e);
}

static int put_header(struct pack *p, char type, const struct stat *st, struct str link, struct err *e)
{
	struct tar_header h = {0};
	struct str name = buf_str(&p->name);
	if (put_long(p, 'K', link, e) < 0 || put_long(p, 'L', name, e) < 0)
		return -1;
	memcpy(h.name, name.p, name.n < TAR_NAME ? name.n : TAR_NAME - 1);
	memcpy(h.link, link.p ? link.p : "", link.n < TAR_NAME ? link.n : TAR_NAME - 1);
	fill(&h, type, type == '0' ? (uint64_t)st->st_size : 0, st);
	return put(p, &h, sizeof h, e);
}

static int pack_file(struct pack *p, int fd, const struct stat *st, const char *shown, struct err *e)
{
	auto_free char *chunk = xmalloc(PACK_CHUNK);
	uint64_t left = (uint64_t)st->st_size;
	if (put_header(p, '0', st, STR(""), e) < 0)
		return -1;
	while (left) {
		ssize_t n = read(fd, chunk, left < PACK_CHUNK ? (size_t)left : PACK_CHUNK);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_os(e, errc_from_file_errno(errno), errno, "reading '%s'", shown);
		if (n == 0)
			return err_set(e, ERRC_FILESYSTEM_ERROR, "'%s' shrank while it was sent", shown);
		if (put(p, chunk, (size_t)n, e) < 0)
			return -1;
		left -= (uint64_t)n;
	}
	return put_padding(p, (uint64_t)st->st_size, e);
}

static int pack_link(struct pack *p, int dir, const char *name, const struct stat *st, struct err *e)
{
	char target[PATH_MAX];
	ssize_t n = readlinkat(dir, name, target, sizeof target - 1);
	if (n < 0)
		return err_os(e, errc_from_file_errno(errno), errno, "reading the link '%s'", name);
	target[n] = 0;
	return put_header(p, '2', st, str_n(target, (size_t)n), e);
}

static int pack_entry(struct pack *p, int dir, const char *name, bool top, struct err *e);

static int pack_children(struct pack *p, DIR *d, struct err *e)
{
	size_t len = buf_size(&p->name);
	for (struct dirent *n; errno = 0, (n = readdir(d));) {
		if (strcmp(n->d_name, ".") == 0 || strcmp(n->d_name, "..") == 0)
			continue;
		buf_truncate(&p->name, len);
		if (len)
			buf_add_byte(&p->name, '/');
		buf_add_c(&p->name, n->d_name);
		if (pack_entry(p, dirfd(d), n->d_name, false, e) < 0)
			return -1;
	}
	return errno ? err_os(e, ERRC_FILESYSTEM_ERROR, errno, "reading a directory") : 0;
}

static int pack_dir(struct pack *p, int fd, const struct stat *st, bool entry, struct err *e)
{
	if (++p->depth > PACK_DEPTH_MAX) {
		close(fd);
		return err_set(e, ERRC_LIMIT_REACHED, "more than %d directories inside each other", PACK_DEPTH_MAX);
	}
	DIR *d = fdopendir(fd);
	if (!d) {
		int os = errno;
		close(fd);
		return err_os(e, ERRC_FILESYSTEM_ERROR, os, "reading a directory");
	}
	int r = entry && buf_size(&p->name) ? put_header(p, '5', st, STR(""), e) : 0;
	if (r == 0)
		r = pack_children(p, d, e);
	closedir(d);
	p->depth--;
	return r;
}

/* Sockets, pipes and devices are not sent. O_NONBLOCK: a file may have become a pipe meanwhile. */
static int pack_entry(struct pack *p, int dir, const char *name, bool top, struct err *e)
{
	struct stat st;
	if (fstatat(dir, name, &st, top ? 0 : AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT && !top ? 0 : err_os(e, errc_from_file_errno(errno), errno, "'%s'", name);
	enum cp_skip skip = top || !p->skips ? CP_TAKE : p->skips(p->arg, buf_cstr(&p->name), S_ISDIR(st.st_mode));
	if (skip == CP_SKIP)
		return 0;
	if (S_ISLNK(st.st_mode))
		return pack_link(p, dir, name, &st, e);
	if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
		return top ? err_set(e, ERRC_INVALID_REQUEST, "'%s' is neither a file nor a directory", name) : 0;
	int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | (top ? 0 : O_NOFOLLOW));
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_os(
			e, errc_from_file_errno(errno), errno, "'%s'", top || p->skips ? name : buf_cstr(&p->name) + 2);
	if (S_ISDIR(st.st_mode))
		return pack_dir(p, fd, &st, skip == CP_TAKE, e);
	int r = S_ISREG(st.st_mode) ? pack_file(p, fd, &st, name, e) : 0;
	close(fd);
	return r;
}

int cp_pack(const char *path, int fd, struct err *e)
{
	struct pack p = {.fd = fd};
	static const char end[2 * TAR_BLOCK];
	struct stat none = {.st_mode = S_IFREG | 0600};
	buf_add_c(&p.name, "x");
	int r = pack_entry(&p, AT_FDCWD, path, true, e);
	buf_clear(&p.name);
	buf_add_c(&p.name, "end");
	if (r == 0)
		r = put_header(&p, '0', &none, STR(""), e);
	if (r == 0)
		r = put(&p, end, sizeof end, e);
	buf_free(&p.name);
	return r;
}

int cp_pack_content(const char *path, int fd, cp_skips skips, void *arg, struct err *e)
{
	struct pack p = {.fd = fd, .skips = skips, .arg = arg};
	static const char end[2 * TAR_BLOCK];
	int r = pack_entry(&p, AT_FDCWD, path, true, e);
	if (r == 0)
		r = put(&p, end, sizeof end, e);
	buf_free(&p.name);
	return r;
}

int cp_pack_text(const char *name, struct str text, int fd, struct err *e)
{
	struct pack p = {.fd = fd};
	struct stat st = {.st_mode = S_IFREG | 0644, .st_size = (off_t)text.n};
	buf_add_c(&p.name, name);
	int r = put_header(&p, '0', &st, STR(""), e);
	r = r < 0 ? r : put(&p, text.p, text.n, e);
	r = r < 0 ? r : put_padding(&p, text.n, e);
	buf_free(&p.name);
	return r;
}

/* ---- how much it is ---- */

static uint64_t measure(int dir, const char *name, bool top, int depth)
{
	struct stat st;
	if (depth > PACK_DEPTH_MAX || fstatat(dir, name, &st, top ? 0 : AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	if (!S_ISDIR(st.st_mode))
		return TAR_BLOCK + (S_ISREG(st.st_mode) ? (uint64_t)st.st_size + tar_padding((uint64_t)st.st_size) : 0);
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	uint64_t sum = TAR_BLOCK;
	if (!d)
		return sum;
	for (struct dirent *n; (n = readdir(d));)
		if (strcmp(n->d_name, ".") != 0 && strcmp(n->d_name, "..") != 0)
			sum += measure(dirfd(d), n->d_name, false, depth + 1);
	closedir(d);
	return sum;
}

uint64_t cp_pack_size(const char *path)
{
	return measure(AT_FDCWD, path, true, 0) + 3 * TAR_BLOCK;
}
