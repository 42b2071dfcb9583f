/* Host names: which are previews, which are ours, whom to believe. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/config.h"
#include "daemon/limits.h"
#include "daemon/pass/preview.h"
#include "daemon/ports/ports.h"
#include "store/limits.h"
#include "test.h"

static struct preview_name parsed(const char *label)
{
	struct preview_name n = {0};
	if (!preview_parse(str_of(label), &n))
		test_fail(__FILE__, __LINE__, "'%s' is not parsed", label);
	return n;
}

static void check_parsed(const char *label, unsigned port, const char *id, const char *token)
{
	struct preview_name n = parsed(label);
	CHECK_INT(n.port, port);
	CHECK_CSTR(n.id, id);
	CHECK_CSTR(n.token, token);
}

TEST(labels_are_split_at_the_first_and_the_last_hyphen)
{
	check_parsed("8080-box-tok", 8080, "box", "tok");
	check_parsed("8080-my-long-box-tok_1", 8080, "my-long-box", "tok_1");
	check_parsed("65535-a-b", 65535, "a", "b");
	check_parsed("1024-8080-9090", 1024, "8080", "9090");
	check_parsed("3000-box-tok", 3000, "box", "tok");
	check_parsed("8080-a--b-c", 8080, "a--b", "c");
	check_parsed("8080-BOX-TOK", 8080, "box", "tok");
}

TEST(other_labels_are_none)
{
	static const char *const none[] = {"", "-", "8080", "8080-", "8080-box", "8080-box-", "8080--tok",
		"8080-box--tok", "8080--box-tok", "-box-tok", "80-box-tok", "1023-box-tok", "08080-box-tok",
		"0080-box-tok", "99999-box-tok", "65536-box-tok", "+8080-box-tok", "8080.-box-tok", "x-box-tok",
		"8080-www-tok", "8080-box-t.k", "8080-box-t%6b", "8080-box-\xc3\xa4", "8080-box-abcdefghijklmnopq",
		"808o-box-tok"};
	struct preview_name n;
	for (size_t i = 0; i < ARRAY_LEN(none); i++)
		if (preview_parse(str_of(none[i]), &n))
			test_fail(__FILE__, __LINE__, "'%s' is parsed", none[i]);
}

TEST(labels_have_the_length_of_a_label)
{
	char label[80];
	struct preview_name n;
	snprintf(label, sizeof label, "8080-%056d-t", 0);
	CHECK_INT(strlen(label), PREVIEW_LABEL_MAX);
	CHECK(preview_parse(str_of(label), &n));
	snprintf(label, sizeof label, "8080-%057d-t", 0);
	CHECK(!preview_parse(str_of(label), &n));
}

static struct config configured(const char *domain, const char *hosts)
{
	struct config c;
	struct err e = {0};
	setenv("ATOLL_PREVIEW_DOMAIN", domain, 1);
	setenv("ATOLL_HOSTS", hosts, 1);
	if (config_read(&c, &e) < 0)
		test_fail(__FILE__, __LINE__, "%s", e.msg);
	config_listening(&c, "127.0.0.1:1234");
	free((char *)c.network.allow); /* a daemon keeps them for good */
	free((char *)c.network.deny);
	c.network.allow = c.network.deny = NULL;
	return c;
}

TEST(names_below_the_domain_are_previews)
{
	struct config c = configured("Preview.Example.org:8443", "console.preview.example.org");
	struct str label = STR_NULL;
	CHECK_CSTR(c.preview_domain, "preview.example.org:8443");
	CHECK(host_is_preview(&c, STR("x.preview.example.ORG"), &label));
	CHECK_STR(label, "x");
	CHECK(host_is_preview(&c, STR("a.b.preview.example.org.:1"), &label));
	CHECK_STR(label, "a.b");
	CHECK(!host_is_preview(&c, STR("preview.example.org"), &label));
	CHECK(!host_is_preview(&c, STR("xpreview.example.org"), &label));
	CHECK(!host_is_preview(&c, STR(".preview.example.org"), &label));
	CHECK(!host_is_preview(&c, STR("console.preview.example.org"), &label));
	CHECK(!host_is_preview(&c, STR_NULL, &label));
	CHECK(!host_is_preview(&c, STR(""), &label));
}

TEST(the_domain_is_localhost_and_the_port_by_default)
{
	struct config c = configured("", "");
	CHECK_CSTR(c.preview_domain, "localhost:1234");
	CHECK_CSTR(c.preview_scheme, "http");
	c = configured("https://p.example", "");
	CHECK_CSTR(c.preview_domain, "p.example");
	CHECK_CSTR(c.preview_scheme, "https");
}

TEST(own_names_and_addresses_are_answered)
{
	struct config c = configured("", "a.example, B.example");
	static const char *const ours[] = {"localhost", "LocalHost:99", "localhost.", "127.0.0.1", "127.0.0.1:8700",
		"10.0.0.7", "[::1]", "[::1]:8700", "[fe80::1]", "a.example", "A.EXAMPLE:1", "b.example"};
	static const char *const others[] = {"", "evil.example", "localhost.evil.example", "xlocalhost",
		"a.example.evil", "x.a.example", "127.1", "0x7f000001", "2130706433", "127.0.0.1.example",
		"[::1].example.org", "::1", "[", "[]", ":80"};
	for (size_t i = 0; i < ARRAY_LEN(ours); i++)
		if (!host_allowed(&c, str_of(ours[i])))
			test_fail(__FILE__, __LINE__, "'%s' is refused", ours[i]);
	for (size_t i = 0; i < ARRAY_LEN(others); i++)
		if (host_allowed(&c, str_of(others[i])))
			test_fail(__FILE__, __LINE__, "'%s' is answered", others[i]);
	CHECK(host_allowed(&c, STR_NULL));
	c = configured("", "*");
	CHECK(host_allowed(&c, STR("evil.example")));
}

static bool trusts(const char *nets, const char *address)
{
	struct host_nets n;
	struct err e = {0};
	struct sockaddr_in6 six = {.sin6_family = AF_INET6};
	struct sockaddr_in four = {.sin_family = AF_INET};
	if (host_nets_read("X", nets, &n, &e) < 0)
		test_fail(__FILE__, __LINE__, "%s", e.msg);
	if (inet_pton(AF_INET, address, &four.sin_addr) == 1)
		return host_nets_has(&n, (struct sockaddr *)&four);
	CHECK_INT(inet_pton(AF_INET6, address, &six.sin6_addr), 1);
	return host_nets_has(&n, (struct sockaddr *)&six);
}

TEST(proxies_are_addresses_and_networks)
{
	CHECK(trusts("127.0.0.1", "127.0.0.1"));
	CHECK(trusts("127.0.0.1", "::ffff:127.0.0.1"));
	CHECK(!trusts("127.0.0.1", "127.0.0.2"));
	CHECK(trusts("10.0.0.0/8, ::1", "10.255.0.1"));
	CHECK(!trusts("10.0.0.0/8", "11.0.0.1"));
	CHECK(trusts("192.168.4.0/23", "192.168.5.255"));
	CHECK(!trusts("192.168.4.0/23", "192.168.6.0"));
	CHECK(trusts("::1", "::1"));
	CHECK(!trusts("::1", "127.0.0.1"));
	CHECK(trusts("fd00::/8", "fdff::1"));
	CHECK(trusts("0.0.0.0/0", "8.8.8.8"));
	CHECK(!trusts("0.0.0.0/0", "2001::1"));
	CHECK(!trusts("", "127.0.0.1"));
	static const char *const bad[] = {
		"10.0.0.0/33", "::/129", "example.org", "10.0.0.1/", "10.0.0.1/x", "10.0.0", ",", "1.2.3.4,,"};
	struct host_nets n;
	struct err e;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		if (host_nets_read("X", bad[i], &n, &e) == 0)
			test_fail(__FILE__, __LINE__, "'%s' is taken", bad[i]);
}

TEST(tokens_are_random_and_fit_their_rule)
{
	char a[PORT_TOKEN_MAX + 1], b[PORT_TOKEN_MAX + 1];
	struct err e;
	for (int i = 0; i < 100; i++) {
		CHECK_INT(port_make_token(a, &e), 0);
		CHECK_INT(port_make_token(b, &e), 0);
		CHECK_INT(strlen(a), PORT_TOKEN_MAX);
		CHECK_INT(port_check_token(str_of(a), &e), 0);
		CHECK(strcmp(a, b) != 0);
	}
}

TEST_MAIN()
