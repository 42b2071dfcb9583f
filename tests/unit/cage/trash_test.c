/*
 * Deleting what a hostile box left: deep, wide, with strange names and modes.
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cage/trash.h"
#include "test.h"

static char top[64];

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *f)
{
	(void)st, (void)type, (void)f;
	remove(path);
	return 0;
}

static void clean(void)
{
	nftw(top, remove_one, 64, FTW_DEPTH | FTW_PHYS);
}

/* A fresh directory with "trash" and "boxes" in it; returns the first, *ret_boxes the second. */
static int make_dirs(int *ret_boxes)
{
	char path[80];
	snprintf(top, sizeof top, "/tmp/atoll-test-XXXXXX");
	CHECK(mkdtemp(top));
	atexit(clean);
	snprintf(path, sizeof path, "%s/boxes", top);
	CHECK(mkdir(path, 0700) == 0);
	*ret_boxes = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	snprintf(path, sizeof path, "%s/trash", top);
	CHECK(mkdir(path, 0700) == 0);
	int trash = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(trash >= 0 && *ret_boxes >= 0);
	return trash;
}

/* A directory without directories has two links; the file systems that tests run on count them. */
static void check_empty(int dir)
{
	struct stat st;
	CHECK(fstat(dir, &st) == 0);
	CHECK_INT(st.st_nlink, 2);
}

TEST(a_tree_ten_thousand_levels_deep_goes)
{
	int boxes, trash = make_dirs(&boxes);
	int at = dup(boxes);
	char name[256];
	memset(name, 'n', 255);
	name[255] = 0;
	for (int i = 0; i < 10000; i++) {
		CHECK(mkdirat(at, i ? name : "box", 0700) == 0);
		int next = openat(at, i ? name : "box", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		CHECK(next >= 0);
		close(at);
		at = next;
	}
	close(at);
	struct rlimit few = {16, 16};
	setrlimit(RLIMIT_NOFILE, &few);
	CHECK_INT(trash_put(boxes, "box", trash), 0);
	CHECK_INT(trash_empty(trash), 0);
	check_empty(trash);
	check_empty(boxes);
}

TEST(names_modes_and_kinds_do_not_matter)
{
	if (geteuid() != 0)
		TEST_SKIP("needs root");
	int boxes, trash = make_dirs(&boxes);
	CHECK(mkdirat(boxes, "box", 0755) == 0);
	int box = openat(boxes, "box", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	static const char *const names[] = {"...", "-rf", " ", "\n", "\xff\xfe", "*", "a\\b"};
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		CHECK(mkdirat(box, names[i], 0) == 0);
		int in = openat(box, names[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		CHECK(in >= 0);
		CHECK(symlinkat("/", in, "root") == 0);
		CHECK(symlinkat("..", in, "up") == 0);
		CHECK(mknodat(in, "fifo", S_IFIFO, 0) == 0);
		CHECK(mknodat(in, "whiteout", S_IFCHR, 0) == 0);
		close(openat(in, "file", O_CREAT | O_WRONLY | O_CLOEXEC, 0));
		CHECK(mkdirat(in, "sub", 01000) == 0);
		close(in);
	}
	close(box);
	CHECK_INT(trash_put(boxes, "box", trash), 0);
	CHECK_INT(trash_put(boxes, "box", trash), -ENOENT);
	CHECK_INT(trash_empty(trash), 0);
	check_empty(trash);
	CHECK(access("/tmp", F_OK) == 0);
}

TEST(many_files_and_many_directories_go)
{
	int boxes, trash = make_dirs(&boxes);
	char name[32];
	CHECK(mkdirat(boxes, "box", 0755) == 0);
	int box = openat(boxes, "box", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (int i = 0; i < 3000; i++) {
		snprintf(name, sizeof name, "file-%d", i);
		close(openat(box, name, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
		snprintf(name, sizeof name, "dir-%d", i);
		CHECK(mkdirat(box, name, 0700) == 0);
		snprintf(name, sizeof name, "dir-%d/inner", i);
		CHECK(mkdirat(box, name, 0700) == 0);
	}
	close(box);
	CHECK_INT(trash_put(boxes, "box", trash), 0);
	CHECK_INT(trash_empty(trash), 0);
	check_empty(trash);
}

/* What cannot go is counted, the rest goes, and it ends. */
TEST(what_cannot_be_deleted_does_not_hold_up_the_rest)
{
	if (geteuid() != 0)
		TEST_SKIP("needs root");
	int boxes, trash = make_dirs(&boxes);
	CHECK(mkdirat(trash, "a", 0777) == 0 && mkdirat(trash, "b", 0700) == 0 && mkdirat(trash, "b/c", 0700) == 0);
	CHECK(mkdirat(trash, "b/c/d", 0700) == 0 && mkdirat(trash, "mine", 0777) == 0);
	/* As another user, in a directory that is not his. */
	CHECK(fchmod(trash, 01777) == 0 && fchownat(trash, "mine", 65534, 65534, 0) == 0);
	pid_t pid = fork();
	if (pid == 0)
		_exit(setresuid(65534, 65534, 65534) < 0 ? 255 : (int)trash_empty(trash));
	int status;
	CHECK_INT(waitpid(pid, &status, 0), pid);
	CHECK_INT(WEXITSTATUS(status), 2);
	CHECK(faccessat(trash, "mine", F_OK, 0) < 0);
	CHECK(faccessat(trash, "a", F_OK, 0) == 0);
	CHECK_INT(trash_empty(trash), 0);
	check_empty(trash);
}

TEST_MAIN()
