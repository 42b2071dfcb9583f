#include "gate/hook.h"

#include "test.h"

static struct hooks *read_all(const char *text)
{
	struct err e;
	struct hooks *h = NULL;
	auto_json struct json_doc *d = json_parse(str_of(text), &e);
	CHECK(d && hooks_read(json_root(d), &h, &e) == 0);
	return h;
}

static bool wants(const struct hooks *h, bool https, const char *name, const char *address, uint16_t port)
{
	struct ip ip = {0};
	CHECK(ip_parse(str_of(address), &ip));
	return hooks_want(h, https, &(struct hook_dest){name, &ip, port});
}

TEST(patterns)
{
	struct hooks *h = read_all("{\"http\":[\"A.example\",\"*.b.example\",\"c.example:8080\",\"10.0.0.1:80\",\"["
				   "2001:db8::1]:80\",\"api-*.d.example\"],"
				   "\"https\":[\"a.example\"]}");
	CHECK(wants(h, false, "a.example", "1.2.3.4", 80) && wants(h, false, "a.example", "1.2.3.4", 8080));
	CHECK(wants(h, false, "x.y.b.example", "1.2.3.4", 80) && !wants(h, false, "b.example", "1.2.3.4", 80));
	CHECK(wants(h, false, "c.example", "1.2.3.4", 8080) && !wants(h, false, "c.example", "1.2.3.4", 80));
	CHECK(wants(h, false, "", "10.0.0.1", 80) && !wants(h, false, "", "10.0.0.1", 81) &&
		!wants(h, false, "", "10.0.0.2", 80));
	CHECK(wants(h, false, "", "2001:db8::1", 80) && wants(h, false, "api-7.d.example", "1.2.3.4", 80));
	CHECK(wants(h, true, "a.example", "1.2.3.4", 443) && !wants(h, true, "x.b.example", "1.2.3.4", 443));
	CHECK(hooks_name(h, "a.example") && hooks_name(h, "c.example") && !hooks_name(h, "z.example") && !hooks_any(h));
	hooks_free(h);
}

TEST(all_and_none)
{
	struct hooks *h = read_all("{\"http\":[\"*\"]}");
	CHECK(hooks_any(h) && wants(h, false, "", "1.2.3.4", 1) && !wants(h, true, "a", "1.2.3.4", 1) &&
		!hooks_name(h, "a"));
	hooks_free(h);
	CHECK(!read_all("{\"http\":[],\"https\":[]}") && !read_all("{}"));
	CHECK(!hooks_want(NULL, false, &(struct hook_dest){"a", NULL, 1}) && !hooks_name(NULL, "a") &&
		!hooks_any(NULL));
}

TEST(bad_lists)
{
	static const char *const bad[] = {"{\"http\":1}", "{\"http\":[1]}", "{\"http\":[\"\"]}", "{\"http\":[\"a:x\"]}",
		"{\"http\":[\"[a]\"]}", "{\"http\":[\"a:99999\"]}"};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct err e;
		struct hooks *h = NULL;
		auto_json struct json_doc *d = json_parse(str_of(bad[i]), &e);
		CHECK(d && hooks_read(json_root(d), &h, &e) < 0 && !h);
	}
}

TEST_MAIN()
