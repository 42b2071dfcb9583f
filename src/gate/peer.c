#include "gate/peer.h"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

union address {
	struct sockaddr sa;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

/* Returns the family as the kernel keeps such a socket: IPv4 in IPv6 is IPv4. */
static uint8_t take(const union address *a, __be32 address[4], __be16 *port)
{
	if (a->sa.sa_family == AF_INET6 && !IN6_IS_ADDR_V4MAPPED(&a->in6.sin6_addr)) {
		memcpy(address, &a->in6.sin6_addr, 16);
		*port = a->in6.sin6_port;
		return AF_INET6;
	}
	bool mapped = a->sa.sa_family == AF_INET6;
	memcpy(address, mapped ? (const char *)&a->in6.sin6_addr + 12 : (const char *)&a->in.sin_addr, 4);
	*port = mapped ? a->in6.sin6_port : a->in.sin_port;
	return AF_INET;
}

static bool ask(int diag, int client, uint32_t seq)
{
	struct {
		struct nlmsghdr h;
		struct inet_diag_req_v2 r;
	} q = {.h = {.nlmsg_len = sizeof q,
		       .nlmsg_type = SOCK_DIAG_BY_FAMILY,
		       .nlmsg_flags = NLM_F_REQUEST,
		       .nlmsg_seq = seq},
		.r = {.sdiag_protocol = IPPROTO_TCP, .idiag_states = ~0u}};
	union address here = {0}, there = {0};
	socklen_t n = sizeof here, m = sizeof there;
	if (getsockname(client, &here.sa, &n) < 0 || getpeername(client, &there.sa, &m) < 0)
		return false;
	/* From the program's side: its own address is our peer's. */
	q.r.sdiag_family = take(&there, q.r.id.idiag_src, &q.r.id.idiag_sport);
	take(&here, q.r.id.idiag_dst, &q.r.id.idiag_dport);
	q.r.id.idiag_cookie[0] = q.r.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
	return send(diag, &q, sizeof q, MSG_DONTWAIT) == (ssize_t)sizeof q;
}

bool peer_has_closed(int diag, int client)
{
	static uint32_t seq;
	union {
		struct nlmsghdr h;
		char room[1024];
	} a;
	if (diag < 0 || !ask(diag, client, ++seq))
		return false;
	ssize_t n;
	do
		n = recv(diag, &a, sizeof a, MSG_DONTWAIT);
	while (n >= (ssize_t)sizeof a.h && a.h.nlmsg_seq != seq);
	if (n >= (ssize_t)NLMSG_LENGTH(sizeof(struct nlmsgerr)) && a.h.nlmsg_type == NLMSG_ERROR)
		return ((struct nlmsgerr *)NLMSG_DATA(&a.h))->error == -ENOENT;
	if (n < (ssize_t)NLMSG_LENGTH(sizeof(struct inet_diag_msg)) || a.h.nlmsg_type != SOCK_DIAG_BY_FAMILY)
		return false;
	const struct inet_diag_msg *m = NLMSG_DATA(&a.h);
	/* Where the socket is gone altogether, the kernel finds the gate's listener. */
	return m->idiag_inode == 0 || m->idiag_state == TCP_LISTEN;
}
