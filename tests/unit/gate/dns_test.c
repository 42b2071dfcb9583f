#include "gate/dns/dns.h"

#include "gate/dns/names.h"
#include "test.h"

/* A question for `name` (dots as labels) of a type. */
static size_t ask(uint8_t *out, const char *name, uint16_t type, bool edns)
{
	size_t n = 12;
	memset(out, 0, 12);
	out[0] = 0x12;
	out[1] = 0x34;
	out[2] = 1; /* RD */
	out[5] = 1;
	out[11] = edns;
	while (*name) {
		size_t label = strcspn(name, ".");
		out[n++] = (uint8_t)label;
		memcpy(out + n, name, label);
		n += label;
		name += label + (name[label] == '.');
	}
	out[n++] = 0;
	out[n++] = (uint8_t)(type >> 8);
	out[n++] = (uint8_t)type;
	out[n++] = 0;
	out[n++] = 1;
	if (edns) {
		static const uint8_t opt[] = {0, 0, 41, 0x10, 0, 0, 0, 0, 0, 0, 0};
		memcpy(out + n, opt, sizeof opt);
		n += sizeof opt;
	}
	return n;
}

TEST(questions_are_read)
{
	uint8_t m[512];
	struct dns_question q;
	size_t n = ask(m, "PyPI.org", DNS_A, true);
	CHECK_INT(dns_read_question(str_n(m, n), &q), DNS_OK);
	CHECK_CSTR(q.name, "pypi.org");
	CHECK(q.id == 0x1234 && q.type == DNS_A && q.recursion && q.edns && q.room == GATE_DNS_UDP_MAX);
	CHECK_MEM((char *)q.wire, q.wire_n, "\4PyPI\3org\0", 10);
	n = ask(m, "pypi.org", DNS_AAAA, false);
	CHECK_INT(dns_read_question(str_n(m, n), &q), DNS_OK);
	CHECK(!q.edns && q.room == 512);
	for (size_t k = 0; k < n; k++)
		CHECK(dns_read_question(str_n(m, k), &q) != DNS_OK);
	m[n] = 0;
	CHECK_INT(dns_read_question(str_n(m, n + 1), &q), DNS_FORMERR);
}

TEST(what_is_no_question_is_refused)
{
	uint8_t m[600];
	struct dns_question q;
	size_t n = ask(m, "pypi.org", DNS_A, false);
	m[2] |= 0x80;
	CHECK_INT(dns_read_question(str_n(m, n), &q), -1);
	m[2] = 0x28; /* UPDATE */
	CHECK_INT(dns_read_question(str_n(m, n), &q), DNS_NOTIMP);
	m[2] = 1;
	m[5] = 2;
	CHECK_INT(dns_read_question(str_n(m, n), &q), DNS_FORMERR);
	m[5] = 1;
	m[n - 1] = 3; /* class CHAOS */
	CHECK_INT(dns_read_question(str_n(m, n), &q), DNS_REFUSED);
	m[n - 1] = 1;
	m[12] = 0xc0; /* a pointer in a question */
	CHECK_INT(dns_read_question(str_n(m, n), &q), DNS_FORMERR);
	n = ask(m, "a b.org", DNS_A, false);
	CHECK_INT(dns_read_question(str_n(m, n), &q), DNS_FORMERR);
}

TEST(answers_are_written_and_read_back)
{
	uint8_t m[512], out[GATE_DNS_UDP_MAX];
	struct dns_question q;
	struct dns_answer a = {0}, back = {0};
	struct ip ip = ip_v4(0x01020304), got;
	CHECK_INT(dns_read_question(str_n(m, ask(m, "www.example.org", DNS_A, true)), &q), DNS_OK);
	CHECK(dns_answer_add_name(&a, "www.example.org", DNS_CNAME, 300, "cdn.example.net"));
	CHECK(dns_answer_add_ip(&a, "cdn.example.net", &ip, 60));
	size_t n = dns_write(&q, &a, 10, NULL, out, q.room);
	CHECK(dns_read_answer(str_n(out, n), &back));
	CHECK_INT(back.n, 2);
	CHECK_CSTR(back.v[0].name, "www.example.org");
	CHECK_INT(back.v[0].ttl, 290);
	CHECK_CSTR(back.v[1].name, "cdn.example.net");
	CHECK(dns_record_ip(&back.v[1], &got) && ip_eq(&got, &ip));
	CHECK_INT(out[3] & 15, DNS_OK);
	for (size_t k = 0; k < n - 11; k++)
		CHECK(!dns_read_answer(str_n(out, k), &(struct dns_answer){0}));
	dns_answer_free(&a);
	dns_answer_free(&back);
}

TEST(what_does_not_fit_is_left_out_and_said)
{
	uint8_t m[512], out[512];
	struct dns_question q;
	struct dns_answer a = {0}, back = {0};
	char text[201];
	memset(text, 'x', sizeof text);
	text[0] = (char)200;
	CHECK_INT(dns_read_question(str_n(m, ask(m, "t.example.org", DNS_TXT, true)), &q), DNS_OK);
	for (int i = 0; i < 4; i++)
		CHECK(dns_answer_add(&a, "t.example.org", DNS_TXT, 1, text, sizeof text));
	size_t n = dns_write(&q, &a, 0, NULL, out, 512);
	CHECK(n <= 512 && out[2] & 2);
	CHECK(dns_read_answer(str_n(out, n), &back));
	CHECK_INT(back.n, 2);
	dns_answer_free(&a);
	dns_answer_free(&back);
}

TEST(a_refusal_says_why)
{
	uint8_t m[512], out[512];
	struct dns_question q;
	struct dns_answer a = {.rcode = DNS_NXDOMAIN};
	CHECK_INT(dns_read_question(str_n(m, ask(m, "evil.org", DNS_A, true)), &q), DNS_OK);
	size_t n = dns_write(&q, &a, 0, &(struct dns_reason){DNS_EDE_BLOCKED, "mode list"}, out, sizeof out);
	CHECK_INT(out[3] & 15, DNS_NXDOMAIN);
	CHECK_MEM((char *)out + n - 9, 9, "mode list", 9);
}

TEST(compression_never_loops_or_points_ahead)
{
	/* A name that points to itself, to the byte behind, and in a circle. */
	uint8_t loop[] = {0, 1, 0x80, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4, 1, 2, 3, 4};
	struct dns_answer a = {0};
	CHECK(!dns_read_answer(str_n(loop, sizeof loop), &a));
	loop[13] = 14;
	CHECK(!dns_read_answer(str_n(loop, sizeof loop), &a));
	uint8_t circle[] = {
		0, 1, 0x80, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 'a', 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4, 1, 2, 3, 4};
	CHECK(!dns_read_answer(str_n(circle, sizeof circle), &a));
}

TEST(ech_is_taken_out_of_https_records)
{
	/* priority 1, target ".", alpn=h2, ech=xyz, ipv4hint */
	static const uint8_t data[] = {
		0, 1, 0, 0, 1, 0, 3, 2, 'h', '2', 0, 5, 0, 3, 'x', 'y', 'z', 0, 4, 0, 4, 1, 2, 3, 4};
	struct dns_answer a = {0};
	CHECK(dns_answer_add(&a, "x.org", DNS_HTTPS, 1, data, sizeof data));
	dns_strip_ech(&a.v[0]);
	CHECK_INT(a.v[0].data_n, sizeof data - 7);
	CHECK(!memmem(a.v[0].data, a.v[0].data_n, "xyz", 3));
	dns_answer_free(&a);
}

TEST(reverse_names_are_addresses)
{
	struct ip ip;
	char text[IP_TEXT];
	CHECK(dns_reverse_ip("4.3.2.1.in-addr.arpa", &ip));
	CHECK_CSTR(ip_format(&ip, text), "1.2.3.4");
	CHECK(dns_reverse_ip("1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa", &ip));
	CHECK_CSTR(ip_format(&ip, text), "2001:db8::1");
	CHECK(!dns_reverse_ip("256.3.2.1.in-addr.arpa", &ip));
	CHECK(!dns_reverse_ip("3.2.1.in-addr.arpa", &ip));
	CHECK(!dns_reverse_ip("x.4.3.2.1.in-addr.arpa", &ip));
	CHECK(!dns_reverse_ip("example.org", &ip));
}

TEST(names_of_addresses_are_remembered_within_bounds)
{
	struct names s;
	struct ip ip = ip_v4(0x01020304);
	char name[32];
	names_init(&s);
	for (int i = 0; i < 10; i++) {
		snprintf(name, sizeof name, "n%d.org", i);
		names_add(&s, &ip, name, 1000, 0);
	}
	names_add(&s, &ip, "n5.org", 1000, 0);
	CHECK_CSTR(names_get(&s, &ip, 0, 0), "n5.org");
	CHECK_CSTR(names_get(&s, &ip, 1, 0), "n9.org");
	CHECK(names_get(&s, &ip, 7, 0) != NULL);
	CHECK(names_get(&s, &ip, 8, 0) == NULL);
	CHECK(names_get(&s, &ip, 0, 1000 + GATE_NAMES_KEEP) == NULL);
	for (uint32_t i = 0; i < GATE_NAMES_MAX; i++) {
		struct ip other = ip_v4(0x05000000 + i);
		names_add(&s, &other, "x.org", 1, 0);
	}
	CHECK_INT(s.map.count, GATE_NAMES_MAX);
	CHECK(names_get(&s, &ip, 0, 0) == NULL);
	names_free(&s);
}

TEST_MAIN()
