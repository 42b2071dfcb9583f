/*
 * The root file system of a box, in a mount namespace of the test's own.
 */
#include "cage/layers.h"

#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "cage/dev.h"
#include "cage/fs.h"
#include "cage/init.h"
#include "proto/limits.h"
#include "test.h"

enum { ROOT = 0x70000000 };
static int spent[LAYER_SPENT];

static int userns(void)
{
	int ready[2];
	CHECK(pipe(ready) == 0);
	pid_t pid = fork();
	if (pid == 0) {
		if (unshare(CLONE_NEWUSER) < 0 || write(ready[1], "x", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	char byte, path[64];
	CHECK(read(ready[0], &byte, 1) == 1);
	static const char *const files[] = {"uid_map", "gid_map"};
	for (size_t i = 0; i < 2; i++) {
		snprintf(path, sizeof path, "/proc/%d/%s", pid, files[i]);
		CHECK(fd_write_file(AT_FDCWD, path, STR("0 1879048192 65536")) == 0);
	}
	snprintf(path, sizeof path, "/proc/%d/ns/user", pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	CHECK(fd >= 0);
	return fd;
}

/* A tmpfs with images/ and boxes/, seen by this test only. */
static int scratch(const char *size, int *ret_images, int *ret_boxes)
{
	struct err e;
	if (geteuid() != 0)
		TEST_SKIP("needs root");
	CHECK(unshare(CLONE_NEWNS) == 0);
	struct mount_attr private = {.propagation = 1 << 18};
	int root = open("/", O_PATH | O_CLOEXEC);
	CHECK(sys_mount_setattr(root, AT_RECURSIVE, &private) == 0);
	close(root);
	const struct fs_option options[] = {{"size", size}, {"nr_inodes", "200"}};
	int top = fs_make("tmpfs", options, ARRAY_LEN(options), 0, "scratch", &e);
	CHECK(top >= 0);
	int at = open("/mnt", O_PATH | O_DIRECTORY | O_CLOEXEC);
	CHECK(sys_move_mount(top, at) == 0);
	close(at);
	static const char *const dirs[] = {
		"images", "boxes", "trash", "images/real", "images/real/rootfs", "images/real/rootfs/etc"};
	for (size_t i = 0; i < ARRAY_LEN(dirs); i++)
		CHECK(mkdirat(top, dirs[i], 0755) == 0);
	close(openat(top, "images/real/image.json", O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
	close(openat(top, "images/real/rootfs/etc/passwd", O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
	*ret_images = openat(top, "images", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	*ret_boxes = openat(top, "boxes", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return top;
}

TEST(owners_on_disk_start_at_zero)
{
	int images, boxes, top = scratch("1m", &images, &boxes);
	struct image image;
	struct err e;
	struct stat st;
	CHECK(symlinkat("real", images, "default") == 0);
	CHECK(image_find(images, "default", &image, &e) == 0);
	CHECK_CSTR(image.key, "real");
	CHECK(layer_make(boxes, "a", &e) == 0);
	CHECK(layer_make(boxes, "a", &e) < 0);
	CHECK_INT(e.os, EEXIST);
	prctl(PR_SET_SECUREBITS, 4 /* NO_SETUID_FIXUP */);
	int ns = userns();
	int mount = layer_mount(&(struct layer_mount_args){images, &image, boxes, "a", ns, ROOT}, spent, &e);
	if (mount < 0)
		test_fail(__FILE__, __LINE__, "%s", e.msg);
	CHECK(fstatat(mount, "etc/passwd", &st, 0) == 0);
	CHECK_INT(st.st_uid, ROOT);
	setfsgid(ROOT);
	setfsuid(ROOT);
	int fd = openat(mount, "etc/new", O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
	CHECK(fd >= 0 && unlinkat(mount, "etc/passwd", 0) == 0);
	close(fd);
	setfsuid(0);
	setfsgid(0);
	CHECK(fstatat(boxes, "a/upper/etc/new", &st, 0) == 0);
	CHECK_INT(st.st_uid, 0);
	CHECK(fstatat(images, "real/rootfs/etc/passwd", &st, 0) == 0);
	close(mount);
	/* Again, on the same files: what a `volatile` overlay leaves behind must not hinder. */
	int trash = openat(top, "trash", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(layer_reuse(boxes, "a", trash, &e) == 0);
	mount = layer_mount(&(struct layer_mount_args){images, &image, boxes, "a", ns, ROOT}, spent, &e);
	CHECK(mount >= 0);
	CHECK(fstatat(mount, "etc/new", &st, 0) == 0);
	CHECK(fstatat(mount, "etc/passwd", &st, 0) < 0);
}

TEST(a_full_disk_is_an_error_not_a_read_only_box)
{
	int images, boxes;
	struct image image;
	struct err e = {0};
	scratch("64k", &images, &boxes);
	CHECK(image_find(images, "real", &image, &e) == 0);
	prctl(PR_SET_SECUREBITS, 4);
	int ns = userns();
	char name[32];
	int i = 0;
	for (; i < 200; i++) {
		snprintf(name, sizeof name, "box-%d", i);
		if (layer_make(boxes, name, &e) < 0)
			break;
		int mount = layer_mount(&(struct layer_mount_args){images, &image, boxes, name, ns, ROOT}, spent, &e);
		if (mount < 0)
			break;
		close(mount);
	}
	CHECK(i > 0 && i < 200);
	CHECK_INT(e.os, ENOSPC);
	CHECK(strstr(e.msg, "No space left on device"));
}

TEST(images_that_are_not_there_are_named)
{
	int images, boxes;
	struct image image;
	struct err e;
	scratch("64k", &images, &boxes);
	CHECK(symlinkat("../boxes", images, "out") == 0 && mkdirat(images, "empty", 0755) == 0);
	static const char *const bad[] = {"missing", "out", "empty", "..", ""};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		CHECK(image_find(images, bad[i], &image, &e) < 0);
		CHECK_INT(e.code, ERRC_IMAGE_NOT_FOUND);
	}
}

TEST(dev_has_its_nodes_and_shm_alone_can_be_written)
{
	int images, boxes, dev, shm;
	struct err e;
	struct stat st;
	scratch("64k", &images, &boxes);
	prctl(PR_SET_SECUREBITS, 4);
	CHECK(dev_make(ROOT, &dev, &shm, &e) == 0);
	CHECK(fstatat(dev, "null", &st, 0) == 0 && S_ISCHR(st.st_mode) && (st.st_mode & 07777) == 0666);
	CHECK_INT(st.st_uid, ROOT);
	CHECK(openat(dev, "file", O_CREAT | O_WRONLY | O_CLOEXEC, 0600) < 0);
	CHECK_INT(errno, EROFS);
	int fd = openat(shm, "file", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	CHECK(fd >= 0);
	CHECK(fstatat(shm, ".", &st, 0) == 0 && (st.st_mode & 07777) == 01777);
	int null = openat(dev, "null", O_WRONLY | O_CLOEXEC);
	CHECK(null >= 0 && write(null, "x", 1) == 1);
}

TEST(host_names_are_safe_for_dns)
{
	char name[BOX_ID_MAX + 1];
	static const char *const pairs[][2] = {{"user-123", "user-123"}, {"me@example.org", "me-example-org"},
		{"a_b", "a-b"}, {"..", "sandbox"}, {".x.", "x"}, {"%", "sandbox"}, {"A1", "A1"}};
	for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
		init_hostname(pairs[i][0], name);
		CHECK_CSTR(name, pairs[i][1]);
	}
}

TEST_MAIN()
