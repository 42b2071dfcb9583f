/*
 * What has to be done inside of a box's network namespace: addresses and routes through netlink, and our sockets.
 */
#include <linux/if_addr.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

#include "cage/steer.h"

enum { LOOPBACK_INDEX = 1 };

static const uint8_t box4[4] = {192, 0, 0, 2}, box6[16] = STEER_BOX6;

struct message {
	struct nlmsghdr head;
	union {
		struct ifaddrmsg addr;
		struct rtmsg route;
		char room[128];
	};
};

static int fail(struct err *e, const char *what)
{
	return err_os(e, ERRC_HOST_UNSUPPORTED, errno, "%s", what);
}

static void attribute(struct message *m, uint16_t type, const void *p, size_t n)
{
	struct rtattr *a = (struct rtattr *)((char *)m + NLMSG_ALIGN(m->head.nlmsg_len));
	a->rta_type = type;
	a->rta_len = (uint16_t)RTA_LENGTH(n);
	memcpy(RTA_DATA(a), p, n);
	m->head.nlmsg_len = NLMSG_ALIGN(m->head.nlmsg_len) + RTA_ALIGN(a->rta_len);
}

/* Sends one request and reads the kernel's verdict. -1 and errno. */
static int talk(int fd, struct message *m)
{
	struct {
		struct nlmsghdr head;
		struct nlmsgerr verdict;
		char room[256];
	} r;
	m->head.nlmsg_flags |= NLM_F_REQUEST | NLM_F_ACK;
	if (send(fd, m, m->head.nlmsg_len, 0) < 0)
		return -1;
	ssize_t n = recv(fd, &r, sizeof r, 0);
	if (n < (ssize_t)NLMSG_LENGTH(sizeof r.verdict) || r.head.nlmsg_type != NLMSG_ERROR) {
		errno = n < 0 ? errno : EPROTO;
		return -1;
	}
	errno = -r.verdict.error;
	return r.verdict.error && r.verdict.error != -EEXIST ? -1 : 0;
}

static int add_address(int fd, int family, const uint8_t *addr, size_t n)
{
	struct message m = {.head = {.nlmsg_len = NLMSG_LENGTH(sizeof m.addr),
				    .nlmsg_type = RTM_NEWADDR,
				    .nlmsg_flags = NLM_F_CREATE | NLM_F_EXCL}};
	m.addr = (struct ifaddrmsg){.ifa_family = (uint8_t)family,
		.ifa_prefixlen = (uint8_t)(n * 8),
		.ifa_flags = IFA_F_PERMANENT | IFA_F_NODAD,
		.ifa_index = LOOPBACK_INDEX};
	attribute(&m, IFA_LOCAL, addr, n);
	attribute(&m, IFA_ADDRESS, addr, n);
	return talk(fd, &m);
}

/* local 0.0.0.0/0 dev lo src 192.0.0.2. Without the source a connection's would be its destination. */
static int add_route(int fd, int family, const uint8_t *source, size_t n)
{
	struct message m = {.head = {.nlmsg_len = NLMSG_LENGTH(sizeof m.route),
				    .nlmsg_type = RTM_NEWROUTE,
				    .nlmsg_flags = NLM_F_CREATE | NLM_F_EXCL}};
	m.route = (struct rtmsg){.rtm_family = (uint8_t)family,
		.rtm_table = RT_TABLE_LOCAL,
		.rtm_protocol = RTPROT_STATIC,
		.rtm_scope = family == AF_INET ? RT_SCOPE_HOST : RT_SCOPE_UNIVERSE,
		.rtm_type = RTN_LOCAL};
	attribute(&m, RTA_OIF, &(uint32_t){LOOPBACK_INDEX}, sizeof(uint32_t));
	attribute(&m, RTA_PREFSRC, source, n);
	return talk(fd, &m);
}

int steer_addresses(bool v6, struct err *e)
{
	auto_fd int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	if (fd < 0)
		return fail(e, "open a netlink socket");
	if (add_address(fd, AF_INET, box4, sizeof box4) < 0)
		return fail(e, "give the box its address");
	if (add_route(fd, AF_INET, box4, sizeof box4) < 0)
		return fail(e, "declare all addresses local");
	if (v6 && add_address(fd, AF_INET6, box6, sizeof box6) < 0)
		return fail(e, "give the box its IPv6 address");
	if (v6 && add_route(fd, AF_INET6, box6, sizeof box6) < 0)
		return fail(e, "declare all IPv6 addresses local");
	return 0;
}

/* One socket for both families where there are two: it sees IPv4 as ::ffff:a.b.c.d. */
static int bound(int type)
{
	const int on = 1, off = 0;
	auto_fd int fd = socket(AF_INET6, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0) {
		struct sockaddr_in6 sa = {.sin6_family = AF_INET6, .sin6_port = htons(STEER_PORT)};
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
		setsockopt(fd, IPPROTO_IPV6, IPV6_FREEBIND, &on, sizeof on);
		memcpy(&sa.sin6_addr, &(uint8_t[16]){[10] = 0xff, [11] = 0xff, [12] = 192, [15] = 1}, 16);
		return bind(fd, (struct sockaddr *)&sa, sizeof sa) < 0 ? -1 : take_fd(&fd);
	}
	if (errno != EAFNOSUPPORT)
		return -1;
	fd = socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_in sa = {.sin_family = AF_INET, .sin_port = htons(STEER_PORT)};
	sa.sin_addr.s_addr = htonl(STEER_RESOLVER4);
	return fd < 0 || bind(fd, (struct sockaddr *)&sa, sizeof sa) < 0 ? -1 : take_fd(&fd);
}

static int make_udp(void)
{
	const int on = 1;
	auto_fd int fd = bound(SOCK_DGRAM);
	if (fd < 0)
		return -1;
	/* Each datagram comes with the address and port that it was sent to. The IPv6 option fails on an IPv4 socket.
	 */
	setsockopt(fd, IPPROTO_IPV6, IPV6_RECVORIGDSTADDR, &on, sizeof on);
	return setsockopt(fd, IPPROTO_IP, IP_RECVORIGDSTADDR, &on, sizeof on) < 0 ? -1 : take_fd(&fd);
}

static int make_tcp(void)
{
	const int on = 1;
	auto_fd int fd = bound(SOCK_STREAM);
	/* Accepted sockets take both over. */
	if (fd >= 0) {
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
		setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
	}
	return fd < 0 || listen(fd, STEER_BACKLOG) < 0 ? -1 : take_fd(&fd);
}

static int make_raw(int family)
{
	return socket(family, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_RAW);
}

static int make_diag(void)
{
	return socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG);
}

int steer_listen(bool v6, struct steer_sockets *s, struct err *e)
{
	if ((s->tcp < 0 && (s->tcp = make_tcp()) < 0) || (s->udp < 0 && (s->udp = make_udp()) < 0) ||
		(s->raw4 < 0 && (s->raw4 = make_raw(AF_INET)) < 0) || (s->diag < 0 && (s->diag = make_diag()) < 0) ||
		(v6 && s->raw6 < 0 && (s->raw6 = make_raw(AF_INET6)) < 0))
		return fail(e, "make the box's listeners");
	return 0;
}

void steer_close(struct steer_sockets *s)
{
	fd_close(&s->tcp);
	fd_close(&s->udp);
	fd_close(&s->raw4);
	fd_close(&s->diag);
	fd_close(&s->raw6);
}
