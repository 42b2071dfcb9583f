#include "proto/secret_in.h"

#include "test.h"

static bool reads(const char *text, enum secret_in_kind kind, const char *name)
{
	struct secret_in in = {0};
	return secret_in_parse(str_of(text), &in) && in.kind == kind && str_eq_c(in.name, name);
}

static bool refuses(const char *text)
{
	struct secret_in in = {.name = STR("as it was")};
	return !secret_in_parse(str_of(text), &in) && str_eq_c(in.name, "as it was");
}

TEST(places)
{
	CHECK(reads("header:X-Api-Key", SECRET_IN_HEADER, "X-Api-Key"));
	CHECK(reads("query:api key[]", SECRET_IN_QUERY, "api key[]"));
	CHECK(reads("path", SECRET_IN_PATH, ""));
	static const char *const bad[] = {"", "Path", "path:", "path:x", "header:", "header:a b", "header:a:b",
		"header:hOST", "header:Transfer-Encoding", "header:\xc3\xa9", "query:", "query:\n", "query:\x7f",
		"cookie:a", "X-Api-Key"};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		CHECK(refuses(bad[i]));
}

TEST(the_usual_ones_can_be_read)
{
	for (size_t i = 0; i < secret_in_usual_n; i++)
		CHECK(reads(secret_in_usual[i], SECRET_IN_HEADER, secret_in_usual[i] + 7));
}

TEST(the_longest_one)
{
	char text[SECRET_IN_TEXT_MAX + 2];
	memset(text, 'x', sizeof text);
	memcpy(text, "query:", 6);
	text[SECRET_IN_TEXT_MAX + 1] = 0;
	CHECK(refuses(text));
	text[SECRET_IN_TEXT_MAX] = 0;
	CHECK(reads(text, SECRET_IN_QUERY, text + 6));
}

TEST_MAIN()
