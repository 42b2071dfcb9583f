#include "cli/image/image.h"

#include "test.h"

static bool ignored(const char *patterns, const char *path)
{
	struct ignore i = {0};
	ignore_parse(str_of(patterns), &i);
	bool r = ignore_has(&i, path);
	ignore_free(&i);
	return r;
}

TEST(patterns_of_a_dockerignore)
{
	CHECK(ignored("*.o\n", "a.o"));
	CHECK(!ignored("*.o\n", "b/a.o"));
	CHECK(ignored("**/*.o\n", "b/c/a.o"));
	CHECK(ignored("**/*.o\n", "a.o"));
	CHECK(ignored("dir\n", "dir/deep/file"));
	CHECK(ignored("/dir/\r\n", "dir"));
	CHECK(ignored("a?c\n[x-z]1\n", "abc"));
	CHECK(ignored("a?c\n[x-z]1\n", "y1"));
	CHECK(!ignored("[^x]1\n", "x1"));
	CHECK(!ignored("# a\n", "# a"));
	CHECK(!ignored("*\n!keep.txt\n", "keep.txt"));
	CHECK(ignored("*\n!keep.txt\n", "other"));
	CHECK(ignored("a\\*b\n", "a*b"));
	CHECK(!ignored("a\\*b\n", "axb"));
}

TEST(a_pattern_of_stars_ends)
{
	CHECK(!ignored("**a**a**a**a**a**a**a**a**b\n", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"));
}

TEST_MAIN()
