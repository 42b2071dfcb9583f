#include "daemon/admit/tokens.h"

#include "test.h"

static struct tokens *of_file(void)
{
	const struct token file = {.text = "0123456789abcdef", .n = 16};
	return tokens_new(&file);
}

static bool admits(struct tokens *t, struct str authorization)
{
	struct str given = tokens_bearer(authorization);
	bool has = tokens_has(t, given);
	const char *name = tokens_use(t, given);
	CHECK_INT(has, name != NULL);
	CHECK(!name || !*name);
	return has;
}

TEST(only_the_whole_token_of_the_file_matches)
{
	struct tokens *t = of_file();
	CHECK(admits(t, STR("Bearer 0123456789abcdef")));
	CHECK(admits(t, STR("bearer   0123456789abcdef")));
	static const char *const bad[] = {"", "Bearer", "Bearer ", "Bearer 0123456789abcde", "Bearer 0123456789abcdef0",
		"Bearer 0123456789abcdeF", "Basic 0123456789abcdef", "0123456789abcdef", "Bearer0123456789abcdef",
		"Bearer 0123456789abcdef 0123456789abcdef", "Bearer 0123456789abcdef0123456789abcdef",
		"Bearer atoll_0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		CHECK(!admits(t, str_of(bad[i])));
	CHECK(!admits(t, STR_NULL));
	free(t);
}

TEST(a_wish_is_read)
{
	struct token_wish w;
	struct err e;
	static const struct {
		const char *body;
		uint64_t ttl;
	} good[] = {{"{\"name\":\"ci\"}", 0}, {"{\"name\":\"ci\",\"ttl\":null}", 0},
		{"{\"name\":\"ci\",\"ttl\":1}", 1000}, {"{\"name\":\"ci\",\"ttl\":\"90s\"}", 90000},
		{"{\"name\":\"ci\",\"ttl\":\"5m\"}", 300000}, {"{\"name\":\"ci\",\"ttl\":\"12h\"}", 43200000},
		{"{\"ttl\":\"30d\",\"name\":\"ci\"}", 2592000000},
		{"{\"name\":\"ci\",\"ttl\":\"3650d\"}", TOKEN_TTL_MAX}};
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		CHECK_INT(token_wish_read(str_of(good[i].body), &w, &e), 0);
		CHECK_CSTR(w.name, "ci");
		CHECK_INT(w.ttl_ms, good[i].ttl);
	}
}

TEST(a_wish_that_is_none_names_its_field)
{
	static const struct {
		const char *body, *field;
	} bad[] = {{"", ""}, {"[]", ""}, {"{\"name\":\"a\",\"rights\":1}", ""}, {"{}", "name"},
		{"{\"name\":1}", "name"}, {"{\"name\":\"\"}", "name"}, {"{\"name\":\"<b>\"}", "name"},
		{"{\"name\":\"a b\"}", "name"}, {"{\"name\":\"-a\"}", "name"}, {"{\"name\":\"a/b\"}", "name"},
		{"{\"name\":\"a\\u0000b\"}", "name"}, {"{\"name\":\"\xc3\xa9\"}", "name"},
		{"{\"name\":\"a\",\"ttl\":0}", "ttl"}, {"{\"name\":\"a\",\"ttl\":-1}", "ttl"},
		{"{\"name\":\"a\",\"ttl\":1.5}", "ttl"}, {"{\"name\":\"a\",\"ttl\":\"\"}", "ttl"},
		{"{\"name\":\"a\",\"ttl\":\"9\"}", "ttl"}, {"{\"name\":\"a\",\"ttl\":\"d\"}", "ttl"},
		{"{\"name\":\"a\",\"ttl\":\"0d\"}", "ttl"}, {"{\"name\":\"a\",\"ttl\":\"3651d\"}", "ttl"},
		{"{\"name\":\"a\",\"ttl\":\"99999999999999999999d\"}", "ttl"}, {"{\"name\":\"a\",\"ttl\":true}", "ttl"},
		{"{\"name\":\"a\",\"ttl\":{}}", "ttl"}};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct token_wish w;
		struct err e = {0};
		CHECK_INT(token_wish_read(str_of(bad[i].body), &w, &e), -1);
		CHECK_CSTR(e.field, bad[i].field);
	}
}

TEST(a_name_has_a_limit)
{
	char name[TOKEN_NAME_MAX + 2];
	memset(name, 'n', sizeof name);
	CHECK(token_name_ok(str_n(name, TOKEN_NAME_MAX)));
	CHECK(!token_name_ok(str_n(name, TOKEN_NAME_MAX + 1)));
}

TEST_MAIN()
