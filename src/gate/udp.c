/*
 * Datagrams. What a box sends arrives at one socket with the address it was meant for; what it gets is made here,
 * header and all, and sent through a raw socket of its namespace, so that it comes from the address and port that it
 * was sent to. Port 53 is the resolver's. Other ports need a udp:// rule: a flow is a socket of ours for each pair of
 * addresses.
 */
#include <linux/icmp.h>
#include <linux/icmpv6.h>
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

static uint16_t fold(uint64_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return htons((uint16_t)~sum);
}

/* Over the pseudo header, the header and the data. */
static uint16_t checksum(const void *addresses, size_t n, const struct udphdr *u, size_t length)
{
	uint16_t c = fold((uint64_t)add(0, addresses, n) + add(0, u, length) + length + IPPROTO_UDP);
	return c ? c : 0xffff;
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

/* The packet in `room`. A full queue loses datagrams, as networks do. */
static void inject(struct gate_box *b, const struct ip *to, size_t n)
{
	union ip_sockaddr sa;
	/* The kernel takes the port of a raw socket's address for a protocol. */
	socklen_t len = ip_to_sockaddr(to, 0, &sa);
	(void)!sendto(ip_is4(to) ? b->raw4 : b->raw6, room, n, MSG_DONTWAIT | MSG_NOSIGNAL, &sa.sa, len);
}

static bool can_inject(const struct gate_box *b, const struct ip *from, const struct ip *to)
{
	return (ip_is4(to) ? b->raw4 : b->raw6) >= 0 && ip_is4(from) == ip_is4(to);
}

void udp_send(struct gate_box *b, const struct ip *from, uint16_t from_port, const struct ip *to, uint16_t to_port,
	struct str data)
{
	if (data.n > 65507 || !can_inject(b, from, to))
		return;
	size_t n = ip_is4(to) ? make4(from, to, from_port, to_port, data) : make6(from, to, from_port, to_port, data);
	box_active(b);
	inject(b, to, n);
}

/* ---- "port unreachable": the program that sent a datagram sees ECONNREFUSED ---- */

struct sent {
	struct ip from, to;
	uint16_t from_port, to_port;
	struct str data;
};

/* The datagram as it was sent stands behind `head` bytes of room; its first bytes are all that the kernel wants. */
static size_t quote(const struct sent *s, size_t head)
{
	bool four = ip_is4(&s->to);
	size_t n = four ? make4(&s->from, &s->to, s->from_port, s->to_port, STR(""))
			: make6(&s->from, &s->to, s->from_port, s->to_port, STR(""));
	memmove(room + head, room, n);
	/* The lengths are those of the whole datagram. */
	uint16_t length = htons((uint16_t)(s->data.n + sizeof(struct udphdr)));
	struct udphdr *u = (struct udphdr *)(room + head + n) - 1;
	u->len = length;
	if (four)
		((struct iphdr *)(room + head))->tot_len =
			htons((uint16_t)(s->data.n + sizeof(struct udphdr) + sizeof(struct iphdr)));
	else
		((struct ipv6hdr *)(room + head))->payload_len = length;
	return n;
}

static size_t make_unreachable4(const struct sent *s)
{
	const size_t head = sizeof(struct iphdr) + sizeof(struct icmphdr);
	size_t quoted = quote(s, head);
	struct iphdr *h = (struct iphdr *)room;
	struct icmphdr *i = (struct icmphdr *)(h + 1);
	*h = (struct iphdr){.version = 4, .ihl = 5, .ttl = 64, .protocol = IPPROTO_ICMP};
	memcpy(&h->saddr, s->to.b + 12, 4);
	memcpy(&h->daddr, s->from.b + 12, 4);
	*i = (struct icmphdr){.type = ICMP_DEST_UNREACH, .code = ICMP_PORT_UNREACH};
	i->checksum = fold(add(0, i, sizeof *i + quoted));
	return head + quoted;
}

static size_t make_unreachable6(const struct sent *s)
{
	const size_t head = sizeof(struct ipv6hdr) + sizeof(struct icmp6hdr);
	size_t quoted = quote(s, head), length = sizeof(struct icmp6hdr) + quoted;
	struct ipv6hdr *h = (struct ipv6hdr *)room;
	struct icmp6hdr *i = (struct icmp6hdr *)(h + 1);
	*h = (struct ipv6hdr){
		.version = 6, .payload_len = htons((uint16_t)length), .nexthdr = IPPROTO_ICMPV6, .hop_limit = 64};
	memcpy(&h->saddr, s->to.b, 16);
	memcpy(&h->daddr, s->from.b, 16);
	*i = (struct icmp6hdr){.icmp6_type = ICMPV6_DEST_UNREACH, .icmp6_code = ICMPV6_PORT_UNREACH};
	i->icmp6_cksum = fold((uint64_t)add(0, &h->saddr, 32) + add(0, i, length) + length + IPPROTO_ICMPV6);
	return head + quoted;
}

static void say_unreachable(struct gate_box *b, const struct sent *s)
{
	if (can_inject(b, &s->to, &s->from))
		inject(b, &s->from, ip_is4(&s->to) ? make_unreachable4(s) : make_unreachable6(s));
}

/* ---- flows ---- */

static void drop_flow(struct flow *f, const char *decision, const char *end)
{
	struct gate *g = f->box->gate;
	record_send(g, &(struct gate_log){.id = box_id(f->box),
			       .time = f->wall,
			       .name = f->name,
			       .protocol = "udp",
			       .decision = decision,
			       .why = f->why,
			       .end = end,
			       .ip = &f->to,
			       .port = f->to_port,
			       .sent = f->sent,
			       .received = f->received,
			       .ms = loop_now(g->loop) - f->started});
	list_del(&f->node);
	f->box->flows_n--;
	g->places.flows--;
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
		return drop_flow(f, "allow", "idle");
	loop_timer_set(f->box->gate->loop, &f->timer, GATE_FLOW_IDLE - since, on_idle);
}

static void on_reply(struct loop_io *io, uint32_t events)
{
	struct flow *f = container_of(io, struct flow, io);
	static char data[GATE_DATAGRAM_MAX];
	(void)events;
	turn_bill(f->box->bucket.party);
	for (int i = 0; i < GATE_DATAGRAM_BURST && (!i || turn_may(f->box->bucket.party)); i++) {
		ssize_t n = recv(io->fd, data, sizeof data, 0);
		/* An ICMP error that came is taken off by reading it. */
		if (n < 0 && errno == ECONNREFUSED)
			say_unreachable(f->box, &(struct sent){f->from, f->to, f->from_port, f->to_port, STR("")});
		if (n < 0)
			return;
		if (!relay_bucket_take(&f->box->bucket, (size_t)n))
			continue;
		f->received += (size_t)n;
		f->used = loop_now(f->box->gate->loop);
		udp_send(f->box, &f->to, f->to_port, &f->from, f->from_port, str_n(data, (size_t)n));
	}
}

/* A rule that denies datagrams to the name. */
static const struct rule *denied_name(const struct policy *p, const char *name, uint16_t port)
{
	for (size_t i = 0; i < p->deny_n; i++)
		if ((!p->deny[i].port || p->deny[i].port == port) && rule_matches_name(&p->deny[i], name))
			return &p->deny[i];
	return NULL;
}

struct verdict udp_verdict(struct gate_box *b, const struct ip *to, uint16_t port, const char **name)
{
	const struct policy *p = box_policy(b);
	struct verdict v = p ? policy_by_address(p, gate_host(b->gate), true, to, port)
			     : (struct verdict){.answer = POLICY_DENY, .why = "no policy came"};
	const char *told;
	const struct rule *denied;
	bool by_name = v.answer == POLICY_NEEDS_NAME;
	uint64_t now = loop_now(b->gate->loop);
	*name = "";
	for (size_t i = 0; (by_name || v.look) && (told = names_get(&b->names, to, i, now)); i++) {
		if (by_name && v.answer != POLICY_ALLOW) {
			v = policy_by_name(p, told, port, SPEECH_DATAGRAM);
			struct verdict at = policy_address_ok(p, gate_host(b->gate), true, to, port, told);
			if (v.answer == POLICY_ALLOW && at.answer != POLICY_ALLOW)
				v = at; /* a neighbour of the host, and "*" names none */
			*name = told;
		} else if (v.look && (denied = denied_name(p, told, port))) {
			*name = told;
			return (struct verdict){.answer = POLICY_DENY, .why = denied->text};
		}
	}
	if (v.answer == POLICY_NEEDS_NAME)
		v = (struct verdict){.answer = POLICY_DENY, .why = "UDP needs a udp:// rule"};
	return v;
}

static bool allowed(struct gate_box *b, const struct ip *to, uint16_t port)
{
	const char *name;
	return udp_verdict(b, to, port, &name).answer == POLICY_ALLOW;
}

static struct flow *find_flow(struct gate_box *b, const struct sent *s)
{
	list_each(it, &b->flows)
	{
		struct flow *f = list_entry(it, struct flow, node);
		if (f->from_port == s->from_port && f->to_port == s->to_port && ip_eq(&f->from, &s->from) &&
			ip_eq(&f->to, &s->to))
			return f;
	}
	return NULL;
}

/* NULL: refused. */
static struct flow *new_flow(struct gate_box *b, const struct sent *s)
{
	struct gate *g = b->gate;
	const char *name;
	struct verdict v = udp_verdict(b, &s->to, s->to_port, &name);
	if (v.answer != POLICY_ALLOW)
		return NULL;
	struct flow *f = xcalloc(1, sizeof *f);
	union ip_sockaddr sa;
	socklen_t n = ip_to_sockaddr(&s->to, s->to_port, &sa);
	snprintf(f->name, sizeof f->name, "%s", name);
	snprintf(f->why, sizeof f->why, "%s", v.why);
	if ((f->fd = socket(sa.sa.sa_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) < 0) {
		free(f);
		return NULL;
	}
	if (connect(f->fd, &sa.sa, n) < 0 || loop_add(g->loop, &f->io, f->fd, EPOLLIN, on_reply) < 0) {
		close(f->fd);
		free(f);
		return NULL;
	}
	if (b->flows_n >= GATE_FLOWS_MAX)
		drop_flow(list_entry(b->flows.next, struct flow, node), "allow", "made room");
	f->box = b;
	f->from = s->from;
	f->to = s->to;
	f->from_port = s->from_port;
	f->to_port = s->to_port;
	f->started = f->used = loop_now(g->loop);
	f->wall = clock_wall_ms();
	b->flows_n++;
	g->places.flows++;
	list_push(&b->flows, &f->node);
	loop_timer_set(g->loop, &f->timer, GATE_FLOW_IDLE, on_idle);
	return f;
}

void udp_drop_flows(struct gate_box *b, bool denied_only)
{
	list_each(it, &b->flows)
	{
		struct flow *f = list_entry(it, struct flow, node);
		if (!denied_only) {
			drop_flow(f, "allow", "the sandbox ended");
		} else if (!allowed(b, &f->to, f->to_port)) {
			snprintf(f->why, sizeof f->why, "the policy was changed");
			drop_flow(f, "deny", "cut by a changed policy");
		}
	}
}

static void pass_on(struct gate_box *b, const struct sent *s)
{
	struct flow *f = find_flow(b, s);
	f = f ? f : new_flow(b, s);
	if (!f) {
		drops_add(b, &(struct drop){.ip = s->to, .port = s->to_port, .udp = true});
		return say_unreachable(b, s);
	}
	list_del(&f->node);
	list_push(&b->flows, &f->node);
	f->used = loop_now(b->gate->loop);
	box_active(b);
	/* What is over the rate is lost, as networks do. */
	if (relay_bucket_take(&b->bucket, s->data.n) && send(f->fd, s->data.p, s->data.n, MSG_NOSIGNAL) >= 0)
		f->sent += s->data.n;
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
	turn_bill(b->bucket.party);
	for (int i = 0; i < GATE_DATAGRAM_BURST && !b->gone && (!i || turn_may(b->bucket.party)); i++) {
		char control[256];
		union ip_sockaddr sa;
		struct sent s;
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
		if (m.msg_flags & MSG_TRUNC || !ip_from_sockaddr(&sa, &s.from, &s.from_port) ||
			!meant_for(&m, &s.to, &s.to_port))
			continue;
		s.data = str_n(data, (size_t)n);
		if (s.to_port == 53)
			dnsd_datagram(b, s.data, &s.from, s.from_port, &s.to);
		else
			pass_on(b, &s);
	}
}
