/*
 * The sizes of layers, in meta/sizes. A layer never changes, so that each is measured once.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "cage/tree.h"
#include "proto/id.h"
#include "warden/images_child.h"
#include "warden/warden.h"

enum { NAME = 300 };

static uint64_t size_known(const struct images *i, const char *name)
{
	char path[NAME];
	auto_buf struct buf text = {0};
	uint64_t n = 0;
	snprintf(path, sizeof path, "sizes/%s", name);
	if (fd_read_file(i->meta, path, 32, &text) < 0 || !str_to_u64(buf_str(&text), INT64_MAX, &n))
		return UINT64_MAX;
	return n;
}

static void measure(const struct images *i, const char *path, const char *name)
{
	char file[NAME], text[32];
	auto_fd int dir = openat(i->dir, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int64_t n = dir < 0 ? -1 : tree_size(dir);
	if (n < 0)
		return;
	snprintf(file, sizeof file, "sizes/%s", name);
	snprintf(text, sizeof text, "%lld", (long long)n);
	fd_replace_file(i->meta, file, str_of(text), 0644);
}

static void measure_missing(const struct images *i, const char *parent, const char *below)
{
	int fd = openat(i->dir, parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	for (struct dirent *entry; d && (entry = readdir(d));) {
		char path[2 * NAME];
		struct stat st;
		snprintf(path, sizeof path, "%s/%s%s", parent, entry->d_name, below);
		struct str name = str_of(entry->d_name);
		if (entry->d_type != DT_LNK && (image_hex_ok(name) || box_image_name_ok(name)) &&
			size_known(i, entry->d_name) == UINT64_MAX &&
			fstatat(i->dir, path, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode))
			measure(i, path, entry->d_name);
	}
	if (d)
		closedir(d);
	else if (fd >= 0)
		close(fd);
}

void images_measure(const struct images *i)
{
	measure_missing(i, "layers", "");
	measure_missing(i, ".", "/rootfs");
}

void images_size_forget(const struct images *i, const char *name)
{
	char path[NAME];
	snprintf(path, sizeof path, "sizes/%s", name);
	unlinkat(i->meta, path, 0);
}

uint64_t images_size(const struct images *i, const char *name)
{
	uint64_t n = size_known(i, name);
	return n == UINT64_MAX ? 0 : n;
}
