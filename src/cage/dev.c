#include "cage/dev.h"

#include <stdio.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "cage/fs.h"
#include "proto/limits.h"

static const struct {
	const char *name;
	unsigned major, minor;
} nodes[] = {{"null", 1, 3}, {"zero", 1, 5}, {"full", 1, 7}, {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0},
	/* Opened by libfuse before it asks fusermount; alone it mounts nothing. */
	{"fuse", 10, 229}};

static const struct {
	const char *name, *target;
} links[] = {{"ptmx", "pts/ptmx"}, {"fd", "/proc/self/fd"}, {"stdin", "/proc/self/fd/0"}, {"stdout", "/proc/self/fd/1"},
	{"stderr", "/proc/self/fd/2"}};

static int populate(int dev)
{
	for (size_t i = 0; i < ARRAY_LEN(nodes); i++)
		if (mknodat(dev, nodes[i].name, S_IFCHR | 0666, makedev(nodes[i].major, nodes[i].minor)) < 0)
			return -errno;
	for (size_t i = 0; i < ARRAY_LEN(links); i++)
		if (symlinkat(links[i].target, dev, links[i].name) < 0)
			return -errno;
	/* The last one is where certificates are mounted: trust.h. */
	return mkdirat(dev, "pts", 0755) < 0 || mkdirat(dev, "shm", 01777) < 0 || mkdirat(dev, "atoll", 0755) < 0
		       ? -errno
		       : 0;
}

static int populate_as(int dev, uint32_t root)
{
	mode_t mask = umask(0);
	setfsgid(root);
	setfsuid(root);
	int r = populate(dev);
	setfsuid(0);
	setfsgid(0);
	umask(mask);
	return r;
}

static int tmpfs(uint32_t root, const char *mode, unsigned attrs, struct err *e)
{
	char id[16], size[24], inodes[16];
	snprintf(id, sizeof id, "%u", root);
	snprintf(size, sizeof size, "%llu", (unsigned long long)BOX_SHM_BYTES);
	snprintf(inodes, sizeof inodes, "%u", BOX_SHM_INODES);
	const struct fs_option options[] = {
		{"size", size}, {"nr_inodes", inodes}, {"mode", mode}, {"uid", id}, {"gid", id}};
	return fs_make("tmpfs", options, ARRAY_LEN(options), attrs, "mount /dev", e);
}

int dev_make(uint32_t root, int *ret_dev, int *ret_shm, struct err *e)
{
	const unsigned dev_attrs = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC;
	const unsigned shm_attrs = dev_attrs | MOUNT_ATTR_NODEV;
	auto_fd int dev = tmpfs(root, "0755", dev_attrs | MOUNT_ATTR_NOATIME, e);
	if (dev < 0)
		return -1;
	int r = populate_as(dev, root);
	if (r < 0)
		return err_os(e, ERRC_BOX_CREATE_FAILED, -r, "fill /dev");
	/* Kernels before 6.15 do not clone from a mount that is in no namespace: /dev/shm is a tmpfs of its own there.
	 */
	auto_fd int shm = fs_clone(dev, "shm", 0, NULL);
	if (shm < 0)
		shm = tmpfs(root, "1777", shm_attrs, e);
	if (shm < 0 || fs_set(shm, shm_attrs, -1, e) < 0 || fs_set(dev, MOUNT_ATTR_RDONLY, -1, e) < 0)
		return -1;
	*ret_dev = take_fd(&dev);
	*ret_shm = take_fd(&shm);
	return 0;
}
