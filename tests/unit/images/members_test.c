#include "images/images.h"

#include <sys/mman.h>

#include "base/fd.h"
#include "test.h"

static int archive(const char *name, struct str content)
{
	static const char end[1024];
	struct err e;
	int fd = memfd_create("members", 0);
	CHECK(fd >= 0);
	CHECK_INT(tar_put_text(fd, name, content, &e), 0);
	CHECK_INT(fd_write_full(fd, end, sizeof end), 0);
	return fd;
}

TEST(members_are_found_where_they_lie)
{
	struct members m;
	struct err e;
	char text[6] = "";
	auto_fd int fd = archive("./blobs/x", STR("hello"));
	CHECK_INT(members_read(fd, &m, &e), 0);
	const struct member *found = members_find(&m, "blobs/x");
	CHECK(found && found->size == 5);
	CHECK_INT(pread(fd, text, 5, (off_t)found->offset), 5);
	CHECK(strcmp(text, "hello") == 0);
	members_free(&m);
}

TEST(times_do_not_count_for_the_digest)
{
	struct err e;
	char one[IMAGE_HEX + 1], two[IMAGE_HEX + 1], other[IMAGE_HEX + 1], renamed[IMAGE_HEX + 1];
	auto_fd int a = archive("a", STR("hello")), b = archive("a", STR("hello"));
	auto_fd int c = archive("a", STR("hellp")), d = archive("b", STR("hello"));
	/* Another time, and the sum of the header with it. */
	CHECK_INT(pwrite(b, "1", 1, 136 + 2), 1);
	CHECK_INT(pwrite(b, "7", 1, 136 + 4), 1);
	unsigned char h[512];
	unsigned sum = 0;
	CHECK_INT(pread(b, h, sizeof h, 0), 512);
	for (int i = 0; i < 512; i++)
		sum += i >= 148 && i < 156 ? ' ' : h[i];
	snprintf((char *)h + 148, 8, "%06o", sum);
	CHECK_INT(pwrite(b, h, sizeof h, 0), 512);
	CHECK_INT(members_digest(a, one, &e), 0);
	CHECK_INT(members_digest(b, two, &e), 0);
	CHECK_INT(members_digest(c, other, &e), 0);
	CHECK_INT(members_digest(d, renamed, &e), 0);
	CHECK(strcmp(one, two) == 0 && strcmp(one, other) != 0 && strcmp(one, renamed) != 0);
}

TEST(a_broken_archive_is_refused)
{
	struct members m;
	struct err e;
	auto_fd int fd = archive("a", STR("hello"));
	CHECK_INT(pwrite(fd, "b", 1, 0), 1);
	CHECK_INT(members_read(fd, &m, &e), -1);
	CHECK(strstr(e.msg, "wrong sum"));
	auto_fd int cut = archive("a", STR("hello"));
	CHECK_INT(ftruncate(cut, 512), 0);
	CHECK_INT(members_read(cut, &m, &e), -1);
	CHECK(strstr(e.msg, "cut off"));
}

TEST_MAIN()
