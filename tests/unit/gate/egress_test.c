#include "gate/egress.h"

#include <stdio.h>

#include "test.h"

TEST(proxies_are_read)
{
	struct egress x;
	struct err e = {0};
	CHECK_INT(egress_parse(NULL, &x, &e), 0);
	CHECK_INT(x.kind, EGRESS_DIRECT);
	CHECK_INT(egress_parse("", &x, &e), 0);
	CHECK_INT(egress_parse("http://Proxy.Example:3128/", &x, &e), 0);
	CHECK(x.kind == EGRESS_HTTP && !x.names && !x.has_user && x.port == 3128);
	CHECK_CSTR(x.host, "proxy.example");
	CHECK_INT(egress_parse("socks5h://a%40b:c%3Ad%25@[2001:db8::1]:1080", &x, &e), 0);
	CHECK(x.kind == EGRESS_SOCKS5 && x.names && x.has_user);
	CHECK_CSTR(x.user, "a@b");
	CHECK_CSTR(x.password, "c:d%");
	CHECK_CSTR(x.host, "2001:db8::1");
	CHECK_INT(egress_parse("socks5://u@10.0.0.1:1", &x, &e), 0);
	CHECK_CSTR(x.password, "");
}

TEST(bad_proxies_are_refused_without_their_password)
{
	static const char *const bad[] = {"proxy:3128", "https://p:1", "http://", "http://p", "http://p:", "http://p:0",
		"http://p:65536", "http://p:80x", "http://:secret@p:1", "http://u%3A:secret@p:1",
		"http://u:secret%0a@p:1", "http://u:secret%@p:1", "http://[::1:1", "http://a b:1", "http://[p]:1",
		"HTTP://p:1"};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct egress x;
		struct err e = {0};
		if (egress_parse(bad[i], &x, &e) == 0)
			test_fail(__FILE__, __LINE__, "'%s' was taken", bad[i]);
		CHECK(!strstr(e.msg, "secret"));
	}
	char text[600] = "http://";
	struct egress x;
	struct err e = {0};
	for (int i = 0; i < EGRESS_WORD_MAX; i++)
		text[7 + i] = 'u';
	snprintf(text + 7 + EGRESS_WORD_MAX, 20, "@p:1");
	CHECK_INT(egress_parse(text, &x, &e), 0);
	snprintf(text + 7 + EGRESS_WORD_MAX, 20, "u@p:1");
	CHECK(egress_parse(text, &x, &e) < 0);
}

TEST_MAIN()
