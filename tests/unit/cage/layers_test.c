/*
 * The root file system of a box, in a mount namespace of the test's own.
 */
#include "cage/layers.h"

#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
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
#define ZEROS "0000000000000000000000000000000000000000000000000000000000000000"
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
	struct mount_attr private_mount = {.propagation = 1 << 18};
	int root = open("/", O_PATH | O_CLOEXEC);
	CHECK(sys_mount_setattr(root, AT_RECURSIVE, &private_mount) == 0);
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

/* The root of the test becomes `top`, with /proc and the warden's places for mounts. */
static void enter(int top)
{
	struct err e;
	static const char *const dirs[] = {"proc", "stand", "stand/lower", "stand/tools", "stand/layer",
		"stand/overlay", "images/meta", "images/layers"};
	for (size_t i = 0; i < ARRAY_LEN(dirs); i++)
		CHECK(mkdirat(top, dirs[i], 0755) == 0);
	int proc = fs_clone(AT_FDCWD, "/proc", AT_RECURSIVE, &e), at = openat(top, "proc", O_PATH | O_CLOEXEC);
	CHECK(proc >= 0 && sys_move_mount(proc, at) == 0);
	CHECK(fchdir(top) == 0 && chroot(".") == 0 && chdir("/images") == 0);
	close(proc);
	close(at);
}

/* An image of `n` layers: each has a file `who` that holds its number, the lowest also the file `low`. */
static struct image layered(int images, int n)
{
	static const char key[] = "sha256-0123456789abcdef0123456789abcdef0123456789abcdef01234567";
	char list[IMAGE_LAYERS_MAX * 65 + 1], path[128], number[16];
	struct image image;
	struct err e;
	for (int i = 0; i < n; i++) {
		snprintf(path, sizeof path, "layers/%064x", i);
		CHECK(mkdirat(images, path, 0755) == 0);
		snprintf(list + (ptrdiff_t)i * 65, 66, "%064x\n", i);
		if (i > 0 && i < n - 1)
			continue; /* the file system of the test has few inodes */
		snprintf(path, sizeof path, "layers/%064x/%s", i, "who");
		snprintf(number, sizeof number, "%d", i);
		CHECK(fd_replace_file(images, path, str_of(number), 0644) == 0);
	}
	list[n * 65 - 1] = 0; /* no empty last line */
	CHECK(fd_replace_file(images, "layers/" ZEROS "/low", STR(""), 0644) == 0);
	snprintf(path, sizeof path, "meta/%s.layers", key);
	CHECK(fd_replace_file(images, path, str_of(list), 0644) == 0);
	CHECK(image_find(images, key, &image, &e) == 0);
	return image;
}

static void check_layered(int layers, bool by_number)
{
	int images, boxes, top = scratch("1m", &images, &boxes);
	struct err e;
	struct stat st;
	const int ns = userns(); /* a process with another root may not make one */
	enter(top);
	const struct image image = layered(images, layers);
	CHECK(layer_make(boxes, "a", &e) == 0);
	prctl(PR_SET_SECUREBITS, 4 /* NO_SETUID_FIXUP */);
	const struct layer_mount_args args = {.images = images,
		.image = &image,
		.dir = boxes,
		.name = "a",
		.userns = ns,
		.root = ROOT,
		.by_number = by_number};
	int mount = layer_mount(&args, spent, &e);
	if (mount < 0)
		test_fail(__FILE__, __LINE__, "%s", e.msg);
	auto_buf struct buf who = {0};
	char highest[16], here[64] = "";
	snprintf(highest, sizeof highest, "%d", layers - 1);
	CHECK(fd_read_file(mount, "who", 16, &who) == 0);
	CHECK(str_eq_c(buf_str(&who), highest));
	CHECK(fstatat(mount, "low", &st, 0) == 0);
	CHECK_INT(st.st_uid, ROOT);
	/* The working directory is as before, and none of the places is in use. */
	CHECK(getcwd(here, sizeof here) && strcmp(here, "/images") == 0);
	for (int i = 0; i < 4; i++) {
		static const char *const places[] = {"/stand/lower", "/stand/tools", "/stand/layer", "/stand/overlay"};
		CHECK(sys_umount(places[i], 0) < 0);
		CHECK_INT(errno, EINVAL);
	}
}

TEST(an_image_of_two_layers_mounts_by_descriptors)
{
	check_layered(2, false);
}

TEST(an_image_of_two_layers_mounts_by_numbers)
{
	check_layered(2, true);
}

TEST(the_most_layers_mount_by_numbers)
{
	check_layered(IMAGE_LAYERS_MAX, true);
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
