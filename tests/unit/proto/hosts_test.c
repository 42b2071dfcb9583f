#include "proto/hosts.h"
#include "test.h"

static bool gives(const char *text, const char *wanted)
{
	auto_buf struct buf out = {0};
	hosts_without_mark(str_of(text), &out);
	return str_eq_c(buf_str(&out), wanted);
}

TEST(only_marked_lines_are_left_out)
{
	CHECK(gives("", ""));
	CHECK(gives("127.0.0.1\tlocalhost\n127.0.1.1\ta" HOSTS_MARK "\n", "127.0.0.1\tlocalhost\n"));
	CHECK(gives("127.0.1.1\ta" HOSTS_MARK "\n10.0.0.1 b", "10.0.0.1 b\n"));
	CHECK(gives("127.0.1.1\ta # mine\n\n", "127.0.1.1\ta # mine\n\n"));
	CHECK(gives("127.0.1.1\ta" HOSTS_MARK, ""));
}

TEST_MAIN()
