#include "warden/record.h"

#include <dirent.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"

#define RECORD_MAGIC 0x41545232u /* "ATR2" */

static void file_name(char ret[16], uint32_t slot)
{
	snprintf(ret, 16, "%u", slot);
}

/* One write() of the whole record: a kill comes before or after it, not within. */
int record_write(int dir, const struct record *r)
{
	struct record out = *r;
	char name[16];
	out.magic = RECORD_MAGIC;
	file_name(name, r->info.slot);
	auto_fd int fd = openat(dir, name, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	ssize_t n = pwrite(fd, &out, sizeof out, 0);
	return n < 0 ? -errno : n == (ssize_t)sizeof out ? 0 : -ENOSPC;
}

static bool terminated(const char *text, size_t size)
{
	return memchr(text, 0, size) != NULL;
}

int record_read(int dir, uint32_t slot, struct record *ret)
{
	char name[16];
	file_name(name, slot);
	auto_fd int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return -errno;
	struct record in = {0};
	ssize_t n = fd_read_full(fd, &in, sizeof in);
	if (n < 0)
		return (int)n;
	if ((n != (ssize_t)sizeof in && n != (ssize_t)offsetof(struct record, volume_bytes)) ||
		in.magic != RECORD_MAGIC || in.info.slot != slot || !terminated(in.info.id, sizeof in.info.id) ||
		!terminated(in.info.image, sizeof in.info.image))
		return -EBADMSG;
	*ret = in;
	return 0;
}

int record_remove(int dir, uint32_t slot)
{
	char name[16];
	file_name(name, slot);
	return unlinkat(dir, name, 0) < 0 && errno != ENOENT ? -errno : 0;
}

void record_each(int dir, void (*each)(void *arg, const char *name), void *arg)
{
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	if (!d) {
		fd_close(&fd);
		return;
	}
	for (struct dirent *entry; (entry = readdir(d));)
		if (entry->d_name[0] != '.')
			each(arg, entry->d_name);
	closedir(d);
}
