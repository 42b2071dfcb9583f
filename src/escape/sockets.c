/*
 * Memory that the network holds for a box: buffers of sockets, connections that no program accepts, connections that
 * have ended. Cgroup v1 counts the first apart from memory and the others not at all.
 */
#include "escape/escape.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "proto/limits.h"

enum { SOCKETS_MAX = 4096, DATAGRAM = 60000, PER_SOCKET = 64, BACKLOG = 4096 };
static char block[MIB];

/* More than the box's memory: so much that a box which gets it has not been charged. */
static long long target(void)
{
	long mib = arg_number("mem_mib");
	if (mib <= 0)
		mib = (long)(BOX_MEM_DEFAULT / MIB);
	return (long long)mib * MIB * 5 / 4;
}

static void judge(struct outcome *o, const char *what, long long bytes)
{
	expect(o, "less than the box's memory in buffers");
	if (bytes >= target())
		escaped(o, "%s hold %lld MiB and no end", what, bytes / (long long)MIB);
	else if (bytes < (long long)(256 * KIB))
		errored(o, "%s hold only %lld bytes", what, bytes);
	else
		refused(o, "%s hold %lld MiB", what, bytes / (long long)MIB);
}

static struct sockaddr_in own_address(int fd)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t n = sizeof(a);
	if (bind(fd, (struct sockaddr *)&a, n) == 0)
		getsockname(fd, (struct sockaddr *)&a, &n);
	return a;
}

/* The kernel drops a datagram without room silently: read the socket to know how much was kept. */
static long long drain(const int *fds, int n)
{
	long long bytes = 0;
	for (int i = 0; i < n; i++)
		for (ssize_t got; (got = recv(fds[i], block, sizeof(block), MSG_DONTWAIT)) > 0;)
			bytes += got;
	return bytes;
}

static void udp_memory(const struct check *c, struct outcome *o)
{
	(void)c;
	static int fds[SOCKETS_MAX];
	int n = 0, size = 4 * MIB;
	long long sent = 0;
	for (; n < SOCKETS_MAX && sent < 2 * target(); n++) {
		fds[n] = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		if (fds[n] < 0)
			break;
		struct sockaddr_in to = own_address(fds[n]);
		setsockopt(fds[n], SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
		for (int i = 0; i < PER_SOCKET; i++)
			if (sendto(fds[n], block, DATAGRAM, MSG_DONTWAIT, (struct sockaddr *)&to, sizeof(to)) > 0)
				sent += DATAGRAM;
	}
	hold();
	judge(o, "UDP sockets", drain(fds, n));
}

static void tcp_memory(const struct check *c, struct outcome *o)
{
	(void)c;
	enum { CONNECTIONS = 1000 };
	long long held = 0;
	auto_fd int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in to = own_address(listener);
	listen(listener, 8);
	for (int i = 0; i < CONNECTIONS && held < target(); i++) {
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0 || accept(listener, NULL, NULL) < 0)
			break;
		for (ssize_t n; (n = send(fd, block, sizeof(block), MSG_DONTWAIT | MSG_NOSIGNAL)) > 0;)
			held += n;
	}
	hold();
	judge(o, "TCP connections", held);
}

/* How many of these are connected, when nothing has happened for a while. */
static int count_connected(struct pollfd *p, int n)
{
	int connected = 0;
	for (int more = 1; more > 0;) {
		more = poll(p, (nfds_t)n, 200);
		for (int i = 0; i < n; i++)
			if (p[i].revents) {
				connected += !(p[i].revents & (POLLERR | POLLHUP));
				p[i].fd = -1;
			}
	}
	return connected;
}

/* How many wait in the queue of the socket that listens on this port; -1 when the kernel's table cannot be read. A
 * client may count more as connected: a connection whose last packet finds the queue full is only half made.
 *	"  0: 0100007F:1F90 00000000:0000 0A 00000000:00000101 …" */
static int queue_of(int port)
{
	static char table[65536]; /* listening sockets come first */
	unsigned at, state, waiting;
	if (slurp("/proc/self/net/tcp", table, sizeof(table)) <= 0)
		return -1;
	for (const char *line = strchr(table, '\n'); line && line[1]; line = strchr(line + 1, '\n'))
		if (sscanf(line + 1, " %*u: %*8x:%x %*8x:%*x %x %*x:%x", &at, &state, &waiting) == 3 &&
			at == (unsigned)port && state == 0x0a /* LISTEN */)
			return (int)waiting;
	return -1;
}

static void accept_queue(const struct check *c, struct outcome *o)
{
	(void)c;
	static struct pollfd p[BACKLOG];
	int n = 0;
	auto_fd int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in to = own_address(listener);
	expect(o, "no more connections than net.core.somaxconn of the box");
	if (listen(listener, BACKLOG) < 0)
		errored(o, "listen: %s", errno_name(errno));
	for (; n < BACKLOG / 4; n++) {
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		if (fd < 0 || (connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0 && errno != EINPROGRESS))
			break;
		p[n] = (struct pollfd){.fd = fd, .events = POLLOUT};
	}
	int connected = count_connected(p, n), waiting = queue_of(ntohs(to.sin_port));
	if (waiting > BOX_SOMAXCONN + 1)
		escaped(o, "%d of %d connections wait for one accept(), the limit is %d", waiting, n, BOX_SOMAXCONN);
	else if (connected < 2 || waiting < 2)
		errored(o, "only %d of %d connections: %s", connected, n, errno_name(errno));
	else
		refused(o, "%d of %d connections", waiting, n);
}

/* Each could have its own queue of connections that nobody accepts. */
static void listeners(const struct check *c, struct outcome *o)
{
	(void)c;
	enum { TRIES = BOX_LISTENERS * 4 };
	int n = 0, os = 0;
	expect(o, "no more than the box's limit of listening sockets");
	for (int i = 0; i < TRIES && !os; i++) {
		int fd = socket(i % 2 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (fd < 0)
			os = errno;
		else if (listen(fd, 1) < 0)
			os = errno;
		else
			n++;
	}
	if (n > BOX_LISTENERS)
		escaped(o, "%d sockets listen, the limit is %d", n, BOX_LISTENERS);
	else if (os != ENOBUFS || n < BOX_LISTENERS / 2)
		errored(o, "only %d sockets: %s", n, errno_name(os));
	else
		refused(o, "%d sockets listen, then %s", n, errno_name(os));
}

static void time_wait(const struct check *c, struct outcome *o)
{
	(void)c;
	char text[32];
	expect(o, "the box's own limit in net.ipv4.tcp_max_tw_buckets");
	ssize_t n = slurp("/proc/sys/net/ipv4/tcp_max_tw_buckets", text, sizeof(text));
	long limit = n > 0 ? leading_number(text) : -1;
	if (limit < 0)
		errored(o, "net.ipv4.tcp_max_tw_buckets cannot be read");
	else if (limit > BOX_TIME_WAIT)
		escaped(o, "%ld connections may stay in TIME_WAIT, the limit is %d", limit, BOX_TIME_WAIT);
	else
		refused(o, "at most %ld connections in TIME_WAIT", limit);
}

#define COUNTED "memory cgroup (v1: its limit for sockets)"
#define NET	"limit of the network namespace"
static const struct check checks[] = {
	{"udp-memory", "memory in the buffers of UDP sockets", COUNTED, udp_memory, NULL, NEXT_DOOR},
	{"tcp-memory", "memory in the buffers of TCP connections", COUNTED, tcp_memory, NULL, NEXT_DOOR},
	{"accept-queue", "kernel memory by connections that nobody accepts", NET, accept_queue, NULL, NEXT_DOOR},
	{"listeners", "kernel memory by sockets that listen", "broker in the agent", listeners, NULL, 0},
	{"time-wait", "kernel memory by connections that have ended", NET, time_wait, NULL, 0},
};
const struct check_group group_sockets = {"sockets", checks, ARRAY_LEN(checks)};
