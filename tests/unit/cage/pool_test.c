#include "cage/pool/full.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/btrfs.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "btrfs_rig.h"
#include "test.h"

enum { MIB_ = 1 << 20 };

static struct pool pool;

static void open_pool(void)
{
	char path[128];
	struct err e = {0};
	CHECK_INT(pool_open(&pool, btrfs_rig_path(), NULL, NULL, &e), 0);
	CHECK_INT(pool.kind, POOL_DIRECTORY);
	snprintf(path, sizeof path, "%s/pool", btrfs_rig_path());
	CHECK_INT(pool_enter(&pool, path, &e), 0);
}

/* A pool on a data directory that is on btrfs itself. */
static void make_pool(void)
{
	btrfs_rig();
	open_pool();
	if (pool.quota != BTRFS_QUOTA_SIMPLE)
		TEST_SKIP("this kernel has no simple quotas");
}

/* The same with the quotas of kernels before 6.7, which newer ones have too. */
static void make_full_pool(void)
{
	struct btrfs_ioctl_quota_ctl_args on = {.cmd = BTRFS_QUOTA_CTL_ENABLE};
	int fs = btrfs_rig();
	CHECK_INT(ioctl(fs, BTRFS_IOC_QUOTA_CTL, &on), 0);
	CHECK_INT(ioctl(fs, BTRFS_IOC_QUOTA_RESCAN_WAIT, NULL), 0);
	open_pool();
	CHECK_INT(pool.quota, BTRFS_QUOTA_FULL);
}

static int make_box(const char *name, uint64_t limit)
{
	struct err e = {0};
	CHECK_INT(pool_layer_make(&pool, pool.boxes, name, limit, &e), 0);
	return btrfs_rig_open(pool.boxes, name);
}

static struct layer_note note_of(int layer)
{
	struct layer_note n;
	CHECK_INT(pool_note_read(layer, &n), 0);
	return n;
}

static uint64_t debt_of(int layer)
{
	struct layer_debt d;
	CHECK_INT(pool_debt_read(&pool, note_of(layer).group, &d), 0);
	return d.bytes;
}

/* A box with the files of `source` as they are now. `old`: the box that it replaces, whose group it has. */
static int make_from(int source, const char *name, uint64_t limit, const struct layer_note *old)
{
	struct pool_clone c = {.limit = limit, .group = old ? old->group : 0, .old = old};
	char snapshot[64];
	snprintf(snapshot, sizeof snapshot, "of-%s", name);
	CHECK_INT(pool_snapshot_slow(&pool, source, pool.snapshots, snapshot), 0);
	int from = btrfs_rig_open(pool.snapshots, snapshot);
	if (!old)
		CHECK_INT(pool_group_new(&pool, &c.group), 0);
	CHECK_INT(pool_clone_slow(&pool, from, pool.boxes, name, &c), 0);
	close(from);
	return btrfs_rig_open(pool.boxes, name);
}

static void recount(int layer)
{
	CHECK_INT(fsync(layer), 0);
	syncfs(layer);
	CHECK_INT(pool_recount_slow(&pool, layer), 0);
}

static bool about(uint64_t bytes, uint64_t want)
{
	return bytes + MIB_ / 2 > want && bytes < want + MIB_ / 2;
}

TEST(a_layer_has_its_directories_its_note_and_its_limit)
{
	make_pool();
	struct err e = {0};
	struct stat st;
	int a = make_box("a", 32 * MIB_);
	CHECK_INT(fstatat(a, "upper", &st, 0), 0);
	CHECK_INT(st.st_mode & 07777, 0755);
	CHECK_INT(fstatat(a, "work", &st, 0), 0);
	CHECK_INT(note_of(a).limit, 32 * MIB_);
	size_t n = btrfs_rig_fill(a, "upper/f", 64 * MIB_);
	CHECK(n > 24 * MIB_ && n <= 32 * MIB_);
	CHECK_INT(pool_layer_make(&pool, pool.boxes, "a", 32 * MIB_, &e), -1);
	CHECK_INT(e.os, EEXIST);
	close(a);
}

TEST(the_limit_of_a_full_layer_goes_up_and_down)
{
	make_pool();
	struct err e = {0};
	int a = make_box("a", 32 * MIB_);
	btrfs_rig_fill(a, "upper/f", 64 * MIB_);
	CHECK_INT(pool_layer_limit(&pool, pool.boxes, "a", 16 * MIB_, &e), 0);
	CHECK_INT(note_of(a).limit, 16 * MIB_);
	CHECK_INT(openat(a, "upper/g", O_WRONLY | O_CREAT | O_CLOEXEC, 0600), -1);
	CHECK_INT(errno, EDQUOT);
	CHECK_INT(pool_layer_limit(&pool, pool.boxes, "a", 64 * MIB_, &e), 0);
	CHECK_INT(btrfs_rig_fill(a, "upper/g", MIB_), MIB_);
	close(a);
}

static int touch(int layer, const char *name)
{
	int fd = openat(layer, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	int os = fd < 0 ? errno : 0;
	if (fd >= 0)
		close(fd);
	return os;
}

TEST(the_brake_stops_every_write_of_boxes_and_no_deletion)
{
	make_pool();
	struct err e = {0};
	int a = make_box("a", 32 * MIB_), b = make_from(a, "b", 32 * MIB_, NULL);
	CHECK_INT(touch(a, "upper/f"), 0);
	CHECK_INT(touch(b, "upper/f"), 0);
	CHECK(!pool_brake_is_on(&pool));
	CHECK_INT(btrfs_group_limit(pool.root, POOL_GROUP_ALL, 1), 0);
	CHECK(pool_brake_is_on(&pool));
	CHECK_INT(touch(a, "upper/g"), EDQUOT);
	CHECK_INT(touch(b, "upper/g"), EDQUOT);
	CHECK_INT(unlinkat(a, "upper/f", 0), 0);
	CHECK_INT(touch(pool.debts, "f"), 0);
	CHECK_INT(pool_layer_limit(&pool, pool.boxes, "a", 16 * MIB_, &e), 0);
	CHECK_INT(touch(a, "upper/g"), EDQUOT);
	/* A layer that is mounted has room, the others have not. */
	CHECK(pool_layer_loosen(&pool, pool.boxes, "a"));
	CHECK_INT(touch(a, "upper/g"), 0);
	CHECK_INT(touch(b, "upper/g"), EDQUOT);
	pool_layer_tighten(&pool, pool.boxes, "a");
	CHECK_INT(touch(a, "upper/h"), EDQUOT);
	/* There is room for metadata, so a look releases it. */
	pool_brake_look(&pool);
	CHECK(!pool_brake_is_on(&pool));
	CHECK_INT(touch(a, "upper/h"), 0);
	CHECK_INT(touch(b, "upper/h"), 0);
	close(a);
	close(b);
}

TEST(layers_from_before_the_brake_are_put_under_it)
{
	make_pool();
	int a = make_box("a", 32 * MIB_);
	pool_brake_leave(&pool, note_of(a).group);
	CHECK_INT(btrfs_group_limit(pool.root, POOL_GROUP_ALL, 1), 0);
	CHECK_INT(touch(a, "upper/f"), 0);
	pool_brake_join_all_slow(&pool);
	CHECK_INT(touch(a, "upper/g"), EDQUOT);
	close(a);
}

TEST(a_fork_owes_what_it_was_given_until_it_deletes_it)
{
	make_pool();
	int a = make_box("a", 64 * MIB_);
	btrfs_rig_fill(a, "upper/f", 24 * MIB_);
	int b = make_from(a, "b", 40 * MIB_, NULL);
	recount(b);
	CHECK(about(debt_of(b), 24 * MIB_));
	uint64_t used = 0;
	CHECK(pool_layer_used(&pool, pool.boxes, "b", &used) && about(used, 24 * MIB_));
	CHECK(btrfs_rig_fill(b, "upper/g", 32 * MIB_) < 17 * MIB_);
	CHECK_INT(unlinkat(b, "upper/g", 0), 0);
	CHECK_INT(unlinkat(b, "upper/f", 0), 0);
	recount(b);
	CHECK(about(debt_of(b), 0));
	CHECK_INT(btrfs_rig_fill(b, "upper/g", 32 * MIB_), 32 * MIB_);
	close(a);
	close(b);
}

TEST(an_extent_that_a_fork_keeps_a_part_of_counts_whole_and_once)
{
	make_pool();
	int a = make_box("a", 64 * MIB_);
	btrfs_rig_fill(a, "upper/f", 8 * MIB_);
	int b = make_from(a, "b", 64 * MIB_, NULL);
	int f = openat(b, "upper/f", O_RDWR | O_CLOEXEC), copy = openat(b, "upper/copy", O_RDWR | O_CREAT, 0600);
	CHECK(f >= 0 && copy >= 0);
	CHECK_INT(ioctl(copy, FICLONE, f), 0);
	char block[4096] = "new";
	for (off_t at = 0; at < 8 * MIB_; at += MIB_)
		CHECK_INT(pwrite(f, block, sizeof block, at), sizeof block);
	CHECK_INT(fsync(f), 0);
	recount(b);
	CHECK(about(debt_of(b), 8 * MIB_));
	CHECK_INT(unlinkat(b, "upper/copy", 0), 0);
	CHECK_INT(ftruncate(f, 8192), 0); /* the blocks after the first keep the whole extent alive */
	close(copy);
	CHECK_INT(fsync(f), 0);
	recount(b);
	CHECK(debt_of(b) >= 4096);
	close(f);
	close(a);
	close(b);
}

TEST(a_box_that_takes_back_its_fork_owes_only_what_the_fork_wrote)
{
	make_pool();
	int a = make_box("a", 64 * MIB_);
	btrfs_rig_fill(a, "upper/f", 16 * MIB_);
	int b = make_from(a, "b", 64 * MIB_, NULL);
	btrfs_rig_fill(b, "upper/g", 8 * MIB_);
	struct layer_note old = note_of(a);
	int again = make_from(b, "again", 64 * MIB_, &old);
	recount(again);
	CHECK(about(debt_of(again), 8 * MIB_));
	uint64_t used = 0;
	CHECK(pool_layer_used(&pool, pool.boxes, "again", &used) && about(used, 24 * MIB_));
	close(a);
	close(b);
	close(again);
}

TEST(all_debts_are_counted_when_layers_have_changed)
{
	make_pool();
	int a = make_box("a", 64 * MIB_);
	btrfs_rig_fill(a, "upper/f", 8 * MIB_);
	int b = make_from(a, "b", 64 * MIB_, NULL);
	pool_recount_all_slow(&pool);
	CHECK(about(debt_of(b), 8 * MIB_));
	CHECK_INT(unlinkat(b, "upper/f", 0), 0);
	syncfs(b);
	pool_recount_all_slow(&pool);
	CHECK(about(debt_of(b), 0));
	CHECK_INT(debt_of(a), 0);
	close(a);
	close(b);
}

TEST(groups_without_layers_are_swept_with_their_debts)
{
	make_pool();
	uint64_t group = 0;
	struct layer_debt d = {.bytes = 5};
	char name[32];
	CHECK_INT(pool_group_new(&pool, &group), 0);
	CHECK_INT(pool_debt_write(&pool, group, &d), 0);
	snprintf(name, sizeof name, "%llu", (unsigned long long)group);
	CHECK_INT(faccessat(pool.debts, name, F_OK, 0), 0);
	pool_sweep_groups_slow(&pool);
	CHECK_INT(faccessat(pool.debts, name, F_OK, 0), -1);
	CHECK_INT(pool_debt_read(&pool, group, &d), 0);
	CHECK_INT(d.bytes, 0);
}

TEST(settings_that_make_no_sense_are_refused)
{
	struct err e = {0};
	struct pool p;
	CHECK_INT(pool_open(&p, "/", "zfs", NULL, &e), -1);
	CHECK_INT(pool_open(&p, "/", NULL, "many", &e), -1);
	CHECK_INT(pool_open(&p, "/nowhere", NULL, NULL, &e), 0);
	CHECK_INT(p.kind, POOL_PLAIN);
	CHECK_INT(pool_open(&p, "/", "plain", NULL, &e), 0);
	CHECK_CSTR(p.why, "ATOLL_POOL is 'plain'");
}

TEST_MAIN()

/* ---- full quotas: kernels before 6.7 ---- */

static uint64_t used_by(const char *name)
{
	uint64_t used = 0;
	btrfs_commit(pool.root);
	CHECK(pool_layer_used(&pool, pool.boxes, name, &used));
	return used;
}

static int snapshot_of(int layer, const char *name)
{
	return pool_snapshot_slow(&pool, layer, pool.snapshots, name);
}

static void drop_snapshot(const char *name)
{
	CHECK_INT(btrfs_subvolume_delete(pool.snapshots, name), 0);
	full_watch_slow(&pool);
}

/* What is deleted stays on the disk for the snapshot: a box may not have it and the limit again. */
TEST(full_quotas_count_a_snapshot_and_stay_consistent)
{
	make_full_pool();
	int box = make_box("a", 64 * MIB_);
	CHECK_INT(btrfs_rig_fill(box, "one", 20 * MIB_), 20 * MIB_);
	CHECK_INT(snapshot_of(box, "s"), 0);
	CHECK(!btrfs_groups_are_inconsistent(pool.groups));
	CHECK(about(debt_of(box), 20 * MIB_));
	CHECK(about(used_by("a"), 40 * MIB_));
	CHECK(btrfs_rig_fill(box, "two", 60 * MIB_) <= 25 * MIB_);
	CHECK_INT(unlinkat(box, "two", 0), 0);
	CHECK_INT(unlinkat(box, "one", 0), 0);
	btrfs_commit(pool.root);
	CHECK(btrfs_rig_fill(box, "three", 100 * MIB_) <= 45 * MIB_);
	drop_snapshot("s");
	CHECK_INT(debt_of(box), 0);
	CHECK(btrfs_rig_fill(box, "four", 10 * MIB_) == 10 * MIB_);
	CHECK(!btrfs_groups_are_inconsistent(pool.groups));
}

TEST(full_quotas_refuse_a_snapshot_that_does_not_fit)
{
	make_full_pool();
	int box = make_box("a", 64 * MIB_);
	CHECK_INT(btrfs_rig_fill(box, "one", 40 * MIB_), 40 * MIB_);
	CHECK_INT(snapshot_of(box, "s"), -EDQUOT);
	CHECK(openat(pool.snapshots, "s", O_RDONLY) < 0);
	CHECK_INT(debt_of(box), 0);
	CHECK_INT(btrfs_rig_fill(box, "two", 10 * MIB_), 10 * MIB_);
}

TEST(full_quotas_bound_a_fork_by_its_own_limit)
{
	make_full_pool();
	int box = make_box("a", 200 * MIB_);
	CHECK_INT(btrfs_rig_fill(box, "one", 20 * MIB_), 20 * MIB_);
	int fork = make_from(box, "b", 64 * MIB_, NULL);
	CHECK(note_of(fork).group != note_of(box).group);
	CHECK(!btrfs_groups_are_inconsistent(pool.groups));
	CHECK_INT(debt_of(fork), 0);
	CHECK(about(used_by("b"), 20 * MIB_));
	CHECK(btrfs_rig_fill(fork, "two", 60 * MIB_) <= 45 * MIB_);
	CHECK_INT(btrfs_rig_fill(box, "two", 60 * MIB_), 60 * MIB_);
}

/* A layer that is put back keeps the number of the box, and with it the debt of its snapshots. */
TEST(full_quotas_keep_the_debt_over_a_restore)
{
	make_full_pool();
	int box = make_box("a", 100 * MIB_);
	struct layer_note old = note_of(box);
	CHECK_INT(btrfs_rig_fill(box, "one", 20 * MIB_), 20 * MIB_);
	int back = make_from(box, "a.new", 100 * MIB_, &old);
	CHECK(note_of(back).group == old.group);
	CHECK(about(debt_of(back), 20 * MIB_));
	CHECK(btrfs_rig_fill(back, "two", 100 * MIB_) <= 65 * MIB_);
	CHECK(!btrfs_groups_are_inconsistent(pool.groups));
}

static size_t count_in(int dir, const char *begins)
{
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fdopendir(fd);
	size_t n = 0;
	CHECK(d);
	for (struct dirent *entry; (entry = readdir(d));)
		n += entry->d_name[0] != '.' && strncmp(entry->d_name, begins, strlen(begins)) == 0;
	closedir(d);
	return n;
}

/* Older kernels keep the group of a deleted subvolume: tests/host looks there too. */
TEST(full_quotas_leave_no_groups_and_debts_of_deleted_layers)
{
	enum { LAYERS = 50 };
	make_full_pool();
	int stays = make_box("stays", 64 * MIB_);
	uint64_t number, gone[LAYERS];
	CHECK_INT(btrfs_rig_fill(stays, "one", 8 * MIB_), 8 * MIB_);
	CHECK_INT(snapshot_of(stays, "s"), 0);
	size_t groups = count_in(pool.groups, "0_"), debts = count_in(pool.debts, "");
	for (int i = 0; i < LAYERS; i++) {
		int box = make_box("goes", 64 * MIB_);
		struct layer_note n = note_of(box);
		CHECK_INT(btrfs_subvolume_id(box, &number), 0);
		gone[i] = number;
		CHECK_INT(btrfs_subvolume_exists(pool.root, number), 1);
		CHECK_INT(pool_debt_write(&pool, n.group, &(struct layer_debt){.bytes = 5}), 0);
		close(box);
		CHECK_INT(btrfs_subvolume_delete(pool.boxes, "goes"), 0);
	}
	CHECK_INT(count_in(pool.debts, ""), debts + LAYERS);
	for (int i = 0; i < LAYERS; i++)
		while (btrfs_subvolume_exists(pool.root, gone[i]))
			btrfs_commit(pool.root);
	pool_sweep_groups_slow(&pool);
	CHECK_INT(count_in(pool.groups, "0_"), groups);
	CHECK_INT(count_in(pool.debts, ""), debts);
	CHECK(about(debt_of(stays), 8 * MIB_));
	CHECK(btrfs_rig_fill(stays, "two", 100 * MIB_) <= 50 * MIB_);
}

/* As an earlier version of Atoll left a pool: a copy in a shared group, and the limit there. */
TEST(full_quotas_are_counted_anew_when_the_kernel_gave_up)
{
	make_full_pool();
	int box = make_box("a", 64 * MIB_);
	const uint64_t shared = BTRFS_GROUP_SHARED(7777);
	CHECK_INT(btrfs_rig_fill(box, "one", 20 * MIB_), 20 * MIB_);
	CHECK_INT(btrfs_group_make(pool.root, shared), 0);
	CHECK_INT(btrfs_snapshot_make(pool.snapshots, "s", box, true, shared), 0);
	btrfs_commit(pool.root);
	CHECK(btrfs_groups_are_inconsistent(pool.groups));
	full_watch_slow(&pool);
	CHECK(!btrfs_groups_are_inconsistent(pool.groups));
	CHECK(about(debt_of(box), 20 * MIB_));
	CHECK(btrfs_rig_fill(box, "two", 60 * MIB_) <= 25 * MIB_);
}
