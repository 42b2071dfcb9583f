/*
 * Sockets of a box's network, from the warden.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/limits.h"
#include "warden_rig.h"

static struct warden_request request(const char *id, uint32_t family, uint32_t count)
{
	struct warden_request rq = {.op = WARDEN_SOCKETS, .family = family, .count = count};
	snprintf(rq.id, sizeof rq.id, "%s", id);
	return rq;
}

/* The reply, and how many descriptors came along. */
static struct warden_reply ask(struct rig *r, struct warden_request rq, int *fds, size_t *ret_n)
{
	struct warden_reply reply;
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(2 * WARDEN_SOCKETS_MAX * sizeof(int))];
	} control;
	struct iovec v = {&reply, sizeof reply};
	struct msghdr m = {
		.msg_iov = &v, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
	uint64_t seq = rig_send(r, rq);
	struct pollfd f = {.fd = r->sock, .events = POLLIN};
	CHECK_INT(poll(&f, 1, 10000), 1);
	CHECK_INT(recvmsg(r->sock, &m, MSG_CMSG_CLOEXEC), sizeof reply);
	CHECK_INT(reply.seq, seq);
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	*ret_n = c ? (c->cmsg_len - CMSG_LEN(0)) / sizeof(int) : 0;
	if (c)
		memcpy(fds, CMSG_DATA(c), *ret_n * sizeof(int));
	return reply;
}

static ino_t inode_of(const char *path)
{
	struct stat st;
	CHECK(stat(path, &st) == 0);
	return st.st_ino;
}

static ino_t net_of_pid(int pid)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/ns/net", pid);
	return inode_of(path);
}

static ino_t net_of_socket(int fd)
{
	struct stat st;
	int ns = ioctl(fd, SIOCGSKNS);
	CHECK(ns >= 0);
	CHECK(fstat(ns, &st) == 0);
	close(ns);
	return st.st_ino;
}

static void check_socket(int fd, int family)
{
	int value = -1;
	socklen_t n = sizeof value;
	CHECK(getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &value, &n) == 0);
	CHECK_INT(value, family);
	CHECK(getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &value, &n) == 0);
	CHECK_INT(value, IPPROTO_TCP);
	CHECK(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &value, &n) == 0);
	CHECK_INT(value, 1);
	CHECK(fcntl(fd, F_GETFL) & O_NONBLOCK);
	struct sockaddr_in6 sa;
	n = sizeof sa;
	CHECK_INT(getpeername(fd, (struct sockaddr *)&sa, &n), -1);
	CHECK_INT(errno, ENOTCONN);
}

/* The warden may be inside of a slot that it prepares whenever it is looked at, but it has left the box's network. */
static void leaves(pid_t pid, ino_t box)
{
	bool gone = false;
	for (int i = 0; i < 10000 && !gone; i++) {
		gone = net_of_pid(pid) != box;
		if (!gone)
			usleep(1000);
	}
	CHECK(gone);
}

TEST(sockets_are_of_the_boxs_network)
{
	struct rig r = {0};
	rig_start(&r);
	struct box_info a = rig_create(&r, "a"), b = rig_create(&r, "b");
	CHECK(net_of_pid(a.pid) != net_of_pid(b.pid));
	static const int families[] = {AF_INET, AF_INET6};
	static const uint32_t counts[] = {1, 7, WARDEN_SOCKETS_MAX};
	for (size_t i = 0; i < ARRAY_LEN(families) * ARRAY_LEN(counts); i++) {
		int fds[2 * WARDEN_SOCKETS_MAX], family = families[i % 2];
		size_t n;
		uint32_t count = counts[i / 2];
		struct warden_reply reply = ask(&r, request("b", (uint32_t)family, count), fds, &n);
		CHECK_INT(reply.err.code, ERRC_OK);
		CHECK_INT(reply.info.slot, b.slot);
		CHECK_INT(n, count);
		for (size_t k = 0; k < n; k++) {
			CHECK_INT(net_of_socket(fds[k]), net_of_pid(b.pid));
			check_socket(fds[k], family);
			close(fds[k]);
		}
		leaves(r.pid, net_of_pid(b.pid));
	}
	rig_destroy(&r, "a", 0);
	rig_destroy(&r, "b", 0);
	rig_stop_clean(&r);
}

TEST(sockets_are_not_made_for_others_or_without_measure)
{
	struct rig r = {0};
	int fds[2 * WARDEN_SOCKETS_MAX];
	size_t n;
	rig_start(&r);
	rig_create(&r, "a");
	static const struct {
		uint32_t family, count;
	} bad[] = {{AF_INET, 0}, {AF_INET, WARDEN_SOCKETS_MAX + 1}, {AF_INET, UINT32_MAX}, {AF_UNIX, 1},
		{AF_NETLINK, 1}, {AF_PACKET, 1}, {0, 1}, {UINT32_MAX, 1}};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		CHECK_INT(ask(&r, request("a", bad[i].family, bad[i].count), fds, &n).err.code, ERRC_INVALID_REQUEST);
		CHECK_INT(n, 0);
	}
	CHECK_INT(ask(&r, request("nobody", AF_INET, 1), fds, &n).err.code, ERRC_SANDBOX_NOT_FOUND);
	struct warden_request kill = {.op = WARDEN_SIGNAL, .id = "a", .signal = 9};
	CHECK_INT(rig_call(&r, kill).err.code, ERRC_OK);
	CHECK_INT(rig_event(&r).op, WARDEN_BOX_DIED);
	CHECK_INT(ask(&r, request("a", AF_INET, 1), fds, &n).err.code, ERRC_INVALID_STATE);
	CHECK_INT(n, 0);
	rig_destroy(&r, "a", 0);
	rig_stop_clean(&r);
}

TEST(sockets_leave_nothing_in_the_warden)
{
	struct rig r = {0};
	int fds[2 * WARDEN_SOCKETS_MAX];
	size_t n;
	rig_start(&r);
	rig_check_clean(&r); /* the pool is full */
	int before = rig_traces(&r).fds;
	struct box_info a = rig_create(&r, "a");
	for (int i = 0; i < 300; i++) {
		CHECK_INT(ask(&r, request("a", AF_INET, 8), fds, &n).err.code, ERRC_OK);
		while (n)
			close(fds[--n]);
	}
	leaves(r.pid, net_of_pid(a.pid));
	/* A daemon that asks and does not read: it is slowed down, nothing is kept for it. */
	for (int i = 0; i < 2000; i++) {
		struct warden_request rq = request("a", AF_INET, 8);
		rq.magic = WARDEN_MAGIC;
		if (send(r.sock, &rq, sizeof rq, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
			break;
	}
	close(r.sock);
	rig_connect(&r);
	CHECK_INT(ask(&r, request("a", AF_INET, 1), fds, &n).err.code, ERRC_OK);
	CHECK_INT(n, 1);
	close(fds[0]);
	rig_destroy(&r, "a", 0);
	rig_check_clean(&r);
	/* Not exactly: what the last slots have spent is on its way to the reaper. */
	for (int i = 0; i < 500 && rig_traces(&r).fds > before + 20; i++)
		poll(NULL, 0, 20);
	CHECK(rig_traces(&r).fds <= before + 20);
	rig_stop(&r);
}

TEST_MAIN()
