#include "cage/pool/diff.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "base/buf.h"
#include "base/fd.h"
#include "cage/limits.h"
#include "cage/sys.h"

struct walk {
	int out;
	const struct diff_image *image;
	unsigned entries, depth;
	bool cut;
	char path[DIFF_PATH_MAX];
	size_t n; /* of the path */
	struct buf pending;
	int os;
};

/* The same directory now and then; -1: not in the layer. It hides the image's directory when it took the place of a
 * deleted one. */
struct dirs {
	int now, then;
	bool now_hides, then_hides;
};

static void flush(struct walk *w)
{
	int r = w->os ? 0 : fd_write_full(w->out, buf_str(&w->pending).p, buf_size(&w->pending));
	if (r < 0)
		w->os = -r;
	buf_clear(&w->pending);
}

static void record(struct walk *w, char kind)
{
	if (w->entries++ >= DIFF_ENTRIES_MAX) {
		w->cut = true;
		return;
	}
	buf_add_byte(&w->pending, kind);
	buf_add(&w->pending, w->path, w->n);
	buf_add_byte(&w->pending, 0);
	if (buf_size(&w->pending) > DIFF_PIECE)
		flush(w);
}

static bool done(const struct walk *w)
{
	return w->cut || w->os;
}

static bool look(int dir, const char *name, struct stat *ret)
{
	return dir >= 0 && fstatat(dir, name, ret, AT_SYMLINK_NOFOLLOW) == 0;
}

static bool is_whiteout(const struct stat *st)
{
	return S_ISCHR(st->st_mode) && st->st_rdev == 0;
}

static bool same_file(const struct stat *a, const struct stat *b)
{
	return a->st_ino == b->st_ino && a->st_size == b->st_size && a->st_mode == b->st_mode &&
	       a->st_uid == b->st_uid && a->st_gid == b->st_gid && a->st_ctim.tv_sec == b->st_ctim.tv_sec &&
	       a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

/* ---- the image ---- */

enum { RESOLVE_INSIDE = RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH | RESOLVE_NO_XDEV };

/* A new directory in the place of a deleted one has this mark of the overlay. */
static bool is_opaque(int dir)
{
	char value = 0;
	return dir >= 0 && fgetxattr(dir, "trusted.overlay.opaque", &value, 1) == 1 && value == 'y';
}

/* Whether a directory above the path hides lower layers of the image. */
static bool is_hidden_below(int root, const char *path)
{
	char above[DIFF_PATH_MAX];
	for (const char *end = strchr(path, '/'); end; end = strchr(end + 1, '/')) {
		snprintf(above, sizeof above, "%.*s", (int)(end - path), path);
		auto_fd int dir = sys_openat2(root, above, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, RESOLVE_INSIDE);
		if (dir < 0 || is_opaque(dir))
			return dir >= 0;
	}
	return false;
}

/* The layer of the image that shows the present path; -1: none. */
static int image_shows(const struct walk *w, struct stat *ret)
{
	const char *path = w->path + 1;
	for (size_t i = 0; i < w->image->n; i++) {
		int root = w->image->roots[i];
		auto_fd int fd = sys_openat2(root, path, O_PATH | O_NOFOLLOW, RESOLVE_INSIDE);
		if (fd >= 0)
			return fstat(fd, ret) < 0 || is_whiteout(ret) ? -1 : (int)i;
		if (errno != ENOENT || (i + 1 < w->image->n && is_hidden_below(root, path)))
			return -1;
	}
	return -1;
}

/* ---- the comparison ---- */

static void compare_dirs(struct walk *w, const struct dirs *d);

static int open_dir(int dir, const char *name)
{
	return dir < 0 ? -1 : openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static void descend(struct walk *w, const struct dirs *d, const char *name)
{
	struct stat st;
	if (w->depth >= DIFF_DEPTH_MAX) {
		w->cut = true;
		return;
	}
	auto_fd int now = open_dir(d->now, name);
	auto_fd int then = open_dir(d->then, name);
	bool replaced = then < 0 && look(d->then, name, &st); /* a file or a whiteout */
	w->depth++;
	compare_dirs(w, &(struct dirs){now, then, d->now_hides || is_opaque(now),
				d->then_hides || replaced || is_opaque(then)});
	w->depth--;
}

/* An entry of the layer that the snapshot has not. */
static void only_now(struct walk *w, const struct dirs *d, const char *name, const struct stat *now)
{
	struct stat image;
	bool in_image = !d->then_hides && image_shows(w, &image) >= 0;
	bool merged = in_image && S_ISDIR(now->st_mode) && S_ISDIR(image.st_mode);
	if (is_whiteout(now))
		record(w, 'D');
	else if (!merged)
		record(w, in_image ? 'C' : 'A');
	if (S_ISDIR(now->st_mode))
		descend(w, d, name);
}

static void both(
	struct walk *w, const struct dirs *d, const char *name, const struct stat *now, const struct stat *then)
{
	bool now_dir = S_ISDIR(now->st_mode), then_dir = S_ISDIR(then->st_mode);
	if (now_dir && then_dir) {
		if (now->st_mode != then->st_mode || now->st_uid != then->st_uid || now->st_gid != then->st_gid)
			record(w, 'C');
		return descend(w, d, name);
	}
	if (is_whiteout(now) && is_whiteout(then))
		return;
	if (is_whiteout(now))
		record(w, 'D');
	else if (is_whiteout(then))
		record(w, 'A');
	else if (!same_file(now, then))
		record(w, 'C');
	if (now_dir)
		descend(w, d, name);
}

static void only_then(struct walk *w, const struct dirs *d, const char *name, const struct stat *then)
{
	if (is_whiteout(then))
		return;
	record(w, 'D');
	if (S_ISDIR(then->st_mode))
		descend(w, d, name);
}

static bool push(struct walk *w, const char *name, size_t *ret_before)
{
	size_t n = strlen(name);
	*ret_before = w->n;
	if (w->n + n + 2 > sizeof w->path) {
		w->cut = true;
		return false;
	}
	w->path[w->n++] = '/';
	memcpy(w->path + w->n, name, n);
	w->n += n;
	w->path[w->n] = 0;
	return true;
}

static bool is_dots(const char *name)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* An entry of the image that showed then. */
static void maybe_hidden(struct walk *w, const struct dirs *d, const char *name, int layer)
{
	struct stat st;
	size_t before;
	if (is_dots(name) || look(d->now, name, &st) || look(d->then, name, &st) || !push(w, name, &before))
		return;
	if (image_shows(w, &st) == layer)
		record(w, 'D');
	w->n = before;
	w->path[before] = 0;
}

/* What the image has in a directory that was deleted and made again. */
static void each_hidden(struct walk *w, const struct dirs *d)
{
	for (size_t i = 0; i < w->image->n && w->n; i++) {
		int fd = sys_openat2(w->image->roots[i], w->path + 1, O_RDONLY | O_DIRECTORY, RESOLVE_INSIDE);
		DIR *list = fd < 0 ? NULL : fdopendir(fd);
		if (!list) {
			fd_close(&fd);
			continue;
		}
		for (struct dirent *entry; !done(w) && (entry = readdir(list));)
			maybe_hidden(w, d, entry->d_name, (int)i);
		closedir(list);
	}
}

/* Every entry of one of the two directories. */
static void each_entry(struct walk *w, const struct dirs *d, bool of_now)
{
	int dir = of_now ? d->now : d->then;
	int fd = dir < 0 ? -1 : openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *list = fd < 0 ? NULL : fdopendir(fd);
	if (!list) {
		fd_close(&fd);
		return;
	}
	for (struct dirent *entry; !done(w) && (entry = readdir(list));) {
		struct stat now = {0}, then = {0};
		const char *name = entry->d_name;
		size_t before;
		if (is_dots(name) || !push(w, name, &before))
			continue;
		bool is_now = look(d->now, name, &now), was = look(d->then, name, &then);
		if (of_now && is_now && was)
			both(w, d, name, &now, &then);
		else if (of_now && is_now)
			only_now(w, d, name, &now);
		else if (!of_now && was && !is_now)
			only_then(w, d, name, &then);
		w->n = before;
		w->path[before] = 0;
	}
	closedir(list);
}

static void compare_dirs(struct walk *w, const struct dirs *d)
{
	each_entry(w, d, true);
	each_entry(w, d, false);
	if (d->now >= 0 && d->now_hides && !d->then_hides)
		each_hidden(w, d);
}

int diff_write(int layer, int snapshot, const struct diff_image *image, int out)
{
	struct walk w = {.out = out, .image = image};
	auto_fd int now = open_dir(layer, "upper");
	auto_fd int then = open_dir(snapshot, "upper");
	if (now < 0 || then < 0)
		return -errno;
	compare_dirs(&w, &(struct dirs){.now = now, .then = then});
	buf_add_byte(&w.pending, w.cut ? 'T' : 'E');
	buf_add_byte(&w.pending, 0);
	flush(&w);
	buf_free(&w.pending);
	return -w.os;
}
