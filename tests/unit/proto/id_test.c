#include "proto/id.h"
#include "proto/limits.h"
#include "test.h"

static enum errc check(const char *id)
{
	struct err e = {0};
	return box_id_check(str_of(id), &e) < 0 ? e.code : ERRC_OK;
}

TEST(ids_follow_upstreams_rules)
{
	char longest[65] = {0};
	memset(longest, 'a', 63);
	CHECK_INT(check(longest), ERRC_OK);
	memset(longest, 'a', 64);
	CHECK_INT(check(longest), ERRC_INVALID_SANDBOX_ID_LENGTH);
	CHECK_INT(check(""), ERRC_INVALID_SANDBOX_ID_LENGTH);
	CHECK_INT(check("-a"), ERRC_INVALID_SANDBOX_ID_HYPHENS);
	CHECK_INT(check("a-"), ERRC_INVALID_SANDBOX_ID_HYPHENS);
	CHECK_INT(check("Admin"), ERRC_RESERVED_SANDBOX_ID);
	CHECK_INT(check("User-123"), ERRC_OK);
	CHECK_INT(check("me@example.org"), ERRC_OK);
	CHECK_INT(check(".a"), ERRC_OK);
	CHECK_INT(check("..a"), ERRC_OK);
	CHECK_INT(check("a/b"), ERRC_INVALID_SANDBOX_ID_CHARACTERS);
	CHECK_INT(check("a b"), ERRC_INVALID_SANDBOX_ID_CHARACTERS);
	CHECK_INT(check("a\nb"), ERRC_INVALID_SANDBOX_ID_CHARACTERS);
}

TEST(ids_of_dots_alone_are_refused)
{
	char dots[BOX_ID_MAX + 1] = {0};
	for (size_t n = 1; n <= BOX_ID_MAX; n++) {
		dots[n - 1] = '.';
		CHECK_INT(check(dots), ERRC_INVALID_SANDBOX_ID_CHARACTERS);
	}
	dots[BOX_ID_MAX - 1] = 'a';
	CHECK_INT(check(dots), ERRC_OK);
}

TEST(file_names_are_one_to_one_with_ids)
{
	char name[BOX_FILENAME_MAX], id[BOX_ID_MAX + 1];
	static const char *const ids[] = {"a", "..a", "a.", "me@example.org", "%41", "a%", "x_Y-z"};
	for (size_t i = 0; i < ARRAY_LEN(ids); i++) {
		box_id_filename(str_of(ids[i]), name);
		CHECK(name[0] != '.' && !strchr(name, '/'));
		CHECK(box_id_from_filename(str_of(name), id));
		CHECK_CSTR(id, ids[i]);
	}
	CHECK(!box_id_from_filename(STR("%4"), id));
	CHECK(!box_id_from_filename(STR("%61"), id));
	CHECK(!box_id_from_filename(STR("."), id));
	CHECK(!box_id_from_filename(STR("%2E%2E"), id));
}

TEST(image_names_are_plain)
{
	CHECK(box_image_name_ok(STR("default")));
	CHECK(box_image_name_ok(STR("0a1b.2")));
	CHECK(!box_image_name_ok(STR("..")));
	CHECK(!box_image_name_ok(STR("a/b")));
	CHECK(!box_image_name_ok(STR("")));
}

TEST_MAIN()
