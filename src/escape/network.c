/*
 * Sockets: the families that have been ways into the kernel, the box's own network, and the host's.
 */
#include "escape/escape.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

struct family {
	const char *what;
	int domain, type, protocol;
};

static void sockets(const struct check *c, struct outcome *o)
{
	for (const struct family *f = c->data; f->what; f++) {
		long fd = TRY(o, f->what, socket(f->domain, f->type | SOCK_CLOEXEC, f->protocol), EPERM, EAFNOSUPPORT,
			ESOCKTNOSUPPORT);
		if (fd >= 0)
			close((int)fd);
	}
}

static const struct family f_packet[] = {{"socket(AF_PACKET, raw)", AF_PACKET, SOCK_RAW, 0},
	{"socket(AF_PACKET, dgram)", AF_PACKET, SOCK_DGRAM, 0}, {"socket(AF_INET, packet)", AF_INET, SOCK_PACKET, 0},
	{0}};
static const struct family f_alg[] = {{"socket(AF_ALG)", AF_ALG, SOCK_SEQPACKET, 0}, {0}};
static const struct family f_vsock[] = {
	{"socket(AF_VSOCK)", AF_VSOCK, SOCK_STREAM, 0}, {"socket(AF_VSOCK, dgram)", AF_VSOCK, SOCK_DGRAM, 0}, {0}};
static const struct family f_netlink[] = {{"socket(NETLINK_NETFILTER)", AF_NETLINK, SOCK_RAW, NETLINK_NETFILTER},
	{"socket(NETLINK_XFRM)", AF_NETLINK, SOCK_RAW, NETLINK_XFRM},
	{"socket(NETLINK_AUDIT)", AF_NETLINK, SOCK_RAW, NETLINK_AUDIT},
	{"socket(NETLINK_KOBJECT_UEVENT)", AF_NETLINK, SOCK_RAW, NETLINK_KOBJECT_UEVENT},
	{"socket(NETLINK_CRYPTO)", AF_NETLINK, SOCK_RAW, NETLINK_CRYPTO},
	{"socket(NETLINK_GENERIC)", AF_NETLINK, SOCK_RAW, NETLINK_GENERIC},
	{"socket(NETLINK_CONNECTOR)", AF_NETLINK, SOCK_RAW, NETLINK_CONNECTOR},
	{"socket(NETLINK_SOCK_DIAG)", AF_NETLINK, SOCK_RAW, NETLINK_SOCK_DIAG}, {0}};

/* Raw sockets: family and some protocols are allowed, so it is the capability that has to be missing. */
static void raw_sockets(const struct check *c, struct outcome *o)
{
	(void)c;
	TRY(o, "raw TCP", socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_TCP), EPERM);
	TRY(o, "raw UDP over IPv6", socket(AF_INET6, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_UDP), EPERM, EAFNOSUPPORT);
	TRY(o, "raw ICMP", socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMP), EPROTONOSUPPORT);
	TRY(o, "raw IP", socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW), EPROTONOSUPPORT);
	TRY(o, "raw ICMPv6", socket(AF_INET6, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMPV6), EPROTONOSUPPORT);
}

/* All families, also those of future kernels: only unix, inet, inet6 and netlink are for boxes. */
static void other_families(const struct check *c, struct outcome *o)
{
	(void)c;
	static const int types[] = {SOCK_STREAM, SOCK_DGRAM, SOCK_RAW, SOCK_SEQPACKET};
	int tried = 0;
	expect(o, "EPERM or EAFNOSUPPORT for every family");
	for (int family = 0; family < 64; family++) {
		if (family == AF_UNIX || family == AF_INET || family == AF_INET6 || family == AF_NETLINK)
			continue;
		for (size_t i = 0; i < ARRAY_LEN(types); i++, tried++) {
			auto_fd int fd = socket(family, types[i] | SOCK_CLOEXEC, 0);
			if (fd >= 0)
				escaped(o, "socket(family %d, type %d) succeeded", family, types[i]);
			else if (errno != EPERM && errno != EAFNOSUPPORT)
				errored(o, "socket(family %d, type %d): %s", family, types[i], errno_name(errno));
		}
	}
	refused(o, "none of %d", tried);
}

/* One netlink request; returns 0 or -errno as the kernel acknowledged it. */
static int route_request(int type, int flags, const void *body, size_t n)
{
	struct {
		struct nlmsghdr head;
		char body[128];
	} msg = {.head = {.nlmsg_len = (unsigned)NLMSG_LENGTH(n),
			 .nlmsg_type = (unsigned short)type,
			 .nlmsg_flags = (unsigned short)(NLM_F_REQUEST | NLM_F_ACK | flags),
			 .nlmsg_seq = 1}};
	union {
		struct nlmsghdr head;
		char bytes[4096];
	} reply;
	auto_fd int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	if (fd < 0)
		return -errno;
	memcpy(msg.body, body, n);
	if (send(fd, &msg, msg.head.nlmsg_len, 0) < 0 || recv(fd, &reply, sizeof(reply), 0) < (ssize_t)NLMSG_LENGTH(4))
		return -errno;
	const struct nlmsgerr *err = (const struct nlmsgerr *)(const void *)NLMSG_DATA(&reply.head);
	return reply.head.nlmsg_type == NLMSG_ERROR ? err->error : 0;
}

/* Addresses, routes and links of our own making, and traffic control (CVE-2023-3609, CVE-2022-2588). */
static void netlink_route(const struct check *c, struct outcome *o)
{
	(void)c;
	struct {
		struct ifaddrmsg ifa;
		struct rtattr attr;
		unsigned char ip[4];
	} addr = {{.ifa_family = AF_INET, .ifa_prefixlen = 32, .ifa_index = 1}, {8, 2 /* IFA_LOCAL */}, {127, 9, 9, 9}};
	struct rtmsg route = {.rtm_family = AF_INET,
		.rtm_table = RT_TABLE_MAIN,
		.rtm_protocol = RTPROT_STATIC,
		.rtm_scope = RT_SCOPE_HOST,
		.rtm_type = RTN_BLACKHOLE};
	struct ifinfomsg link = {.ifi_index = 1, .ifi_flags = 0, .ifi_change = IFF_DEBUG};
	struct tcmsg tc = {.tcm_ifindex = 1, .tcm_parent = 0xffffffff};
	static const struct {
		const char *what;
		int type, flags;
	} what[] = {{"RTM_NEWADDR", RTM_NEWADDR, NLM_F_CREATE},
		{"RTM_NEWROUTE", RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL}, {"RTM_SETLINK", RTM_SETLINK, 0},
		{"RTM_NEWQDISC", RTM_NEWQDISC, NLM_F_CREATE}};
	const void *body[] = {&addr, &route, &link, &tc};
	const size_t size[] = {sizeof(addr), sizeof(route), sizeof(link), sizeof(tc)};
	for (size_t i = 0; i < ARRAY_LEN(what); i++) {
		int rc = route_request(what[i].type, what[i].flags, body[i], size[i]);
		TRY(o, what[i].what, (errno = -rc, rc), EPERM);
	}
}

static void set_options(const struct check *c, struct outcome *o)
{
	(void)c;
	struct ifreq ifr = {.ifr_name = "lo"};
	int one = 1;
	char table[96] = "filter";
	auto_fd int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0) {
		errored(o, "socket: %s", errno_name(errno));
		return;
	}
	TRY(o, "SO_MARK", setsockopt(fd, SOL_SOCKET, SO_MARK, &one, sizeof(one)), EPERM);
	TRY(o, "SO_SNDBUFFORCE", setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &one, sizeof(one)), EPERM);
	TRY(o, "IP_TRANSPARENT", setsockopt(fd, IPPROTO_IP, IP_TRANSPARENT, &one, sizeof(one)), EPERM);
	TRY(o, "TCP_REPAIR", setsockopt(fd, IPPROTO_TCP, 19, &one, sizeof(one)), EPERM);
	/* IPT_SO_SET_REPLACE, CVE-2021-22555 */
	TRY(o, "IPT_SO_SET_REPLACE", setsockopt(fd, IPPROTO_IP, 64, table, sizeof(table)), EPERM, ENOPROTOOPT);
	TRY(o, "SIOCSIFFLAGS", (ioctl(fd, SIOCGIFFLAGS, &ifr), ioctl(fd, SIOCSIFFLAGS, &ifr)), EPERM);
}

/* A box has loopback, and later one interface of its own: nothing that looks like the host's. */
static void interfaces(const struct check *c, struct outcome *o)
{
	(void)c;
	struct if_nameindex *all = if_nameindex();
	expect(o, "lo, and at most eth0");
	if (!all) {
		errored(o, "if_nameindex: %s", errno_name(errno));
		return;
	}
	for (struct if_nameindex *i = all; i->if_index; i++)
		if (strcmp(i->if_name, "lo") != 0 && strcmp(i->if_name, "eth0") != 0)
			escaped(o, "there is %s", i->if_name);
	refused(o, "none of the host's");
	if_freenameindex(all);
}

/* 0 when connected, else the errno; a silent network counts as ETIMEDOUT. */
static int tcp_connect(const char *ip, int port)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((unsigned short)port)};
	int os = 0;
	socklen_t n = sizeof(os);
	inet_pton(AF_INET, ip, &to.sin_addr);
	auto_fd int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return errno;
	if (connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0)
		return 0;
	if (errno != EINPROGRESS)
		return errno;
	struct pollfd p = {.fd = fd, .events = POLLOUT};
	if (poll(&p, 1, 3000) <= 0)
		return ETIMEDOUT;
	getsockopt(fd, SOL_SOCKET, SO_ERROR, &os, &n);
	return os;
}

/* host_port: a listener on the host's 127.0.0.1, made for this check; api_port: the daemon's own. */
static void host_loopback(const struct check *c, struct outcome *o)
{
	(void)c;
	long port, api;
	if (!arg_need(o, "host_port", &port) || !arg_need(o, "api_port", &api))
		return;
	int os = tcp_connect("127.0.0.1", (int)port);
	TRY(o, "connect to the host's 127.0.0.1", (errno = os, os ? -1 : 0), ECONNREFUSED);
	os = tcp_connect("127.0.0.1", (int)api);
	TRY(o, "connect to the daemon", (errno = os, os ? -1 : 0), ECONNREFUSED);
}

/* What is behind an address that a connection was accepted for: an errno of the connection, 0 when bytes came from
 * there. The gate accepts every connection and then refuses: HTTP is answered 403 with the reason, all else is reset.
 */
static int reach(const struct sockaddr *to, socklen_t size)
{
	static const char ask[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\n", refusal[] = "HTTP/1.1 403 ";
	char answer[64] = "";
	struct timeval limit = {.tv_sec = 5};
	auto_fd int fd = socket(to->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
	if (fd < 0 || connect(fd, to, size) < 0 || send(fd, ask, sizeof ask - 1, MSG_NOSIGNAL) < 0)
		return errno;
	ssize_t n = recv(fd, answer, sizeof answer - 1, MSG_WAITALL);
	if (n < 0)
		return errno;
	return strncmp(answer, refusal, sizeof refusal - 1) == 0 ? EPERM : 0;
}

/* In any spelling that programs take for an IPv4 address. */
static int tcp_reach(const char *ip, int port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	return inet_aton(ip, &a.sin_addr) ? reach((struct sockaddr *)&a, sizeof a) : EINVAL;
}

static int tcp_reach6(const char *ip, int port)
{
	struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
	return inet_pton(AF_INET6, ip, &a.sin6_addr) == 1 ? reach((struct sockaddr *)&a, sizeof a) : EINVAL;
}

/* The metadata service and private networks, spelled so that a careless filter does not know them. */
static void address_forms(const struct check *c, struct outcome *o)
{
	static const char *const spelled[] = {
		"2852039166", "0xa9fea9fe", "0251.0376.0251.0376", "169.254.43518", "10.1"};
	static const char *const six[] = {"::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1",
		"2001:0:a9fe:a9fe::1", "fd00:ec2::254", "ff02::1"};
	char what[64];
	int os;
	(void)c;
	for (size_t i = 0; i < ARRAY_LEN(spelled); i++) {
		snprintf(what, sizeof(what), "reach %s", spelled[i]);
		os = tcp_reach(spelled[i], 80);
		TRY(o, what, (errno = os, os ? -1 : 0), ECONNREFUSED, EPERM);
	}
	/* A box has IPv6 only where the host has. */
	for (size_t i = 0; i < ARRAY_LEN(six); i++) {
		snprintf(what, sizeof(what), "reach %s", six[i]);
		os = tcp_reach6(six[i], 80);
		TRY(o, what, (errno = os, os ? -1 : 0), ECONNREFUSED, EPERM, ENETUNREACH, EADDRNOTAVAIL, EAFNOSUPPORT);
	}
}

/* The listener that connections are steered to is bound to port 1 of the box's namespace. */
static void gate_port(const struct check *c, struct outcome *o)
{
	static const char *const own[] = {"127.0.0.1", "127.1.2.3", "192.0.0.2"};
	char what[64];
	(void)c;
	for (size_t i = 0; i < ARRAY_LEN(own); i++) {
		snprintf(what, sizeof(what), "speak to %s port 1", own[i]);
		int os = tcp_reach(own[i], 1);
		TRY(o, what, (errno = os, os ? -1 : 0), ECONNREFUSED, ECONNRESET, EPIPE);
	}
}

static void host_addresses(const struct check *c, struct outcome *o)
{
	(void)c;
	long port;
	char what[64];
	static const char *const others[] = {"169.254.169.254", "10.0.0.1", "172.17.0.1", "192.168.0.1", "100.64.0.1"};
	const char *host = arg_get("host_ip");
	if (!arg_need(o, "host_port", &port))
		return;
	int os = EPERM;
	if (host) { /* it may have loopback only */
		os = tcp_reach(host, (int)port);
		TRY(o, "reach the host's address", (errno = os, os ? -1 : 0), EPERM, ECONNREFUSED);
	}
	for (size_t i = 0; i < ARRAY_LEN(others); i++) {
		snprintf(what, sizeof(what), "reach %s", others[i]);
		os = tcp_reach(others[i], 80);
		TRY(o, what, (errno = os, os ? -1 : 0), ECONNREFUSED, EPERM);
	}
}

/* host_abstract: the name of a listening abstract socket of the host. */
static void host_abstract(const struct check *c, struct outcome *o)
{
	(void)c;
	const char *name = arg_get("host_abstract");
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	if (!name || strlen(name) > 60) {
		errored(o, "the argument host_abstract=NAME is missing");
		return;
	}
	memcpy(to.sun_path + 1, name, strlen(name));
	auto_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	TRY(o, "connect to the host's abstract socket",
		connect(fd, (struct sockaddr *)&to,
			(socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name))),
		ECONNREFUSED);
}

/* Unix sockets have names in the file system too: those of the daemon, the warden and their like must not be there. */
static void host_sockets(const struct check *c, struct outcome *o)
{
	(void)c;
	static const char *const paths[] = {"/run/atoll/atoll.sock", "/run/atoll/warden.sock", "/run/atoll/s/0.sock",
		"/var/run/docker.sock", "/run/containerd/containerd.sock", "/run/dbus/system_bus_socket",
		"/run/systemd/private"};
	char table[65536];
	struct stat st;
	expect(o, "no socket of the host");
	for (size_t i = 0; i < ARRAY_LEN(paths); i++)
		if (stat(paths[i], &st) == 0)
			escaped(o, "%s is here", paths[i]);
	if (slurp("/proc/net/unix", table, sizeof(table)) < 0)
		errored(o, "/proc/net/unix cannot be read");
	else if (strstr(table, "atoll.sock") || strstr(table, "warden.sock") || strstr(table, "systemd") ||
		 strstr(table, "/s/"))
		escaped(o, "/proc/net/unix shows sockets of the host");
	refused(o, "none of the host's sockets has a name here");
}

#define FILTER "seccomp"
static const struct check checks[] = {
	{"af-packet", "CVE-2016-8655, CVE-2017-7308, CVE-2020-14386: packet sockets", "seccomp, capabilities", sockets,
		f_packet, CHECK_DEMO},
	{"af-alg", "CVE-2019-8912: the kernel's crypto interface", FILTER, sockets, f_alg, CHECK_DEMO},
	{"af-vsock", "CVE-2021-26708: vsock, which also talks to the hypervisor", FILTER, sockets, f_vsock, CHECK_DEMO},
	{"netlink-families", "CVE-2024-1086, CVE-2023-32233 (nf_tables), CVE-2022-27666 (xfrm), audit, uevents", FILTER,
		sockets, f_netlink, CHECK_DEMO},
	{"other-families", "CVE-2021-43267 (tipc) …: every other socket family", FILTER, other_families, NULL,
		CHECK_DEMO},
	{"raw-sockets", "forge packets", "seccomp, capabilities", raw_sockets, NULL, CHECK_DEMO},
	{"netlink-route", "CVE-2023-3609, CVE-2022-2588: addresses, routes, links, traffic control", "capabilities",
		netlink_route, NULL, CHECK_DEMO},
	{"socket-options", "CVE-2021-22555: iptables tables, marks, transparent proxying", "capabilities", set_options,
		NULL, CHECK_DEMO},
	{"interfaces", "the host's network interfaces", "network namespace", interfaces, NULL, 0},
	{"host-sockets", "sockets of the daemon, the warden and other services by their path",
		"mount and network namespace", host_sockets, NULL, 0},
	{"host-loopback", "the host's 127.0.0.1, and the daemon there", "network namespace", host_loopback, NULL,
		CHECK_HOST | CHECK_DEMO},
	{"host-addresses", "the host's other addresses, the metadata service, the neighbourhood", "no route, the gate",
		host_addresses, NULL, CHECK_HOST},
	{"address-forms", "the metadata service and private networks in decimal, octal, IPv4-mapped, NAT64, 6to4",
		"the gate", address_forms, NULL, 0},
	{"gate-port", "the socket that the gate listens at, past what steers connections there", "the gate", gate_port,
		NULL, 0},
	{"host-abstract", "CVE-2020-15257: an abstract unix socket of the host", "network namespace", host_abstract,
		NULL, CHECK_HOST | CHECK_DEMO},
};
const struct check_group group_network = {"network", checks, ARRAY_LEN(checks)};
