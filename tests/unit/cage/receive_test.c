#include "cage/pool/receive.h"
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* A stream that is written by hand, applied to a directory of its own. */
static char dir[] = "/tmp/atoll-receive-test-XXXXXX";
static char bytes[1 << 16];
static size_t n, head;

static void put(const void *p, size_t size)
{
	memcpy(bytes + n, p, size);
	n += size;
}

static void put16(unsigned v)
{
	unsigned char b[2] = {(unsigned char)v, (unsigned char)(v >> 8)};
	put(b, 2);
}

static void begin(void)
{
	put("btrfs-stream\0\1\0\0\0", 17);
}

static void command(unsigned number)
{
	head = n;
	put("\0\0\0\0", 4);
	put16(number);
	put("\0\0\0\0", 4);
}

static void attribute(unsigned type, const void *p, size_t size)
{
	put16(type);
	put16((unsigned)size);
	put(p, size);
	unsigned length = (unsigned)(n - head - 10);
	memcpy(bytes + head, &length, 4);
}

static void text(unsigned type, const char *t)
{
	attribute(type, t, strlen(t));
}

static void number(unsigned type, uint64_t v)
{
	attribute(type, &v, sizeof v);
}

static void end(void)
{
	command(21);
	put(RECEIVE_END, 17);
}

static void clean(void)
{
	char rm[80];
	snprintf(rm, sizeof rm, "rm -rf %s", dir);
	CHECK_INT(system(rm), 0);
}

static int apply(void)
{
	int ends[2];
	CHECK(mkdtemp(dir));
	atexit(clean);
	int root = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	int room = (int)sizeof bytes * 2;
	setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
	CHECK_INT(write(ends[0], bytes, n), n);
	close(ends[0]);
	int r = receive_streams(ends[1], root);
	close(root);
	return r;
}

static bool there(const char *name)
{
	char path[200];
	struct stat st;
	snprintf(path, sizeof path, "%s/%s", dir, name);
	return lstat(path, &st) == 0;
}

TEST(a_stream_makes_files_and_directories)
{
	begin();
	command(4);
	text(15, "d");
	command(3);
	text(15, "d/f");
	command(15);
	text(15, "d/f");
	number(18, 2);
	text(19, "hello");
	command(18);
	text(15, "d/f");
	number(5, 0640);
	end();
	CHECK_INT(apply(), 0);
	char path[200], got[16];
	struct stat st;
	snprintf(path, sizeof path, "%s/d/f", dir);
	CHECK_INT(stat(path, &st), 0);
	CHECK_INT(st.st_mode & 07777, 0640);
	int fd = open(path, O_RDONLY);
	CHECK_INT(read(fd, got, sizeof got), 7);
	CHECK(memcmp(got, "\0\0hello", 7) == 0);
}

/* A file of 16 KiB, then a hole. */
static int apply_hole(uint64_t at, uint64_t size)
{
	static char data[16384];
	memset(data, 'x', sizeof data);
	begin();
	command(3);
	text(15, "f");
	command(15);
	text(15, "f");
	number(18, 0);
	attribute(19, data, sizeof data);
	command(23);
	text(15, "f");
	number(18, at);
	number(4, size);
	end();
	return apply();
}

static void check_hole(off_t length, off_t hole)
{
	char path[200];
	snprintf(path, sizeof path, "%s/f", dir);
	int fd = open(path, O_RDONLY);
	CHECK_INT(lseek(fd, 0, SEEK_END), length);
	CHECK_INT(lseek(fd, 0, SEEK_HOLE), hole);
	close(fd);
}

TEST(a_hole_in_a_file_takes_its_blocks)
{
	CHECK_INT(apply_hole(4096, 8192), 0);
	check_hole(16384, 4096);
}

TEST(a_hole_past_the_end_makes_the_file_longer)
{
	CHECK_INT(apply_hole(8192, 1 << 30), 0);
	check_hole(8192 + (1 << 30), 8192);
}

TEST(an_empty_hole_is_refused)
{
	CHECK_INT(apply_hole(0, 0), -EBADMSG);
}

TEST(a_hole_past_the_longest_file_is_refused)
{
	CHECK_INT(apply_hole(INT64_MAX, 2), -EBADMSG);
}

TEST(a_hole_at_a_negative_place_is_refused)
{
	CHECK_INT(apply_hole(UINT64_MAX, 2), -EBADMSG);
}

TEST(a_stream_without_the_marker_is_not_complete)
{
	begin();
	command(21);
	CHECK_INT(apply(), -EBADMSG);
}

TEST(a_cut_command_is_refused)
{
	begin();
	command(4);
	text(15, "d");
	n--;
	CHECK_INT(apply(), -EBADMSG);
	CHECK(!there("d"));
}

TEST(an_unknown_command_is_refused)
{
	begin();
	command(22);
	end();
	CHECK_INT(apply(), -EBADMSG);
}

TEST(another_version_is_refused)
{
	put("btrfs-stream\0\2\0\0\0", 17);
	end();
	CHECK_INT(apply(), -EBADMSG);
}

TEST(a_command_that_is_too_long_is_refused)
{
	begin();
	put("\1\0\2\0\4\0\0\0\0\0", 10); /* 128 KiB and one byte */
	end();
	CHECK_INT(apply(), -EBADMSG);
}

TEST(an_attribute_past_its_command_is_refused)
{
	begin();
	command(4);
	text(15, "d");
	bytes[n - 3] = 9; /* of two bytes */
	end();
	CHECK_INT(apply(), -EBADMSG);
}

TEST(paths_do_not_leave_the_tree)
{
	begin();
	command(4);
	text(15, "../atoll-receive-outside");
	end();
	CHECK_INT(apply(), -EXDEV);
	CHECK(access("/tmp/atoll-receive-outside", F_OK) < 0);
}

TEST(paths_do_not_follow_links)
{
	begin();
	command(8);
	text(15, "link");
	text(17, "/tmp");
	command(4);
	text(15, "link/atoll-receive-outside");
	end();
	CHECK_INT(apply(), -ENOTDIR);
	CHECK(access("/tmp/atoll-receive-outside", F_OK) < 0);
}

TEST(writes_do_not_follow_links)
{
	begin();
	command(8);
	text(15, "link");
	text(17, "/etc/hostname");
	command(17);
	text(15, "link");
	number(4, 0);
	end();
	CHECK_INT(apply(), -ELOOP);
}

TEST(devices_but_whiteouts_are_refused)
{
	begin();
	command(5);
	text(15, "null");
	number(5, S_IFCHR | 0666);
	number(8, 0x103);
	end();
	CHECK_INT(apply(), -EPERM);
	CHECK(!there("null"));
}

TEST(a_name_with_a_nul_is_refused)
{
	begin();
	command(4);
	attribute(15, "a\0b", 3);
	end();
	CHECK_INT(apply(), -EBADMSG);
}

TEST_MAIN()
