/*
 * fuse_mounts.h - reads /proc/<pid>/mountinfo: which mounts of a box are FUSE, and what a mount is. The file is the
 * kernel's, but names of paths and sources in it come from the box.
 */
#pragma once

#include "base/str.h"

struct fuse_mounts {
	unsigned fuse; /* FUSE mounts */
	bool found;    /* the mount with the asked id is there */
	bool is_fuse;  /* … and is FUSE … */
	bool has_user; /* … with a user_id … */
	uint32_t user; /* … of this value */
	bool closed;   /* … or a place for the kernel's own files, where nothing may be mounted */
};

void fuse_mounts_read(struct str mountinfo, uint64_t id, struct fuse_mounts *ret);
/* "mnt_id:\t123" of /proc/<pid>/fdinfo/<fd>. */
bool fuse_mount_id(struct str fdinfo, uint64_t *ret);
