/* The storer's jobs, one after the other in this process, on a pool of its own. */
#include "warden/storage/storer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "btrfs_rig.h"
#include "cage/pool/pool.h"
#include "test.h"

enum { MIB_ = 1 << 20 };

static struct pool pool;
static struct storer_view view;

static int make_dir(int in, const char *name)
{
	CHECK_INT(mkdirat(in, name, 0700), 0);
	return btrfs_rig_open(in, name);
}

static void scene(void)
{
	char path[128];
	struct err e = {0};
	btrfs_rig();
	CHECK_INT(pool_open(&pool, btrfs_rig_path(), NULL, NULL, &e), 0);
	snprintf(path, sizeof path, "%s/pool", btrfs_rig_path());
	CHECK_INT(pool_enter(&pool, path, &e), 0);
	int beside = open(btrfs_rig_beside(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	view = (struct storer_view){.pool = &pool,
		.plain_boxes = make_dir(beside, "boxes"),
		.plain_trash = make_dir(beside, "trash"),
		.images = make_dir(beside, "images"),
		.background = -1};
	CHECK_INT(pool_layer_make(&pool, pool.boxes, "a", 64 * MIB_, &e), 0);
	int a = btrfs_rig_open(pool.boxes, "a");
	btrfs_rig_fill(a, "upper/f", MIB_);
	close(a);
}

/* 0 or an errno. */
static int run(enum storer_kind kind, const char *layer, const char *snapshot)
{
	static uint64_t ticket;
	struct storer_job j = {.kind = kind, .ticket = ++ticket, .limit = 64 * MIB_};
	snprintf(j.layer, sizeof j.layer, "%s", layer);
	snprintf(j.snapshot, sizeof j.snapshot, "%s", snapshot);
	return storer_run(&view, &j, -1);
}

static bool has(const char *box, const char *name)
{
	char path[128];
	snprintf(path, sizeof path, "%s/upper/%s", box, name);
	return faccessat(pool.boxes, path, F_OK, 0) == 0;
}

static bool is_empty(int dir)
{
	struct stat st;
	CHECK_INT(fstat(dir, &st), 0);
	return st.st_size == 0; /* of a btrfs directory: the bytes of its names */
}

TEST(a_snapshot_becomes_another_box)
{
	scene();
	CHECK_INT(run(STORER_FLUSH, "a", ""), 0);
	CHECK_INT(run(STORER_SNAPSHOT, "a", "snap-1"), 0);
	CHECK_INT(run(STORER_SNAPSHOT, "a", "snap-1"), EEXIST);
	CHECK_INT(run(STORER_CLONE, "b", "snap-1"), 0);
	CHECK(has("b", "f"));
	CHECK_INT(run(STORER_CLONE, "b", "snap-1"), EEXIST);
	CHECK_INT(run(STORER_RECOUNT, "b", ""), 0);
	CHECK_INT(run(STORER_RECOUNT, "", ""), 0);
	CHECK_INT(run(STORER_DROP, "", "snap-1"), 0);
	CHECK_INT(run(STORER_DROP, "", "snap-1"), 0); /* again, after a kill */
	CHECK(has("b", "f"));
	CHECK(is_empty(pool.making) && is_empty(pool.snapshots));
}

TEST(a_snapshot_replaces_the_files_of_a_box)
{
	scene();
	CHECK_INT(run(STORER_SNAPSHOT, "a", "snap-1"), 0);
	int a = btrfs_rig_open(pool.boxes, "a");
	btrfs_rig_fill(a, "upper/later", 4096);
	close(a);
	CHECK(has("a", "later"));
	CHECK_INT(run(STORER_REPLACE, "a", "snap-1"), 0);
	CHECK(has("a", "f") && !has("a", "later"));
	CHECK(!is_empty(pool.trash)); /* the old layer */
	CHECK(is_empty(pool.making));
}

TEST(a_job_without_its_box_or_snapshot_fails_and_leaves_nothing)
{
	scene();
	CHECK_INT(run(STORER_FLUSH, "nobody", ""), ENOENT);
	CHECK_INT(run(STORER_SNAPSHOT, "nobody", "snap-1"), ENOENT);
	CHECK_INT(run(STORER_CLONE, "b", "snap-none"), ENOENT);
	CHECK_INT(run(STORER_REPLACE, "a", "snap-none"), ENOENT);
	CHECK_INT(run(STORER_RECOUNT, "nobody", ""), ENOENT);
	CHECK_INT(run(STORER_CARRY, "nobody", ""), ENOENT);
	CHECK_INT(run(STORER_DIFF, "a", "snap-none"), ENOENT);
	CHECK(has("a", "f") && !has("b", "f"));
	CHECK(is_empty(pool.making) && is_empty(pool.snapshots));
}

TEST(a_plain_layer_moves_into_the_pool)
{
	scene();
	int plain = make_dir(view.plain_boxes, "old"), upper = make_dir(plain, "upper");
	btrfs_rig_fill(upper, "g", 4096);
	CHECK_INT(run(STORER_CARRY, "old", ""), 0);
	CHECK(has("old", "g"));
	CHECK_INT(faccessat(view.plain_boxes, "old", F_OK, 0), -1);
	close(upper);
	close(plain);
}

TEST_MAIN()
