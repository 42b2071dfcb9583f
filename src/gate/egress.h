/*
 * egress.h - the host's own way out, where it needs a proxy: ATOLL_EGRESS_PROXY.
 *
 *	http://[user:password@]host:port      CONNECT to the address that the gate resolved and checked
 *	socks5://[user:password@]host:port    the same with SOCKS 5 (RFC 1928, 1929)
 *	httph://…  socks5h://…                the name goes to the proxy, which looks it up
 *
 * With the first two nothing changes for a policy: the gate resolves with the host's servers, checks every address and
 * asks the proxy for that address. The last two are for hosts that cannot resolve public names. Boxes then get
 * synthetic addresses for all names (synth.h), and which addresses a name has is the proxy's decision: it must
 * refuse private ones. Connections to an address are checked and asked for as addresses in all four.
 *
 * User and password are percent-decoded. The proxy itself is the operator's choice and no policy applies to it.
 * Datagrams and DNS questions do not go through it.
 */
#pragma once

#include "gate/dial.h"
#include "proto/rule.h"

struct gate;
struct tunnel;

enum egress_kind { EGRESS_DIRECT, EGRESS_HTTP, EGRESS_SOCKS5 };

struct egress {
	enum egress_kind kind;
	bool names; /* they go to the proxy */
	char host[NET_NAME_MAX + 1];
	uint16_t port;
	char user[EGRESS_WORD_MAX + 1], password[EGRESS_WORD_MAX + 1];
	bool has_user;
};

/* INVALID_REQUEST says what is wrong, without the password. "" or NULL: direct. */
int egress_parse(const char *text, struct egress *ret, struct err *e);

/* Where to. With a name that is not empty, the name; else the address. */
struct egress_to {
	const char *name;
	struct ip ip;
	uint16_t port;
};

/* Connects to the proxy and asks it for the destination. Done and errors as dial_start; all together have
 * GATE_DIAL_TIMEOUT. Nothing behind the proxy's answer is read. */
struct tunnel *tunnel_start(struct gate *g, const struct egress_to *to, dial_on_done on_done, void *arg);
/* Nothing is called any more. */
void tunnel_cancel(struct tunnel *t);
