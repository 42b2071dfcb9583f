#include "agent/watch.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <sys/stat.h>

#include "agent/glob.h"
#include "agent/store.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/map.h"

enum {
	MASK = IN_CREATE | IN_MODIFY | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ATTRIB | IN_DELETE_SELF |
	       IN_MOVE_SELF | IN_ONLYDIR | IN_DONT_FOLLOW | IN_EXCL_UNLINK
};

struct pending {
	const char *type;
	char *path;
	bool directory;
	int64_t wall_ms;
};

struct watcher {
	struct loop *loop;
	struct loop_io io;
	struct loop_timer flush;
	int fd;
	char *root;
	size_t root_n;
	struct watch_options o;
	const struct watch_ops *ops;
	void *arg;
	struct map dirs;   /* wd as text -> its absolute path */
	struct pending *v; /* events that wait for the flush */
	size_t n, cap;
	struct map seen; /* "type path" of those */
	bool overflow, gone;
	char own_write; /* 'n' or 'm' of the store's temporary file whose rename is half seen … */
	uint32_t own_cookie;
};

static int watchers;

static struct str wd_key(int wd, char ret[16])
{
	return str_n(ret, (size_t)snprintf(ret, 16, "%d", wd));
}

/* ---- filters ---- */

static bool any_match(const struct str *patterns, size_t n, struct str path)
{
	for (size_t i = 0; i < n; i++)
		if (glob_match(patterns[i], path))
			return true;
	return false;
}

static struct str relative(const struct watcher *w, const char *path)
{
	struct str r = str_skip(str_of(path), w->root_n);
	return r.n && r.p[0] == '/' ? str_skip(r, 1) : r;
}

static bool excluded(const struct watcher *w, const char *path)
{
	return any_match(w->o.exclude, w->o.exclude_n, relative(w, path));
}

/* Directories are not asked for `include`: what lies below them may match. */
static bool wanted(const struct watcher *w, const char *path)
{
	if (excluded(w, path))
		return false;
	return !w->o.include_n || any_match(w->o.include, w->o.include_n, relative(w, path));
}

/* ---- queue ---- */

static void clear(struct watcher *w)
{
	for (size_t i = 0; i < w->n; i++)
		free(w->v[i].path);
	w->n = 0;
	map_free(&w->seen);
}

static void on_flush(struct loop_timer *t)
{
	struct watcher *w = container_of(t, struct watcher, flush);
	for (size_t i = 0; i < w->n; i++) {
		struct pending *p = &w->v[i];
		w->ops->on_event(w->arg, &(struct watch_event){p->type, p->path, p->directory, p->wall_ms});
	}
	clear(w);
	if (w->overflow) {
		w->overflow = false;
		w->ops->on_overflow(w->arg);
	}
	if (w->gone)
		w->ops->on_gone(w->arg);
}

static void flush_soon(struct watcher *w)
{
	if (!w->flush.pos)
		loop_timer_set(w->loop, &w->flush, WATCH_COALESCE, on_flush);
}

static void queue(struct watcher *w, const char *type, const char *path, bool directory)
{
	if (!wanted(w, path))
		return;
	flush_soon(w);
	auto_free char *key = xasprintf("%s %s", type, path);
	if (map_get(&w->seen, str_of(key)))
		return;
	if (w->n == WATCH_PENDING_MAX) {
		w->overflow = true;
		return;
	}
	if (w->n == w->cap) {
		w->cap = w->cap ? w->cap * 2 : 16;
		w->v = xrealloc(w->v, w->cap * sizeof *w->v);
	}
	w->v[w->n++] = (struct pending){type, xstrdup(path), directory, clock_wall_ms()};
	map_put(&w->seen, str_of(key), w);
}

/* ---- directories ---- */

static int add_tree(struct watcher *w, const char *path, bool report, int depth);

/* What is in a directory that has just got its watch. */
static void add_children(struct watcher *w, const char *path, bool report, int depth)
{
	DIR *d = opendir(path);
	struct dirent *de;
	while (d && (de = readdir(d))) {
		if (strcmp(de->d_name, ".") == 0 || strcmp(de->d_name, "..") == 0)
			continue;
		struct stat st;
		if (fstatat(dirfd(d), de->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		auto_free char *child = xasprintf("%s/%s", path, de->d_name);
		if (report)
			queue(w, "create", child, S_ISDIR(st.st_mode));
		if (S_ISDIR(st.st_mode))
			add_tree(w, child, report, depth + 1);
	}
	if (d)
		closedir(d);
}

/* 0 or -errno of the directory itself; what vanishes below it meanwhile is no mistake. */
static int add_tree(struct watcher *w, const char *path, bool report, int depth)
{
	if (depth && (excluded(w, path) || depth > LIST_DEPTH_MAX))
		return 0;
	int wd = inotify_add_watch(w->fd, path, MASK);
	if (wd < 0) {
		if (errno == ENOSPC)
			w->overflow = true;
		return -errno;
	}
	char key[16];
	char *old = map_put(&w->dirs, wd_key(wd, key), xstrdup(path));
	bool known = old && strcmp(old, path) == 0;
	free(old);
	if (w->o.recursive)
		add_children(w, path, report && !known, depth);
	return 0;
}

static void forget_dir(struct watcher *w, int wd)
{
	char key[16];
	free(map_del(&w->dirs, wd_key(wd, key)));
}

/* A directory that was moved away is still watched by the kernel, under a path that is no longer true. */
static void drop_below(struct watcher *w, const char *path)
{
	size_t it = 0;
	struct str key;
	void *value;
	int drop[64], n = 0;
	struct str prefix = str_of(path);
	while (n < (int)ARRAY_LEN(drop) && map_next(&w->dirs, &it, &key, &value)) {
		struct str dir = str_of(value);
		uint64_t wd;
		if (str_starts(dir, prefix) && (dir.n == prefix.n || dir.p[prefix.n] == '/') &&
			str_to_u64(key, INT32_MAX, &wd))
			drop[n++] = (int)wd;
	}
	for (int i = 0; i < n; i++) {
		inotify_rm_watch(w->fd, drop[i]);
		forget_dir(w, drop[i]);
	}
	if (n == (int)ARRAY_LEN(drop))
		drop_below(w, path);
}

/* ---- events ---- */

static const char *type_name(uint32_t mask)
{
	return mask & IN_CREATE	      ? "create"
	       : mask & IN_MODIFY     ? "modify"
	       : mask & IN_DELETE     ? "delete"
	       : mask & IN_MOVED_FROM ? "move_from"
	       : mask & IN_MOVED_TO   ? "move_to"
				      : "attrib";
}

/* The store's temporary files: silent, but the rename that puts one in place is a create or a modify. */
static bool own_temporary(struct watcher *w, const struct inotify_event *ev)
{
	const size_t n = sizeof STORE_TEMP_PREFIX - 1;
	if (strncmp(ev->name, STORE_TEMP_PREFIX, n) != 0)
		return false;
	if (ev->mask & IN_MOVED_FROM) {
		w->own_write = ev->name[n];
		w->own_cookie = ev->cookie;
	}
	return true;
}

static void on_named(struct watcher *w, const char *dir, const struct inotify_event *ev)
{
	if (own_temporary(w, ev))
		return;
	auto_free char *path = xasprintf("%s/%s", dir, ev->name);
	bool directory = ev->mask & IN_ISDIR;
	const char *type = type_name(ev->mask);
	if (ev->mask & IN_MOVED_TO && w->own_write && ev->cookie == w->own_cookie) {
		type = w->own_write == 'n' ? "create" : "modify";
		w->own_write = 0;
	}
	if (directory && ev->mask & IN_MOVED_FROM)
		drop_below(w, path);
	queue(w, type, path, directory);
	if (directory && w->o.recursive && ev->mask & (IN_CREATE | IN_MOVED_TO))
		add_tree(w, path, true, 1);
}

static void on_inotify(struct watcher *w, const struct inotify_event *ev)
{
	char key[16];
	if (ev->mask & IN_Q_OVERFLOW) {
		w->overflow = true;
		add_tree(w, w->root, false, 0);
		return flush_soon(w);
	}
	const char *dir = map_get(&w->dirs, wd_key(ev->wd, key));
	if (!dir)
		return;
	bool root = strcmp(dir, w->root) == 0;
	if (root && ev->mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT)) {
		w->gone = true;
		return flush_soon(w);
	}
	if (ev->mask & IN_IGNORED)
		return forget_dir(w, ev->wd);
	if (ev->len)
		on_named(w, dir, ev);
}

/* One read; false when there was nothing. */
static bool take_events(struct watcher *w)
{
	_Alignas(struct inotify_event) char raw[16384];
	ssize_t n = read(w->fd, raw, sizeof raw);
	for (ssize_t at = 0; at < n;) {
		const struct inotify_event *ev = (const struct inotify_event *)(const void *)(raw + at);
		on_inotify(w, ev);
		at += (ssize_t)(sizeof *ev + ev->len);
	}
	return n > 0;
}

static void on_ready(struct loop_io *io, uint32_t events)
{
	(void)events;
	take_events(container_of(io, struct watcher, io));
}

void watcher_flush(struct watcher *w)
{
	/* Bounded: whoever changes files faster than this reads them is still changing them. */
	for (int i = 0; i < 16 && take_events(w); i++)
		;
	if (w->flush.pos) {
		loop_timer_stop(&w->flush);
		on_flush(&w->flush);
	}
}

/* ---- life ---- */

struct watcher *watcher_new(struct loop *l, const char *root, const struct watch_options *o,
	const struct watch_ops *ops, void *arg, struct err *e)
{
	if (watchers >= WATCHERS_MAX) {
		err_set(e, ERRC_WATCH_START_ERROR, "at most %d watches can run at once", WATCHERS_MAX);
		return NULL;
	}
	int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (fd < 0) {
		err_os(e, ERRC_WATCH_START_ERROR, errno, "start inotify");
		return NULL;
	}
	struct watcher *w = xcalloc(1, sizeof *w);
	*w = (struct watcher){
		.loop = l, .fd = fd, .root = xstrdup(root), .root_n = strlen(root), .o = *o, .ops = ops, .arg = arg};
	watchers++;
	int r = loop_add(l, &w->io, fd, EPOLLIN, on_ready);
	if (r == 0)
		r = add_tree(w, root, false, 0);
	if (r < 0) {
		err_os(e, -r == ENOSPC ? ERRC_WATCH_START_ERROR : errc_from_file_errno(-r), -r, "watch '%.150s'", root);
		watcher_free(w);
		return NULL;
	}
	return w;
}

void watcher_free(struct watcher *w)
{
	size_t it = 0;
	struct str key;
	void *value;
	loop_del(&w->io);
	loop_timer_stop(&w->flush);
	close(w->fd);
	while (map_next(&w->dirs, &it, &key, &value))
		free(value);
	map_free(&w->dirs);
	clear(w);
	free(w->v);
	free(w->root);
	free(w);
	watchers--;
}
