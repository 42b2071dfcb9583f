#include "agent/watch_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <sys/stat.h>

#include "base/limits.h"

enum {
	MASK = IN_CREATE | IN_MODIFY | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ATTRIB | IN_DELETE_SELF |
	       IN_MOVE_SELF | IN_ONLYDIR | IN_DONT_FOLLOW | IN_EXCL_UNLINK
};

struct dir {
	unsigned generation; /* of the last look that saw it */
	char *rel;
};

static struct str key_of(int wd, char ret[16])
{
	return str_n(ret, (size_t)snprintf(ret, 16, "%d", wd));
}

static struct dir *dir_new(const struct watch_tree *t, const char *rel)
{
	struct dir *d = xmalloc(sizeof *d);
	*d = (struct dir){t->generation, xstrdup(rel)};
	return d;
}

static void dir_free(struct dir *d)
{
	if (d)
		free(d->rel);
	free(d);
}

static char *join(const char *dir, const char *name)
{
	return *dir ? xasprintf("%s/%s", dir, name) : xstrdup(name);
}

static char *absolute(const struct watch_tree *t, const char *rel)
{
	return *rel ? xasprintf("%s/%s", t->root, rel) : xstrdup(t->root);
}

void watch_tree_init(struct watch_tree *t, int fd, const char *root, bool recursive)
{
	*t = (struct watch_tree){.fd = fd, .root = xstrdup(root), .recursive = recursive};
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

const char *watch_tree_path(const struct watch_tree *t, int wd)
{
	char key[16];
	const struct dir *d = map_get(&t->dirs, key_of(wd, key));
	return d ? d->rel : NULL;
}

void watch_tree_forget(struct watch_tree *t, int wd)
{
	char key[16];
	dir_free(map_del(&t->dirs, key_of(wd, key)));
}

/* ---- adding ---- */

static bool is_dir(int dirfd, const struct dirent *de)
{
	struct stat st;
	if (de->d_type != DT_UNKNOWN)
		return de->d_type == DT_DIR;
	return fstatat(dirfd, de->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

static int add(struct watch_tree *t, const char *rel, bool report, int depth);

static int add_children(struct watch_tree *t, const char *path, const char *rel, bool report, int depth)
{
	DIR *d = opendir(path);
	struct dirent *de;
	int r = 0;
	while (d && r == 0 && (de = readdir(d))) {
		if (strcmp(de->d_name, ".") == 0 || strcmp(de->d_name, "..") == 0)
			continue;
		bool directory = is_dir(dirfd(d), de);
		if (!directory && !report)
			continue;
		auto_free char *child = join(rel, de->d_name);
		if (report && t->found)
			t->found(t->arg, child, directory);
		if (directory && t->recursive && add(t, child, report, depth + 1) == -ENOSPC)
			r = -ENOSPC;
	}
	if (d)
		closedir(d);
	return r;
}

static int add(struct watch_tree *t, const char *rel, bool report, int depth)
{
	if (depth > LIST_DEPTH_MAX || (t->skip && t->skip(t->arg, rel)))
		return 0;
	auto_free char *path = absolute(t, rel);
	int wd = inotify_add_watch(t->fd, path, MASK);
	if (wd < 0)
		return -errno;
	char key[16];
	const struct dir *known = map_get(&t->dirs, key_of(wd, key));
	bool same = known && strcmp(known->rel, rel) == 0;
	dir_free(map_put(&t->dirs, key_of(wd, key), dir_new(t, rel)));
	return t->recursive || report ? add_children(t, path, rel, report && !same, depth) : 0;
}

int watch_tree_add(struct watch_tree *t, const char *rel, bool report)
{
	return add(t, rel, report, 0);
}

/* ---- leaving ---- */

static bool lies_in(const char *rel, struct str dir)
{
	struct str s = str_of(rel);
	return !dir.n || (str_starts(s, dir) && (s.n == dir.n || s.p[dir.n] == '/'));
}

/* Ends the watches that `gone` chooses, some at a time: a map must not change while it is walked. */
static void drop_where(struct watch_tree *t, bool (*gone)(const struct watch_tree *, const struct dir *, const char *),
	const char *arg)
{
	enum { BATCH = 256 };
	int wds[BATCH], n;
	do {
		size_t it = 0;
		struct str key;
		void *value;
		uint64_t wd;
		n = 0;
		while (n < BATCH && map_next(&t->dirs, &it, &key, &value))
			if (gone(t, value, arg) && str_to_u64(key, INT32_MAX, &wd))
				wds[n++] = (int)wd;
		for (int i = 0; i < n; i++) {
			inotify_rm_watch(t->fd, wds[i]);
			watch_tree_forget(t, wds[i]);
		}
	} while (n == BATCH);
}

static bool is_below(const struct watch_tree *t, const struct dir *d, const char *rel)
{
	(void)t;
	return lies_in(d->rel, str_of(rel));
}

static bool is_stale(const struct watch_tree *t, const struct dir *d, const char *rel)
{
	(void)rel;
	return d->generation != t->generation;
}

void watch_tree_drop(struct watch_tree *t, const char *rel)
{
	drop_where(t, is_below, rel);
}

int watch_tree_rescan(struct watch_tree *t)
{
	t->generation++;
	int r = watch_tree_add(t, "", false);
	drop_where(t, is_stale, NULL);
	return r;
}

/* ---- moving ---- */

/* A name that is skipped now ends the watch; the rest of its tree comes by itself. */
static bool is_skipped(const struct watch_tree *t, const struct dir *d, const char *to)
{
	return lies_in(d->rel, str_of(to)) && t->skip && t->skip(t->arg, d->rel);
}

bool watch_tree_move(struct watch_tree *t, const char *from, const char *to)
{
	size_t it = 0, cut = strlen(from);
	struct str key;
	void *value;
	bool any = false;
	while (map_next(&t->dirs, &it, &key, &value)) {
		struct dir *d = value;
		if (!lies_in(d->rel, str_n(from, cut)))
			continue;
		char *rel = xasprintf("%s%s", to, d->rel + cut);
		free(d->rel);
		d->rel = rel;
		any = true;
	}
	if (any)
		drop_where(t, is_skipped, to);
	return any;
}
