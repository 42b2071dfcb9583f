#include "proto/policy.h"

#include "test.h"

static struct ip addr(const char *text)
{
	struct ip ip;
	if (!ip_parse(str_of(text), &ip))
		test_fail(__FILE__, __LINE__, "'%s' is no address", text);
	return ip;
}

static void is_kind(const char *text, enum ip_kind want)
{
	struct ip ip = addr(text);
	if (ip_kind(&ip) != want)
		test_fail(__FILE__, __LINE__, "%s is %s, expected %s", text, ip_kind_name(ip_kind(&ip)),
			ip_kind_name(want));
}

TEST(addresses_are_what_they_are_in_every_disguise)
{
	static const char *const inner[] = {"10.0.0.1", "10.255.255.255", "172.16.0.1", "172.31.255.255", "192.168.0.1",
		"::ffff:10.0.0.1", "::10.0.0.1", "64:ff9b::10.0.0.1", "64:ff9b::c0a8:1", "2002:0a00:0001::1",
		"2002:c0a8:0101::", "2001:0:0a00:0001::1", "2001:0:808:808:0:0:f5ff:fffe", /* Teredo client 10.0.0.1 */
		"2001:db8::5efe:10.0.0.1", "2001:db8::200:5efe:10.0.0.1", "fc00::1", "fdff::1", "fd00:ec2::254",
		"fec0::1"};
	for (size_t i = 0; i < ARRAY_LEN(inner); i++)
		is_kind(inner[i], IP_PRIVATE);
	is_kind("127.0.0.1", IP_LOOPBACK);
	is_kind("::1", IP_LOOPBACK);
	is_kind("::ffff:127.0.0.1", IP_LOOPBACK);
	is_kind("64:ff9b::127.0.0.1", IP_LOOPBACK);
	is_kind("169.254.169.254", IP_LINK_LOCAL);
	is_kind("::ffff:169.254.169.254", IP_LINK_LOCAL);
	is_kind("64:ff9b::a9fe:a9fe", IP_LINK_LOCAL);
	is_kind("168.63.129.16", IP_LINK_LOCAL);
	is_kind("fe80::a9fe:a9fe", IP_LINK_LOCAL);
	is_kind("febf::1", IP_LINK_LOCAL);
	is_kind("100.64.0.1", IP_CARRIER);
	is_kind("100.100.100.200", IP_CARRIER);
	is_kind("100.127.255.255", IP_CARRIER);
	is_kind("224.0.0.1", IP_MULTICAST);
	is_kind("ff02::1", IP_MULTICAST);
	is_kind("255.255.255.255", IP_RESERVED);
	is_kind("240.0.0.1", IP_RESERVED);
	is_kind("192.0.0.192", IP_RESERVED);
	is_kind("198.18.0.1", IP_RESERVED);
	is_kind("64:ff9b:1::8.8.8.8", IP_RESERVED);
	is_kind("4000::1", IP_RESERVED);
	is_kind("::8.8.8.8", IP_RESERVED);
	is_kind("0.0.0.0", IP_UNSPECIFIED);
	is_kind("::", IP_UNSPECIFIED);
	is_kind("0.1.2.3", IP_UNSPECIFIED);
}

TEST(public_and_documentation_addresses_are_public)
{
	static const char *const outer[] = {"8.8.8.8", "9.255.255.255", "11.0.0.0", "172.15.255.255", "172.32.0.0",
		"192.167.255.255", "192.169.0.0", "100.63.255.255", "100.128.0.0", "169.253.255.255", "169.255.0.0",
		"198.51.100.7", "203.0.113.1", "192.0.2.1", "2001:db8::1", "2606:4700::1", "64:ff9b::8.8.8.8",
		"2002:0808:0808::1", "::ffff:8.8.8.8", "198.17.255.255", "198.20.0.0"};
	for (size_t i = 0; i < ARRAY_LEN(outer); i++)
		is_kind(outer[i], IP_PUBLIC);
}

TEST(odd_spellings_are_no_addresses)
{
	static const char *const odd[] = {"010.0.0.1", "0x7f.0.0.1", "2130706433", "127.1", "127.0.0.1.", " 1.2.3.4",
		"1.2.3", "fe80::1%eth0", "", "1.2.3.4/8", "::1::"};
	struct ip ip;
	for (size_t i = 0; i < ARRAY_LEN(odd); i++)
		if (ip_parse(str_of(odd[i]), &ip))
			test_fail(__FILE__, __LINE__, "'%s' was taken for an address", odd[i]);
}

static struct rule rule(const char *text)
{
	struct rule r;
	struct err e;
	if (rule_parse(str_of(text), &r, &e) < 0)
		test_fail(__FILE__, __LINE__, "%s", e.msg);
	return r;
}

TEST(rules_are_read)
{
	struct rule r = rule("PyPI.org.");
	CHECK(r.kind == RULE_NAME && !r.below && !r.port && !r.any_port && !r.udp);
	CHECK_CSTR(r.name, "pypi.org");
	CHECK_CSTR(r.text, "PyPI.org.");
	r = rule("*.npmjs.org:443");
	CHECK(r.below && r.port == 443);
	r = rule("name.example:*");
	CHECK(r.any_port && !r.port);
	r = rule("10.1.0.0/16:5432");
	CHECK(r.kind == RULE_RANGE && r.port == 5432);
	CHECK_INT(r.bits, 112);
	r = rule("[2001:db8::/32]:443");
	CHECK(r.kind == RULE_RANGE && r.port == 443 && r.bits == 32);
	r = rule("2001:db8::1");
	CHECK(r.kind == RULE_RANGE && r.bits == 128 && !r.port);
	r = rule("udp://time.example.org:123");
	CHECK(r.udp && r.port == 123 && r.kind == RULE_NAME);
	r = rule("udp://10.0.0.0/8:53");
	CHECK(r.udp && r.kind == RULE_RANGE);
	r = rule("0.0.0.0/0");
	CHECK_INT(r.bits, 96);
	r = rule("*");
	CHECK(r.below && !*r.name);
	r = rule("_dmarc.example.org");
	CHECK_CSTR(r.name, "_dmarc.example.org");
}

TEST(rules_that_cannot_be_read_are_named)
{
	static const char *const bad[] = {"", "https://pypi.org", "pypi.org/simple", "pypi.org:0", "pypi.org:65536",
		"pypi.org:http", "pypi.org:", "a..b", "-a.b", "a-.b", "*.*.org", "a*.org", "10.1.2.3/16", "10.0.0.0/33",
		"2001:db8::/129", "udp://time.example.org", "tcp://x.org:1", "[10.0.0.1]:80", "[2001:db8::1",
		"[2001:db8::1]80", "münchen.de", "127.1", "010.0.0.1", "0x7f000001", "a b.org", "name:1:2",
		"10.0.0.0/"};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct rule r;
		struct err e = {0};
		if (rule_parse(str_of(bad[i]), &r, &e) == 0)
			test_fail(__FILE__, __LINE__, "'%s' was taken for a rule", bad[i]);
		CHECK_INT(e.code, ERRC_VALIDATION_FAILED);
		CHECK(strstr(e.msg, "rule '"));
	}
	char label[66] = {0}, name[300] = {0};
	memset(label, 'a', 63);
	rule(label);
	memset(label, 'a', 64);
	CHECK(rule_parse(str_of(label), &(struct rule){0}, NULL) < 0);
	for (int i = 0; i < 126; i++)
		memcpy(name + 2 * i, "a.", 2);
	name[252] = 'b';
	rule(name); /* 253 */
	name[253] = 'c';
	CHECK(rule_parse(str_of(name), &(struct rule){0}, NULL) < 0);
}

TEST(names_match_with_and_below)
{
	struct rule one = rule("npmjs.org"), below = rule("*.npmjs.org"), all = rule("*");
	CHECK(rule_matches_name(&one, "npmjs.org"));
	CHECK(!rule_matches_name(&one, "a.npmjs.org"));
	CHECK(rule_matches_name(&below, "r.npmjs.org"));
	CHECK(rule_matches_name(&below, "a.b.npmjs.org"));
	CHECK(!rule_matches_name(&below, "npmjs.org"));
	CHECK(!rule_matches_name(&below, "evilnpmjs.org"));
	CHECK(!rule_matches_name(&below, "npmjs.org.evil.com"));
	CHECK(rule_matches_name(&all, "anything.at.all"));
}

static struct policy *policy(const char *text)
{
	struct err e;
	struct policy *p = NULL;
	auto_json struct json_doc *d = json_parse(str_of(text), &e);
	if (!d || policy_read(json_root(d), &p, &e) < 0)
		test_fail(__FILE__, __LINE__, "%s", e.msg);
	return p;
}

static struct ip_host no_host;

static void by_addr(const struct policy *p, const char *text, uint16_t port, enum policy_answer want, const char *why)
{
	struct ip ip = addr(text);
	struct verdict v = policy_by_address(p, &no_host, false, &ip, port);
	CHECK_INT(v.answer, want);
	if (why)
		CHECK_CSTR(v.why, why);
}

TEST(open_reaches_everything_public_and_nothing_else)
{
	struct policy *p = policy("{}");
	by_addr(p, "8.8.8.8", 443, POLICY_ALLOW, "mode open");
	by_addr(p, "10.0.0.1", 443, POLICY_DENY, "never reachable: a private address");
	by_addr(p, "64:ff9b::169.254.169.254", 80, POLICY_DENY, "never reachable: a link-local address");
	struct ip ip = addr("8.8.8.8");
	CHECK_INT(policy_by_address(p, &no_host, true, &ip, 443).answer, POLICY_DENY);
	struct ip_host host = {.v = &ip, .n = 1};
	CHECK_CSTR(policy_by_address(p, &host, false, &ip, 8700).why, "never reachable: an address of the host");
	CHECK(!policy_by_address(p, &no_host, false, &ip, 443).look);
	policy_unref(p);
}

TEST(list_needs_a_rule)
{
	struct policy *p =
		policy("{\"mode\":\"list\",\"allow\":[\"pypi.org\",\"github.com:22\",\"10.1.0.0/16:5432\",\"x.org:*\"],"
		       "\"deny\":[\"10.1.2.3\",\"bad.pypi.org\"]}");
	by_addr(p, "8.8.8.8", 443, POLICY_NEEDS_NAME, NULL);
	by_addr(p, "10.1.9.9", 5432, POLICY_ALLOW, "10.1.0.0/16:5432");
	by_addr(p, "10.1.9.9", 5433, POLICY_DENY, NULL);
	by_addr(p, "10.1.2.3", 5432, POLICY_DENY, "10.1.2.3");
	by_addr(p, "10.2.0.1", 5432, POLICY_DENY, "never reachable: a private address");
	CHECK_CSTR(policy_by_name(p, "pypi.org", 443, SPEECH_TLS).why, "pypi.org");
	CHECK_INT(policy_by_name(p, "pypi.org", 80, SPEECH_HTTP).answer, POLICY_ALLOW);
	CHECK_INT(policy_by_name(p, "pypi.org", 8080, SPEECH_HTTP).answer, POLICY_DENY);
	CHECK_INT(policy_by_name(p, "pypi.org", 443, SPEECH_OTHER).answer, POLICY_DENY);
	CHECK_INT(policy_by_name(p, "github.com", 22, SPEECH_OTHER).answer, POLICY_ALLOW);
	CHECK_INT(policy_by_name(p, "github.com", 443, SPEECH_TLS).answer, POLICY_DENY);
	CHECK_INT(policy_by_name(p, "x.org", 9999, SPEECH_OTHER).answer, POLICY_ALLOW);
	CHECK_INT(policy_by_name(p, "x.org", 9999, SPEECH_DATAGRAM).answer, POLICY_DENY);
	CHECK_CSTR(policy_by_name(p, "evil.org", 443, SPEECH_TLS).why, "mode list: no rule in allow matches");
	CHECK_INT(policy_may_resolve(p, "pypi.org").answer, POLICY_ALLOW);
	CHECK_INT(policy_may_resolve(p, "data.evil.org").answer, POLICY_DENY);
	CHECK_INT(policy_may_resolve(p, "bad.pypi.org").answer, POLICY_DENY);
	struct ip inside = addr("10.9.9.9"), outside = addr("203.0.113.9");
	CHECK_INT(policy_address_ok(p, &no_host, false, &inside, 443, NULL).answer, POLICY_DENY);
	CHECK_INT(policy_address_ok(p, &no_host, false, &outside, 443, NULL).answer, POLICY_ALLOW);
	CHECK(policy_has_private(p) && !policy_has_datagrams(p));
	policy_unref(p);
}

TEST(deny_beats_allow)
{
	struct policy *p =
		policy("{\"deny\":[\"*.evil.org\",\"203.0.113.0/24\",\"mail.org:25\"],\"allow\":[\"a.evil.org\"]}");
	CHECK_INT(policy_by_name(p, "a.evil.org", 443, SPEECH_TLS).answer, POLICY_DENY);
	CHECK_INT(policy_by_name(p, "mail.org", 25, SPEECH_OTHER).answer, POLICY_DENY);
	CHECK_INT(policy_by_name(p, "mail.org", 443, SPEECH_TLS).answer, POLICY_ALLOW);
	CHECK_INT(policy_may_resolve(p, "mail.org").answer, POLICY_ALLOW);
	by_addr(p, "203.0.113.9", 443, POLICY_DENY, "203.0.113.0/24");
	struct ip ip = addr("8.8.8.8");
	CHECK(policy_by_address(p, &no_host, false, &ip, 443).look);
	policy_unref(p);
}

/* 203.0.113.9 in NAT64, 6to4, Teredo and ISATAP. */
static const char *const forms[] = {"64:ff9b::203.0.113.9", "2002:cb00:7109::1", "2001:0:808:808::34ff:8ef6",
	"2001:db8::5efe:203.0.113.9", "::ffff:203.0.113.9"};

TEST(an_address_inside_of_another_is_denied_with_it)
{
	struct policy *p = policy("{\"deny\":[\"203.0.113.0/24\"]}"), *open = policy("{}");
	struct ip own = addr("203.0.113.9");
	struct ip_host host = {.v = &own, .n = 1};
	for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
		struct ip ip = addr(forms[i]);
		by_addr(p, forms[i], 443, POLICY_DENY, "203.0.113.0/24");
		by_addr(open, forms[i], 443, POLICY_ALLOW, "mode open");
		CHECK(!policy_may_show(p, &no_host, &ip) && policy_may_show(open, &no_host, &ip));
		CHECK(!policy_may_show(open, &host, &ip));
		CHECK_CSTR(
			policy_by_address(open, &host, false, &ip, 443).why, "never reachable: an address of the host");
		CHECK_CSTR(policy_address_ok(open, &host, false, &ip, 443, NULL).why,
			"never reachable: an address of the host");
	}
	by_addr(p, "64:ff9b::203.0.114.9", 443, POLICY_ALLOW, "mode open");
	by_addr(p, "2606:4700::203.0.113.9", 443, POLICY_ALLOW, "mode open");
	policy_unref(p);
	policy_unref(open);
}

TEST(ask_leaves_to_somebody_what_no_rule_decides)
{
	struct ip_host host = {0};
	struct ip web = addr("198.51.100.7"), inside = addr("10.0.0.1");
	struct policy *p =
		policy("{\"mode\":\"list\",\"ask\":true,\"allow\":[\"a.example\"],\"deny\":[\"b.example\"]}");
	CHECK_INT(p->ask_ms, NET_ASK);
	CHECK_INT(policy_by_address(p, &host, false, &web, 80).answer, POLICY_NEEDS_NAME);
	CHECK_INT(policy_by_address(p, &host, false, &inside, 80).answer, POLICY_DENY);
	CHECK_INT(policy_by_name(p, "a.example", 80, SPEECH_HTTP).answer, POLICY_ALLOW);
	CHECK_INT(policy_by_name(p, "a.example", 22, SPEECH_OTHER).answer, POLICY_ASK);
	CHECK_INT(policy_by_name(p, "b.example", 80, SPEECH_HTTP).answer, POLICY_DENY);
	CHECK_INT(policy_by_name(p, "c.example", 80, SPEECH_TLS).answer, POLICY_ASK);
	CHECK_INT(policy_by_name(p, "c.example", 53, SPEECH_DATAGRAM).answer, POLICY_DENY);
	CHECK_INT(policy_may_resolve(p, "c.example").answer, POLICY_ASK);
	CHECK_INT(policy_may_resolve(p, "b.example").answer, POLICY_DENY);
	policy_unref(p);
	/* Without a single rule as well; datagrams are never asked; the other modes leave nothing open. */
	p = policy("{\"mode\":\"list\",\"ask\":true,\"askTimeout\":\"1h\"}");
	CHECK_INT(p->ask_ms, NET_ASK_MAX);
	CHECK_INT(policy_by_address(p, &host, false, &web, 80).answer, POLICY_NEEDS_NAME);
	CHECK_INT(policy_by_address(p, &host, true, &web, 80).answer, POLICY_DENY);
	policy_unref(p);
	p = policy("{\"mode\":\"open\",\"ask\":true}");
	CHECK_INT(policy_by_name(p, "c.example", 80, SPEECH_TLS).answer, POLICY_ALLOW);
	policy_unref(p);
	p = policy("{\"mode\":\"off\",\"ask\":true}");
	CHECK_INT(policy_by_name(p, "c.example", 80, SPEECH_TLS).answer, POLICY_DENY);
	policy_unref(p);
}

TEST(off_reaches_nothing)
{
	struct policy *p = policy("{\"mode\":\"off\",\"allow\":[\"0.0.0.0/0\"]}");
	by_addr(p, "8.8.8.8", 443, POLICY_DENY, "mode off");
	CHECK_INT(policy_may_resolve(p, "pypi.org").answer, POLICY_DENY);
	policy_unref(p);
}

TEST(policies_are_checked)
{
	static const char *const bad[] = {"{\"mode\":\"closed\"}", "{\"allow\":\"pypi.org\"}", "{\"allow\":[1]}",
		"{\"allow\":[\"a..b\"]}", "{\"maxConnections\":0}", "{\"maxConnections\":16385}", "{\"rateBps\":1023}",
		"[]"};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct err e = {0};
		struct policy *p = NULL;
		auto_json struct json_doc *d = json_parse(str_of(bad[i]), &e);
		CHECK(policy_read(json_root(d), &p, &e) < 0);
		CHECK_INT(e.code, ERRC_VALIDATION_FAILED);
	}
	struct policy *p = policy("{\"maxConnections\":16384,\"rateBps\":1024}");
	CHECK_INT(p->conns, 16384);
	policy_unref(p);
}

TEST_MAIN()
