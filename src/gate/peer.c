#include "gate/peer.h"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

static void put(const struct peer_end *end, bool four, __be32 address[4], __be16 *port)
{
	memcpy(address, end->ip.b + (four ? 12 : 0), four ? 4 : 16);
	*port = htons(end->port);
}

static bool ask(int diag, const struct peer_end *client, const struct peer_end *wanted, uint32_t seq)
{
	struct {
		struct nlmsghdr h;
		struct inet_diag_req_v2 r;
	} q = {.h = {.nlmsg_len = sizeof q,
		       .nlmsg_type = SOCK_DIAG_BY_FAMILY,
		       .nlmsg_flags = NLM_F_REQUEST,
		       .nlmsg_seq = seq},
		.r = {.sdiag_protocol = IPPROTO_TCP, .idiag_states = ~0u}};
	/* The kernel keeps IPv4 in a socket of IPv6 as IPv4. */
	bool four = ip_is4(&client->ip);
	q.r.sdiag_family = four ? AF_INET : AF_INET6;
	put(client, four, q.r.id.idiag_src, &q.r.id.idiag_sport);
	put(wanted, four, q.r.id.idiag_dst, &q.r.id.idiag_dport);
	q.r.id.idiag_cookie[0] = q.r.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
	return send(diag, &q, sizeof q, MSG_DONTWAIT) == (ssize_t)sizeof q;
}

bool peer_has_closed(int diag, const struct peer_end *client, const struct peer_end *wanted)
{
	static uint32_t seq;
	union {
		struct nlmsghdr h;
		char room[1024];
	} a;
	if (diag < 0 || !ask(diag, client, wanted, ++seq))
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
