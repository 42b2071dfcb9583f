/*
 * dns.h - DNS messages: reads questions, reads the answers of servers, writes answers.
 *
 * Everything that comes in is hostile. A question has exactly one entry, no records but an EDNS one, and a name whose
 * bytes are those of a host name or service name. Names in answers are followed through compression with a bound on
 * steps, and only backwards. Records are rewritten one by one: types that carry names get them uncompressed, types that
 * we do not know are copied as they are only when they cannot hold a compressed name.
 *
 * Answers are built in a caller's buffer; a record that does not fit sets `truncated` and is left out with all behind
 * it.
 */
#pragma once

#include "base/buf.h"
#include "gate/limits.h"
#include "proto/ip.h"

enum dns_type {
	DNS_A = 1,
	DNS_NS = 2,
	DNS_CNAME = 5,
	DNS_SOA = 6,
	DNS_PTR = 12,
	DNS_MX = 15,
	DNS_TXT = 16,
	DNS_AAAA = 28,
	DNS_SRV = 33,
	DNS_OPT = 41,
	DNS_SVCB = 64,
	DNS_HTTPS = 65,
};

enum dns_rcode { DNS_OK = 0, DNS_FORMERR = 1, DNS_SERVFAIL = 2, DNS_NXDOMAIN = 3, DNS_NOTIMP = 4, DNS_REFUSED = 5 };

/* Extended errors (RFC 8914). */
enum { DNS_EDE_BLOCKED = 15, DNS_EDE_NO_REACH = 22 };

struct dns_question {
	uint16_t id;
	uint16_t type;
	bool recursion; /* desired */
	bool checking;	/* disabled */
	bool edns;
	uint16_t room;			/* for the answer over UDP: 512 to GATE_DNS_UDP_MAX */
	char name[NET_NAME_MAX + 1];	/* lower case, without the dot at its end; "" is the root */
	uint8_t wire[NET_NAME_MAX + 2]; /* as it was asked: clients compare the case */
	size_t wire_n;
};

/* DNS_OK, or the code to answer with; -1: no answer at all (not a question, or too short to have an id). For codes
 * other than DNS_OK the id, flags and as much of the question as could be read are filled in. */
int dns_read_question(struct str in, struct dns_question *ret);

/* One record of an answer. */
struct dns_record {
	uint16_t type;
	uint32_t ttl;
	char name[NET_NAME_MAX + 1];
	uint8_t *data; /* uncompressed, on the heap */
	uint16_t data_n;
};

struct dns_answer {
	enum dns_rcode rcode;
	struct dns_record *v;
	size_t n;
};
void dns_answer_free(struct dns_answer *a);
bool dns_answer_add(struct dns_answer *a, const char *name, uint16_t type, uint32_t ttl, const void *data, size_t n);
bool dns_answer_add_ip(struct dns_answer *a, const char *name, const struct ip *ip, uint32_t ttl);
/* `target` as rdata. */
bool dns_answer_add_name(struct dns_answer *a, const char *name, uint16_t type, uint32_t ttl, const char *target);

/* The answer section of a server's message, as far as its records are of types that are passed on. False: malformed. */
bool dns_read_answer(struct str in, struct dns_answer *ret);
/* The address of an A or AAAA record. */
bool dns_record_ip(const struct dns_record *r, struct ip *ret);
/* HTTPS and SVCB records without their `ech` parameter (RFC 9460, key 5). */
void dns_strip_ech(struct dns_record *r);

/* Why an answer is as it is (RFC 8914): a code and a text for people, or NULL. */
struct dns_reason {
	int code;
	const char *text;
};

/* Writes the answer to `q`. `max`: bytes that it may have. `why` may be NULL. `age`: seconds to take off the times.
 * Returns the length. */
size_t dns_write(const struct dns_question *q, const struct dns_answer *a, uint32_t age, const struct dns_reason *why,
	uint8_t *out, size_t max);

/* "4.3.2.1.in-addr.arpa" and the IPv6 form. */
bool dns_reverse_ip(const char *name, struct ip *ret);
