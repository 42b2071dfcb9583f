/*
 * The steering of a box's connections, on the real kernel: each test has a network namespace and a bpffs of its own.
 */
#include "cage/steer.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "proto/gate.h"
#include "test.h"

enum { SLOT = 7 };
#define GENERATION 0x123456789abcdefull

struct rig {
	int dir, netns;
	struct steer_sockets s;
};

static void raise_loopback(void)
{
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
	CHECK(fd >= 0 && ioctl(fd, SIOCSIFFLAGS, &lo) == 0);
	close(fd);
}

static struct rig set_up(uint32_t flags, bool v6)
{
	struct rig r = {.s = STEER_NO_SOCKETS};
	struct err e = {0};
	if (geteuid() != 0)
		TEST_SKIP("needs root: makes a network namespace and loads a BPF program");
	if (unshare(CLONE_NEWNET | CLONE_NEWNS) < 0 || mount("", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		TEST_SKIP("cannot make namespaces");
	CHECK(mount("bpf", "/mnt", "bpf", 0, NULL) == 0);
	raise_loopback();
	if (steer_check(&e) < 0)
		test_fail(__FILE__, __LINE__, "%s", e.msg);
	r.dir = open("/mnt", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	r.netns = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	if (steer_attach(r.dir, &(struct steer_slot){SLOT, GENERATION, flags}, r.netns, &e) < 0 ||
		steer_addresses(v6, &e) < 0 || steer_listen(v6, &r.s, &e) < 0 || steer_put(r.dir, SLOT, &r.s, &e) < 0)
		test_fail(__FILE__, __LINE__, "%s", e.msg);
	CHECK(steer_attached(r.dir, SLOT));
	return r;
}

union address {
	struct sockaddr sa;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

static socklen_t address(union address *ret, const char *text, int port)
{
	*ret = (union address){0};
	if (strchr(text, ':')) {
		ret->in6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
		CHECK(inet_pton(AF_INET6, text, &ret->in6.sin6_addr) == 1);
		return sizeof ret->in6;
	}
	ret->in = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	CHECK(inet_pton(AF_INET, text, &ret->in.sin_addr) == 1);
	return sizeof ret->in;
}

/* A connected socket of a program in the box, or -errno. */
static int dial(int type, const char *text, int port)
{
	union address a;
	socklen_t n = address(&a, text, port);
	int fd = socket(a.sa.sa_family, type | SOCK_CLOEXEC, 0);
	CHECK(fd >= 0);
	if (connect(fd, &a.sa, n) == 0)
		return fd;
	int r = -errno;
	close(fd);
	return r;
}

static int serve(const char *text, int port)
{
	union address a;
	socklen_t n = address(&a, text, port);
	int fd = socket(a.sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	CHECK(fd >= 0 && bind(fd, &a.sa, n) == 0 && listen(fd, 16) == 0);
	return fd;
}

/* What the next accepted connection wanted, as "address port"; "" when there is none. */
static const char *wanted(int listener)
{
	static char text[80];
	struct sockaddr_in6 sa = {0};
	socklen_t n = sizeof sa;
	char addr[INET6_ADDRSTRLEN];
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	if (fd < 0)
		return "";
	CHECK(getsockname(fd, (struct sockaddr *)&sa, &n) == 0);
	CHECK(inet_ntop(AF_INET6, &sa.sin6_addr, addr, sizeof addr) != NULL);
	snprintf(text, sizeof text, "%s %d", addr, ntohs(sa.sin6_port));
	close(fd);
	return text;
}

static void reaches_us(const struct rig *r, const char *text, int port, const char *want)
{
	int fd = dial(SOCK_STREAM, text, port);
	if (fd < 0)
		test_fail(__FILE__, __LINE__, "connect to %s port %d: %s", text, port, strerror(-fd));
	CHECK_CSTR(wanted(r->s.tcp), want);
	close(fd);
}

static void is_refused(const struct rig *r, const char *text, int port)
{
	int fd = dial(SOCK_STREAM, text, port);
	if (fd != -ECONNREFUSED)
		test_fail(__FILE__, __LINE__, "connect to %s port %d: %s", text, port,
			fd < 0 ? strerror(-fd) : "succeeded");
	CHECK_CSTR(wanted(r->s.tcp), "");
}

TEST(every_address_and_port_reaches_the_listener_which_knows_it)
{
	struct rig r = set_up(0, false);
	reaches_us(&r, "93.184.216.34", 443, "::ffff:93.184.216.34 443");
	reaches_us(&r, "93.184.216.34", 22, "::ffff:93.184.216.34 22");
	reaches_us(&r, "8.8.8.8", 54321, "::ffff:8.8.8.8 54321");
	reaches_us(&r, "198.51.100.7", 1, "::ffff:198.51.100.7 1");
	reaches_us(&r, "198.18.0.9", 80, "::ffff:198.18.0.9 80");
	reaches_us(&r, "::ffff:1.2.3.4", 80, "::ffff:1.2.3.4 80");
}

TEST(loopback_and_the_own_address_stay_in_the_box)
{
	struct rig r = set_up(0, true);
	static const char *const own[] = {"127.0.0.1", "127.9.9.9", "192.0.0.2", "::1", "fd61:746f:6c6c::2"};
	for (size_t i = 0; i < ARRAY_LEN(own); i++) {
		is_refused(&r, own[i], 8080);
		int server = serve(own[i], 8080);
		int fd = dial(SOCK_STREAM, own[i], 8080);
		CHECK(fd >= 0);
		CHECK(*wanted(server) != 0);
		CHECK_CSTR(wanted(r.s.tcp), "");
		close(fd);
		close(server);
	}
}

TEST(a_server_in_the_box_never_answers_for_the_internet)
{
	struct rig r = set_up(0, true);
	int all = serve("0.0.0.0", 443), one = serve("93.184.216.34", 80), six = serve("::", 444);
	reaches_us(&r, "93.184.216.34", 443, "::ffff:93.184.216.34 443");
	reaches_us(&r, "93.184.216.34", 80, "::ffff:93.184.216.34 80");
	reaches_us(&r, "2001:db8::1", 444, "2001:db8::1 444");
	CHECK_CSTR(wanted(all), "");
	CHECK_CSTR(wanted(one), "");
	CHECK_CSTR(wanted(six), "");
	/* With every descriptor of the steering closed as well: the pin holds the link, the empty map drops. */
	steer_close(&r.s);
	r.s.tcp = -1;
	CHECK_INT(dial(SOCK_STREAM, "93.184.216.34", 443), -ECONNREFUSED);
	CHECK_INT(dial(SOCK_STREAM, "93.184.216.34", 80), -ECONNREFUSED);
	CHECK_INT(dial(SOCK_STREAM, "2001:db8::1", 444), -ECONNREFUSED);
	CHECK_CSTR(wanted(all), "");
}

TEST(new_sockets_take_over_after_a_restart)
{
	struct rig r = set_up(0, false);
	struct steer_sockets fresh = STEER_NO_SOCKETS;
	steer_close(&r.s);
	CHECK(steer_listen(false, &fresh, NULL) == 0 && steer_put(r.dir, SLOT, &fresh, NULL) == 0);
	r.s = fresh;
	reaches_us(&r, "93.184.216.34", 443, "::ffff:93.184.216.34 443");
	steer_clear(r.dir, SLOT);
	is_refused(&r, "93.184.216.34", 443);
}

TEST(forgotten_pins_detach_the_program)
{
	struct rig r = set_up(0, false);
	int all = serve("0.0.0.0", 443);
	steer_forget(r.dir, SLOT);
	CHECK(!steer_attached(r.dir, SLOT));
	steer_close(&r.s);
	/* This is what the pins are for. The kernel detaches a moment later. */
	int fd = -1;
	for (int i = 0; i < 2000 && fd < 0; i++) {
		fd = dial(SOCK_STREAM, "93.184.216.34", 443);
		if (fd < 0)
			poll(NULL, 0, 1);
	}
	CHECK(fd >= 0);
	CHECK(*wanted(all) != 0);
}

TEST(private_ranges_are_dropped_until_a_flag_opens_them)
{
	struct rig r = set_up(0, true);
	static const char *const inner[] = {"10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.1.1",
		"169.254.169.254", "100.64.0.1", "100.127.255.255", "192.0.0.8", "fe80::1", "fc00::1", "fd00:ec2::254"};
	for (size_t i = 0; i < ARRAY_LEN(inner); i++) {
		if (strcmp(inner[i], "fe80::1") != 0) /* link-local needs an interface: EINVAL before it gets here */
			is_refused(&r, inner[i], 80);
	}
	reaches_us(&r, "172.32.0.1", 80, "::ffff:172.32.0.1 80");
	reaches_us(&r, "100.128.0.1", 80, "::ffff:100.128.0.1 80");
	CHECK(steer_flags(r.dir, SLOT, STEER_PRIVATE, NULL) == 0);
	reaches_us(&r, "10.1.2.3", 80, "::ffff:10.1.2.3 80");
	reaches_us(&r, "169.254.169.254", 80, "::ffff:169.254.169.254 80");
	reaches_us(&r, "fd00:ec2::254", 80, "fd00:ec2::254 80");
	is_refused(&r, "240.0.0.1", 80);
}

TEST(a_resolver_at_any_address_is_ours)
{
	struct rig r = set_up(0, false);
	reaches_us(&r, "192.0.0.1", 53, "::ffff:192.0.0.1 53");
	reaches_us(&r, "10.0.0.2", 53, "::ffff:10.0.0.2 53");
	is_refused(&r, "10.0.0.2", 54);
	is_refused(&r, "192.0.0.1", 1);
}

TEST(without_ipv6_there_is_no_route)
{
	set_up(0, false);
	CHECK_INT(dial(SOCK_STREAM, "2001:db8::1", 443), -ENETUNREACH);
}

TEST(the_source_is_the_own_address_even_from_many_ports)
{
	struct rig r = set_up(0, true);
	for (int i = 0; i < 200; i++) {
		/* Ephemeral ports as destinations: without a source address of its own a socket may reach itself. */
		int fd = dial(SOCK_STREAM, i % 2 ? "2001:db8::1" : "93.184.216.34", 32768 + i * 97);
		CHECK(fd >= 0);
		struct sockaddr_storage from = {0};
		socklen_t n = sizeof from;
		CHECK(getsockname(fd, (struct sockaddr *)&from, &n) == 0);
		char text[INET6_ADDRSTRLEN];
		inet_ntop(from.ss_family,
			from.ss_family == AF_INET ? (void *)&((struct sockaddr_in *)&from)->sin_addr
						  : (void *)&((struct sockaddr_in6 *)&from)->sin6_addr,
			text, sizeof text);
		CHECK_CSTR(text, i % 2 ? "fd61:746f:6c6c::2" : "192.0.0.2");
		CHECK(*wanted(r.s.tcp) != 0);
		close(fd);
	}
}

/* "address port" that the next datagram was sent to. */
static const char *datagram_for(int udp)
{
	static char text[80];
	char data[64], room[256], addr[INET6_ADDRSTRLEN];
	struct iovec iov = {data, sizeof data};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
	if (recvmsg(udp, &m, 0) < 0)
		return "";
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
		if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_ORIGDSTADDR) {
			memcpy(&in, CMSG_DATA(c), sizeof in);
			inet_ntop(AF_INET, &in.sin_addr, addr, sizeof addr);
			snprintf(text, sizeof text, "%s %d", addr, ntohs(in.sin_port));
		} else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_ORIGDSTADDR) {
			memcpy(&in6, CMSG_DATA(c), sizeof in6);
			inet_ntop(AF_INET6, &in6.sin6_addr, addr, sizeof addr);
			snprintf(text, sizeof text, "%s %d", addr, ntohs(in6.sin6_port));
		}
	}
	return text;
}

TEST(datagrams_to_port_53_reach_us_with_their_destination)
{
	struct rig r = set_up(0, true);
	int fd = dial(SOCK_DGRAM, "8.8.8.8", 53), six = dial(SOCK_DGRAM, "2001:db8::53", 53);
	CHECK(send(fd, "x", 1, 0) == 1);
	CHECK_CSTR(datagram_for(r.s.udp), "8.8.8.8 53");
	CHECK(send(six, "x", 1, 0) == 1);
	CHECK_CSTR(datagram_for(r.s.udp), "2001:db8::53 53");
}

TEST(other_datagrams_are_refused_until_a_flag_opens_them)
{
	struct rig r = set_up(0, false);
	int fd = dial(SOCK_DGRAM, "198.51.100.1", 443);
	CHECK(send(fd, "x", 1, 0) == 1);
	CHECK(send(fd, "x", 1, 0) < 0 && errno == ECONNREFUSED);
	CHECK(steer_flags(r.dir, SLOT, STEER_DATAGRAMS, NULL) == 0);
	CHECK(send(fd, "x", 1, 0) == 1);
	CHECK_CSTR(datagram_for(r.s.udp), "198.51.100.1 443");
}

/* The oldest record of the ring that nobody has read, as "protocol address port"; "" when there is none. */
static const char *next_drop(int ring)
{
	static char text[80];
	static unsigned long *taken;
	static const char *given;
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	if (!taken) {
		taken = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, ring, 0);
		given = mmap(NULL, page + 2ul * GATE_DROPS_RING, PROT_READ, MAP_SHARED, ring, (off_t)page);
		CHECK(taken != MAP_FAILED && given != MAP_FAILED);
	}
	if (*taken == __atomic_load_n((const unsigned long *)given, __ATOMIC_ACQUIRE))
		return "";
	const char *at = given + page + *taken % GATE_DROPS_RING;
	const struct gate_drop *d = (const struct gate_drop *)(at + 8);
	char addr[INET6_ADDRSTRLEN];
	CHECK_INT(*(const uint32_t *)at, sizeof *d);
	CHECK(d->slot == SLOT && d->generation == GENERATION);
	CHECK(inet_ntop(AF_INET6, d->address, addr, sizeof addr) != NULL);
	snprintf(text, sizeof text, "%s %s %d", d->protocol == IPPROTO_TCP ? "tcp" : "udp", addr, d->port);
	__atomic_store_n(taken, *taken + 8 + sizeof *d, __ATOMIC_RELEASE);
	return text;
}

TEST(what_the_kernel_refuses_is_told)
{
	struct rig r = set_up(0, true);
	int ring = steer_drops(r.dir, NULL);
	CHECK(ring >= 0);
	is_refused(&r, "10.1.2.3", 80);
	CHECK_CSTR(next_drop(ring), "tcp ::ffff:10.1.2.3 80");
	is_refused(&r, "fd00:ec2::254", 8080);
	CHECK_CSTR(next_drop(ring), "tcp fd00:ec2::254 8080");
	is_refused(&r, "240.0.0.1", 65535);
	CHECK_CSTR(next_drop(ring), "tcp ::ffff:240.0.0.1 65535");
	int fd = dial(SOCK_DGRAM, "198.51.100.1", 443);
	CHECK(send(fd, "x", 1, 0) == 1);
	CHECK_CSTR(next_drop(ring), "udp ::ffff:198.51.100.1 443");
	/* Not what passes, stays inside, or finds nobody at the other end of the map. */
	reaches_us(&r, "93.184.216.34", 443, "::ffff:93.184.216.34 443");
	is_refused(&r, "127.0.0.1", 81);
	steer_clear(r.dir, SLOT);
	is_refused(&r, "93.184.216.34", 443);
	CHECK_CSTR(next_drop(ring), "");
}

TEST(a_full_ring_refuses_all_the_same)
{
	struct rig r = set_up(0, false);
	int ring = steer_drops(r.dir, NULL), fd = dial(SOCK_DGRAM, "198.51.100.1", 443), told = 0;
	const int fits = GATE_DROPS_RING / (int)(sizeof(struct gate_drop) + 8);
	for (int i = 0; i < 2 * fits; i++)
		CHECK(send(fd, "x", 1, 0) == 1 || errno == ECONNREFUSED);
	is_refused(&r, "10.1.2.3", 80);
	while (*next_drop(ring))
		told++;
	CHECK(told > fits - 2 && told <= fits);
	is_refused(&r, "10.1.2.3", 80);
	CHECK_CSTR(next_drop(ring), "tcp ::ffff:10.1.2.3 80");
}

TEST_MAIN()
