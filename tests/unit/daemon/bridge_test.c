#include "doors/bridge/bridge.h"

#include "test.h"

TEST(ids_are_base32_letters)
{
	char longest[BRIDGE_ID_MAX + 2];
	memset(longest, 'a', sizeof longest);
	CHECK(bridge_id_ok(STR("a")) && bridge_id_ok(STR("abc234567z")));
	CHECK(bridge_id_ok(str_n(longest, BRIDGE_ID_MAX)) && !bridge_id_ok(str_n(longest, BRIDGE_ID_MAX + 1)));
	static const char *const bad[] = {"", "A", "a1", "a8", "a-b", "a.b", "a/b", "\xc3\xa4"};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		CHECK(!bridge_id_ok(str_of(bad[i])));
	CHECK(!bridge_id_ok(str_n("a\0b", 3)));
}

TEST(an_id_that_is_no_sandbox_id_gets_another_name)
{
	char box[BOX_ID_MAX + 1], other[BOX_ID_MAX + 1], longest[BRIDGE_ID_MAX];
	memset(longest, 'a', sizeof longest);
	bridge_box_id(STR("abc"), box);
	CHECK_CSTR(box, "abc");
	bridge_box_id(str_n(longest, sizeof longest), box);
	bridge_box_id(str_n(longest, sizeof longest - 1), other);
	CHECK(str_starts(str_of(box), STR("bridge-")) && strlen(box) <= BOX_ID_MAX && strcmp(box, other) != 0);
	bridge_box_id(STR("admin"), box);
	CHECK(str_starts(str_of(box), STR("bridge-")));
}

TEST(sessions)
{
	char longest[BRIDGE_ID_MAX + 1];
	memset(longest, 'a', sizeof longest);
	CHECK(bridge_session_ok(STR("A.b_c-9")) && bridge_session_ok(str_n(longest, BRIDGE_ID_MAX)));
	CHECK(!bridge_session_ok(STR("")) && !bridge_session_ok(STR("a..b")) && !bridge_session_ok(STR("a/b")));
	CHECK(!bridge_session_ok(str_n(longest, sizeof longest)) && !bridge_session_ok(STR("a b")));
}

static void path(const char *given, const char *want)
{
	auto_free char *got = bridge_workspace_path(str_of(given));
	if (!want)
		CHECK(!got);
	else
		CHECK_CSTR(got ? got : "(refused)", want);
}

TEST(paths_stay_in_the_workspace)
{
	path("/workspace", "/workspace");
	path("/workspace/a//./b/", "/workspace/a/b");
	path("a/b", "/workspace/a/b");
	path("", "/workspace");
	path("/workspace/../workspace/a", "/workspace/a");
	path("/../../workspace/a", "/workspace/a");
	path("/", NULL);
	path("/workspacex", NULL);
	path("/workspace/..", NULL);
	path("../etc", NULL);
	path("/workspace/a/../../etc", NULL);
	char longest[BRIDGE_PATH_MAX + 2];
	memset(longest, 'a', sizeof longest);
	memcpy(longest, "/workspace/", 11);
	longest[BRIDGE_PATH_MAX - 1] = 0;
	path(longest, longest);
	longest[BRIDGE_PATH_MAX - 1] = 'a';
	longest[BRIDGE_PATH_MAX] = 0;
	path(longest, NULL);
}

TEST(words_are_quoted)
{
	static const char *const v[][2] = {{"a/b-c", "a/b-c"}, {"", "''"}, {"it's", "'it'\\''s'"}, {"a b", "'a b'"},
		{"A=1", "'A=1'"}, {"$x\n", "'$x\n'"}, {"-n", "-n"}};
	for (size_t i = 0; i < ARRAY_LEN(v); i++) {
		auto_buf struct buf out = {0};
		bridge_quote(&out, str_of(v[i][0]));
		CHECK_CSTR(buf_cstr(&out), v[i][1]);
	}
}
TEST_MAIN()
