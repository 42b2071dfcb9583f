#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "cli/cp/cp.h"

enum { SAID_MAX = 16 * 1024 };

/* $1: the path to send. If it is a link, it is followed; links below it are sent as links. */
static const char script[] =
	"p=$(readlink -fn -- \"$1\" && echo /) || exit 3\n"
	"p=${p%?}\n"
	"if [ -d \"$p\" ]; then cd -- \"$p\" && exec tar -cf - --format=gnu --hard-dereference .\n"
	"elif [ -e \"$p\" ]; then cd -- \"${p%/*}/\" && exec tar -cf - --format=gnu -- \"./${p##*/}\"\n"
	"else exit 3; fi\n";

/* The destination: `name` in the directory `dir`. The tree is gathered in `gather` beside it. */
struct cp_place {
	int dir, gather;
	char *name;
	char temp[CP_TEMP_NAME];
};

/* ---- a place ---- */

static int open_dir(const char *path, struct err *e)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? err_os(e, errc_from_file_errno(errno), errno, "'%s'", path) : fd;
}

/* As cp(1): into an existing directory under the source's name; else to the named path. */
static int find_place(const char *path, struct str source, struct cp_place *p, struct err *e)
{
	struct stat st;
	size_t n = strlen(path);
	bool slash = n > 1 && path[n - 1] == '/';
	if (slash && stat(path, &st) < 0 && errno == ENOENT && mkdir(path, 0777) < 0)
		return err_os(e, errc_from_file_errno(errno), errno, "making '%s'", path);
	bool there = stat(path, &st) == 0 && S_ISDIR(st.st_mode);
	if (there && source.n) {
		p->name = str_dup(source);
		return (p->dir = open_dir(path, e)) < 0 ? -1 : 0;
	}
	/* The content of a directory goes into the named directory. If that is a link, its real path is used. */
	char real[PATH_MAX];
	if (there && !realpath(path, real))
		return err_os(e, errc_from_file_errno(errno), errno, "'%s'", path);
	auto_free char *copy = there ? xstrdup(real) : xstrdup(path);
	for (n = strlen(copy); n > 1 && copy[n - 1] == '/'; n--)
		copy[n - 1] = 0;
	char *last = strrchr(copy, '/');
	p->name = xstrdup(last ? last + 1 : copy);
	if (!*p->name || strcmp(p->name, ".") == 0 || strcmp(p->name, "..") == 0)
		return err_set(e, ERRC_INVALID_REQUEST, "'%s' cannot be the destination", path);
	if (last)
		*(last == copy ? last + 1 : last) = 0;
	return (p->dir = open_dir(last ? copy : ".", e)) < 0 ? -1 : 0;
}

static int open_gather(struct cp_place *p, struct err *e)
{
	if (cp_temp_name(p->temp, e) < 0)
		return -1;
	if (mkdirat(p->dir, p->temp, 0700) < 0)
		return err_os(e, errc_from_file_errno(errno), errno, "a directory to gather in");
	p->gather = openat(p->dir, p->temp, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return p->gather < 0 ? err_os(e, errc_from_file_errno(errno), errno, "a directory to gather in") : 0;
}

/* Best effort. All files here were made by this process. */
static void remove_tree(int dir, const char *name)
{
	if (unlinkat(dir, name, 0) == 0 || errno == ENOENT)
		return;
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	for (struct dirent *n; d && (n = readdir(d));)
		if (strcmp(n->d_name, ".") != 0 && strcmp(n->d_name, "..") != 0)
			remove_tree(dirfd(d), n->d_name);
	if (d)
		closedir(d);
	unlinkat(dir, name, AT_REMOVEDIR);
}

static void close_place(struct cp_place *p)
{
	if (p->gather >= 0)
		remove_tree(p->dir, p->temp);
	fd_close(&p->gather);
	fd_close(&p->dir);
	free(p->name);
}

/* ---- putting it there ---- */

static bool is_dir(int dir, const char *name)
{
	struct stat st;
	return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

/* Moves `name` of `from` to `as` in `to`. A directory is merged into an existing one; other entries are replaced. */
static int put(int from, const char *name, int to, const char *as, struct err *e)
{
	if (!is_dir(from, name) || !is_dir(to, as))
		return renameat(from, name, to, as) == 0
			       ? 0
			       : err_os(e, errc_from_file_errno(errno), errno, "putting '%s' in its place", as);
	auto_fd int target = openat(to, as, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int fd = openat(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = fd < 0 || target < 0 ? NULL : fdopendir(fd);
	if (!d) {
		fd_close(&fd);
		return err_os(e, errc_from_file_errno(errno), errno, "'%s'", as);
	}
	int r = 0;
	for (struct dirent *n; r == 0 && (n = readdir(d));)
		if (strcmp(n->d_name, ".") != 0 && strcmp(n->d_name, "..") != 0)
			r = put(dirfd(d), n->d_name, target, n->d_name, e);
	closedir(d);
	return r;
}

/* ---- the whole ---- */

static int on_out(void *arg, struct str bytes, struct err *e)
{
	return cp_unpack_feed(arg, bytes, e);
}

/* tar's exit code 1: a file changed while it was read. The copy is kept, and a note is printed. */
static int judge(struct cp *cp, const struct stream_result *r, struct buf *said, struct err *e)
{
	if (r->exit_code == 0)
		return 0;
	if (r->exit_code == 1 && !*r->signal) {
		cp_progress_end(&cp->progress);
		fprintf(stderr, "atoll cp: some files changed during the copy\n");
		return 0;
	}
	if (r->exit_code == 3)
		return err_set(e, ERRC_FILE_NOT_FOUND, "there is no '%s' in box '%s'", cp->from.path, cp->from.id);
	return cp_command_failed(r, said, cp->from.path, e);
}

static int receive(struct cp *cp, struct cp_place *p, struct err *e)
{
	auto_buf struct buf said = {.max = SAID_MAX};
	char *argv[] = {"sh", "-c", (char *)script, "cp", (char *)cp->from.path, NULL};
	struct stream_request rq = {.id = cp->from.id, .argv = argv};
	struct stream_result r;
	uint64_t skipped = 0;
	struct cp_unpack *u = cp_unpack_new(p->gather, &cp->progress);
	struct stream_io io = {.in = -1, .err = &said, .on_out = on_out, .arg = u};
	int failed = stream_run(cp->cl, &rq, &io, &r, e);
	if (failed == 0 && cp->cl->interrupted)
		failed = err_set(e, ERRC_UNKNOWN_ERROR, "interrupted; nothing was copied");
	if (failed == 0)
		failed = judge(cp, &r, &said, e);
	if (failed == 0)
		failed = cp_unpack_end(u, &skipped, e);
	cp_unpack_free(u);
	cp_progress_end(&cp->progress);
	if (failed == 0 && skipped)
		fprintf(stderr, "atoll cp: %llu devices, pipes or sockets were left out\n",
			(unsigned long long)skipped);
	return failed;
}

int cp_down(struct cp *cp, struct err *e)
{
	struct cp_place p = {.dir = -1, .gather = -1};
	int r = find_place(cp->to.path, cp_base_name(cp->from.path), &p, e);
	if (r == 0)
		r = open_gather(&p, e);
	if (r == 0)
		r = receive(cp, &p, e);
	if (r == 0)
		r = put(p.gather, "x", p.dir, p.name, e);
	close_place(&p);
	return r;
}
