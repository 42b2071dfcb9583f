/*
 * ip.h - one address of either family, and what kind of address it is.
 *
 * IPv4 is kept as ::ffff:a.b.c.d, so that there is one form of each address, and one comparison. ip_kind() looks
 * through the forms that carry an IPv4 address inside an IPv6 one (mapped, compatible, NAT64, 6to4, Teredo, ISATAP):
 * 64:ff9b::10.0.0.1 is as private as 10.0.0.1. Documentation ranges count as public: nobody lives there, and tests do.
 */
#pragma once

#include <netinet/in.h>

#include "base/str.h"

struct ip {
	uint8_t b[16];
};

enum ip_kind {
	IP_PUBLIC,
	IP_UNSPECIFIED,
	IP_LOOPBACK,
	IP_PRIVATE,
	IP_LINK_LOCAL, /* with the metadata servers of clouds */
	IP_CARRIER,
	IP_MULTICAST,
	IP_RESERVED, /* with broadcast */
};

enum { IP_TEXT = 46, IP_BITS = 128, IP4_SHIFT = 96 };

enum ip_kind ip_kind(const struct ip *ip);
const char *ip_kind_name(enum ip_kind k); /* "private" … */

/* The IPv4 address that a packet to this one may end at: NAT64, 6to4, the client of Teredo, ISATAP. False: it holds
 * none. What is denied for the one is denied for the other. */
bool ip_embedded4(const struct ip *ip, struct ip *ret);

struct ip ip_v4(uint32_t host_order);
bool ip_is4(const struct ip *ip);
bool ip_eq(const struct ip *a, const struct ip *b);
/* The first `bits` bits are the same; of 128, so an IPv4 range of /8 has 104. */
bool ip_in(const struct ip *ip, const struct ip *range, int bits);

/* Dotted decimal with four parts, or RFC 4291 text without a zone. Octal, hexadecimal and shortened forms are refused:
 * programs turn them into an address before they connect. */
bool ip_parse(struct str text, struct ip *ret);
const char *ip_format(const struct ip *ip, char ret[IP_TEXT]);

union ip_sockaddr {
	struct sockaddr sa;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};
/* AF_INET for IPv4. Returns the length. */
socklen_t ip_to_sockaddr(const struct ip *ip, uint16_t port, union ip_sockaddr *ret);
bool ip_from_sockaddr(const union ip_sockaddr *sa, struct ip *ret, uint16_t *ret_port);

/*
 * The host's own addresses: nothing in a box may reach what listens there. The list is read from the kernel at most
 * every IP_HOST_LOOK ms; it is too old to decide, and whole ranges can be the host's as well (ip route add local), so
 * ip_host_is_local() also asks for the route. Answers are kept for at most IP_ROUTE_KEEP ms, and none outlives a change
 * of the host's network: the kernel queues a notice of each change of addresses, routes, rules and links before the
 * program that made it goes on, and ip_host_is_local() looks for notices before it uses an answer. `v6` says that the
 * host has a way to the IPv6 internet; `deny_onlink` is the caller's, for policies: neighbours of the host, which have
 * public addresses where the host has one, need a rule that names them.
 */
enum { IP_HOST_LOOK = 5000, IP_ROUTE_KEEP = 1000, IP_ROUTES_KEPT = 64 };
struct ip_route {
	struct ip ip;
	uint64_t asked; /* monotonic ms; 0: nothing is kept here */
	bool local;
	bool onlink; /* no gateway leads there */
};
struct ip_host {
	struct ip *v;
	size_t n;
	uint64_t looked; /* monotonic ms; 0: never, and the kernel is not asked */
	int routes;	 /* netlink, for questions; -1: none. Only when `looked` */
	int changes;	 /* netlink, for notices; -1: none, and no answer is kept. Only when `looked` */
	bool v6;
	bool deny_onlink;
	uint64_t now; /* of the last look */
	struct ip_route known[IP_ROUTES_KEPT];
};
void ip_host_look(struct ip_host *h, uint64_t now);
/* One of them, or an IPv6 form of one. */
bool ip_host_has(const struct ip_host *h, const struct ip *ip);
/* The same, and what the kernel would deliver to the host itself now. True as well when it cannot be asked. */
bool ip_host_is_local(struct ip_host *h, const struct ip *ip);
/* No gateway leads there, also when it cannot be asked. Never when there is no route. */
bool ip_host_is_onlink(struct ip_host *h, const struct ip *ip);
void ip_host_free(struct ip_host *h);
