#include "proto/ip.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

struct ip ip_v4(uint32_t host_order)
{
	struct ip r;
	uint32_t n = htonl(host_order);
	memcpy(r.b, mapped, sizeof mapped);
	memcpy(r.b + 12, &n, 4);
	return r;
}

bool ip_is4(const struct ip *ip)
{
	return memcmp(ip->b, mapped, sizeof mapped) == 0;
}

bool ip_eq(const struct ip *a, const struct ip *b)
{
	return memcmp(a->b, b->b, sizeof a->b) == 0;
}

bool ip_in(const struct ip *ip, const struct ip *range, int bits)
{
	int whole = bits / 8, rest = bits % 8;
	if (memcmp(ip->b, range->b, (size_t)whole) != 0)
		return false;
	return !rest || (ip->b[whole] ^ range->b[whole]) >> (8 - rest) == 0;
}

static uint32_t word(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

struct range4 {
	uint32_t net;
	int bits;
	enum ip_kind kind;
};

/* The first that matches counts. */
static const struct range4 ranges4[] = {
	{0x00000000, 8, IP_UNSPECIFIED},
	{0x7f000000, 8, IP_LOOPBACK},
	{0x0a000000, 8, IP_PRIVATE},
	{0xac100000, 12, IP_PRIVATE},
	{0xc0a80000, 16, IP_PRIVATE},
	{0xa9fe0000, 16, IP_LINK_LOCAL},
	{0xa83f8110, 32, IP_LINK_LOCAL}, /* 168.63.129.16: the platform's own server in one cloud */
	{0x64400000, 10, IP_CARRIER},
	{0xc0000000, 24, IP_RESERVED}, /* 192.0.0.0/24: protocol assignments, a metadata server among them */
	{0xc0586300, 24, IP_RESERVED}, /* 6to4 relays */
	{0xc6120000, 15, IP_RESERVED}, /* benchmarks; the gate's own synthetic addresses */
	{0xe0000000, 4, IP_MULTICAST},
	{0xf0000000, 4, IP_RESERVED},
};

static enum ip_kind kind4(uint32_t a)
{
	for (size_t i = 0; i < ARRAY_LEN(ranges4); i++)
		if ((a ^ ranges4[i].net) >> (32 - ranges4[i].bits) == 0)
			return ranges4[i].kind;
	return IP_PUBLIC;
}

/* An address of a transition mechanism is as public as the less public of what it holds. */
static enum ip_kind kind_teredo(const uint8_t *b)
{
	enum ip_kind server = kind4(word(b + 4)), client = kind4(~word(b + 12));
	return server != IP_PUBLIC ? server : client;
}

static bool zero(const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (p[i])
			return false;
	return true;
}

static enum ip_kind kind_low(const uint8_t *b)
{
	if (memcmp(b, mapped, sizeof mapped) == 0)
		return kind4(word(b + 12));
	if (!zero(b, 12))
		return IP_RESERVED;
	uint32_t low = word(b + 12);
	return low == 0 ? IP_UNSPECIFIED : low == 1 ? IP_LOOPBACK : kind4(low) == IP_PUBLIC ? IP_RESERVED : kind4(low);
}

static enum ip_kind kind_global(const uint8_t *b)
{
	uint32_t high = word(b), isatap = word(b + 8) & 0xfcffffff;
	if (high == 0x20010000)
		return kind_teredo(b);
	if (high >> 16 == 0x2002)
		return kind4(word(b + 2));
	if (isatap == 0x00005efe)
		return kind4(word(b + 12));
	return IP_PUBLIC;
}

enum ip_kind ip_kind(const struct ip *ip)
{
	const uint8_t *b = ip->b;
	uint32_t high = word(b);
	if (high == 0)
		return kind_low(b);
	if (high == 0x0064ff9b)
		return zero(b + 4, 8) ? kind4(word(b + 12)) : IP_RESERVED; /* the latter: local NAT64 prefixes */
	if (b[0] == 0xff)
		return IP_MULTICAST;
	if (high >> 22 == 0xfe80 >> 6)
		return IP_LINK_LOCAL;
	if (high >> 22 == 0xfec0 >> 6 || b[0] >> 1 == 0xfc >> 1)
		return IP_PRIVATE;
	return b[0] >> 5 == 1 ? kind_global(b) : IP_RESERVED;
}

bool ip_embedded4(const struct ip *ip, struct ip *ret)
{
	const uint8_t *b = ip->b;
	uint32_t high = word(b);
	if (high == 0x0064ff9b && zero(b + 4, 8))
		*ret = ip_v4(word(b + 12));
	else if (high >> 16 == 0x2002)
		*ret = ip_v4(word(b + 2));
	else if (high == 0x20010000)
		*ret = ip_v4(~word(b + 12));
	else if (b[0] >> 5 == 1 && (word(b + 8) & 0xfcffffff) == 0x00005efe)
		*ret = ip_v4(word(b + 12));
	else
		return false;
	return true;
}

const char *ip_kind_name(enum ip_kind k)
{
	static const char *const names[] = {[IP_PUBLIC] = "public",
		[IP_UNSPECIFIED] = "unspecified",
		[IP_LOOPBACK] = "loopback",
		[IP_PRIVATE] = "private",
		[IP_LINK_LOCAL] = "link-local",
		[IP_CARRIER] = "carrier-grade NAT",
		[IP_MULTICAST] = "multicast",
		[IP_RESERVED] = "reserved"};
	return names[k];
}

bool ip_parse(struct str text, struct ip *ret)
{
	char c[IP_TEXT];
	struct in_addr four;
	struct ip r;
	if (text.n == 0 || text.n >= sizeof c || memchr(text.p, 0, text.n))
		return false;
	memcpy(c, text.p, text.n);
	c[text.n] = 0;
	if (inet_pton(AF_INET, c, &four) == 1)
		r = ip_v4(ntohl(four.s_addr));
	else if (inet_pton(AF_INET6, c, r.b) != 1)
		return false;
	*ret = r;
	return true;
}

const char *ip_format(const struct ip *ip, char ret[IP_TEXT])
{
	if (ip_is4(ip))
		inet_ntop(AF_INET, ip->b + 12, ret, IP_TEXT);
	else
		inet_ntop(AF_INET6, ip->b, ret, IP_TEXT);
	return ret;
}

socklen_t ip_to_sockaddr(const struct ip *ip, uint16_t port, union ip_sockaddr *ret)
{
	*ret = (union ip_sockaddr){0};
	if (ip_is4(ip)) {
		ret->in = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port)};
		memcpy(&ret->in.sin_addr, ip->b + 12, 4);
		return sizeof ret->in;
	}
	ret->in6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons(port)};
	memcpy(&ret->in6.sin6_addr, ip->b, 16);
	return sizeof ret->in6;
}

bool ip_from_sockaddr(const union ip_sockaddr *sa, struct ip *ret, uint16_t *ret_port)
{
	if (sa->sa.sa_family == AF_INET) {
		*ret = ip_v4(ntohl(sa->in.sin_addr.s_addr));
		*ret_port = ntohs(sa->in.sin_port);
		return true;
	}
	if (sa->sa.sa_family != AF_INET6)
		return false;
	memcpy(ret->b, &sa->in6.sin6_addr, 16);
	*ret_port = ntohs(sa->in6.sin6_port);
	return true;
}

/* Sends nothing: a datagram socket that can be connected has a route and a source. */
static bool has_route6(void)
{
	auto_fd int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ip far = {{0x20, 0x01, 0x0d, 0xb8, [15] = 1}};
	union ip_sockaddr sa;
	socklen_t n = ip_to_sockaddr(&far, 53, &sa);
	return fd >= 0 && connect(fd, &sa.sa, n) == 0;
}

#define CHANGE(group) (1u << (RTNLGRP_##group - 1))

/* What can change the route to an address. IPv4 routes that go with a link are gone without a notice of their own. */
static int open_changes(void)
{
	const struct sockaddr_nl all = {.nl_family = AF_NETLINK,
		.nl_groups = CHANGE(LINK) | CHANGE(IPV4_IFADDR) | CHANGE(IPV4_ROUTE) | CHANGE(IPV4_RULE) |
			     CHANGE(IPV6_IFADDR) | CHANGE(IPV6_ROUTE) | CHANGE(IPV6_RULE) | CHANGE(NEXTHOP)};
	auto_fd int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
	return fd >= 0 && bind(fd, (const struct sockaddr *)&all, sizeof all) == 0 ? take_fd(&fd) : -1;
}

void ip_host_look(struct ip_host *h, uint64_t now)
{
	struct ifaddrs *all = NULL;
	h->now = now;
	if ((h->looked && now - h->looked < IP_HOST_LOOK) || getifaddrs(&all) < 0)
		return;
	if (!h->looked)
		h->routes = h->changes = -1;
	if (h->routes < 0)
		h->routes = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
	if (h->changes < 0)
		h->changes = open_changes();
	h->looked = now ? now : 1;
	h->v6 = has_route6();
	h->n = 0;
	for (struct ifaddrs *a = all; a; a = a->ifa_next) {
		struct ip ip;
		uint16_t port;
		if (!a->ifa_addr || !ip_from_sockaddr((union ip_sockaddr *)a->ifa_addr, &ip, &port))
			continue;
		h->v = xrealloc(h->v, (h->n + 1) * sizeof *h->v);
		h->v[h->n++] = ip;
	}
	freeifaddrs(all);
}

bool ip_host_has(const struct ip_host *h, const struct ip *ip)
{
	struct ip four;
	bool holds = ip_embedded4(ip, &four);
	for (size_t i = 0; i < h->n; i++)
		if (ip_eq(&h->v[i], ip) || (holds && ip_eq(&h->v[i], &four)))
			return true;
	return false;
}

/* ---- the route to an address ---- */

struct route_question {
	struct nlmsghdr head;
	struct rtmsg route;
	struct rtattr attr;
	uint8_t to[16];
};

union route_answer {
	struct nlmsghdr head;
	struct {
		struct nlmsghdr head;
		struct rtmsg route;
	} found;
	struct {
		struct nlmsghdr head;
		struct nlmsgerr error;
	} none;
	char room[4096];
};

static bool send_question(int fd, const struct ip *ip, uint32_t number)
{
	bool four = ip_is4(ip);
	size_t n = four ? 4 : 16, all = offsetof(struct route_question, to) + n;
	struct route_question q = {.head = {.nlmsg_len = (uint32_t)all,
					   .nlmsg_type = RTM_GETROUTE,
					   .nlmsg_flags = NLM_F_REQUEST,
					   .nlmsg_seq = number},
		.route = {.rtm_family = four ? AF_INET : AF_INET6, .rtm_dst_len = (uint8_t)(n * 8)},
		.attr = {.rta_len = (uint16_t)RTA_LENGTH(n), .rta_type = RTA_DST}};
	memcpy(q.to, ip->b + 16 - n, n);
	return send(fd, &q, all, 0) == (ssize_t)all;
}

static bool has_gateway(const union route_answer *a, size_t n)
{
	const struct rtattr *attr = RTM_RTA(&a->found.route);
	for (size_t left = n - sizeof a->found; RTA_OK(attr, left); attr = RTA_NEXT(attr, left))
		if (attr->rta_type == RTA_GATEWAY || attr->rta_type == RTA_VIA)
			return true;
	return false;
}

/* The type of the route, RTN_UNREACHABLE when there is none, or -1. The answer is there when send() returns; what is
 * left of an earlier question is passed over. */
static int route_type(int fd, const struct ip *ip, bool *ret_onlink)
{
	static uint32_t number;
	union route_answer a;
	ssize_t n;
	if (!send_question(fd, ip, ++number))
		return -1;
	do
		n = recv(fd, &a, sizeof a, 0);
	while (n >= (ssize_t)sizeof a.head && a.head.nlmsg_seq != number);
	if (n >= (ssize_t)sizeof a.found && a.head.nlmsg_type == RTM_NEWROUTE) {
		*ret_onlink = !has_gateway(&a, (size_t)n);
		return a.found.route.rtm_type;
	}
	*ret_onlink = false;
	return n >= (ssize_t)sizeof a.none && a.head.nlmsg_type == NLMSG_ERROR ? RTN_UNREACHABLE : -1;
}

/* Takes all notices. An error stands for those that were lost (ENOBUFS). */
static bool has_changed(int fd)
{
	char notice[64];
	bool any = fd < 0, more = !any;
	while (more) {
		bool failed = recv(fd, notice, sizeof notice, 0) < 0;
		any |= !failed || errno != EAGAIN;
		more = !failed || errno == ENOBUFS;
	}
	return any;
}

static struct ip_route *place_of(struct ip_host *h, const struct ip *ip)
{
	uint32_t sum = 0;
	for (size_t i = 0; i < sizeof ip->b; i++)
		sum = sum * 31 + ip->b[i];
	return &h->known[sum % IP_ROUTES_KEPT];
}

/* Notices are taken before the question: what changes after that has a notice that the next use finds. */
static const struct ip_route *route_to(struct ip_host *h, const struct ip *ip)
{
	struct ip_route *r = place_of(h, ip);
	bool onlink;
	if (has_changed(h->changes))
		memset(h->known, 0, sizeof h->known);
	if (r->asked && h->now - r->asked < IP_ROUTE_KEEP && ip_eq(&r->ip, ip))
		return r;
	int t = route_type(h->routes, ip, &onlink);
	*r = (struct ip_route){.ip = *ip,
		.asked = t < 0 ? 0 : h->now,
		.local = t < 0 || t == RTN_LOCAL || t == RTN_ANYCAST,
		.onlink = t < 0 || onlink};
	return r;
}

bool ip_host_is_local(struct ip_host *h, const struct ip *ip)
{
	struct ip four;
	if (ip_host_has(h, ip))
		return true;
	if (!h->looked)
		return false;
	return route_to(h, ip)->local || (ip_embedded4(ip, &four) && route_to(h, &four)->local);
}

bool ip_host_is_onlink(struct ip_host *h, const struct ip *ip)
{
	struct ip four;
	if (!h->looked)
		return false;
	return route_to(h, ip)->onlink || (ip_embedded4(ip, &four) && route_to(h, &four)->onlink);
}

void ip_host_free(struct ip_host *h)
{
	if (h->looked) {
		fd_close(&h->routes);
		fd_close(&h->changes);
	}
	free(h->v);
	*h = (struct ip_host){0};
}
