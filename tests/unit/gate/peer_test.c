#include "gate/peer.h"

#include <fcntl.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "test.h"

struct pair {
	int client, accepted, diag;
};

static struct pair connected(int family)
{
	union {
		struct sockaddr sa;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
	} a = {.in6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_ANY_INIT}};
	socklen_t n = sizeof a.in6;
	struct pair p = {.client = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0),
		.diag = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG)};
	int listener = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (listener < 0)
		TEST_SKIP("this machine has no IPv6");
	CHECK(bind(listener, &a.sa, n) == 0 && listen(listener, 1) == 0 && getsockname(listener, &a.sa, &n) == 0);
	in_port_t port = a.in6.sin6_port;
	if (family == AF_INET) {
		a.in = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = port};
		a.in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		n = sizeof a.in;
	} else {
		a.in6.sin6_addr = in6addr_loopback;
	}
	if (connect(p.client, &a.sa, n) < 0)
		TEST_SKIP("cannot connect on the loopback interface");
	p.accepted = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	CHECK(p.accepted >= 0);
	close(listener);
	return p;
}

static struct peer_end end_of(int fd, int (*name)(int, struct sockaddr *, socklen_t *))
{
	union ip_sockaddr sa;
	socklen_t n = sizeof sa;
	struct peer_end r;
	CHECK(name(fd, &sa.sa, &n) == 0 && ip_from_sockaddr(&sa, &r.ip, &r.port));
	return r;
}

static bool has_closed(int diag, int accepted)
{
	struct peer_end client = end_of(accepted, getpeername), wanted = end_of(accepted, getsockname);
	return peer_has_closed(diag, &client, &wanted);
}

static void check_family(int family)
{
	struct pair p = connected(family);
	char byte;
	CHECK(!has_closed(p.diag, p.accepted));
	int held = fcntl(p.client, F_DUPFD_CLOEXEC, 0);
	close(p.client);
	CHECK(!has_closed(p.diag, p.accepted));
	CHECK(shutdown(held, SHUT_WR) == 0);
	CHECK_INT(recv(p.accepted, &byte, 1, 0), 0);
	CHECK(!has_closed(p.diag, p.accepted));
	close(held);
	CHECK(has_closed(p.diag, p.accepted));
	CHECK(!has_closed(-1, p.accepted));
	close(p.accepted);
	close(p.diag);
}

TEST(an_ipv4_client_that_closed_is_told_from_one_that_says_no_more)
{
	check_family(AF_INET);
}

TEST(an_ipv6_client_that_closed_is_told_from_one_that_says_no_more)
{
	check_family(AF_INET6);
}

TEST_MAIN()
