/*
 * gate-box: plays the warden for one box, in the network namespace that it is started in.
 *
 *	gate-box SOCKET BPFFS SLOT ID [v6] [private] [datagrams]
 *
 * Steers the namespace, gives its sockets to whoever listens at SOCKET (tests/lib/gatelib.py passes them on), prints
 * "ready". When that goes it connects again, with the same TCP listener. Ends with its standard input.
 */
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "cage/steer.h"
#include "proto/gate.h"

static const char *path, *id;
static uint32_t slot;
static int dir;
static bool v6;

static void die(const char *what)
{
	fprintf(stderr, "gate-box: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void raise_loopback(void)
{
	auto_fd int fd = socket(AF_INET, SOCK_DGRAM, 0);
	struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
	if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &lo) < 0)
		die("loopback");
}

/* With `n` descriptors. */
static void send_record(int fd, enum gate_op op, const int *fds, size_t n)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(GATE_FDS_MAX * sizeof(int))];
	} rights = {0};
	struct gate_record r = {.magic = GATE_MAGIC, .op = op, .slot = slot, .generation = 1};
	const size_t bytes = n * sizeof(int);
	snprintf(r.id, sizeof r.id, "%s", id);
	struct iovec iov = {&r, sizeof r};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
	m.msg_control = &rights;
	m.msg_controllen = (socklen_t)CMSG_SPACE(bytes);
	struct cmsghdr *h = CMSG_FIRSTHDR(&m);
	h->cmsg_level = SOL_SOCKET;
	h->cmsg_type = SCM_RIGHTS;
	h->cmsg_len = (socklen_t)CMSG_LEN(bytes);
	memcpy(CMSG_DATA(h), fds, bytes);
	if (sendmsg(fd, &m, MSG_NOSIGNAL) != (ssize_t)sizeof r)
		die("tell the gate");
}

/* Returns the connection. */
static int tell(struct steer_sockets *s)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	struct err e = {0};
	snprintf(sa.sun_path, sizeof sa.sun_path, "%s", path);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	while (connect(fd, (struct sockaddr *)&sa, sizeof sa) < 0)
		if (poll(NULL, 0, 20) < 0)
			die("connect to the gate");
	if (steer_listen(v6, s, &e) < 0 || steer_put(dir, slot, s, &e) < 0) {
		fprintf(stderr, "gate-box: %s\n", e.msg);
		exit(1);
	}
	auto_fd int drops = steer_drops(dir, &e);
	send_record(fd, GATE_DROPS, &drops, 1);
	send_record(fd, GATE_BOX, (int[]){s->tcp, s->udp, s->raw4, s->diag, s->raw6}, s->raw6 < 0 ? 4 : 5);
	char ok[8];
	if (recv(fd, ok, sizeof ok, 0) <= 0)
		die("tell the gate");
	/* The listener is kept, as the warden does: connections wait in it while the gate is away. */
	fd_close(&s->raw4);
	fd_close(&s->diag);
	fd_close(&s->raw6);
	return fd;
}

int main(int argc, char **argv)
{
	struct steer_sockets s = STEER_NO_SOCKETS;
	struct err e = {0};
	uint32_t flags = 0;
	if (argc < 5)
		return 2;
	path = argv[1];
	slot = (uint32_t)strtoul(argv[3], NULL, 10);
	id = argv[4];
	for (int i = 5; i < argc; i++) {
		v6 |= strcmp(argv[i], "v6") == 0;
		flags |= strcmp(argv[i], "private") == 0 ? STEER_PRIVATE : 0;
		flags |= strcmp(argv[i], "datagrams") == 0 ? STEER_DATAGRAMS : 0;
	}
	dir = open(argv[2], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_fd int netns = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	raise_loopback();
	if (steer_attach(dir, &(struct steer_slot){slot, 1, flags}, netns, &e) < 0 || steer_addresses(v6, &e) < 0) {
		fprintf(stderr, "gate-box: %s\n", e.msg);
		return 1;
	}
	int gate = tell(&s);
	puts("ready");
	fflush(stdout);
	struct pollfd p[] = {{.fd = 0, .events = POLLIN}, {.fd = gate, .events = POLLIN}};
	while (poll(p, 2, -1) > 0 && !p[0].revents) {
		close(gate);
		p[1].fd = gate = tell(&s);
		puts("again");
		fflush(stdout);
	}
	steer_forget(dir, slot);
	return 0;
}
