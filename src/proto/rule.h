/*
 * rule.h - one rule of a policy: which name or address range, which port, TCP or UDP.
 *
 *	pypi.org              HTTP and TLS on ports 80 and 443
 *	*.npmjs.org:443       every name below npmjs.org, at any depth, any protocol on 443
 *	github.com:22         any protocol on port 22
 *	example.org:*         every port, any protocol
 *	*                     every name
 *	10.1.0.0/16:5432      an address range; without a port, every port
 *	192.0.2.7  2001:db8::/32  [2001:db8::1]:443
 *	udp://time.example.org:123    datagrams; the port is needed
 *
 * Names are ASCII (internationalised ones as xn--…), compared without case; a dot at the end means nothing. In a deny
 * rule a name or range without a port means all ports, and without udp:// both protocols.
 *
 * atolld and the gate share this file: what the first accepts the second understands.
 */
#pragma once

#include "proto/errc.h"
#include "proto/ip.h"
#include "proto/limits.h"

enum rule_kind { RULE_NAME, RULE_RANGE };

struct rule {
	enum rule_kind kind;
	bool udp;
	bool below;    /* RULE_NAME: `name` is a suffix; empty: every name */
	bool any_port; /* ":*" */
	uint16_t port; /* 0: none was given */
	int bits;      /* RULE_RANGE: of 128 */
	struct ip range;
	char name[NET_NAME_MAX + 1];
	char text[NET_RULE_MAX + 1]; /* as it was written */
};

/* VALIDATION_FAILED with a sentence that names the rule. */
int rule_parse(struct str text, struct rule *ret, struct err *e);

/* A name in lower case without the dot at its end; false when it is none (an address, a bad character, too long). */
bool rule_name(struct str text, char ret[NET_NAME_MAX + 1]);
/* `name` has gone through rule_name. */
bool rule_matches_name(const struct rule *r, const char *name);
bool rule_matches_ip(const struct rule *r, const struct ip *ip);
