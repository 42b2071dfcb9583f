#include "cage/pool/btrfs.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/btrfs.h>
#include <linux/btrfs_tree.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include "base/fd.h"

/* Newer than the build machine's headers. */
enum { QUOTA_CTL_ENABLE_SIMPLE = 4, SUBVOLUME_WAIT_COUNT = 2 };
struct subvolume_wait {
	uint64_t id;
	uint32_t mode, count;
};
#define SUBVOLUME_WAIT _IOW(BTRFS_IOCTL_MAGIC, 65, struct subvolume_wait)
enum { DEVICES_MAX = 64, SUBVOLUME_ROOT_INODE = 256, NAME_ROOM = BTRFS_VOL_NAME_MAX + 1 };

bool btrfs_is(int fd)
{
	struct statfs st;
	return fstatfs(fd, &st) == 0 && st.f_type == BTRFS_SUPER_MAGIC;
}

/* ---- subvolumes ---- */

/* The structure ends in an array; this one has room for one group. */
union inherit_one {
	struct btrfs_qgroup_inherit head;
	char room[sizeof(struct btrfs_qgroup_inherit) + sizeof(uint64_t)];
};

static int subvolume_make(int dir, const char *name, int request, int source, uint64_t flags, uint64_t group)
{
	union inherit_one inherit = {0};
	struct btrfs_ioctl_vol_args_v2 a = {.fd = source, .flags = flags};
	if (strlen(name) >= NAME_ROOM)
		return -ENAMETOOLONG;
	snprintf(a.name, sizeof a.name, "%s", name);
	if (group) {
		inherit.head.num_qgroups = 1;
		inherit.head.qgroups[0] = group;
		a.flags |= BTRFS_SUBVOL_QGROUP_INHERIT;
		a.size = sizeof inherit;
		a.qgroup_inherit = &inherit.head;
	}
	return ioctl(dir, request, &a) < 0 ? -errno : 0;
}

int btrfs_subvolume_make(int dir, const char *name, uint64_t group)
{
	return subvolume_make(dir, name, (int)BTRFS_IOC_SUBVOL_CREATE_V2, 0, 0, group);
}

int btrfs_snapshot_make(int dir, const char *name, int source, bool read_only, uint64_t group)
{
	return subvolume_make(
		dir, name, (int)BTRFS_IOC_SNAP_CREATE_V2, source, read_only ? BTRFS_SUBVOL_RDONLY : 0, group);
}

int btrfs_subvolume_delete(int dir, const char *name)
{
	struct btrfs_ioctl_vol_args a = {0};
	if (strlen(name) >= NAME_ROOM)
		return -ENAMETOOLONG;
	snprintf(a.name, sizeof a.name, "%s", name);
	return ioctl(dir, BTRFS_IOC_SNAP_DESTROY, &a) < 0 ? -errno : 0;
}

void btrfs_reclaim(int fs)
{
	uint64_t transaction = 0;
	ioctl(fs, BTRFS_IOC_START_SYNC, &transaction);
}

/* Unlike syncfs, this wakes the thread that takes back the space of deleted subvolumes. */
void btrfs_commit(int fs)
{
	ioctl(fs, BTRFS_IOC_SYNC, NULL);
}

bool btrfs_is_reclaiming(int fs)
{
	struct subvolume_wait a = {.mode = SUBVOLUME_WAIT_COUNT};
	return ioctl(fs, SUBVOLUME_WAIT, &a) < 0 || a.count;
}

int btrfs_subvolume_id(int fd, uint64_t *ret)
{
	struct btrfs_ioctl_ino_lookup_args a = {.objectid = SUBVOLUME_ROOT_INODE};
	if (ioctl(fd, BTRFS_IOC_INO_LOOKUP, &a) < 0)
		return -errno;
	*ret = a.treeid;
	return 0;
}

int btrfs_subvolume_exists(int fs, uint64_t id)
{
	struct btrfs_ioctl_search_args a = {.key = {.tree_id = BTRFS_ROOT_TREE_OBJECTID,
						    .min_objectid = id,
						    .max_objectid = id,
						    .min_type = BTRFS_ROOT_ITEM_KEY,
						    .max_type = BTRFS_ROOT_ITEM_KEY,
						    .max_offset = UINT64_MAX,
						    .max_transid = UINT64_MAX,
						    .nr_items = 1}};
	return ioctl(fs, BTRFS_IOC_TREE_SEARCH, &a) < 0 ? -errno : a.key.nr_items > 0;
}

int btrfs_subvolume_freeze(int fd)
{
	uint64_t flags = 0;
	if (ioctl(fd, BTRFS_IOC_SUBVOL_GETFLAGS, &flags) < 0)
		return -errno;
	flags |= BTRFS_SUBVOL_RDONLY;
	return ioctl(fd, BTRFS_IOC_SUBVOL_SETFLAGS, &flags) < 0 ? -errno : 0;
}

int btrfs_send(int subvolume, int parent, int out)
{
	struct btrfs_ioctl_send_args a = {.send_fd = out};
	uint64_t id = 0;
	int r = parent < 0 ? 0 : btrfs_subvolume_id(parent, &id);
	if (r < 0)
		return r;
	a.parent_root = id;
	return ioctl(subvolume, BTRFS_IOC_SEND, &a) < 0 ? -errno : 0;
}

int btrfs_made_in(int fd, uint64_t *ret)
{
	struct btrfs_ioctl_get_subvol_info_args a = {0};
	if (ioctl(fd, BTRFS_IOC_GET_SUBVOL_INFO, &a) < 0)
		return -errno;
	*ret = a.otransid;
	return 0;
}

int btrfs_generation(int fd, uint64_t *ret)
{
	struct btrfs_ioctl_get_subvol_info_args a = {0};
	if (ioctl(fd, BTRFS_IOC_GET_SUBVOL_INFO, &a) < 0)
		return -errno;
	*ret = a.generation;
	return 0;
}

bool btrfs_is_subvolume(int fd)
{
	struct stat st;
	return btrfs_is(fd) && fstat(fd, &st) == 0 && S_ISDIR(st.st_mode) && st.st_ino == SUBVOLUME_ROOT_INODE;
}

/* ---- quotas ---- */

/* 1: it is on now. 0: another kind is on already. -errno. */
static int enable(int fs, uint64_t command)
{
	struct btrfs_ioctl_quota_ctl_args a = {.cmd = command};
	if (ioctl(fs, BTRFS_IOC_QUOTA_CTL, &a) == 0)
		return 1;
	return errno == EEXIST ? 0 : -errno;
}

/* Which kind is on: sysfs says "squota" or "qgroup"; kernels before simple quotas have no such file. */
static enum btrfs_quota kind_on(int groups)
{
	auto_buf struct buf mode = {0};
	if (fd_read_file(groups, "mode", 64, &mode) == 0 && str_starts(buf_str(&mode), STR("squota")))
		return BTRFS_QUOTA_SIMPLE;
	return BTRFS_QUOTA_FULL;
}

int btrfs_quota_enable(int fs, enum btrfs_quota *ret)
{
	auto_fd int groups = btrfs_groups_open(fs);
	if (groups < 0) {
		int r = enable(fs, QUOTA_CTL_ENABLE_SIMPLE);
		if (r < 0) {
			r = enable(fs, BTRFS_QUOTA_CTL_ENABLE);
			ioctl(fs, BTRFS_IOC_QUOTA_RESCAN_WAIT, NULL); /* full quotas begin with a count */
		}
		if (r < 0)
			return r;
		groups = btrfs_groups_open(fs);
		if (groups < 0)
			return groups;
	}
	*ret = kind_on(groups);
	return 0;
}

int btrfs_group_make(int fs, uint64_t group)
{
	struct btrfs_ioctl_qgroup_create_args a = {.create = 1, .qgroupid = group};
	return ioctl(fs, BTRFS_IOC_QGROUP_CREATE, &a) < 0 ? -errno : 0;
}

int btrfs_group_delete(int fs, uint64_t group)
{
	struct btrfs_ioctl_qgroup_create_args a = {.create = 0, .qgroupid = group};
	return ioctl(fs, BTRFS_IOC_QGROUP_CREATE, &a) < 0 ? -errno : 0;
}

int btrfs_group_limit(int fs, uint64_t group, uint64_t bytes)
{
	/* The kernel takes the largest number for "no limit any more". */
	struct btrfs_ioctl_qgroup_limit_args a = {.qgroupid = group,
		.lim = {.flags = BTRFS_QGROUP_LIMIT_MAX_RFER, .max_rfer = bytes ? bytes : UINT64_MAX}};
	return ioctl(fs, BTRFS_IOC_QGROUP_LIMIT, &a) < 0 ? -errno : 0;
}

static int relate(int fs, uint64_t assign, uint64_t group, uint64_t above)
{
	struct btrfs_ioctl_qgroup_assign_args a = {.assign = assign, .src = group, .dst = above};
	return ioctl(fs, BTRFS_IOC_QGROUP_ASSIGN, &a) < 0 ? -errno : 0;
}

int btrfs_group_join(int fs, uint64_t group, uint64_t above)
{
	return relate(fs, 1, group, above);
}

int btrfs_group_leave(int fs, uint64_t group, uint64_t above)
{
	return relate(fs, 0, group, above);
}

/* ---- live numbers ---- */

int btrfs_groups_open(int fs)
{
	struct btrfs_ioctl_fs_info_args info = {0};
	if (ioctl(fs, BTRFS_IOC_FS_INFO, &info) < 0)
		return -errno;
	const uint8_t *u = info.fsid;
	char path[96];
	snprintf(path, sizeof path,
		"/sys/fs/btrfs/%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x/qgroups", u[0],
		u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14], u[15]);
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static void group_path(uint64_t group, const char *what, char ret[64])
{
	snprintf(ret, 64, "%llu_%llu/%s", (unsigned long long)(group >> 48),
		(unsigned long long)(group & (((uint64_t)1 << 48) - 1)), what);
}

int btrfs_group_used(int groups, uint64_t group, uint64_t *ret)
{
	char path[64];
	auto_buf struct buf text = {0};
	struct str rest;
	group_path(group, "referenced", path);
	int r = fd_read_file(groups, path, 64, &text);
	if (r < 0)
		return r;
	return str_to_u64(str_split(buf_str(&text), '\n', &rest), UINT64_MAX, ret) ? 0 : -EPROTO;
}

static uint64_t read_number(int groups, const char *path)
{
	auto_buf struct buf text = {0};
	uint64_t n = 0;
	struct str rest;
	if (groups < 0 || fd_read_file(groups, path, 64, &text) < 0)
		return 0;
	struct str number = str_split(buf_str(&text), '\n', &rest);
	return str_to_u64(number, UINT64_MAX, &n) ? n : 0;
}

uint64_t btrfs_promised(int groups)
{
	return read_number(groups, "../allocation/data/bytes_may_use");
}

uint64_t btrfs_metadata_size(int groups)
{
	return read_number(groups, "../allocation/metadata/total_bytes");
}

bool btrfs_group_is_limited(int groups, uint64_t group)
{
	char path[64];
	group_path(group, "limit_flags", path);
	return read_number(groups, path) & BTRFS_QGROUP_LIMIT_MAX_RFER;
}

bool btrfs_groups_are_inconsistent(int groups)
{
	return read_number(groups, "inconsistent") != 0;
}

int btrfs_groups_rescan(int fs)
{
	struct btrfs_ioctl_quota_rescan_args a = {0};
	if (ioctl(fs, BTRFS_IOC_QUOTA_RESCAN, &a) < 0 && errno != EINPROGRESS)
		return -errno;
	return ioctl(fs, BTRFS_IOC_QUOTA_RESCAN_WAIT, NULL) < 0 ? -errno : 0;
}

void btrfs_groups_keep_counting(int groups)
{
	/* The height of the highest tree: some kernels give up at 3. Those before 6.1 have no such file. */
	fd_write_file(groups, "drop_subtree_threshold", STR("8"));
}

/* Bytes of all devices that no block group has. */
static int unallocated(int fs, uint64_t *ret)
{
	struct btrfs_ioctl_fs_info_args info = {0};
	*ret = 0;
	if (ioctl(fs, BTRFS_IOC_FS_INFO, &info) < 0)
		return -errno;
	for (uint64_t id = 1; id <= info.max_id && id <= DEVICES_MAX; id++) {
		struct btrfs_ioctl_dev_info_args d = {.devid = id};
		if (ioctl(fs, BTRFS_IOC_DEV_INFO, &d) == 0 && d.total_bytes > d.bytes_used)
			*ret += d.total_bytes - d.bytes_used;
	}
	return 0;
}

uint64_t btrfs_metadata_room(int fs, int groups)
{
	uint64_t have = btrfs_metadata_size(groups), more;
	if (!have || unallocated(fs, &more) < 0)
		return UINT64_MAX;
	uint64_t gone = read_number(groups, "../allocation/metadata/bytes_used") +
			read_number(groups, "../allocation/metadata/bytes_readonly") +
			read_number(groups, "../allocation/global_rsv_size");
	return more + (have > gone ? have - gone : 0);
}

int btrfs_metadata_move(int fs)
{
	struct btrfs_ioctl_balance_args a = {.flags = BTRFS_BALANCE_METADATA};
	return ioctl(fs, BTRFS_IOC_BALANCE_V2, &a) < 0 ? -errno : 0;
}
