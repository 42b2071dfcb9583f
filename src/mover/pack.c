#include <archive.h>
#include <archive_entry.h>
#include <dirent.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/fd.h"
#include "mover/mover.h"
#include "proto/hosts.h"
#include "proto/limits.h"

/* libarchive's table of formats names this one, which would bring libxml2 into a static program. */
int archive_write_set_format_xar(struct archive *a)
{
	(void)a;
	return ARCHIVE_FATAL;
}

/* The name of a directory that itself is not packed. */
#define HERE "."

struct packer {
	struct archive *out;
	struct archive_entry_linkresolver *links;
	uint64_t entries, bytes;
	bool copy; /* for COPY: of their times, files keep the whole seconds of the last change */
	dev_t device;
};

static void put_bytes(struct packer *p, const char *path, struct str bytes)
{
	if (archive_write_data(p->out, bytes.p, bytes.n) < 0)
		mover_die("'%s' cannot be packed: %s", path, strerror(errno));
}

static void put_content(struct packer *p, const char *path)
{
	char piece[1 << 17];
	auto_fd int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		mover_die("'%s' cannot be read: %s", path, strerror(errno));
	for (ssize_t n; (n = read(fd, piece, sizeof piece)) != 0;) {
		if (n < 0)
			mover_die("'%s' cannot be read: %s", path, strerror(errno));
		put_bytes(p, path, str_n(piece, (size_t)n));
	}
}

static void put_xattrs(const char *path, struct archive_entry *entry)
{
	char names[8192], value[MOVER_XATTR_MAX];
	ssize_t n = llistxattr(path, names, sizeof names);
	for (char *name = names; n > 0 && name < names + n; name += strlen(name) + 1) {
		ssize_t size = strncmp(name, "user.", 5) == 0 ? lgetxattr(path, name, value, sizeof value) : -1;
		if (size >= 0)
			archive_entry_xattr_add_entry(entry, name, value, (size_t)size);
	}
}

/* The name of the box that packs is no part of the image. Empty: the file is packed as it is. */
static void read_hosts(const char *path, const struct stat *st, struct buf *ret)
{
	auto_buf struct buf text = {0};
	if (strcmp(path, "/etc/hosts") != 0 || !S_ISREG(st->st_mode) ||
		fd_read_file(AT_FDCWD, path, BOX_HOSTS_MAX, &text) < 0)
		return;
	hosts_without_mark(buf_str(&text), ret);
	if (buf_size(ret) == buf_size(&text))
		buf_clear(ret);
}

static void put_one(struct packer *p, const char *path, const char *name, const struct stat *st)
{
	auto_buf struct buf hosts = {0};
	struct archive_entry *entry = archive_entry_new(), *spare = NULL;
	archive_entry_copy_stat(entry, st);
	archive_entry_set_pathname(entry, name);
	if (S_ISLNK(st->st_mode)) {
		char target[4097];
		ssize_t n = readlink(path, target, sizeof target - 1);
		target[n < 0 ? 0 : n] = 0;
		archive_entry_set_symlink(entry, target);
	}
	if (p->copy) {
		archive_entry_unset_atime(entry);
		archive_entry_unset_ctime(entry);
		archive_entry_set_mtime(entry, st->st_mtime > 0 ? st->st_mtime : 0, 0);
	}
	if (!p->copy)
		read_hosts(path, st, &hosts);
	if (buf_size(&hosts))
		archive_entry_set_size(entry, (int64_t)buf_size(&hosts));
	put_xattrs(path, entry);
	archive_entry_linkify(p->links, &entry, &spare);
	if (archive_write_header(p->out, entry) < ARCHIVE_WARN)
		mover_die("'%s' cannot be packed: %s", path, archive_error_string(p->out));
	if (buf_size(&hosts) && !archive_entry_hardlink(entry))
		put_bytes(p, path, buf_str(&hosts));
	else if (archive_entry_size(entry) > 0 && S_ISREG(st->st_mode) && !archive_entry_hardlink(entry))
		put_content(p, path);
	archive_entry_free(entry);
	archive_entry_free(spare);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

/*
 * Another device is /proc or /dev of the box: an empty directory is enough. Owner and times of the mount are the box's
 * and differ from box to box, so that an image would have another digest each time it is packed.
 */
static void put_mount_point(struct packer *p, const char *path, const char *name)
{
	const struct stat st = {.st_mode = S_IFDIR | 0755, .st_nlink = 2};
	put_one(p, path, name, &st);
}

static void put_tree(struct packer *p, const char *path, const char *name, int depth);

static void put_dir(struct packer *p, const char *path, const char *name, int depth)
{
	struct dirent **list = NULL;
	int n = scandir(path, &list, NULL, by_name);
	if (n < 0 || depth > MOVER_DEPTH_MAX)
		mover_die("'%s' cannot be read: %s", path, strerror(errno));
	for (int i = 0; i < n; i++) {
		if (strcmp(list[i]->d_name, ".") != 0 && strcmp(list[i]->d_name, "..") != 0) {
			auto_buf struct buf below = {0}, called = {0};
			buf_printf(&below, "%s%s%s", path, path[1] ? "/" : "", list[i]->d_name);
			buf_printf(&called, "%s%s%s", name, *name ? "/" : "", list[i]->d_name);
			put_tree(p, buf_cstr(&below), buf_cstr(&called), depth + 1);
		}
		free(list[i]);
	}
	free(list);
}

static void put_tree(struct packer *p, const char *path, const char *name, int depth)
{
	struct stat st;
	if (lstat(path, &st) < 0)
		mover_die("'%s' cannot be read: %s", path, strerror(errno));
	if (++p->entries > MOVER_ENTRIES_MAX)
		mover_die("more than %u files", MOVER_ENTRIES_MAX);
	/* The holes of a sparse file are packed as zeros. */
	if (S_ISREG(st.st_mode) && (p->bytes += (uint64_t)st.st_size) > MOVER_BYTES_MAX)
		mover_die("the files have more than %llu bytes, with '%s'", MOVER_BYTES_MAX, path);
	if (S_ISSOCK(st.st_mode) || S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode))
		return;
	bool itself = *name && strcmp(name, HERE) != 0;
	if (S_ISDIR(st.st_mode) && st.st_dev != p->device)
		return itself ? put_mount_point(p, path, name) : (void)0;
	if (itself)
		put_one(p, path, name, &st);
	if (S_ISDIR(st.st_mode))
		put_dir(p, path, name, depth);
}

/* A source of COPY: a directory stands for what is in it, as "./name", anything else for itself, as "name". Links are
 * followed inside the box. */
static void put_source(struct packer *p, const char *root, const char *pattern)
{
	glob_t found = {0};
	auto_buf struct buf full = {0};
	buf_printf(&full, "%s/%s", root, pattern);
	if (glob(buf_cstr(&full), GLOB_NOSORT, NULL, &found) != 0)
		mover_die("COPY finds no file '%s'", pattern);
	for (size_t n = 0; n < found.gl_pathc; n++) {
		auto_free char *path = realpath(found.gl_pathv[n], NULL);
		struct stat st;
		if (!path || lstat(path, &st) < 0)
			mover_die("'%s' cannot be read: %s", pattern, strerror(errno));
		if (strncmp(path, root, strlen(root)) != 0)
			mover_die("'%s' leads out of the files that may be copied", pattern);
		const char *slash = strrchr(found.gl_pathv[n], '/');
		put_tree(p, path, S_ISDIR(st.st_mode) ? HERE : slash + 1, 0);
	}
	globfree(&found);
}

int mover_pack(int argc, char **argv)
{
	struct packer p = {.out = archive_write_new(), .links = archive_entry_linkresolver_new()};
	struct stat st;
	if (argc < 1)
		mover_die("pack needs a directory");
	archive_write_set_format_pax_restricted(p.out);
	archive_entry_linkresolver_set_strategy(p.links, ARCHIVE_FORMAT_TAR);
	archive_write_set_bytes_per_block(p.out, 1 << 17);
	archive_write_set_bytes_in_last_block(p.out, 1);
	if (archive_write_open_fd(p.out, 1) != ARCHIVE_OK || stat(argv[0], &st) < 0)
		mover_die("'%s' cannot be packed", argv[0]);
	p.device = st.st_dev;
	p.copy = argc > 1;
	const char *root = strcmp(argv[0], "/") == 0 ? "" : argv[0];
	for (int i = 1; i < argc; i++)
		put_source(&p, root, argv[i]);
	if (argc == 1)
		put_tree(&p, argv[0], "", 0);
	if (archive_write_close(p.out) != ARCHIVE_OK)
		mover_die("the archive cannot be written: %s", archive_error_string(p.out));
	return 0;
}
