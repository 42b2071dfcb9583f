#include "agent/watch/watch_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <sys/stat.h>

#include "agent/fuse/mounts.h"
#include "agent/limits.h"
#include "agent/request/aside.h"

enum {
	MASK = IN_CREATE | IN_MODIFY | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ATTRIB | IN_DELETE_SELF |
	       IN_MOVE_SELF | IN_ONLYDIR | IN_DONT_FOLLOW | IN_EXCL_UNLINK,
	MASK_ABOVE = IN_MOVE_SELF | IN_ONLYDIR | IN_DONT_FOLLOW,
};
enum { NOWHERE = -1, ABOVE = -2 }; /* values of dir.in: of the root, and of the directories above it */

struct dir {
	int wd;
	int in; /* watch of its parent directory */
	char *name;
	unsigned generation; /* of the last search that found it */
};

static struct str key_of(int wd, char ret[16])
{
	return str_n(ret, (size_t)snprintf(ret, 16, "%d", wd));
}

static struct dir *find(const struct watch_tree *t, int wd)
{
	char key[16];
	return map_get(&t->dirs, key_of(wd, key));
}

static void dir_free(struct dir *d)
{
	if (d)
		free(d->name);
	free(d);
}

/* Notes that the directory with watch `wd` is `name` in `in`. True when the watch is new. */
static bool put(struct watch_tree *t, int wd, int in, const char *name)
{
	char key[16];
	struct dir *d = find(t, wd), *old = d;
	if (!d) {
		d = xcalloc(1, sizeof *d);
		map_put(&t->dirs, key_of(wd, key), d);
	}
	char *was = d->name;
	*d = (struct dir){.wd = wd, .in = in, .name = xstrdup(name), .generation = t->generation};
	free(was);
	return !old;
}

void watch_tree_init(struct watch_tree *t, int fd, const char *root)
{
	*t = (struct watch_tree){.fd = fd, .root = xstrdup(root)};
}

void watch_tree_free(struct watch_tree *t)
{
	size_t it = 0;
	struct str key;
	void *value;
	while (map_next(&t->dirs, &it, &key, &value))
		dir_free(value);
	map_free(&t->dirs);
	fd_close(&t->fd);
	free(take_ptr(&t->root));
}

void watch_tree_forget(struct watch_tree *t, int wd)
{
	char key[16];
	dir_free(map_del(&t->dirs, key_of(wd, key)));
}

/* ---- names ---- */

static char *join(const char *dir, const char *name)
{
	return *dir ? xasprintf("%s/%s", dir, name) : xstrdup(name);
}

static char *absolute(const struct watch_tree *t, const char *rel)
{
	return *rel ? xasprintf("%s/%s", t->root, rel) : xstrdup(t->root);
}

char *watch_tree_path(const struct watch_tree *t, int wd)
{
	const struct dir *d = find(t, wd);
	if (d && d->in == ABOVE)
		return xstrdup(WATCH_TREE_ABOVE);
	char *path = d ? xstrdup(d->name) : NULL;
	/* Bounded: while some names are not known yet, a directory may seem to be inside itself. */
	for (int i = 0; d && d->in != NOWHERE; i++) {
		d = i < LIST_DEPTH_MAX ? find(t, d->in) : NULL;
		char *longer = d ? join(d->name, path) : NULL;
		free(path);
		path = longer;
	}
	return path;
}

/* True when `wd` is `top` or below it. */
static bool lies_in(const struct watch_tree *t, int wd, int top)
{
	const struct dir *d = find(t, wd);
	for (int i = 0; d && d->wd != top && i < LIST_DEPTH_MAX; i++)
		d = find(t, d->in);
	return d && d->wd == top;
}

/* ---- adding ---- */

/* A FUSE mount that appeared after the watch began is lost for it: its server could stop the loop. */
static int watch(struct watch_tree *t, const char *path)
{
	if (aside_asks() && fuse_mounts_on(path))
		return -EXDEV;
	int wd = inotify_add_watch(t->fd, path, MASK);
	return wd < 0 ? -errno : wd;
}

/* A directory that vanished before it could be watched is not a loss. */
static bool is_loss(int r)
{
	return r < 0 && r != -ENOENT && r != -ENOTDIR;
}

static bool is_dir(int dirfd, const struct dirent *de)
{
	struct stat st;
	if (de->d_type != DT_UNKNOWN)
		return de->d_type == DT_DIR;
	return fstatat(dirfd, de->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

static int add(struct watch_tree *t, struct watch_place at, const char *rel, int depth);

/* `fresh`: none of its entries has been reported. */
static int add_children(struct watch_tree *t, int wd, const char *path, const char *rel, bool fresh, int depth)
{
	DIR *d = opendir(path);
	struct dirent *de;
	int r = d ? 0 : -errno;
	while (d && r != -ENOSPC && (de = readdir(d))) {
		if (strcmp(de->d_name, ".") == 0 || strcmp(de->d_name, "..") == 0)
			continue;
		bool directory = is_dir(dirfd(d), de);
		if (!directory && !fresh)
			continue;
		auto_free char *child = join(rel, de->d_name);
		if (fresh && t->found)
			t->found(t->arg, child, directory);
		int below = directory ? add(t, (struct watch_place){wd, de->d_name}, child, depth + 1) : 0;
		if (is_loss(below) && (r == 0 || below == -ENOSPC))
			r = below;
	}
	if (d)
		closedir(d);
	return is_loss(r) ? r : 0;
}

static void drop(struct watch_tree *t, int wd);

/* Watches the directory `rel` and all directories below it. */
static int add(struct watch_tree *t, struct watch_place at, const char *rel, int depth)
{
	bool skipped = t->skip && t->skip(t->arg, rel);
	if (skipped && !t->deep)
		return 0;
	if (depth >= LIST_DEPTH_MAX)
		return -ENAMETOOLONG;
	auto_free char *path = absolute(t, rel);
	int wd = watch(t, path);
	if (wd < 0)
		return wd;
	if (skipped) {
		drop(t, wd);
		return 0;
	}
	bool fresh = put(t, wd, at.dir, at.name);
	return fresh || t->deep ? add_children(t, wd, path, rel, fresh, depth) : 0;
}

int watch_tree_start(struct watch_tree *t)
{
	auto_free char *at = xstrdup(t->root);
	int wd = watch(t, at);
	if (wd < 0)
		return wd;
	put(t, wd, NOWHERE, "");
	for (char *slash; (slash = strrchr(at, '/')) && slash > at;) {
		*slash = 0;
		wd = inotify_add_watch(t->fd, at, MASK_ABOVE);
		if (wd < 0)
			return -errno;
		put(t, wd, ABOVE, "");
	}
	return 0;
}

/* ---- leaving ---- */

/* Ends the watches that `gone` chooses, some at a time: a map must not change while it is walked. */
static void drop_where(struct watch_tree *t, bool (*gone)(const struct watch_tree *, const struct dir *, int), int arg)
{
	enum { BATCH = 256 };
	int wds[BATCH], n;
	do {
		size_t it = 0;
		struct str key;
		void *value;
		n = 0;
		while (n < BATCH && map_next(&t->dirs, &it, &key, &value))
			if (gone(t, value, arg))
				wds[n++] = ((const struct dir *)value)->wd;
		for (int i = 0; i < n; i++) {
			inotify_rm_watch(t->fd, wds[i]);
			watch_tree_forget(t, wds[i]);
		}
	} while (n == BATCH);
}

static bool is_below(const struct watch_tree *t, const struct dir *d, int top)
{
	return d->wd != top && lies_in(t, d->wd, top);
}

static bool is_stale(const struct watch_tree *t, const struct dir *d, int ignored)
{
	(void)ignored;
	return d->generation != t->generation && d->in != ABOVE;
}

/* Ends the watch and all watches below it. */
static void drop(struct watch_tree *t, int wd)
{
	if (find(t, wd))
		drop_where(t, is_below, wd);
	inotify_rm_watch(t->fd, wd);
	watch_tree_forget(t, wd);
}

int watch_tree_recurse(struct watch_tree *t)
{
	t->generation++;
	t->deep = true;
	int r = add(t, (struct watch_place){NOWHERE, ""}, "", 0);
	t->deep = t->missed = false;
	drop_where(t, is_stale, 0);
	return r;
}

/* A watch that is noted under this name although the kernel finds another directory there, or none. 0: no such watch.
 */
static int not_here(struct watch_tree *t, struct watch_place at)
{
	size_t it = 0;
	struct str key;
	void *value;
	while (map_next(&t->dirs, &it, &key, &value)) {
		const struct dir *d = value;
		if (d->in != at.dir || strcmp(d->name, at.name) != 0)
			continue;
		auto_free char *rel = watch_tree_path(t, d->wd), *path = rel ? absolute(t, rel) : NULL;
		int wd = path ? watch(t, path) : -ENOENT;
		if (wd != d->wd) {
			if (wd >= 0 && !find(t, wd))
				inotify_rm_watch(t->fd, wd); /* an event about this directory will come */
			return d->wd;
		}
	}
	return 0;
}

void watch_tree_left(struct watch_tree *t, struct watch_place from)
{
	int wd = not_here(t, from);
	if (wd)
		drop(t, wd);
}

/* ---- coming ---- */

int watch_tree_settled(struct watch_tree *t)
{
	return t->missed ? watch_tree_recurse(t) : 0;
}

/* True when the directory with this watch is where it is noted to be. */
static bool is_here(struct watch_tree *t, int wd, const char *rel)
{
	auto_free char *path = absolute(t, rel);
	int found = watch(t, path);
	if (found >= 0 && !find(t, found))
		inotify_rm_watch(t->fd, found);
	return found == wd;
}

int watch_tree_came(struct watch_tree *t, struct watch_place at, const struct watch_place *from)
{
	auto_free char *dir = watch_tree_path(t, at.dir), *rel = dir ? join(dir, at.name) : NULL;
	if (!rel)
		return 0; /* its parent has left meanwhile */
	if (t->skip && t->skip(t->arg, rel)) {
		if (from)
			watch_tree_left(t, *from);
		return 0;
	}
	/* A directory above may have another name by now. It is searched when the event with its new name comes. */
	bool findable = is_here(t, at.dir, dir);
	t->missed |= !findable;
	t->deep = t->missed || (from && t->skip_by_path);
	int r = findable ? add(t, at, rel, 0) : -ENOENT;
	t->deep = false;
	if (from && (r == -ENOENT || r == -ENOTDIR)) {
		/* It has moved on. Note the place that this event names; the next event moves it further. */
		int wd = not_here(t, *from);
		if (wd)
			put(t, wd, at.dir, at.name);
	}
	return is_loss(r) ? r : 0;
}
