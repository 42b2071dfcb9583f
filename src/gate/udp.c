/*
 * Datagrams. What a box sends arrives at one socket with the address it was meant for; what it gets is made here,
 * header and all, and sent through a raw socket of its namespace, so that it comes from the address and port that it
 * was sent to. Port 53 is the resolver's. Other ports need a udp:// rule: a flow is a socket of ours for each pair of
 * addresses.
 */
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>
#include <stdio.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "gate/gate.h"

struct flow {
	struct list node;
	struct gate_box *box;
	struct loop_io io;
	struct loop_timer timer;
	struct ip from, to;
	uint16_t from_port, to_port;
	char name[NET_NAME_MAX + 1];
	char why[GATE_WHY_MAX];
	uint64_t sent, received, started, used;
	int64_t wall;
	int fd;
};

static uint8_t room[GATE_DATAGRAM_MAX + 64];

/* ---- into the box ---- */

static uint32_t add(uint32_t sum, const void *p, size_t n)
{
	const uint8_t *b = p;
	for (size_t i = 0; i + 1 < n; i += 2)
		sum += (uint32_t)b[i] << 8 | b[i + 1];
	return n % 2 ? sum + ((uint32_t)b[n - 1] << 8) : sum;
}

/* Over the pseudo header, the header and the data. */
static uint16_t checksum(const void *addresses, size_t n, const struct udphdr *u, size_t length)
{
	uint64_t sum = (uint64_t)add(0, addresses, n) + add(0, u, length) + length + IPPROTO_UDP;
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	uint16_t c = (uint16_t)~sum;
	return htons(c ? c : 0xffff);
}

static struct udphdr *put_udp(uint8_t *at, uint16_t from_port, uint16_t to_port, struct str data)
{
	struct udphdr *u = (struct udphdr *)at;
	*u = (struct udphdr){
		.source = htons(from_port), .dest = htons(to_port), .len = htons((uint16_t)(data.n + sizeof *u))};
	memcpy(u + 1, data.p, data.n);
	return u;
}

static size_t make4(const struct ip *from, const struct ip *to, uint16_t from_port, uint16_t to_port, struct str data)
{
	struct iphdr *h = (struct iphdr *)room;
	size_t length = data.n + sizeof(struct udphdr);
	*h = (struct iphdr){.version = 4, .ihl = 5, .ttl = 64, .protocol = IPPROTO_UDP};
	memcpy(&h->saddr, from->b + 12, 4);
	memcpy(&h->daddr, to->b + 12, 4);
	struct udphdr *u = put_udp(room + sizeof *h, from_port, to_port, data);
	u->check = checksum(&h->saddr, 8, u, length);
	return sizeof *h + length;
}

static size_t make6(const struct ip *from, const struct ip *to, uint16_t from_port, uint16_t to_port, struct str data)
{
	struct ipv6hdr *h = (struct ipv6hdr *)room;
	size_t length = data.n + sizeof(struct udphdr);
	*h = (struct ipv6hdr){
		.version = 6, .payload_len = htons((uint16_t)length), .nexthdr = IPPROTO_UDP, .hop_limit = 64};
	memcpy(&h->saddr, from->b, 16);
	memcpy(&h->daddr, to->b, 16);
	struct udphdr *u = put_udp(room + sizeof *h, from_port, to_port, data);
	u->check = checksum(&h->saddr, 32, u, length);
	return sizeof *h + length;
}

void udp_send(struct gate_box *b, const struct ip *from, uint16_t from_port, const struct ip *to, uint16_t to_port,
	struct str data)
{
	bool four = ip_is4(to);
	int raw = four ? b->raw4 : b->raw6;
	union ip_sockaddr sa;
	if (raw < 0 || data.n > 65507 || four != ip_is4(from))
		return;
	size_t n = four ? make4(from, to, from_port, to_port, data) : make6(from, to, from_port, to_port, data);
	/* The kernel takes the port of a raw socket's address for a protocol. */
	socklen_t len = ip_to_sockaddr(to, 0, &sa);
	box_active(b);
	/* A full queue loses datagrams, as networks do. */
	(void)!sendto(raw, room, n, MSG_DONTWAIT | MSG_NOSIGNAL, &sa.sa, len);
}

/* ---- flows ---- */

static void drop_flow(struct flow *f, const char *end)
{
	struct gate *g = f->box->gate;
	record_send(g, &(struct gate_log){.id = box_id(f->box),
			       .time = f->wall,
			       .name = f->name,
			       .protocol = "udp",
			       .decision = "allow",
			       .why = f->why,
			       .end = end,
			       .ip = &f->to,
			       .port = f->to_port,
			       .sent = f->sent,
			       .received = f->received,
			       .ms = loop_now(g->loop) - f->started});
	list_del(&f->node);
	f->box->flows_n--;
	loop_timer_stop(&f->timer);
	loop_del(&f->io);
	close(f->fd);
	free(f);
}

static void on_idle(struct loop_timer *t)
{
	struct flow *f = container_of(t, struct flow, timer);
	uint64_t since = loop_now(f->box->gate->loop) - f->used;
	if (since >= GATE_FLOW_IDLE)
		return drop_flow(f, "idle");
	loop_timer_set(f->box->gate->loop, &f->timer, GATE_FLOW_IDLE - since, on_idle);
}

static void on_reply(struct loop_io *io, uint32_t events)
{
	struct flow *f = container_of(io, struct flow, io);
	static char data[GATE_DATAGRAM_MAX];
	(void)events;
	for (int i = 0; i < GATE_DATAGRAM_BURST; i++) {
		ssize_t n = recv(io->fd, data, sizeof data, 0);
		if (n < 0)
			return; /* an ICMP error that came is taken off by reading it */
		f->received += (size_t)n;
		f->used = loop_now(f->box->gate->loop);
		udp_send(f->box, &f->to, f->to_port, &f->from, f->from_port, str_n(data, (size_t)n));
	}
}

/* By address, or by one of the names that the box was told for it. */
static bool allowed(
	struct gate_box *b, const struct ip *to, uint16_t port, char name[NET_NAME_MAX + 1], char why[GATE_WHY_MAX])
{
	const struct policy *p = box_policy(b);
	struct verdict v = p ? policy_by_address(p, gate_host(b->gate), true, to, port)
			     : (struct verdict){.answer = POLICY_DENY, .why = "no policy came"};
	const char *told;
	uint64_t now = loop_now(b->gate->loop);
	for (size_t i = 0; v.answer == POLICY_NEEDS_NAME && (told = names_get(&b->names, to, i, now)); i++) {
		struct verdict by_name = policy_by_name(p, told, port, SPEECH_DATAGRAM);
		snprintf(name, NET_NAME_MAX + 1, "%s", told);
		if (by_name.answer == POLICY_ALLOW)
			v = by_name;
	}
	snprintf(why, GATE_WHY_MAX, "%s", v.why && *v.why ? v.why : "UDP needs a udp:// rule");
	return v.answer == POLICY_ALLOW;
}

static struct flow *find_flow(
	struct gate_box *b, const struct ip *from, uint16_t from_port, const struct ip *to, uint16_t to_port)
{
	list_each(it, &b->flows)
	{
		struct flow *f = list_entry(it, struct flow, node);
		if (f->from_port == from_port && f->to_port == to_port && ip_eq(&f->from, from) && ip_eq(&f->to, to))
			return f;
	}
	return NULL;
}

static struct flow *new_flow(
	struct gate_box *b, const struct ip *from, uint16_t from_port, const struct ip *to, uint16_t to_port)
{
	struct gate *g = b->gate;
	struct flow *f = xcalloc(1, sizeof *f);
	union ip_sockaddr sa;
	socklen_t n = ip_to_sockaddr(to, to_port, &sa);
	if (!allowed(b, to, to_port, f->name, f->why) ||
		(f->fd = socket(sa.sa.sa_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) < 0) {
		free(f);
		return NULL;
	}
	if (connect(f->fd, &sa.sa, n) < 0 || loop_add(g->loop, &f->io, f->fd, EPOLLIN, on_reply) < 0) {
		close(f->fd);
		free(f);
		return NULL;
	}
	if (b->flows_n >= GATE_FLOWS_MAX)
		drop_flow(list_entry(b->flows.next, struct flow, node), "made room");
	f->box = b;
	f->from = *from;
	f->to = *to;
	f->from_port = from_port;
	f->to_port = to_port;
	f->started = f->used = loop_now(g->loop);
	f->wall = clock_wall_ms();
	b->flows_n++;
	list_push(&b->flows, &f->node);
	loop_timer_set(g->loop, &f->timer, GATE_FLOW_IDLE, on_idle);
	return f;
}

void udp_drop_flows(struct gate_box *b, bool denied_only)
{
	char name[NET_NAME_MAX + 1], why[GATE_WHY_MAX];
	list_each(it, &b->flows)
	{
		struct flow *f = list_entry(it, struct flow, node);
		if (!denied_only || !allowed(b, &f->to, f->to_port, name, why))
			drop_flow(f, denied_only ? "cut by a changed policy" : "the sandbox ended");
	}
}

static void pass_on(struct gate_box *b, struct str data, const struct ip *from, uint16_t from_port, const struct ip *to,
	uint16_t to_port)
{
	struct flow *f = find_flow(b, from, from_port, to, to_port);
	f = f ? f : new_flow(b, from, from_port, to, to_port);
	if (!f)
		return;
	list_del(&f->node);
	list_push(&b->flows, &f->node);
	f->used = loop_now(b->gate->loop);
	if (send(f->fd, data.p, data.n, MSG_NOSIGNAL) > 0)
		f->sent += data.n;
	box_active(b);
}

/* ---- out of the box ---- */

static bool meant_for(struct msghdr *m, struct ip *ret, uint16_t *ret_port)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		union ip_sockaddr sa = {0};
		bool four = c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_ORIGDSTADDR;
		if (!four && !(c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == 74 /* IPV6_ORIGDSTADDR */))
			continue;
		memcpy(&sa, CMSG_DATA(c), four ? sizeof sa.in : sizeof sa.in6);
		return ip_from_sockaddr(&sa, ret, ret_port);
	}
	return false;
}

void udp_on_ready(struct loop_io *io, uint32_t events)
{
	struct gate_box *b = container_of(io, struct gate_box, udp);
	static char data[GATE_DATAGRAM_MAX];
	(void)events;
	control_take(b->gate);
	/* Not known yet: they wait in the socket, instead of being asked again after seconds. */
	if (!box_policy(b))
		return loop_set_events(io, 0);
	for (int i = 0; i < GATE_DATAGRAM_BURST && !b->gone; i++) {
		char control[256];
		union ip_sockaddr sa;
		struct ip from, to;
		uint16_t from_port, to_port;
		struct iovec iov = {data, sizeof data};
		struct msghdr m = {.msg_name = &sa,
			.msg_namelen = sizeof sa,
			.msg_iov = &iov,
			.msg_iovlen = 1,
			.msg_control = control,
			.msg_controllen = sizeof control};
		ssize_t n = recvmsg(io->fd, &m, 0);
		if (n < 0)
			return;
		if (m.msg_flags & MSG_TRUNC || !ip_from_sockaddr(&sa, &from, &from_port) ||
			!meant_for(&m, &to, &to_port))
			continue;
		if (to_port == 53)
			dnsd_datagram(b, str_n(data, (size_t)n), &from, from_port, &to);
		else
			pass_on(b, str_n(data, (size_t)n), &from, from_port, &to, to_port);
	}
}
