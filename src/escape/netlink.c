/*
 * Memory that no cgroup counts: replies that wait in netlink sockets. As many sockets as there are, each with buffers
 * as large as they get, unread; some of them not even open in a process but on their way through a unix socket.
 */
#include "escape/escape.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <net/if.h>
#include <sys/socket.h>

#include "base/fd_pass.h"
#include "proto/limits.h"

#ifndef SO_MEMINFO
#define SO_MEMINFO 55
#endif

enum {
	MANY = BOX_NETLINK_SOCKETS + 16,
	IN_FLIGHT = 8,
	HUGE_BUFFER = 64 * 1024 * 1024,
	/* The kernel doubles a buffer's size, and takes one reply more than fits. */
	SOCKET_MAX = 2 * NETLINK_BUFFER + 2 * NETLINK_BUFFER,
	REQUESTS = 2000,
	BAD_TYPE = 0x7fff
};

static long unread(int fd)
{
	uint32_t info[SK_MEMINFO_VARS] = {0};
	socklen_t n = sizeof(info);
	return getsockopt(fd, SOL_SOCKET, SO_MEMINFO, info, &n) < 0 ? 0 : (long)info[SK_MEMINFO_RMEM_ALLOC];
}

/* The refusal of a bad request repeats all of it. */
static void ask_badly(int fd)
{
	static char text[MIB];
	struct nlmsghdr *h = (struct nlmsghdr *)(void *)text;
	for (size_t n = sizeof(text); n > 4096; n /= 2) {
		*h = (struct nlmsghdr){.nlmsg_len = (unsigned)n, .nlmsg_type = BAD_TYPE, .nlmsg_flags = NLM_F_REQUEST};
		if (send(fd, text, n, MSG_DONTWAIT) > 0)
			return;
	}
}

/* Fills it until nothing more goes in, or more than should. */
static long fill(int fd)
{
	struct {
		struct nlmsghdr head;
		struct rtgenmsg body;
	} dump = {{sizeof(dump), RTM_GETLINK, NLM_F_REQUEST | NLM_F_DUMP, 1, 0}, {AF_UNSPEC}};
	int huge = HUGE_BUFFER;
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &huge, sizeof(huge));
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &huge, sizeof(huge));
	for (int i = 0; i < REQUESTS && unread(fd) <= SOCKET_MAX; i++)
		if (send(fd, &dump, sizeof(dump), MSG_DONTWAIT) < 0)
			break;
	ask_badly(fd);
	return unread(fd);
}

static int send_away(int to, int fd)
{
	if (fd_send(to, "s", 1, &fd, 1, MSG_DONTWAIT) < 0)
		return -1;
	close(fd);
	return 0;
}

static int hoard(int away, int fds[MANY], long *bytes, int *os)
{
	int n = 0;
	for (; n < MANY; n++) {
		fds[n] = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
		if (fds[n] < 0) {
			*os = errno;
			break;
		}
		*bytes += fill(fds[n]);
		if (n < IN_FLIGHT && send_away(away, fds[n]) == 0)
			fds[n] = -1;
	}
	return n;
}

static int another(void *arg)
{
	(void)arg;
	return socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE) < 0 ? errno : 0;
}

static void netlink_memory(const struct check *c, struct outcome *o)
{
	(void)c;
	int pair[2], fds[MANY], os = 0;
	long bytes = 0, most = (long)BOX_NETLINK_SOCKETS * SOCKET_MAX;
	expect(o, "ENOBUFS at the box's number of sockets, with small buffers");
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
		errored(o, "socketpair: %s", errno_name(errno));
		return;
	}
	int n = hoard(pair[0], fds, &bytes, &os), in_child_os = in_child(another, NULL);
	if (n > BOX_NETLINK_SOCKETS || in_child_os == 0)
		escaped(o, "%d sockets, the limit is %d", n, BOX_NETLINK_SOCKETS);
	else if (bytes > most)
		escaped(o, "%ld bytes wait in %d sockets, the limit is %ld", bytes, n, most);
	else if (os != ENOBUFS || in_child_os != ENOBUFS || n == 0 || bytes == 0)
		errored(o, "%s and %s after %d sockets with %ld bytes, expected ENOBUFS", errno_name(os),
			errno_name(in_child_os), n, bytes);
	else
		refused(o, "ENOBUFS after %d sockets with %ld KiB", n, bytes / 1024);
	for (int i = 0; i < n; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	close(pair[0]);
	close(pair[1]);
	struct if_nameindex *all = if_nameindex();
	if (!all)
		errored(o, "no socket afterwards: %s", errno_name(errno));
	else
		if_freenameindex(all);
}

static const struct check checks[] = {
	{"netlink-memory", "memory that no cgroup counts: netlink sockets with unread replies", "broker in the agent",
		netlink_memory, NULL, CHECK_DEMO},
};
const struct check_group group_netlink = {"netlink", checks, ARRAY_LEN(checks)};
