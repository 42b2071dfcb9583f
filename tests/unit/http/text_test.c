#include "http/http.h"

#include "test.h"

static void check_decodes(const char *in, const char *want)
{
	auto_buf struct buf b = {0};
	struct err e;
	CHECK_INT(http_percent_decode(str_of(in), &b, &e), 0);
	CHECK_STR(buf_str(&b), want);
}

static void check_refuses(const char *in)
{
	auto_buf struct buf b = {0};
	struct err e;
	CHECK_INT(http_percent_decode(str_of(in), &b, &e), -1);
	CHECK_INT(e.code, ERRC_VALIDATION_FAILED);
}

TEST(percent_decoding_is_exact_and_refuses_the_rest)
{
	check_decodes("", "");
	check_decodes("/a%2Fb+c%20d%e2%82%AC", "/a/b+c d\xe2\x82\xac");
	check_refuses("%");
	check_refuses("a%2");
	check_refuses("%zz");
	check_refuses("%2g");
	check_refuses("%00");
	check_refuses("%-1");
}

static int query(const char *q, const char *name, const char *want)
{
	auto_buf struct buf b = {0};
	struct err e;
	int r = http_query_get(str_of(q), str_of(name), &b, &e);
	if (r == 1)
		CHECK_STR(buf_str(&b), want);
	return r;
}

TEST(query_parameters_are_found_and_form_decoded)
{
	CHECK_INT(query("a=1&b=2", "b", "2"), 1);
	CHECK_INT(query("a=1&a=2", "a", "1"), 1);
	CHECK_INT(query("a=x+y%2B", "a", "x y+"), 1);
	CHECK_INT(query("%61=1", "a", "1"), 1);
	CHECK_INT(query("a", "a", ""), 1);
	CHECK_INT(query("a=b=c", "a", "b=c"), 1);
	CHECK_INT(query("&&a=&", "a", ""), 1);
	CHECK_INT(query("ab=1", "a", ""), 0);
	CHECK_INT(query("", "a", ""), 0);
	CHECK_INT(query("a=%", "a", ""), -1);
	CHECK_INT(query("a=%00", "a", ""), -1);
}

TEST(path_segments_come_one_by_one)
{
	struct str p = STR("/v1//x%2Fy/"), s;
	CHECK(http_path_next(&p, &s));
	CHECK_STR(s, "v1");
	CHECK(http_path_next(&p, &s));
	CHECK_STR(s, "");
	CHECK(http_path_next(&p, &s));
	CHECK_STR(s, "x%2Fy");
	CHECK(!http_path_next(&p, &s));
	p = STR("/");
	CHECK(!http_path_next(&p, &s));
}

TEST(header_lists_are_searched_without_case)
{
	struct http_header v[] = {{STR("Connection"), STR("keep-alive, Upgrade")}, {STR("X"), STR("1")},
		{STR("connection"), STR("x-hop")}};
	struct http_headers h = {v, 3};
	CHECK(http_header_has_token(&h, STR("connection"), STR("upgrade")));
	CHECK(http_header_has_token(&h, STR("Connection"), STR("X-Hop")));
	CHECK(!http_header_has_token(&h, STR("Connection"), STR("up")));
	CHECK_STR(http_header_value(&h, STR("x")), "1");
	CHECK(!http_header_value(&h, STR("y")).p);
}

TEST(methods_know_what_may_be_repeated)
{
	CHECK_INT(http_method_of(STR("GET")), HTTP_M_GET);
	CHECK_INT(http_method_of(STR("get")), HTTP_M_OTHER);
	CHECK(http_method_idempotent(STR("PUT")));
	CHECK(!http_method_idempotent(STR("POST")));
	CHECK(!http_method_idempotent(STR("PROPFIND")));
}

TEST_MAIN()
