#include "btrfs_rig.h"
#include "cage/limits.h"
#include "cage/pool/btrfs.h"
#include "cage/trash.h"
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static int fs = -1;

static void make_fs(void)
{
	fs = btrfs_rig();
	CHECK(btrfs_is(fs));
}

static int open_in(const char *name)
{
	return btrfs_rig_open(fs, name);
}

#define fill btrfs_rig_fill

enum { MIB_ = 1 << 20 };

TEST(a_subvolume_is_made_and_deleted_and_known_as_one)
{
	make_fs();
	CHECK_INT(btrfs_subvolume_make(fs, "a", 0), 0);
	CHECK_INT(btrfs_subvolume_make(fs, "a", 0), -EEXIST);
	CHECK_INT(mkdirat(fs, "plain", 0700), 0);
	int a = open_in("a"), plain = open_in("plain");
	uint64_t id = 0, top = 0;
	CHECK(btrfs_is_subvolume(a));
	CHECK(!btrfs_is_subvolume(plain));
	CHECK_INT(btrfs_subvolume_id(a, &id), 0);
	CHECK_INT(btrfs_subvolume_id(plain, &top), 0);
	CHECK(id >= 256 && top == 5);
	CHECK(btrfs_subvolume_delete(fs, "plain") < 0);
	CHECK_INT(btrfs_subvolume_delete(fs, "a"), 0);
	CHECK_INT(btrfs_subvolume_delete(fs, "a"), -ENOENT);
	char longest[400];
	memset(longest, 'n', sizeof longest - 1);
	longest[sizeof longest - 1] = 0;
	CHECK_INT(btrfs_subvolume_make(fs, longest, 0), -ENAMETOOLONG);
	close(a);
	close(plain);
}

TEST(a_snapshot_has_the_content_of_its_moment)
{
	make_fs();
	CHECK_INT(btrfs_subvolume_make(fs, "a", 0), 0);
	int a = open_in("a");
	CHECK_INT(fill(a, "before", MIB_), MIB_);
	CHECK_INT(btrfs_snapshot_make(fs, "s", a, true, 0), 0);
	CHECK_INT(btrfs_snapshot_make(fs, "w", a, false, 0), 0);
	CHECK_INT(fill(a, "after", MIB_), MIB_);
	int s = open_in("s"), w = open_in("w");
	CHECK_INT(faccessat(s, "before", F_OK, 0), 0);
	CHECK_INT(faccessat(s, "after", F_OK, 0), -1);
	CHECK_INT(openat(s, "new", O_WRONLY | O_CREAT, 0600), -1);
	CHECK_INT(errno, EROFS);
	CHECK_INT(fill(w, "new", MIB_), MIB_);
	close(a);
	close(s);
	close(w);
}

TEST(a_shared_group_limits_a_subvolume_and_its_snapshots_together)
{
	make_fs();
	const uint64_t group = BTRFS_GROUP_SHARED(77);
	enum btrfs_quota kind = BTRFS_QUOTA_NONE;
	CHECK_INT(btrfs_quota_enable(fs, &kind), 0);
	CHECK(kind != BTRFS_QUOTA_NONE);
	CHECK_INT(btrfs_quota_enable(fs, &kind), 0);
	CHECK_INT(btrfs_group_make(fs, group), 0);
	CHECK_INT(btrfs_group_limit(fs, group, 32 * MIB_), 0);
	CHECK_INT(btrfs_subvolume_make(fs, "a", group), 0);
	int a = open_in("a");
	CHECK_INT(fill(a, "one", 16 * MIB_), 16 * MIB_);
	CHECK_INT(btrfs_snapshot_make(fs, "s", a, true, group), 0);
	CHECK_INT(unlinkat(a, "one", 0), 0);
	/* The snapshot still holds 16 MiB of the 32: a box cannot get rid of them by deleting its own file. */
	size_t more = fill(a, "two", 32 * MIB_);
	CHECK(more < 17 * MIB_);
	CHECK(more > 12 * MIB_);
	int groups = btrfs_groups_open(fs);
	uint64_t used = 0;
	CHECK(groups >= 0);
	CHECK_INT(btrfs_group_used(groups, group, &used), 0);
	CHECK(used > 24 * MIB_ && used <= 32 * MIB_);
	CHECK_INT(btrfs_group_limit(fs, group, 0), 0);
	CHECK_INT(fill(a, "three", 32 * MIB_), 32 * MIB_);
	CHECK_INT(btrfs_group_used(groups, BTRFS_GROUP_SHARED(78), &used), -ENOENT);
	close(groups);
	close(a);
}

TEST(a_subvolume_goes_into_the_trash_of_a_full_file_system)
{
	make_fs();
	CHECK_INT(btrfs_subvolume_make(fs, "a", 0), 0);
	CHECK_INT(mkdirat(fs, "trash", 0700), 0);
	int a = open_in("a"), trash = open_in("trash");
	CHECK(fill(a, "f", (size_t)1 << 30) < (size_t)1 << 30);
	fsync(a);
	CHECK(renameat(fs, "a", trash, "a") < 0); /* the trash cannot do what it does elsewhere */
	CHECK_INT(errno, ENOSPC);
	CHECK_INT(trash_put(fs, "a", trash), 0);
	CHECK_INT(trash_put(fs, "a", trash), -ENOENT);
	close(a);
	close(trash);
}

TEST(metadata_of_a_new_file_system_gets_room)
{
	make_fs();
	int groups = btrfs_groups_open(fs);
	if (groups < 0) {
		enum btrfs_quota quota;
		CHECK_INT(btrfs_quota_enable(fs, &quota), 0);
		groups = btrfs_groups_open(fs);
	}
	uint64_t before = btrfs_metadata_size(groups);
	CHECK(before > 0 && before < POOL_METADATA_MIN);
	CHECK_INT(btrfs_metadata_move(fs), 0);
	CHECK(btrfs_metadata_size(groups) >= POOL_METADATA_MIN);
	close(groups);
}

TEST_MAIN()
