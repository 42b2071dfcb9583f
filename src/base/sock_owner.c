/*
 * peer.c - whose socket is at the other end of a loopback connection: the kernel is asked (sock_diag).
 */
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "daemon/docker/docker.h"

struct diag_question {
	struct nlmsghdr nh;
	struct inet_diag_req_v2 req;
};

int64_t ingress_peer_uid(int fd)
{
	struct sockaddr_in own = {0}, peer = {0};
	socklen_t n = sizeof own, m = sizeof peer;
	struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
	char answer[1024];
	auto_fd int nl = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
	if (nl < 0 || getsockname(fd, (struct sockaddr *)&own, &n) < 0 ||
		getpeername(fd, (struct sockaddr *)&peer, &m) < 0)
		return -1;
	struct diag_question q = {
		.nh = {.nlmsg_len = sizeof q, .nlmsg_type = SOCK_DIAG_BY_FAMILY, .nlmsg_flags = NLM_F_REQUEST},
		.req = {.sdiag_family = AF_INET,
			.sdiag_protocol = IPPROTO_TCP,
			.idiag_states = ~0u,
			.id = {.idiag_sport = peer.sin_port,
				.idiag_dport = own.sin_port,
				.idiag_src = {peer.sin_addr.s_addr},
				.idiag_dst = {own.sin_addr.s_addr},
				.idiag_cookie = {INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE}}}};
	if (sendto(nl, &q, sizeof q, 0, (struct sockaddr *)&kernel, sizeof kernel) != (ssize_t)sizeof q)
		return -1;
	ssize_t got = recv(nl, answer, sizeof answer, 0);
	const struct nlmsghdr *h = (const struct nlmsghdr *)(const void *)answer;
	if (got < (ssize_t)NLMSG_LENGTH(sizeof(struct inet_diag_msg)) || h->nlmsg_type != SOCK_DIAG_BY_FAMILY)
		return -1;
	return ((const struct inet_diag_msg *)NLMSG_DATA(h))->idiag_uid;
}
