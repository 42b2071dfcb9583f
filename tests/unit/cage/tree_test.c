#include "cage/tree.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "test.h"

enum { MB = 1 << 20, FILE_SIZE = 64 * MB, SECOND = 40 * MB };

static char top[64];

static void clean(void)
{
	static const char *const names[] = {"from/sparse", "to/sparse", "from", "to", ""};
	char path[96];
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		snprintf(path, sizeof path, "%s/%s", top, names[i]);
		remove(path);
	}
}

static bool has_bytes(int fd, off_t at, const char *text)
{
	char got[8] = {0};
	return pread(fd, got, strlen(text), at) == (ssize_t)strlen(text) && strcmp(got, text) == 0;
}

TEST(holes_stay_holes)
{
	struct stat st;
	snprintf(top, sizeof top, "/tmp/atoll-test-XXXXXX");
	CHECK(mkdtemp(top));
	atexit(clean);
	auto_fd int dir = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(mkdirat(dir, "from", 0700) == 0);
	auto_fd int from = openat(dir, "from", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_fd int file = openat(from, "sparse", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	CHECK(ftruncate(file, FILE_SIZE) == 0 && pwrite(file, "one", 3, 0) == 3 && pwrite(file, "two", 3, SECOND) == 3);
	CHECK_INT(tree_copy(from, dir, "to"), 0);
	auto_fd int copy = openat(dir, "to/sparse", O_RDONLY | O_CLOEXEC);
	CHECK(fstat(copy, &st) == 0);
	CHECK_INT(st.st_size, FILE_SIZE);
	CHECK(has_bytes(copy, 0, "one") && has_bytes(copy, SECOND, "two"));
	CHECK(st.st_blocks * 512 < MB);
}

TEST_MAIN()
