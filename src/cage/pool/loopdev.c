#include "cage/pool/loopdev.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "base/fd.h"

/* Another program may take the device that we were told is free. */
enum { ATTEMPTS = 64, BLOCK = 4096 };

/* Whether the device is `st`'s. Fails with ENXIO for a device without a file. */
static bool is_of(int fd, const struct stat *st, bool *ret_direct)
{
	struct loop_info64 info = {0};
	if (ioctl(fd, LOOP_GET_STATUS64, &info) < 0 || info.lo_device != st->st_dev || info.lo_inode != st->st_ino)
		return false;
	*ret_direct = info.lo_flags & LO_FLAGS_DIRECT_IO;
	return true;
}

static int open_device(const char *path)
{
	return open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
}

/* Only devices in use have a directory `loop` in sysfs: opening all others would make the kernel keep them. */
static bool in_use(const char *name)
{
	char path[64];
	snprintf(path, sizeof path, "/sys/block/%.24s/loop", name);
	return access(path, F_OK) == 0;
}

/* 1 with *ret filled, 0 when the file has no device. */
static int find(const struct stat *st, struct loopdev *ret)
{
	DIR *d = opendir("/sys/block");
	int found = 0;
	for (struct dirent *entry; d && !found && (entry = readdir(d));) {
		if (strncmp(entry->d_name, "loop", 4) != 0 || !in_use(entry->d_name))
			continue;
		snprintf(ret->path, sizeof ret->path, "/dev/%.24s", entry->d_name);
		auto_fd int fd = open_device(ret->path);
		if (fd >= 0 && is_of(fd, st, &ret->direct)) {
			ret->fd = take_fd(&fd);
			found = 1;
		}
	}
	if (d)
		closedir(d);
	return found;
}

/* 0, or -errno; -EBUSY: another program was faster. */
static int attach(int control, int file, struct loopdev *ret)
{
	int number = ioctl(control, LOOP_CTL_GET_FREE);
	if (number < 0)
		return -errno;
	snprintf(ret->path, sizeof ret->path, "/dev/loop%d", number);
	auto_fd int fd = open_device(ret->path);
	if (fd < 0)
		return -errno;
	struct loop_config c = {.fd = (uint32_t)file,
		.block_size = BLOCK,
		.info = {.lo_flags = LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO}};
	snprintf((char *)c.info.lo_file_name, sizeof c.info.lo_file_name, "atoll-pool");
	if (ioctl(fd, LOOP_CONFIGURE, &c) < 0)
		return -errno;
	struct loop_info64 info = {0};
	ret->direct = ioctl(fd, LOOP_GET_STATUS64, &info) == 0 && info.lo_flags & LO_FLAGS_DIRECT_IO;
	ret->fd = take_fd(&fd);
	return 0;
}

int loopdev_open(int file, struct loopdev *ret, struct err *e)
{
	struct stat st = {0};
	struct loopdev d = {.fd = -1};
	int r = 0;
	auto_fd int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
	if (control < 0)
		return err_os(e, ERRC_HOST_UNSUPPORTED, errno, "open /dev/loop-control");
	if (fstat(file, &st) < 0)
		return err_os(e, ERRC_HOST_UNSUPPORTED, errno, "look at the pool's file");
	for (int i = 0; i < ATTEMPTS; i++) {
		if (find(&st, &d) || (r = attach(control, file, &d)) == 0) {
			*ret = d;
			return 0;
		}
		if (r != -EBUSY && r != -ENXIO)
			break;
	}
	return err_os(e, ERRC_HOST_UNSUPPORTED, -r, "make a loop device of the pool's file");
}

int loopdev_grown(int fd)
{
	return ioctl(fd, LOOP_SET_CAPACITY, 0) < 0 ? -errno : 0;
}
