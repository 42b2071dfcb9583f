/*
 * One entry at a time. The parent directory of an entry is looked up inside of the root (RESOLVE_IN_ROOT), the last
 * component is never followed. A path that this archive has made as a directory is not replaced by anything else.
 */
#include <archive.h>
#include <archive_entry.h>
#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "mover/mover.h"

static int open_in(const struct mover_tree *t, const char *path, uint64_t flags)
{
	struct open_how how = {.flags = flags | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
	return (int)syscall(SYS_openat2, t->root, *path ? path : ".", &how, sizeof how);
}

void tree_open(struct mover_tree *t, const char *root)
{
	t->root = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (t->root < 0)
		mover_die("'%s' cannot be entered: %s", root, strerror(errno));
}

/* ---- names ---- */

/* "./a//b/" becomes "a/b". Refuses names that no archive of an image has. */
static void clean_name(const char *name, const char *what, struct buf *ret)
{
	size_t depth = 0;
	struct str rest = str_of(name);
	if (rest.n > MOVER_NAME_MAX)
		mover_die("a %s has %zu bytes, at most %d are allowed", what, rest.n, MOVER_NAME_MAX);
	if (rest.n && rest.p[0] == '/')
		mover_die("a %s is absolute: '%s'", what, name);
	while (rest.n) {
		struct str part = str_split(rest, '/', &rest);
		if (!part.n || str_eq_c(part, "."))
			continue;
		if (str_eq_c(part, ".."))
			mover_die("a %s has '..' in it: '%s'", what, name);
		if (part.n > MOVER_PART_MAX)
			mover_die("a part of a %s is longer than %d bytes", what, MOVER_PART_MAX);
		if (++depth > MOVER_DEPTH_MAX)
			mover_die("a %s is deeper than %d directories", what, MOVER_DEPTH_MAX);
		if (buf_size(ret))
			buf_add_byte(ret, '/');
		buf_add_str(ret, part);
	}
}

/* The kernel's own file systems are mounted there while a box runs. */
static bool is_mounted(const char *path)
{
	return strcmp(path, "proc") == 0 || strncmp(path, "proc/", 5) == 0 || strcmp(path, "dev") == 0 ||
	       strncmp(path, "dev/", 4) == 0;
}

static struct str parent_of(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? str_n(path, (size_t)(slash - path)) : STR("");
}

static const char *last_of(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

/* Makes missing parents, as root's and 0755. */
static int open_parent(const struct mover_tree *t, const char *path)
{
	auto_free char *parent = str_dup(parent_of(path));
	int fd = open_in(t, parent, O_PATH | O_DIRECTORY);
	for (char *slash = parent; fd < 0 && errno == ENOENT && slash;) {
		slash = strchr(slash + (slash != parent), '/');
		char keep = slash ? *slash : 0;
		if (slash)
			*slash = 0;
		auto_free char *above = str_dup(parent_of(parent));
		auto_fd int dir = open_in(t, above, O_PATH | O_DIRECTORY);
		if (dir < 0 || (mkdirat(dir, last_of(parent), 0755) < 0 && errno != EEXIST))
			mover_die("'%s' cannot be made: %s", parent, strerror(errno));
		if (slash)
			*slash = keep;
		fd = open_in(t, parent, O_PATH | O_DIRECTORY);
	}
	if (fd < 0)
		mover_die("'%s' is no directory: %s", parent, strerror(errno));
	return fd;
}

/* ---- removing ---- */

static bool made_here(const struct mover_tree *t, const char *path)
{
	return map_get(&t->made, str_of(path)) != NULL;
}

/* Removes what is below `path` (dir/name) and was not made by this archive; true when all of it is gone. */
static bool remove_below(const struct mover_tree *t, int dir, const char *name, const char *path, int depth)
{
	bool all = true;
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	if (!d || depth > MOVER_DEPTH_MAX)
		mover_die("'%s' cannot be removed", path);
	for (struct dirent *entry; (entry = readdir(d));) {
		auto_buf struct buf below = {0};
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		buf_printf(&below, "%s%s%s", path, *path ? "/" : "", entry->d_name);
		const char *full = buf_cstr(&below);
		struct stat st;
		if (is_mounted(full) || fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		bool dir_here = S_ISDIR(st.st_mode);
		bool gone = !dir_here || remove_below(t, fd, entry->d_name, full, depth + 1);
		if (made_here(t, full) || !gone)
			all = false;
		else if (unlinkat(fd, entry->d_name, dir_here ? AT_REMOVEDIR : 0) < 0)
			mover_die("'%s' cannot be removed: %s", full, strerror(errno));
	}
	closedir(d);
	return all;
}

static void remove_path(const struct mover_tree *t, int dir, const char *path)
{
	struct stat st;
	const char *name = last_of(path);
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return;
	bool is_dir = S_ISDIR(st.st_mode);
	if (is_dir && !remove_below(t, dir, name, path, 0))
		return;
	if (unlinkat(dir, name, is_dir ? AT_REMOVEDIR : 0) < 0)
		mover_die("'%s' cannot be removed: %s", path, strerror(errno));
}

/* True when the name was a whiteout. It hides what lower layers have, never what this archive has made. */
static bool take_whiteout(struct mover_tree *t, int parent, const char *path)
{
	const char *name = last_of(path);
	if (!t->layer || strncmp(name, ".wh.", 4) != 0)
		return false;
	auto_free char *above = str_dup(parent_of(path));
	if (strcmp(name, ".wh..wh..opq") == 0) {
		remove_below(t, parent, ".", above, 0);
		return true;
	}
	auto_buf struct buf hidden = {0};
	buf_printf(&hidden, "%s%s%s", above, *above ? "/" : "", name + 4);
	if (!name[4] || strcmp(name + 4, ".") == 0 || strcmp(name + 4, "..") == 0)
		mover_die("'%s' is no whiteout", path);
	if (!made_here(t, buf_cstr(&hidden)))
		remove_path(t, parent, buf_cstr(&hidden));
	return true;
}

/* ---- one entry ---- */

static void make_room(struct mover_tree *t, int parent, const char *path, bool for_dir)
{
	struct stat st;
	if (fstatat(parent, last_of(path), &st, AT_SYMLINK_NOFOLLOW) < 0)
		return;
	if (for_dir && S_ISDIR(st.st_mode))
		return;
	if (made_here(t, path) && (S_ISDIR(st.st_mode) || for_dir))
		mover_die("'%s' is in the archive twice, once as a directory", path);
	remove_path(t, parent, path);
}

static void write_content(struct archive *a, int fd, const char *path, la_int64_t size)
{
	const void *bytes;
	size_t n;
	la_int64_t offset;
	int r;
	while ((r = archive_read_data_block(a, &bytes, &n, &offset)) == ARCHIVE_OK)
		for (size_t done = 0; done < n;) {
			ssize_t w = pwrite(fd, (const char *)bytes + done, n - done, offset + (la_int64_t)done);
			if (w < 0)
				mover_die("'%s' cannot be written: %s", path, strerror(errno));
			done += (size_t)w;
		}
	if (r != ARCHIVE_EOF)
		mover_die("the archive is damaged at '%s': %s", path, archive_error_string(a));
	if (size > 0 && ftruncate(fd, size) < 0)
		mover_die("'%s' cannot be written: %s", path, strerror(errno));
}

static void make_hard_link(struct mover_tree *t, int parent, const char *path, const char *target)
{
	auto_buf struct buf clean = {0};
	clean_name(target, "link", &clean);
	auto_free char *above = str_dup(parent_of(buf_cstr(&clean)));
	auto_fd int dir = open_in(t, above, O_PATH | O_DIRECTORY);
	if (dir < 0 || linkat(dir, last_of(buf_cstr(&clean)), parent, last_of(path), 0) < 0)
		mover_die("'%s' cannot be linked to '%s': %s", path, target, strerror(errno));
}

/* Ids past the range of a box have no owner. */
static uid_t clamp(la_int64_t id)
{
	return id < 0 || id > 65534 ? 65534 : (uid_t)id;
}

static void set_xattrs(struct mover_tree *t, int fd, struct archive_entry *entry)
{
	const char *name;
	const void *value;
	size_t n;
	archive_entry_xattr_reset(entry);
	while (archive_entry_xattr_next(entry, &name, &value, &n) == ARCHIVE_OK) {
		/* Others carry rights (security.capability) or belong to the kernel's file systems. */
		if (strncmp(name, "user.", 5) != 0 || strncmp(name, "user.overlay.", 13) == 0 || n > MOVER_XATTR_MAX)
			t->stripped++;
		else if (fsetxattr(fd, name, value, n, 0) < 0)
			t->stripped++;
	}
}

static mode_t mode_of(struct mover_tree *t, struct archive_entry *entry)
{
	mode_t mode = archive_entry_perm(entry) & 07777;
	if (t->has_mode)
		return t->mode;
	if (!t->keep_setuid && archive_entry_filetype(entry) != AE_IFDIR && (mode & (S_ISUID | S_ISGID))) {
		t->stripped++;
		mode &= ~(mode_t)(S_ISUID | S_ISGID);
	}
	return mode;
}

static void set_state(struct mover_tree *t, int parent, const char *path, struct archive_entry *entry)
{
	const char *name = last_of(path);
	uid_t uid = t->has_owner ? t->uid : clamp(archive_entry_uid(entry));
	gid_t gid = t->has_owner ? t->gid : clamp(archive_entry_gid(entry));
	struct timespec when = {archive_entry_mtime(entry), archive_entry_mtime_nsec(entry)};
	const struct timespec times[2] = {when, when};
	mode_t mode = mode_of(t, entry);
	unsigned type = archive_entry_filetype(entry);
	if (fchownat(parent, name, uid, gid, AT_SYMLINK_NOFOLLOW) < 0)
		mover_die("the owner of '%s' cannot be set: %s", path, strerror(errno));
	if (type != AE_IFLNK && fchmodat(parent, name, mode, 0) < 0)
		mover_die("the mode of '%s' cannot be set: %s", path, strerror(errno));
	if (type == AE_IFDIR) {
		buf_add(&t->times, &when, sizeof when);
		buf_add(&t->times, path, strlen(path) + 1);
		return;
	}
	utimensat(parent, name, times, AT_SYMLINK_NOFOLLOW);
}

static bool make_entry(
	struct mover_tree *t, int parent, const char *path, struct archive *a, struct archive_entry *entry)
{
	const char *name = last_of(path);
	auto_fd int fd = -1;
	int r = 0;
	switch (archive_entry_filetype(entry)) {
	case AE_IFDIR:
		r = mkdirat(parent, name, 0700) < 0 && errno != EEXIST ? -1 : 0;
		fd = r < 0 ? -1 : openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		break;
	case AE_IFLNK:
		r = symlinkat(archive_entry_symlink(entry) ? archive_entry_symlink(entry) : "", parent, name);
		break;
	case AE_IFREG:
		fd = openat(parent, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
		r = fd < 0 ? -1 : 0;
		if (fd >= 0)
			write_content(a, fd, path, archive_entry_size_is_set(entry) ? archive_entry_size(entry) : 0);
		break;
	case AE_IFIFO:
		r = mkfifoat(parent, name, 0600);
		break;
	default: /* devices and sockets */
		t->stripped++;
		return false;
	}
	if (r < 0)
		mover_die("'%s' cannot be made: %s", path, strerror(errno));
	if (fd >= 0)
		set_xattrs(t, fd, entry);
	return true;
}

void tree_add(struct mover_tree *t, struct archive *a, struct archive_entry *entry)
{
	auto_buf struct buf clean = {0};
	const char *given = archive_entry_pathname(entry);
	if (++t->entries > MOVER_ENTRIES_MAX)
		mover_die("the archive has more than %u entries", MOVER_ENTRIES_MAX);
	if (!given)
		mover_die("a name in the archive cannot be read");
	clean_name(given, "name", &clean);
	const char *path = buf_cstr(&clean);
	if (is_mounted(path))
		return;
	auto_fd int parent = *path ? open_parent(t, path) : open_in(t, "", O_PATH | O_DIRECTORY);
	if (*path && take_whiteout(t, parent, path))
		return;
	if (!*path) {
		return; /* the root stays the box's */
	}
	make_room(t, parent, path, archive_entry_filetype(entry) == AE_IFDIR);
	map_put(&t->made, str_of(path), t);
	if (archive_entry_hardlink(entry))
		make_hard_link(t, parent, path, archive_entry_hardlink(entry));
	else if (make_entry(t, parent, path, a, entry))
		set_state(t, parent, path, entry);
}

void tree_close(struct mover_tree *t)
{
	struct str rest = buf_str(&t->times);
	while (rest.n > sizeof(struct timespec)) {
		struct timespec times[2];
		memcpy(&times[0], rest.p, sizeof times[0]);
		times[1] = times[0];
		rest = str_skip(rest, sizeof times[0]);
		auto_fd int fd = open_in(t, rest.p, O_RDONLY | O_DIRECTORY);
		if (fd >= 0)
			futimens(fd, times);
		rest = str_skip(rest, strlen(rest.p) + 1);
	}
}
