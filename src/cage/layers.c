#include "cage/layers.h"

#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/fd.h"
#include "cage/fs.h"
#include "cage/trash.h"
#include "proto/id.h"
#include "proto/image.h"
#include "proto/limits.h"

static int image_missing(const char *name, int os, struct err *e)
{
	return os == ENOENT || os == ENOTDIR ? err_set(e, ERRC_IMAGE_NOT_FOUND, "there is no image '%s'", name)
					     : err_os(e, ERRC_IMAGE_NOT_FOUND, os, "open image '%s'", name);
}

static int image_find_made(int images, const char *key, struct image *ret, struct err *e)
{
	char path[BOX_IMAGE_NAME_MAX + 32];
	struct stat st;
	snprintf(path, sizeof path, "meta/%s.layers", key);
	if (fstatat(images, path, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
		return image_missing(key, ENOENT, e);
	const uint64_t ns = (uint64_t)st.st_mtim.tv_sec * 1000000000 + (uint64_t)st.st_mtim.tv_nsec;
	*ret = (struct image){.inode = st.st_ino, .made_ns = ns, .layered = true};
	snprintf(ret->key, sizeof ret->key, "%s", key);
	return 0;
}

int image_find(int images, const char *name, struct image *ret, struct err *e)
{
	struct image found = {0};
	if (!box_image_name_ok(str_of(name)))
		return err_set(e, ERRC_IMAGE_NOT_FOUND, "'%s' is not an image name", name);
	if (image_key_made_here(str_of(name)))
		return image_find_made(images, name, ret, e);
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

bool image_same(const struct image *a, const struct image *b)
{
	return a->inode == b->inode && a->made_ns == b->made_ns && strcmp(a->key, b->key) == 0;
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
	if (r == -EXDEV) {
		/* A subvolume of a pool. The overlay cleans its work directory itself, but refuses one with the mark of
		 * a volatile mount. */
		unlinkat(fd, "work/work/incompat/volatile/dirty", 0);
		unlinkat(fd, "work/work/incompat/volatile", AT_REMOVEDIR);
		unlinkat(fd, "work/work/incompat", AT_REMOVEDIR);
		return 0;
	}
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

static void act_as(uint32_t user)
{
	setfsgid(user);
	setfsuid(user);
}

static int create_as(int fs, uint32_t root)
{
	act_as(root);
	int r = sys_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0);
	int os = errno;
	act_as(0);
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
	act_as(root);
	int os = mkdirat(work, "probe", 0700) < 0 ? errno : EROFS;
	act_as(0);
	return err_os(e, os == ENOSPC ? ERRC_NO_SPACE : ERRC_BOX_CREATE_FAILED, os, "mount overlay");
}

/* The mounts that an overlay is made of; upper and work are directories of the layer. `lowers` are directories of
 * `lower`, the highest first: one mapped mount serves any number of layers. */
struct layers {
	int lower, layer;
	bool is_volatile;
	int tools; /* between them; -1: none */
	int lowers[IMAGE_LAYERS_MAX];
	size_t lowers_n;
};

static void layers_close(struct layers *l)
{
	for (size_t i = 0; i < l->lowers_n; i++)
		close(l->lowers[i]);
	l->lowers_n = 0;
}
#define auto_layers __attribute__((cleanup(layers_close)))

static int open_lower(int images, struct str line)
{
	char path[BOX_IMAGE_NAME_MAX + 32];
	snprintf(path, sizeof path, image_hex_ok(line) ? "layers/%.*s" : "%.*s/rootfs", STR_ARG(line));
	return sys_openat2(images, path, O_PATH | O_DIRECTORY, RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV | RESOLVE_BENEATH);
}

/* Opens the layers of an image made here; the file names the lowest first, the kernel wants the highest first. */
static int open_lowers(struct layers *l, const struct image *image, struct err *e)
{
	char path[BOX_IMAGE_NAME_MAX + 32];
	auto_buf struct buf text = {0};
	int fds[IMAGE_LAYERS_MAX];
	size_t n = 0;
	snprintf(path, sizeof path, "meta/%s.layers", image->key);
	int r = fd_read_file(l->lower, path, IMAGE_LAYERS_MAX * (IMAGE_HEX + 1), &text);
	if (r < 0)
		return image_missing(image->key, -r, e);
	struct str rest = buf_str(&text), line;
	bool ok = true;
	for (; ok && image_layer_next(&rest, &line, &ok); n++) {
		ok = ok && n < IMAGE_LAYERS_MAX && (fds[n] = open_lower(l->lower, line)) >= 0;
		if (!ok)
			break;
	}
	for (size_t i = 0; i < n; i++)
		l->lowers[l->lowers_n++] = fds[n - 1 - i];
	return ok && n ? 0 : err_set(e, ERRC_IMAGE_NOT_FOUND, "image '%s' is broken: a layer is missing", image->key);
}

int image_open(int images, const struct image *image, int ret[IMAGE_LAYERS_MAX], size_t *ret_n, struct err *e)
{
	auto_layers struct layers l = {.lower = images, .layer = -1, .tools = -1};
	if (image->layered) {
		if (open_lowers(&l, image, e) < 0)
			return -1;
	} else {
		l.lowers[0] = open_lower(images, str_of(image->key));
		if (l.lowers[0] < 0)
			return err_os(e, ERRC_IMAGE_NOT_FOUND, errno, "open image '%s'", image->key);
		l.lowers_n = 1;
	}
	memcpy(ret, l.lowers, l.lowers_n * sizeof *ret);
	*ret_n = l.lowers_n;
	l.lowers_n = 0; /* they are the caller's */
	return 0;
}

static bool set_string(int fs, const char *key, const char *value)
{
	return sys_fsconfig(fs, FSCONFIG_SET_STRING, key, value, 0) == 0;
}

static bool set_volatile(int fs, const struct layers *l)
{
	return !l->is_volatile || sys_fsconfig(fs, FSCONFIG_SET_FLAG, "volatile", NULL, 0) == 0;
}

static bool set_fd(int fs, const char *key, int fd)
{
	return sys_fsconfig(fs, FSCONFIG_SET_FD, key, NULL, fd) == 0;
}

/* 0, or -1 with errno. */
static int name_by_fd(int fs, const struct layers *l)
{
	auto_fd int upper = openat(l->layer, "upper", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	auto_fd int work = openat(l->layer, "work", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (upper < 0 || work < 0)
		return -1;
	if (l->tools >= 0 && !set_fd(fs, "lowerdir+", l->tools))
		return -1;
	for (size_t i = 0; i < l->lowers_n; i++)
		if (!set_fd(fs, "lowerdir+", l->lowers[i]))
			return -1;
	if (!l->lowers_n && !set_fd(fs, "lowerdir+", l->lower))
		return -1;
	return set_fd(fs, "upperdir", upper) && set_fd(fs, "workdir", work) ? 0 : -1;
}

static int stand(int mount, const char *at)
{
	auto_fd int place = open(at, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return place < 0 ? -1 : sys_move_mount(mount, place);
}

/* Room for the numbers of all layers and of the other directories, each with a separator. */
enum { OVERLAY_OPTIONS = (IMAGE_LAYERS_MAX + 4) * (int)sizeof "4294967295" + 64 };

static void write_options(const struct layers *l, int upper, int work, char ret[OVERLAY_OPTIONS])
{
	int n = snprintf(ret, OVERLAY_OPTIONS, "upperdir=%d,workdir=%d%s,lowerdir=", upper, work,
		l->is_volatile ? ",volatile" : "");
	if (l->tools >= 0)
		n += snprintf(ret + n, OVERLAY_OPTIONS - (size_t)n, "%d:", l->tools);
	if (!l->lowers_n)
		snprintf(ret + n, OVERLAY_OPTIONS - (size_t)n, "%d", l->lower);
	for (size_t i = 0; i < l->lowers_n; i++)
		n += snprintf(ret + n, OVERLAY_OPTIONS - (size_t)n, "%s%d", i ? ":" : "", l->lowers[i]);
}

/* Mounts on `place`, with every path relative to /proc/self/fd. */
static int mount_from_fds(const struct layers *l, int place, uint32_t root)
{
	char options[OVERLAY_OPTIONS], target[16];
	auto_fd int upper = openat(l->layer, "upper", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	auto_fd int work = openat(l->layer, "work", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	auto_fd int back = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (upper < 0 || work < 0 || back < 0)
		return -1;
	write_options(l, upper, work, options);
	snprintf(target, sizeof target, "%d", place);
	if (chdir("/proc/self/fd") < 0)
		return -1;
	act_as(root);
	int r = (int)syscall(SYS_mount, "overlay", target, "overlay", MS_NODEV | MS_NOSUID, options);
	int os = errno;
	act_as(0);
	int home = fchdir(back);
	errno = r < 0 ? os : errno;
	return r < 0 ? r : home;
}

/*
 * Before Linux 6.13 an overlay takes paths only, and only of mounts in the caller's mount namespace. Our mounts get a
 * place there until the overlay is made; the overlay keeps its own copies. The layers are named by the numbers of their
 * descriptors: mountinfo in the box shows the names, and numbers tell nothing. mount(2) takes them all in one string; a
 * value of fsconfig ends after 255 bytes, and `lowerdir+` came with Linux 6.7.
 */
static int overlay_by_number(const struct layers *l, uint32_t root, struct err *e)
{
	int mount = -1, os = 0;
	auto_fd int place = open(LAYERS_STAND "/overlay", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (place < 0 || stand(l->lower, LAYERS_STAND "/lower") < 0)
		return err_os(e, ERRC_BOX_CREATE_FAILED, errno, "show the image to the overlay");
	bool tools = l->tools >= 0;
	if ((tools && stand(l->tools, LAYERS_STAND "/tools") < 0) || stand(l->layer, LAYERS_STAND "/layer") < 0 ||
		mount_from_fds(l, place, root) < 0) {
		os = errno;
	} else {
		mount = fs_clone(AT_FDCWD, LAYERS_STAND "/overlay", 0, e);
		sys_umount(LAYERS_STAND "/overlay", MNT_DETACH);
	}
	sys_umount(LAYERS_STAND "/layer", MNT_DETACH);
	if (tools)
		sys_umount(LAYERS_STAND "/tools", MNT_DETACH);
	sys_umount(LAYERS_STAND "/lower", MNT_DETACH);
	return os ? err_os(e, os == ENOSPC ? ERRC_NO_SPACE : ERRC_BOX_CREATE_FAILED, os, "mount overlay") : mount;
}

/* Whether the kernel does not take a layer by its descriptor: EBADF is its answer to O_PATH from 6.5 to 6.12. */
static bool wants_paths(int os)
{
	return os == EINVAL || os == EOPNOTSUPP || os == EBADF;
}

static int overlay(const struct layers *l, uint32_t root, struct err *e)
{
	auto_fd int fs = sys_fsopen("overlay");
	if (fs < 0 || !set_string(fs, "source", "overlay"))
		return err_os(e, ERRC_HOST_UNSUPPORTED, errno, "open the overlay file system");
	if (name_by_fd(fs, l) < 0)
		return wants_paths(errno) ? overlay_by_number(l, root, e) : fs_fail(fs, errno, "mount overlay", e);
	if (!set_volatile(fs, l) || create_as(fs, root) < 0)
		return fs_fail(fs, errno, "mount overlay", e);
	int mount = sys_fsmount(fs, MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID);
	return mount < 0 ? fs_fail(fs, errno, "mount overlay", e) : mount;
}

/* An image whose usr/bin is a link has programs elsewhere: the tools would hide it. */
static bool takes_tools(int lower)
{
	auto_fd int bin = sys_openat2(lower, "usr/bin", O_PATH | O_DIRECTORY, RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH);
	return bin >= 0 || errno == ENOENT;
}

static bool all_take_tools(const struct layers *l)
{
	bool all = l->lowers_n || takes_tools(l->lower);
	for (size_t i = 0; all && i < l->lowers_n; i++)
		all = takes_tools(l->lowers[i]);
	return all;
}

int layer_mount(const struct layer_mount_args *a, int ret_spent[LAYER_SPENT], struct err *e)
{
	char rootfs[BOX_IMAGE_NAME_MAX + sizeof "/rootfs"];
	snprintf(rootfs, sizeof rootfs, "%s/rootfs", a->image->key);
	auto_fd int lower = mapped(a->images, a->image->layered ? "" : rootfs, MOUNT_ATTR_RDONLY, a->userns, e);
	if (lower < 0)
		return err_wrap(e, "image '%s'", a->image->key);
	auto_layers struct layers l = {.lower = lower, .layer = -1, .tools = -1};
	if (a->image->layered && open_lowers(&l, a->image, e) < 0)
		return -1;
	auto_fd int layer = mapped(a->dir, a->name, MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID, a->userns, e);
	if (layer < 0)
		return err_wrap(e, "the sandbox's layer");
	auto_fd int tools = -1;
	if (a->tools > 0 && all_take_tools(&l) && (tools = mapped(a->tools, "", MOUNT_ATTR_RDONLY, a->userns, e)) < 0)
		return err_wrap(e, "the tools of sandboxes");
	l.layer = layer;
	l.tools = tools;
	l.is_volatile = a->is_volatile;
	auto_fd int mount = a->by_number ? overlay_by_number(&l, a->root, e) : overlay(&l, a->root, e);
	if (mount < 0)
		return -1;
	auto_fd int work = openat(layer, "work", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (work < 0)
		return err_os(e, ERRC_BOX_CREATE_FAILED, errno, "open the sandbox's layer");
	if (check_writable(mount, work, a->root, e) < 0)
		return -1;
	ret_spent[0] = take_fd(&lower);
	ret_spent[1] = take_fd(&layer);
	ret_spent[2] = take_fd(&tools);
	return take_fd(&mount);
}
