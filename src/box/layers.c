#include "box/layers.h"

#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "box/fs.h"
#include "box/id.h"
#include "box/trash.h"

static int image_missing(const char *name, int os, struct err *e)
{
	return os == ENOENT || os == ENOTDIR ? err_set(e, ERRC_IMAGE_NOT_FOUND, "there is no image '%s'", name)
					     : err_os(e, ERRC_IMAGE_NOT_FOUND, os, "open image '%s'", name);
}

int image_find(int images, const char *name, struct image *ret, struct err *e)
{
	struct image found = {0};
	if (!box_image_name_ok(str_of(name)))
		return err_set(e, ERRC_IMAGE_NOT_FOUND, "'%s' is not an image name", name);
	ssize_t n = readlinkat(images, name, found.key, sizeof found.key);
	if (n < 0)
		snprintf(found.key, sizeof found.key, "%s", name);
	if (n >= (ssize_t)sizeof found.key || !box_image_name_ok(str_of(found.key)))
		return err_set(e, ERRC_IMAGE_NOT_FOUND, "image '%s' points outside the image directory", name);
	auto_fd int dir = openat(images, found.key, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0)
		return image_missing(name, errno, e);
	struct stat st;
	if (fstatat(dir, "rootfs", &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode) ||
		faccessat(dir, "image.json", F_OK, 0) < 0)
		return err_set(e, ERRC_IMAGE_NOT_FOUND, "image '%s' is broken: rootfs or image.json is missing", name);
	found.inode = st.st_ino;
	*ret = found;
	return 0;
}

int layer_make(int dir, const char *name, struct err *e)
{
	if (mkdirat(dir, name, 0700) < 0)
		return err_os(e, ERRC_BOX_CREATE_FAILED, errno, "make the sandbox's layer");
	auto_fd int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	/* upper/ becomes the root directory of the box: its mode must not depend on our umask. */
	if (fd >= 0 && mkdirat(fd, "upper", 0755) == 0 && mkdirat(fd, "work", 0700) == 0 &&
		fchmodat(fd, "upper", 0755, 0) == 0)
		return 0;
	int os = errno;
	if (fd >= 0) {
		unlinkat(fd, "upper", AT_REMOVEDIR);
		unlinkat(fd, "work", AT_REMOVEDIR);
	}
	unlinkat(dir, name, AT_REMOVEDIR);
	return err_os(e, ERRC_BOX_CREATE_FAILED, os, "make the sandbox's layer");
}

int layer_reuse(int dir, const char *name, int trash, struct err *e)
{
	auto_fd int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return err_os(e, ERRC_BOX_CREATE_FAILED, errno, "open the sandbox's layer");
	struct stat st;
	if (fstatat(fd, "upper", &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode))
		return err_set(e, ERRC_BOX_CREATE_FAILED, "the sandbox's layer has no upper directory");
	int r = trash_put(fd, "work", trash);
	if (r < 0 && r != -ENOENT)
		return err_os(e, ERRC_BOX_CREATE_FAILED, -r, "put away the old work directory");
	if (mkdirat(fd, "work", 0700) < 0)
		return err_os(e, ERRC_BOX_CREATE_FAILED, errno, "make the work directory");
	return 0;
}

/* The mount of dirfd/path, detached, with the box's owners. */
static int mapped(int dirfd, const char *path, unsigned attrs, int userns, struct err *e)
{
	auto_fd int fd = fs_clone(dirfd, path, 0, e);
	if (fd < 0 || fs_set(fd, attrs, userns, e) < 0)
		return -1;
	return take_fd(&fd);
}

/* Kernels before 6.13 take the layers of an overlay as paths only. */
static int set_layer(int fs, const char *key, const char *old_key, int fd)
{
	if (sys_fsconfig(fs, FSCONFIG_SET_FD, key, NULL, fd) == 0)
		return 0;
	char path[32];
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	return errno == EINVAL ? sys_fsconfig(fs, FSCONFIG_SET_STRING, old_key, path, 0) : -1;
}

static int create_as(int fs, uint32_t root)
{
	setfsgid(root);
	setfsuid(root);
	int r = sys_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0);
	int os = errno;
	setfsuid(0);
	setfsgid(0);
	errno = os;
	return r;
}

/* An overlay that cannot make its work directory mounts read-only and says so to the kernel's log alone. Ask the
 * directory itself for the reason. */
static int check_writable(int mount, int work, uint32_t root, struct err *e)
{
	struct statvfs st;
	if (fstatvfs(mount, &st) < 0)
		return err_os(e, ERRC_BOX_CREATE_FAILED, errno, "mount overlay");
	if (!(st.f_flag & ST_RDONLY))
		return 0;
	setfsgid(root);
	setfsuid(root);
	int os = mkdirat(work, "probe", 0700) < 0 ? errno : EROFS;
	setfsuid(0);
	setfsgid(0);
	return err_os(e, ERRC_BOX_CREATE_FAILED, os, "mount overlay");
}

static int overlay(int lower, int upper, int work, uint32_t root, struct err *e)
{
	auto_fd int fs = sys_fsopen("overlay");
	if (fs < 0)
		return err_os(e, ERRC_HOST_UNSUPPORTED, errno, "open the overlay file system");
	if (sys_fsconfig(fs, FSCONFIG_SET_STRING, "source", "overlay", 0) < 0 ||
		set_layer(fs, "lowerdir+", "lowerdir", lower) < 0 || set_layer(fs, "upperdir", "upperdir", upper) < 0 ||
		set_layer(fs, "workdir", "workdir", work) < 0 ||
		sys_fsconfig(fs, FSCONFIG_SET_FLAG, "volatile", NULL, 0) < 0 || create_as(fs, root) < 0)
		return fs_fail(fs, errno, "mount overlay", e);
	int mount = sys_fsmount(fs, MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID);
	return mount < 0 ? fs_fail(fs, errno, "mount overlay", e) : mount;
}

int layer_mount(
	int images, const struct image *image, int dir, const char *name, int userns, uint32_t root, struct err *e)
{
	char rootfs[BOX_IMAGE_NAME_MAX + sizeof "/rootfs"];
	snprintf(rootfs, sizeof rootfs, "%s/rootfs", image->key);
	auto_fd int lower = mapped(images, rootfs, MOUNT_ATTR_RDONLY, userns, e);
	if (lower < 0)
		return err_wrap(e, "image '%s'", image->key);
	auto_fd int layer = mapped(dir, name, MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID, userns, e);
	if (layer < 0)
		return err_wrap(e, "the sandbox's layer");
	auto_fd int upper = openat(layer, "upper", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	auto_fd int work = openat(layer, "work", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (upper < 0 || work < 0)
		return err_os(e, ERRC_BOX_CREATE_FAILED, errno, "open the sandbox's layer");
	auto_fd int mount = overlay(lower, upper, work, root, e);
	if (mount < 0 || check_writable(mount, work, root, e) < 0)
		return -1;
	return take_fd(&mount);
}
