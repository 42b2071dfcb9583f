#include "cage/pool/loopdev.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <linux/loop.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "test.h"

static char path[] = "/tmp/atoll-loopdev-test-XXXXXX";

static void clean(void)
{
	unlink(path);
}

static int make_file(void)
{
	if (geteuid() != 0)
		TEST_SKIP("not root: cannot make loop devices");
	if (access("/dev/loop-control", R_OK | W_OK) < 0)
		TEST_SKIP("no /dev/loop-control");
	int fd = mkstemp(path);
	CHECK(fd >= 0);
	atexit(clean);
	CHECK_INT(ftruncate(fd, 4 << 20), 0);
	return fd;
}

static uint64_t size_of(int device)
{
	uint64_t n = 0;
	CHECK_INT(ioctl(device, BLKGETSIZE64, &n), 0);
	return n;
}

TEST(a_file_has_one_device_that_clears_itself)
{
	struct err e = {0};
	struct loopdev a, b;
	struct loop_info64 info = {0};
	int file = make_file();
	CHECK_INT(loopdev_open(file, &a, &e), 0);
	CHECK_INT(loopdev_open(file, &b, &e), 0);
	CHECK_CSTR(a.path, b.path);
	CHECK_INT(ioctl(a.fd, LOOP_GET_STATUS64, &info), 0);
	CHECK(info.lo_flags & LO_FLAGS_AUTOCLEAR);
	CHECK_INT(!!(info.lo_flags & LO_FLAGS_DIRECT_IO), a.direct);
	CHECK_INT(a.direct, b.direct);
	close(a.fd);
	close(b.fd);
}

TEST(a_file_that_has_grown_makes_its_device_grow)
{
	struct err e = {0};
	struct loopdev d;
	int file = make_file();
	CHECK_INT(loopdev_open(file, &d, &e), 0);
	CHECK_INT(size_of(d.fd), 4 << 20);
	CHECK_INT(ftruncate(file, 8 << 20), 0);
	CHECK_INT(loopdev_grown(d.fd), 0);
	CHECK_INT(size_of(d.fd), 8 << 20);
	close(d.fd);
}

TEST(what_is_no_file_has_no_device)
{
	struct err e = {0};
	struct loopdev d = {.fd = -7};
	close(make_file());
	int ends[2];
	CHECK_INT(pipe(ends), 0);
	CHECK_INT(loopdev_open(ends[0], &d, &e), -1);
	CHECK_INT(d.fd, -7);
	CHECK(loopdev_grown(ends[0]) < 0);
}

TEST_MAIN()
