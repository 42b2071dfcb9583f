#include "base/sock_owner.h"

#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/fd.h"

struct diag_question {
	struct nlmsghdr nh;
	struct inet_diag_req_v2 req;
};

/* The owner of the socket that is bound to `own` and connected to `other`, or listens where that is zero. */
static int64_t owner(const struct sockaddr_in *own, const struct sockaddr_in *other)
{
	struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
	char answer[1024];
	auto_fd int nl = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
	struct diag_question q = {
		.nh = {.nlmsg_len = sizeof q, .nlmsg_type = SOCK_DIAG_BY_FAMILY, .nlmsg_flags = NLM_F_REQUEST},
		.req = {.sdiag_family = AF_INET,
			.sdiag_protocol = IPPROTO_TCP,
			.idiag_states = ~0u,
			.id = {.idiag_sport = own->sin_port,
				.idiag_dport = other->sin_port,
				.idiag_src = {own->sin_addr.s_addr},
				.idiag_dst = {other->sin_addr.s_addr},
				.idiag_cookie = {INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE}}}};
	if (nl < 0 || sendto(nl, &q, sizeof q, 0, (struct sockaddr *)&kernel, sizeof kernel) != (ssize_t)sizeof q)
		return -1;
	ssize_t got = recv(nl, answer, sizeof answer, 0);
	const struct nlmsghdr *h = (const struct nlmsghdr *)(const void *)answer;
	if (got < (ssize_t)NLMSG_LENGTH(sizeof(struct inet_diag_msg)) || h->nlmsg_type != SOCK_DIAG_BY_FAMILY)
		return -1;
	return ((const struct inet_diag_msg *)NLMSG_DATA(h))->idiag_uid;
}

int64_t sock_owner_peer(int fd)
{
	struct sockaddr_in own = {0}, peer = {0};
	socklen_t n = sizeof own, m = sizeof peer;
	if (getsockname(fd, (struct sockaddr *)&own, &n) < 0 || getpeername(fd, (struct sockaddr *)&peer, &m) < 0)
		return -1;
	return owner(&peer, &own);
}

int64_t sock_owner_listener(uint16_t port)
{
	const struct sockaddr_in nobody = {0};
	const struct sockaddr_in own = {
		.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	return owner(&own, &nobody);
}
