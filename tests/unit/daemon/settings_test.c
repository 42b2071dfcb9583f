#include "daemon/core/settings.h"

#include "test.h"

TEST(a_merge_keeps_sets_and_takes_away)
{
	auto_free char *merged =
		settings_merge("{\"fuse\":false,\"volumes\":[{\"name\":\"a\"}],\"backup\":{\"keep\":3}}",
			"{\"volumes\":[],\"backup\":null,\"durable\":true}");
	CHECK_CSTR(merged, "{\"fuse\":false,\"volumes\":[],\"durable\":true}");
	CHECK(!settings_bool(merged, "fuse", true));
	CHECK(settings_bool(merged, "durable", false));
	CHECK(settings_bool(merged, "backup", true));
	CHECK(!settings_bool(merged, "volumes", false));
}

TEST(a_member_is_read)
{
	const struct json *j = NULL;
	auto_json struct json_doc *doc = settings_get("{\"backup\":{\"keep\":3}}", "backup", &j);
	uint64_t keep = 0;
	CHECK(doc && j);
	CHECK_INT(json_read_u64(j, "keep", 0, 9, &keep, NULL), 0);
	CHECK_INT(keep, 3);
	json_free(doc);
	doc = settings_get("{}", "backup", &j);
	CHECK(doc && !j);
}

TEST(names_that_are_no_settings_are_left_alone)
{
	char *changes = NULL;
	struct err e = {0};
	auto_json struct json_doc *doc = json_parse(STR("{\"env\":{},\"nonsense\":1}"), &e);
	CHECK(!settings_knows(STR("env")) && !settings_knows(STR("nonsense")));
	CHECK_INT(settings_changes(json_root(doc), &changes, &e), 0);
	CHECK(!changes);
}

TEST_MAIN()
