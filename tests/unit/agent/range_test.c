#include "agent/file/range.h"
#include "test.h"

static void check_part(const char *header, uint64_t size, uint64_t from, uint64_t n)
{
	struct range r = {0};
	CHECK_INT(range_read(str_of(header), size, &r), RANGE_PART);
	CHECK_INT(r.from, from);
	CHECK_INT(r.n, n);
}

TEST(a_part_lies_in_the_file)
{
	check_part("bytes=0-3", 10, 0, 4);
	check_part("bytes=5-", 10, 5, 5);
	check_part("bytes=-4", 10, 6, 4);
	check_part("bytes=-40", 10, 0, 10);
	check_part("bytes=9-100", 10, 9, 1);
	check_part("bytes=0-18446744073709551615", 10, 0, 10);
}

TEST(what_begins_behind_the_end_is_none)
{
	static const char *const none[] = {"bytes=10-", "bytes=10-20", "bytes=-0"};
	struct range r;
	for (size_t i = 0; i < ARRAY_LEN(none); i++)
		CHECK_INT(range_read(str_of(none[i]), 10, &r), RANGE_NONE);
	CHECK_INT(range_read(STR("bytes=-5"), 0, &r), RANGE_NONE);
	CHECK_INT(range_read(STR("bytes=0-"), 0, &r), RANGE_NONE);
}

TEST(everything_else_is_the_whole_file)
{
	static const char *const whole[] = {"", "bytes", "bytes=", "bytes=-", "bytes=3-1", "bytes=a-b", "bytes=0-1,3-4",
		"items=0-1", "bytes=1", "bytes=18446744073709551616-", "bytes= -"};
	struct range r;
	for (size_t i = 0; i < ARRAY_LEN(whole); i++)
		CHECK_INT(range_read(str_of(whole[i]), 10, &r), RANGE_WHOLE);
}

TEST_MAIN()
