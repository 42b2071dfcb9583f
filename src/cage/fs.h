/*
 * fs.h - mounts by descriptor: make one, clone one, put it in place. Nothing here takes a path that a box can change.
 */
#pragma once

#include "cage/sys.h"
#include "proto/errc.h"

/* One option of a new file system: a flag when `value` is NULL, a descriptor when `fd` is not 0, else a string. */
struct fs_option {
	const char *key;
	const char *value;
	int fd;
};

/* A new, detached mount. `attrs` are MOUNT_ATTR_*. `what` names it in errors ("mount /proc"). Returns the fd or -1. */
int fs_make(
	const char *type, const struct fs_option *options, size_t n, unsigned attrs, const char *what, struct err *e);

/* A detached copy of the mount at dirfd/path; with AT_RECURSIVE in `flags` the mounts below it come along. */
int fs_clone(int dirfd, const char *path, unsigned flags, struct err *e);

/* Adds MOUNT_ATTR_* to a mount; `userns` >= 0 also maps its owners through that user namespace. */
int fs_set(int mount, unsigned attrs, int userns, struct err *e);

/* The errno of a failed set-up step, with the file system's own words when it left some in its log. */
int fs_fail(int fs, int os, const char *what, struct err *e);
