/*
 * DNS: questions of a box and answers of a server, any bytes. What we write of what we read can be read again.
 */
#include "fuzz.h"
#include "gate/dns/dns.h"

static void question(struct str in)
{
	struct dns_question q;
	struct dns_answer none = {.rcode = DNS_NXDOMAIN};
	uint8_t out[GATE_DNS_UDP_MAX];
	int r = dns_read_question(in, &q);
	if (r < 0)
		return;
	MUST(strlen(q.name) <= NET_NAME_MAX && q.wire_n <= sizeof q.wire && q.room >= 512);
	size_t n = dns_write(&q, &none, 0, &(struct dns_reason){DNS_EDE_BLOCKED, "why"}, out, 512);
	MUST(n >= 12 && n <= 512);
	struct dns_answer back = {0};
	MUST(dns_read_answer(str_n(out, n), &back) && back.n == 0);
}

static void answer(struct str in)
{
	static const uint8_t asked[] = {0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 'x', 0, 0, 1, 0, 1};
	static uint8_t out[65536];
	struct dns_answer a = {0}, back = {0};
	struct dns_question q;
	if (!dns_read_answer(in, &a))
		return;
	MUST(a.n <= GATE_DNS_RECORDS_MAX);
	MUST(dns_read_question(str_n(asked, sizeof asked), &q) == DNS_OK);
	for (size_t i = 0; i < a.n; i++)
		dns_strip_ech(&a.v[i]);
	size_t n = dns_write(&q, &a, 1, NULL, out, sizeof out);
	MUST(dns_read_answer(str_n(out, n), &back));
	MUST(out[2] & 2 || back.n == a.n);
	for (size_t i = 0; i < back.n; i++)
		MUST(back.v[i].type == a.v[i].type && strcmp(back.v[i].name, a.v[i].name) == 0);
	dns_answer_free(&a);
	dns_answer_free(&back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ip ip;
	char name[300];
	question(str_n(data, size));
	answer(str_n(data, size));
	snprintf(name, sizeof name, "%.*s", (int)(size < 299 ? size : 299), (const char *)data);
	dns_reverse_ip(name, &ip);
	return 0;
}
