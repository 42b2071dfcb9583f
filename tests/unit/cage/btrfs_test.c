#include "cage/pool/btrfs.h"
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* A small btrfs on a loop device, mounted in a directory of its own; both go with the test. */
static char dir[] = "/tmp/atoll-btrfs-test-XXXXXX";
static char file[64], mnt[64];
static int fs = -1;

static void run(const char *const *argv, const char *what)
{
	int status = -1;
	pid_t pid = fork();
	if (pid == 0) {
		execvp(argv[0], (char *const *)argv);
		_exit(127);
	}
	waitpid(pid, &status, 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
		TEST_SKIP(what);
	CHECK_INT(status, 0);
}

static void clean(void)
{
	close(fs);
	umount2(mnt, MNT_DETACH);
	unlink(file);
	rmdir(mnt);
	rmdir(dir);
}

static void make_fs(void)
{
	if (geteuid() != 0)
		TEST_SKIP("not root: cannot mount btrfs");
	CHECK(mkdtemp(dir));
	snprintf(file, sizeof file, "%s/img", dir);
	snprintf(mnt, sizeof mnt, "%s/mnt", dir);
	CHECK_INT(mkdir(mnt, 0700), 0);
	atexit(clean);
	int fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	CHECK_INT(ftruncate(fd, 512 << 20), 0);
	close(fd);
	run((const char *const[]){"mkfs.btrfs", "-q", "-m", "single", file, NULL}, "no mkfs.btrfs (btrfs-progs)");
	run((const char *const[]){"mount", "-o", "loop", file, mnt, NULL}, "no mount(8)");
	fs = open(mnt, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(btrfs_is(fs));
}

static int open_in(const char *name)
{
	int fd = openat(fs, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(fd >= 0);
	return fd;
}

/* How many bytes could be written into dir/name, synced so that the kernel has counted them. */
static size_t fill(int in, const char *name, size_t want)
{
	static char block[1 << 16];
	memset(block, 'x', sizeof block);
	int fd = openat(in, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	size_t done = 0;
	CHECK(fd >= 0);
	while (done < want) {
		ssize_t n = write(fd, block, sizeof block);
		if (n < 0) {
			CHECK(errno == EDQUOT || errno == ENOSPC);
			break;
		}
		done += (size_t)n;
	}
	fsync(fd);
	close(fd);
	return done;
}

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

TEST_MAIN()
