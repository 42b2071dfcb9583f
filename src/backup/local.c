/*
 * Objects as files of one directory. A file is written under a name with a dot and renamed when it is on the disk.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backup/limits.h"
#include "backup/target.h"
#include "base/disk.h"
#include "base/fd.h"

#define PART ".part-"

struct local {
	struct target t;
	int dir;
};

struct target_put {
	int dir, fd;
	struct disk_guard disk;
	char name[300], part[310];
};

static int fail(struct err *e, const char *what, const char *name)
{
	int os = errno;
	return err_os(e, os == ENOSPC || os == EDQUOT ? ERRC_NO_SPACE : ERRC_FILESYSTEM_ERROR, os, "%s %s", what, name);
}

static int put_begin(struct target *t, const char *name, struct target_put **ret, struct err *e)
{
	struct target_put *p = xcalloc(1, sizeof *p);
	p->dir = container_of(t, struct local, t)->dir;
	snprintf(p->name, sizeof p->name, "%s", name);
	snprintf(p->part, sizeof p->part, PART "%s", name);
	p->fd = openat(p->dir, p->part, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (p->fd < 0) {
		fail(e, "make", name);
		free(p);
		return -1;
	}
	*ret = p;
	return 0;
}

static int put_write(struct target_put *p, const char *bytes, size_t n, struct err *e)
{
	if (!disk_takes(&p->disk, p->fd, n))
		return err_set(
			e, ERRC_NO_SPACE, "write %s: the disk of the backups has no room besides its reserve", p->name);
	int r = fd_write_full(p->fd, bytes, n);
	errno = r < 0 ? -r : 0;
	return r < 0 ? fail(e, "write", p->name) : 0;
}

static void put_abort(struct target_put *p)
{
	close(p->fd);
	unlinkat(p->dir, p->part, 0);
	free(p);
}

static int put_end(struct target_put *p, struct err *e)
{
	if (fsync(p->fd) < 0 || renameat(p->dir, p->part, p->dir, p->name) < 0) {
		fail(e, "keep", p->name);
		put_abort(p);
		return -1;
	}
	fsync(p->dir);
	close(p->fd);
	free(p);
	return 0;
}

static int get(struct target *t, const char *name, target_on_bytes on_bytes, void *arg, struct err *e)
{
	static char piece[BACKUP_PIECE];
	auto_fd int fd =
		openat(container_of(t, struct local, t)->dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		return err_set(e, ERRC_NOT_FOUND, "there is no object '%s'", name);
	if (fd < 0)
		return fail(e, "open", name);
	posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
	for (ssize_t n; (n = read(fd, piece, sizeof piece)) != 0;) {
		if (n < 0)
			return fail(e, "read", name);
		if (on_bytes(arg, piece, (size_t)n, e) < 0)
			return -1;
	}
	return 0;
}

static int each(struct target *t, bool parts, target_on_name on_name, void *arg, struct err *e)
{
	int fd = openat(container_of(t, struct local, t)->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	int r = 0;
	if (!d) {
		fail(e, "open", "the directory of backups");
		fd_close(&fd);
		return -1;
	}
	for (struct dirent *entry; r == 0 && (entry = readdir(d));)
		if (parts ? strncmp(entry->d_name, PART, sizeof PART - 1) == 0 : *entry->d_name != '.')
			r = on_name(arg, entry->d_name, e);
	closedir(d);
	return r;
}

static int list(struct target *t, target_on_name on_name, void *arg, struct err *e)
{
	return each(t, false, on_name, arg, e);
}

static int drop(struct target *t, const char *name, struct err *e)
{
	int dir = container_of(t, struct local, t)->dir;
	char part[310];
	snprintf(part, sizeof part, PART "%s", name);
	unlinkat(dir, part, 0);
	return unlinkat(dir, name, 0) < 0 && errno != ENOENT ? fail(e, "delete", name) : 0;
}

static int drop_part(void *arg, const char *name, struct err *e)
{
	return drop(arg, name, e);
}

static int sweep(struct target *t, struct err *e)
{
	return each(t, true, drop_part, t, e);
}

int target_local_open(const char *dir, struct target **ret, struct err *e)
{
	static const struct target_ops ops = {.put_begin = put_begin,
		.put_write = put_write,
		.put_end = put_end,
		.put_abort = put_abort,
		.get = get,
		.list = list,
		.remove = drop,
		.sweep = sweep};
	struct local *l = xcalloc(1, sizeof *l);
	l->t.ops = &ops;
	l->dir = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (l->dir < 0) {
		fail(e, "open", dir);
		free(l);
		return -1;
	}
	*ret = &l->t;
	return 0;
}

/* ---- small objects ---- */

int target_put_text(struct target *t, const char *name, struct str text, struct err *e)
{
	struct target_put *p = NULL;
	if (t->ops->put_begin(t, name, &p, e) < 0)
		return -1;
	if (t->ops->put_write(p, text.p, text.n, e) < 0) {
		t->ops->put_abort(p);
		return -1;
	}
	return t->ops->put_end(p, e);
}

static int gather(void *arg, const char *p, size_t n, struct err *e)
{
	struct buf *b = arg;
	return buf_add(b, p, n) ? 0 : err_set(e, ERRC_PAYLOAD_TOO_LARGE, "an object is larger than %zu bytes", b->max);
}

int target_get_text(struct target *t, const char *name, struct buf *ret, struct err *e)
{
	return t->ops->get(t, name, gather, ret, e);
}
