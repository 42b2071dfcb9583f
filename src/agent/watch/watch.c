#include "agent/watch/watch.h"

#include <stdio.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>

#include "agent/file/replace.h"
#include "agent/limits.h"
#include "agent/watch/glob.h"
#include "agent/watch/watch_tree.h"
#include "base/clock.h"
#include "base/map.h"

enum { FLUSH_READS = 16 };

struct pending {
	enum watch_kind kind;
	char *rel;
	bool directory;
	int64_t wall_ms;
};

struct watcher {
	struct loop *loop;
	struct loop_io io;
	struct loop_timer flush;
	struct watch_tree tree;
	char *shown, *only;
	struct watch_options o;
	const struct watch_ops *ops;
	void *arg;
	struct pending *v; /* events that wait for the flush */
	size_t n, cap;
	struct map seen;  /* kind and path of the waiting events */
	const char *lost; /* why events were lost; NULL: none were */
	bool held;	  /* the owner can take no more */
	bool gone, told_gone;

	char *moving;  /* name of a directory that has left its place and has not come to its new one yet; or NULL */
	int moving_in; /* watch of the directory that it left */
	uint32_t cookie;
	char own_write; /* 'n' or 'm' of the agent's temporary file that is being renamed into place; or 0 */
	uint32_t own_cookie;
};

static int watchers;

int watchers_running(void)
{
	return watchers;
}

const char *watch_kind_name(enum watch_kind kind)
{
	static const char *const names[] = {"create", "modify", "delete", "move_from", "move_to", "attrib"};
	return names[kind];
}

/* ---- filters ---- */

static bool any_match(const struct watcher *w, const struct str *patterns, size_t n, const char *rel)
{
	auto_free char *absolute = NULL;
	for (size_t i = 0; i < n; i++) {
		bool whole = patterns[i].p[0] == '/';
		if (whole && !absolute)
			absolute = xasprintf("%s/%s", w->shown, rel);
		if (glob_match(patterns[i], str_of(whole ? absolute : rel)))
			return true;
	}
	return false;
}

/* Directories that do not match `include` are still entered: files below them may match. */
static bool skips(void *arg, const char *rel)
{
	const struct watcher *w = arg;
	return *rel && any_match(w, w->o.exclude, w->o.exclude_n, rel);
}

static bool wanted(struct watcher *w, enum watch_kind kind, const char *rel)
{
	if (!(w->o.kinds & 1u << kind) || skips(w, rel) || (w->only && strcmp(rel, w->only) != 0))
		return false;
	return !w->o.include_n || any_match(w, w->o.include, w->o.include_n, rel);
}

/* ---- queue ---- */

static char *key_of(enum watch_kind kind, const char *rel)
{
	return xasprintf("%d %s", (int)kind, rel);
}

/* Removes the first n waiting events. */
static void drop_first(struct watcher *w, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		auto_free char *key = key_of(w->v[i].kind, w->v[i].rel);
		map_del(&w->seen, str_of(key));
		free(w->v[i].rel);
	}
	w->n -= n;
	if (w->n)
		memmove(w->v, w->v + n, w->n * sizeof *w->v);
	else
		map_free(&w->seen);
}

/* A directory that moved away and did not come to another place in time has left the tree. */
static void forget_moving(struct watcher *w)
{
	if (w->moving)
		watch_tree_left(&w->tree, (struct watch_place){w->moving_in, w->moving});
	free(take_ptr(&w->moving));
}

static bool tell(struct watcher *w, const struct pending *p)
{
	auto_free char *path = xasprintf("%s/%s", w->shown, p->rel);
	return w->ops->on_event(w->arg, &(struct watch_event){p->kind, path, p->directory, p->wall_ms});
}

static void on_flush(struct loop_timer *t);

static void flush_soon(struct watcher *w)
{
	if (!w->flush.pos)
		loop_timer_set(w->loop, &w->flush, WATCH_COALESCE, on_flush);
}

static void lose(struct watcher *w, const char *why)
{
	w->lost = why;
	flush_soon(w);
}

/* Notes a loss when the search for directories failed with `r`. */
static void look_lost(struct watcher *w, int r)
{
	if (r == -ENOSPC)
		lose(w, "Events will be lost: the host allows no more directories to be watched");
	else if (r < 0)
		lose(w, "Events will be lost: a directory is too deep, or cannot be read");
}

static void on_flush(struct loop_timer *t)
{
	struct watcher *w = container_of(t, struct watcher, flush);
	size_t told = 0;
	int unread = 0;
	forget_moving(w);
	if (ioctl(w->tree.fd, FIONREAD, &unread) == 0 && !unread)
		look_lost(w, watch_tree_settled(&w->tree));
	while (told < w->n && !w->held)
		w->held = !tell(w, &w->v[told++]);
	drop_first(w, told);
	if (w->n)
		return;
	if (w->lost)
		w->ops->on_lost(w->arg, w->lost);
	w->lost = NULL;
	if (w->gone && !w->told_gone) {
		w->told_gone = true;
		w->ops->on_gone(w->arg);
	}
}

void watcher_resume(struct watcher *w)
{
	bool waits = w->held && !w->flush.pos;
	w->held = false;
	if (waits)
		on_flush(&w->flush);
}

static void queue(struct watcher *w, enum watch_kind kind, const char *rel, bool directory)
{
	if (!wanted(w, kind, rel))
		return;
	auto_free char *key = key_of(kind, rel);
	if (map_get(&w->seen, str_of(key)))
		return;
	if (w->n == WATCH_PENDING_MAX)
		return lose(w, "Events were lost: too many changes at once");
	if (w->n == w->cap) {
		w->cap = w->cap ? w->cap * 2 : 16;
		w->v = xrealloc(w->v, w->cap * sizeof *w->v);
	}
	w->v[w->n++] = (struct pending){kind, xstrdup(rel), directory, clock_wall_ms()};
	map_put(&w->seen, str_of(key), w);
	flush_soon(w);
}

static void found(void *arg, const char *rel, bool directory)
{
	char kind;
	const char *slash = strrchr(rel, '/');
	if (!file_replace_is_temp(slash ? slash + 1 : rel, &kind))
		queue(arg, WATCH_CREATE, rel, directory);
}

/* ---- events ---- */

static enum watch_kind kind_of(uint32_t mask)
{
	return mask & IN_CREATE	      ? WATCH_CREATE
	       : mask & IN_MODIFY     ? WATCH_MODIFY
	       : mask & IN_DELETE     ? WATCH_DELETE
	       : mask & IN_MOVED_FROM ? WATCH_MOVE_FROM
	       : mask & IN_MOVED_TO   ? WATCH_MOVE_TO
				      : WATCH_ATTRIB;
}

/* Hides the agent's own temporary files (file/replace.h). The rename that puts one in place is a create or a modify. */
static bool own_temporary(struct watcher *w, const struct inotify_event *ev)
{
	char kind;
	if (!file_replace_is_temp(ev->name, &kind))
		return false;
	if (ev->mask & IN_MOVED_FROM) {
		w->own_write = kind;
		w->own_cookie = ev->cookie;
	}
	return true;
}

/* A directory that moved inside the tree has kept its watches; one from outside is new. */
static void directory_came(struct watcher *w, const struct inotify_event *ev)
{
	bool moved = w->moving && ev->mask & IN_MOVED_TO && ev->cookie == w->cookie;
	auto_free char *name = moved ? take_ptr(&w->moving) : NULL;
	struct watch_place from = {w->moving_in, name};
	forget_moving(w);
	look_lost(w, watch_tree_came(&w->tree, (struct watch_place){ev->wd, ev->name}, moved ? &from : NULL));
}

static void on_directory(struct watcher *w, const struct inotify_event *ev)
{
	if (ev->mask & IN_MOVED_FROM) {
		forget_moving(w);
		w->moving = xstrdup(ev->name);
		w->moving_in = ev->wd;
		w->cookie = ev->cookie;
		flush_soon(w);
	} else if (ev->mask & (IN_CREATE | IN_MOVED_TO)) {
		directory_came(w, ev);
	}
}

static void on_named(struct watcher *w, const char *dir, const struct inotify_event *ev)
{
	if (own_temporary(w, ev))
		return;
	auto_free char *rel = *dir ? xasprintf("%s/%s", dir, ev->name) : xstrdup(ev->name);
	bool directory = ev->mask & IN_ISDIR;
	enum watch_kind kind = kind_of(ev->mask);
	if (ev->mask & IN_MOVED_TO && w->own_write && ev->cookie == w->own_cookie) {
		kind = w->own_write == 'n' ? WATCH_CREATE : WATCH_MODIFY;
		w->own_write = 0;
	}
	queue(w, kind, rel, directory);
	if (directory && w->o.recursive)
		on_directory(w, ev);
}

static void on_inotify(struct watcher *w, const struct inotify_event *ev)
{
	if (ev->mask & IN_Q_OVERFLOW) {
		if (w->o.recursive)
			look_lost(w, watch_tree_recurse(&w->tree));
		return lose(w, "Events were lost: too many changes at once");
	}
	auto_free char *dir = watch_tree_path(&w->tree, ev->wd);
	if (!dir)
		return;
	bool root = !*dir || strcmp(dir, WATCH_TREE_ABOVE) == 0;
	if (root && ev->mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT)) {
		w->gone = true;
		return flush_soon(w);
	}
	if (ev->mask & IN_IGNORED)
		return watch_tree_forget(&w->tree, ev->wd);
	if (ev->len)
		on_named(w, dir, ev);
}

/* Reads once; false when no event was waiting. */
static bool take_events(struct watcher *w)
{
	_Alignas(struct inotify_event) char raw[16384];
	ssize_t n = read(w->tree.fd, raw, sizeof raw);
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
	/* Bounded: a program that changes files faster than this loop reads would keep it here for ever. */
	for (int i = 0; i < FLUSH_READS && take_events(w); i++)
		;
	if (w->flush.pos) {
		loop_timer_stop(&w->flush);
		on_flush(&w->flush);
	}
}

/* ---- life ---- */

static int watcher_start(struct watcher *w, struct err *e)
{
	int r = loop_add(w->loop, &w->io, w->tree.fd, EPOLLIN, on_ready);
	if (r < 0)
		return err_os(e, ERRC_WATCH_START_ERROR, -r, "start inotify");
	/* A root that cannot be watched is an error; a directory below it that cannot is a loss. */
	r = watch_tree_start(&w->tree);
	int below = r == 0 && w->o.recursive ? watch_tree_recurse(&w->tree) : 0;
	if (r == -ENOSPC || below == -ENOSPC)
		return err_set(e, ERRC_WATCH_START_ERROR,
			"watch '%.100s': the host allows no more directories to be watched", w->shown);
	if (r < 0)
		return err_os(e, errc_from_file_errno(-r), -r, "watch '%.150s'", w->shown);
	look_lost(w, below);
	w->tree.found = found; /* only now: files that exist at the start are not changes */
	return 0;
}

struct watcher *watcher_new(
	struct loop *l, const struct watch_options *o, const struct watch_ops *ops, void *arg, struct err *e)
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
	*w = (struct watcher){.loop = l, .shown = xstrdup(o->shown), .o = *o, .ops = ops, .arg = arg};
	w->o.root = w->o.shown = w->o.only = NULL;
	w->only = o->only ? xstrdup(o->only) : NULL;
	watch_tree_init(&w->tree, fd, o->root);
	w->tree.skip = skips;
	for (size_t i = 0; i < o->exclude_n; i++)
		w->tree.skip_by_path |= str_index(o->exclude[i], '/') >= 0;
	w->tree.arg = w;
	watchers++;
	if (watcher_start(w, e) == 0)
		return w;
	watcher_free(w);
	return NULL;
}

void watcher_free(struct watcher *w)
{
	loop_del(&w->io);
	loop_timer_stop(&w->flush);
	watch_tree_free(&w->tree);
	drop_first(w, w->n);
	free(w->v);
	free(w->moving);
	free(w->shown);
	free(w->only);
	free(w);
	watchers--;
}
