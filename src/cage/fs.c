#include "cage/fs.h"

#include <stdio.h>
#include <string.h>

int fs_fail(int fs, int os, const char *what, struct err *e)
{
	/* The log holds lines "e <text>"; a blocking read never happens: it answers ENODATA when empty. */
	char line[160];
	ssize_t n = read(fs, line, sizeof line - 1);
	if (n > 2) {
		line[n] = 0;
		line[strcspn(line, "\n")] = 0;
		return err_os(e, ERRC_BOX_CREATE_FAILED, os, "%s (%s)", what, line + 2);
	}
	return err_os(e, ERRC_BOX_CREATE_FAILED, os, "%s", what);
}

static int apply(int fs, const struct fs_option *o)
{
	if (o->fd)
		return sys_fsconfig(fs, FSCONFIG_SET_FD, o->key, NULL, o->fd);
	return o->value ? sys_fsconfig(fs, FSCONFIG_SET_STRING, o->key, o->value, 0)
			: sys_fsconfig(fs, FSCONFIG_SET_FLAG, o->key, NULL, 0);
}

int fs_make(
	const char *type, const struct fs_option *options, size_t n, unsigned attrs, const char *what, struct err *e)
{
	auto_fd int fs = sys_fsopen(type);
	if (fs < 0)
		return err_os(e, ERRC_BOX_CREATE_FAILED, errno, "%s", what);
	/* The name that `mount` and `df` show. */
	if (sys_fsconfig(fs, FSCONFIG_SET_STRING, "source", type, 0) < 0)
		return fs_fail(fs, errno, what, e);
	for (size_t i = 0; i < n; i++)
		if (apply(fs, &options[i]) < 0)
			return fs_fail(fs, errno, what, e);
	if (sys_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return fs_fail(fs, errno, what, e);
	int mount = sys_fsmount(fs, attrs);
	return mount < 0 ? fs_fail(fs, errno, what, e) : mount;
}

int fs_clone(int dirfd, const char *path, unsigned flags, struct err *e)
{
	int fd = sys_open_tree(dirfd, path, flags | OPEN_TREE_CLONE | (*path ? 0 : AT_EMPTY_PATH));
	return fd < 0 ? err_os(e, ERRC_BOX_CREATE_FAILED, errno, "clone the mount of '%s'", path) : fd;
}

int fs_set(int mount, unsigned attrs, int userns, struct err *e)
{
	struct mount_attr a = {.attr_set = attrs};
	if (userns >= 0) {
		a.attr_set |= MOUNT_ATTR_IDMAP;
		a.userns_fd = (uint64_t)userns;
	}
	if (sys_mount_setattr(mount, 0, &a) < 0)
		return err_os(e, ERRC_BOX_CREATE_FAILED, errno, "%s",
			userns >= 0 ? "map a mount's owners" : "set a mount's flags");
	return 0;
}
