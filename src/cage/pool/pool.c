#include "cage/pool/pool.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <time.h>

#include "base/clock.h"
#include "base/fd.h"
#include "cage/fs.h"
#include "cage/layers.h"
#include "cage/limits.h"
#include "cage/pool/loopdev.h"
#include "proto/size.h"

#define USED "pool.used" /* beside pool.img, once it has been mounted */

/* ---- opening ---- */

static int plain(struct pool *p, const char *why)
{
	p->kind = POOL_PLAIN;
	snprintf(p->why, sizeof p->why, "%s", why);
	return 0;
}

/* The mount of a pool that is just being given up holds the device for a moment: try again. */
static int mount_device(const char *path, struct err *e)
{
	int fd = -1, os = 0;
	for (int waited = 0; fd < 0 && waited < POOL_MOUNT_WAIT; waited += POOL_MOUNT_PAUSE) {
		auto_fd int fs = sys_fsopen("btrfs");
		if (fs < 0)
			return err_os(e, ERRC_HOST_UNSUPPORTED, errno, "this kernel has no btrfs");
		/* Discarding would make holes in the file, which must stay allocated. */
		bool ok = sys_fsconfig(fs, FSCONFIG_SET_STRING, "source", path, 0) == 0 &&
			  sys_fsconfig(fs, FSCONFIG_SET_FLAG, "nodiscard", NULL, 0) == 0 &&
			  sys_fsconfig(fs, FSCONFIG_SET_FLAG, "user_subvol_rm_allowed", NULL, 0) == 0 &&
			  /* The space of deleted layers comes back with the commits. */
			  sys_fsconfig(fs, FSCONFIG_SET_STRING, "commit", "5", 0) == 0 &&
			  sys_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) == 0;
		os = errno;
		if (!ok && os != EBUSY && os != ENXIO)
			return fs_fail(fs, os, "mount the pool", e);
		fd = ok ? sys_fsmount(fs, MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOATIME) : -1;
		os = errno;
		if (fd < 0)
			nanosleep(&(struct timespec){.tv_nsec = POOL_MOUNT_PAUSE * 1000000L}, NULL);
	}
	return fd < 0 ? err_os(e, ERRC_HOST_UNSUPPORTED, os, "mount the pool") : fd;
}

/* A pool that `atoll up` made on a host that cannot mount it has never been used. */
static bool was_used(int data, bool directory)
{
	return faccessat(data, directory ? "pool/boxes" : USED, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static int open_file(struct pool *p, int data, int file, struct err *e)
{
	struct loopdev dev;
	if (loopdev_open(file, &dev, e) < 0)
		return -1;
	p->device = dev.fd;
	p->direct = dev.direct;
	p->mount = mount_device(dev.path, e);
	if (p->mount < 0)
		return -1;
	auto_fd int root = openat(p->mount, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r = root < 0 ? -errno : btrfs_quota_enable(root, &p->quota);
	if (r < 0)
		return err_os(e, ERRC_HOST_UNSUPPORTED, -r, "switch on the pool's quotas");
	if (!was_used(data, false)) /* on a full disk the next start tries it again */
		fd_replace_file(data, USED, STR(""), 0600);
	p->groups = btrfs_groups_open(root);
	p->kind = POOL_FILE;
	if (p->quota == BTRFS_QUOTA_FULL)
		btrfs_groups_keep_counting(p->groups);
	return 0;
}

static int open_directory(struct pool *p, int data, struct err *e)
{
	int r = btrfs_subvolume_make(data, "pool", 0);
	if (r < 0 && r != -EEXIST)
		return err_os(e, ERRC_HOST_UNSUPPORTED, -r, "make the pool's subvolume");
	auto_fd int root = openat(data, "pool", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	r = root < 0 ? -errno : fchmod(root, 0700) < 0 ? -errno : btrfs_quota_enable(root, &p->quota);
	if (r < 0)
		return err_os(e, ERRC_HOST_UNSUPPORTED, -r, "switch on the quotas of the pool's file system");
	p->groups = btrfs_groups_open(root);
	p->kind = POOL_DIRECTORY;
	if (p->quota == BTRFS_QUOTA_FULL)
		btrfs_groups_keep_counting(p->groups);
	return 0;
}

static void give_up(struct pool *p)
{
	fd_close(&p->mount);
	fd_close(&p->device);
	fd_close(&p->file);
	fd_close(&p->groups);
}

static int refuse(const char *data, bool directory, const struct err *why, struct err *e)
{
	return err_set(e, ERRC_HOST_UNSUPPORTED,
		"the pool '%.80s/%s' with the files of sandboxes cannot be opened (%.90s): mend it, or set "
		"ATOLL_POOL=plain to do without these files",
		data, directory ? "pool" : "pool.img", why->msg);
}

int pool_open(struct pool *ret, const char *data, const char *kind, const char *size, struct err *e)
{
	struct pool *p = ret;
	struct err why = {0};
	*p = POOL_CLOSED;
	if (size && !size_parse(str_of(size), &p->max))
		return err_set(e, ERRC_INVALID_REQUEST, "ATOLL_POOL_SIZE must be a number of bytes, or like '20G'");
	if (kind && strcmp(kind, "plain") == 0)
		return plain(p, "ATOLL_POOL is 'plain'");
	if (kind && strcmp(kind, "btrfs") != 0)
		return err_set(e, ERRC_INVALID_REQUEST, "ATOLL_POOL can be 'btrfs' or 'plain'");
	auto_fd int dir = open(data, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return plain(p, "the data directory cannot be opened");
	int r;
	bool directory = btrfs_is(dir), used = was_used(dir, directory);
	if (directory) {
		r = open_directory(p, dir, &why);
	} else {
		p->file = openat(dir, "pool.img", O_RDWR | O_CLOEXEC | O_NOFOLLOW);
		if (p->file < 0)
			return plain(p, "there is no pool.img in the data directory; 'atoll up' makes it");
		r = open_file(p, dir, p->file, &why);
	}
	if (r == 0)
		return 0;
	give_up(p);
	return used ? refuse(data, directory, &why, e) : plain(p, why.msg);
}

int pool_enter(struct pool *p, const char *path, struct err *e)
{
	struct {
		const char *name;
		int *fd;
	} dirs[] = {{"boxes", &p->boxes}, {"slots", &p->slots}, {"snapshots", &p->snapshots}, {"volumes", &p->volumes},
		{"making", &p->making}, {"debts", &p->debts}, {"trash", &p->trash}};
	p->root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (size_t i = 0; p->root >= 0 && i < ARRAY_LEN(dirs); i++) {
		if (mkdirat(p->root, dirs[i].name, 0700) < 0 && errno != EEXIST)
			return err_os(e, ERRC_HOST_UNSUPPORTED, errno, "make '%s' in the pool", dirs[i].name);
		*dirs[i].fd = openat(p->root, dirs[i].name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (*dirs[i].fd < 0)
			return err_os(e, ERRC_HOST_UNSUPPORTED, errno, "open '%s' in the pool", dirs[i].name);
	}
	p->last_group = (uint64_t)clock_wall_ms();
	if (p->root < 0)
		return err_os(e, ERRC_HOST_UNSUPPORTED, errno, "open the pool");
	int r = pool_brake_open(p);
	return r < 0 ? err_os(e, ERRC_HOST_UNSUPPORTED, -r, "make the group above all layers") : 0;
}

/* ---- notes and groups ---- */

uint64_t pool_group_of_copies(const struct pool *p, const struct layer_note *n)
{
	return p->quota == BTRFS_QUOTA_FULL ? 0 : n->group;
}

int pool_group_charged(const struct pool *p, int layer, const struct layer_note *n, uint64_t *ret)
{
	if (p->quota == BTRFS_QUOTA_FULL)
		return btrfs_subvolume_id(layer, ret);
	*ret = n->group;
	return 0;
}

int pool_group_new(struct pool *p, uint64_t *ret)
{
	uint64_t group = 0;
	int r = 0;
	if (p->quota == BTRFS_QUOTA_FULL) {
		*ret = 0;
		return 0;
	}
	do {
		group = BTRFS_GROUP_SHARED(++p->last_group);
		r = btrfs_group_make(p->root, group);
	} while (r == -EEXIST);
	*ret = group;
	return r < 0 ? r : pool_brake_join(p, group);
}

int pool_number_own(int layer, uint64_t *ret)
{
	uint64_t id;
	int r = btrfs_subvolume_id(layer, &id);
	if (r == 0)
		*ret = BTRFS_GROUP_SHARED(id);
	return r;
}

static const char *debt_name(uint64_t group, char ret[24])
{
	snprintf(ret, 24, "%llu", (unsigned long long)group);
	return ret;
}

int pool_debt_read(const struct pool *p, uint64_t group, struct layer_debt *ret)
{
	char name[24];
	struct layer_debt d = {0};
	auto_fd int fd = openat(p->debts, debt_name(group, name), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno != ENOENT)
		return -errno;
	if (fd >= 0 && fd_read_full(fd, (char *)&d, sizeof d) != (ssize_t)sizeof d)
		d = (struct layer_debt){0}; /* cut off by a loss of power: it is counted anew */
	*ret = d;
	return 0;
}

int pool_debt_write(const struct pool *p, uint64_t group, const struct layer_debt *d)
{
	char name[24];
	auto_fd int fd = openat(p->debts, debt_name(group, name), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	ssize_t n = pwrite(fd, d, sizeof *d, 0);
	return n == (ssize_t)sizeof *d ? 0 : n < 0 ? -errno : -EIO;
}

static int limit_layer(const struct pool *p, int layer, const struct layer_note *n, uint64_t bytes)
{
	uint64_t group;
	int r = pool_group_charged(p, layer, n, &group);
	/* An earlier version had the limit on the shared group, which counts snapshots another time. */
	if (r == 0 && group != n->group)
		btrfs_group_limit(p->root, n->group, 0);
	return r < 0 ? r : btrfs_group_limit(p->root, group, bytes);
}

int pool_limit_apply(const struct pool *p, int layer, const struct layer_note *n, const struct layer_debt *d)
{
	return limit_layer(p, layer, n, n->limit > d->bytes + 1 ? n->limit - d->bytes : 1);
}

/* ---- layers ---- */

static int open_layer(int dir, const char *name)
{
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* A sweep may delete a group that has no subvolume yet: then there is another group. */
static int make_in_group(struct pool *p, int dir, const char *name, uint64_t *ret_group)
{
	int r = -ENOENT;
	for (int i = 0; r == -ENOENT && i < 3; i++) {
		r = pool_group_new(p, ret_group);
		if (r == 0)
			r = btrfs_subvolume_make(dir, name, *ret_group);
	}
	if (r < 0 || *ret_group)
		return r;
	auto_fd int fd = open_layer(dir, name);
	return fd < 0 ? fd : pool_number_own(fd, ret_group);
}

static int fill_layer(const struct pool *p, int dir, const char *name, const struct layer_note *n)
{
	auto_fd int fd = open_layer(dir, name);
	if (fd < 0)
		return fd;
	int r = pool_note_write(fd, n);
	if (r == 0)
		r = pool_limit_apply(p, fd, n, &(struct layer_debt){0});
	/* upper/ becomes the root directory of the box: its mode must not depend on our umask. */
	if (r == 0 && (mkdirat(fd, "upper", 0755) < 0 || mkdirat(fd, "work", 0700) < 0 ||
			      fchmodat(fd, "upper", 0755, 0) < 0 || fchmod(fd, 0700) < 0))
		r = -errno;
	return r;
}

int pool_layer_make(struct pool *p, int dir, const char *name, uint64_t limit, struct err *e)
{
	struct layer_note n = {.limit = limit};
	if (p->kind == POOL_PLAIN)
		return layer_make(dir, name, e);
	int r = make_in_group(p, dir, name, &n.group);
	if (r == -ENOSPC)
		btrfs_reclaim(p->root); /* what was deleted just now helps the next one */
	if (r < 0)
		return err_os(e, r == -ENOSPC ? ERRC_NO_SPACE : ERRC_BOX_CREATE_FAILED, -r,
			r == -ENOSPC ? "the pool is full: make the sandbox's layer" : "make the sandbox's layer");
	r = fill_layer(p, dir, name, &n);
	if (r == 0)
		return 0;
	btrfs_subvolume_delete(dir, name);
	return err_os(e, ERRC_BOX_CREATE_FAILED, -r, "make the sandbox's layer");
}

int pool_incoming_make(struct pool *p, int dir, const char *name, uint64_t limit, struct layer_note *ret)
{
	*ret = (struct layer_note){.limit = limit};
	int r = make_in_group(p, dir, name, &ret->group);
	auto_fd int fd = r < 0 ? r : open_layer(dir, name);
	return fd < 0 ? fd : pool_limit_apply(p, fd, ret, &(struct layer_debt){0});
}

/* A layer at its limit has no room for the note: the limit is lifted for that moment, and the brake too. */
static int note_write_full(const struct pool *p, int layer, const struct layer_note *n)
{
	int r = pool_note_write(layer, n);
	if (r != -EDQUOT)
		return r;
	r = limit_layer(p, layer, n, 0);
	if (r < 0)
		return r;
	pool_brake_leave(p, n->group);
	r = pool_note_write(layer, n);
	pool_brake_join(p, n->group);
	return r;
}

int pool_layer_limit(const struct pool *p, int dir, const char *name, uint64_t limit, struct err *e)
{
	struct layer_note n = {0};
	struct layer_debt d = {0};
	if (p->kind == POOL_PLAIN)
		return 0;
	auto_fd int fd = open_layer(dir, name);
	int r = fd < 0 ? fd : pool_note_read(fd, &n);
	if (r == 0)
		r = pool_debt_read(p, n.group, &d);
	if (r < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, -r, "read the limit of the sandbox's layer");
	if (n.limit == limit)
		return 0;
	n.limit = limit;
	r = note_write_full(p, fd, &n);
	if (r == 0)
		r = pool_limit_apply(p, fd, &n, &d);
	return r < 0 ? err_os(e, ERRC_INTERNAL_ERROR, -r, "set the limit of the sandbox's layer") : 0;
}

static int used_by(const struct pool *p, int layer, const struct layer_note *n, uint64_t *ret)
{
	uint64_t group;
	int r = pool_group_charged(p, layer, n, &group);
	return r < 0 ? r : btrfs_group_used(p->groups, group, ret);
}

bool pool_layer_loosen(const struct pool *p, int dir, const char *name)
{
	struct layer_note n = {0};
	struct layer_debt d = {0};
	uint64_t used = 0;
	if (p->kind == POOL_PLAIN || p->groups < 0)
		return false;
	auto_fd int fd = open_layer(dir, name);
	if (fd < 0 || pool_note_read(fd, &n) < 0 || pool_debt_read(p, n.group, &d) < 0 || used_by(p, fd, &n, &used) < 0)
		return false;
	bool full = used + d.bytes + LAYER_MOUNT_ROOM > n.limit, braked = pool_brake_is_on(p);
	if (full)
		limit_layer(p, fd, &n, used + LAYER_MOUNT_ROOM);
	if (braked)
		pool_brake_leave(p, n.group);
	return full || braked;
}

void pool_layer_tighten(const struct pool *p, int dir, const char *name)
{
	struct layer_note n = {0};
	struct layer_debt d = {0};
	auto_fd int fd = open_layer(dir, name);
	if (fd < 0 || pool_note_read(fd, &n) < 0 || pool_debt_read(p, n.group, &d) < 0)
		return;
	pool_limit_apply(p, fd, &n, &d);
	pool_brake_join(p, n.group);
}

bool pool_layer_used(const struct pool *p, int dir, const char *name, uint64_t *ret)
{
	struct layer_note n = {0};
	struct layer_debt d = {0};
	uint64_t used = 0;
	if (p->kind == POOL_PLAIN || p->groups < 0)
		return false;
	auto_fd int fd = open_layer(dir, name);
	if (fd < 0 || pool_note_read(fd, &n) < 0 || used_by(p, fd, &n, &used) < 0)
		return false;
	if (n.foreign.n || p->quota == BTRFS_QUOTA_FULL)
		pool_debt_read(p, n.group, &d);
	*ret = used + d.bytes;
	return true;
}

/* ---- space ---- */

void pool_space(const struct pool *p, uint64_t *ret_size, uint64_t *ret_used)
{
	struct statfs st = {0}, below = {0};
	*ret_size = *ret_used = 0;
	if (p->kind == POOL_PLAIN || fstatfs(p->root, &st) < 0)
		return;
	uint64_t block = (uint64_t)st.f_bsize;
	*ret_size = st.f_blocks * block;
	*ret_used = (st.f_blocks - st.f_bfree) * block;
	if (p->kind != POOL_FILE || fstatfs(p->file, &below) < 0)
		return;
	uint64_t room = below.f_bavail * (uint64_t)below.f_bsize, reserve = pool_reserve(p);
	uint64_t most = *ret_size + (room > reserve ? room - reserve : 0);
	*ret_size = p->max && p->max < most ? p->max : most;
}
