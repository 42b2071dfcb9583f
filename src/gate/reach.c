#include "gate/reach.h"

#include <stdio.h>

#include "gate/gate.h"

struct reach {
	struct gate_box *box;
	struct reach_to to;
	char name[NET_NAME_MAX + 1];
	struct resolve_wait wait[2]; /* A, AAAA */
	struct dial *dial;
	struct tunnel *tunnel;	      /* the same through the host's proxy */
	struct ip ips[GATE_DIAL_MAX]; /* what the proxy is asked for, one after the other */
	size_t ips_n, ips_at;
	struct loop_task task;
	reach_on_done on_done;
	void *arg;
	struct ip forbidden; /* an address of the name that may not be reached, or zero */
	int failed;	     /* -errno, to be told */
	bool again;	     /* an answer that had expired before the other came has been asked for again */
	bool second;	     /* the address that was asked for does not answer; now those that the name has as well */
};

static const uint16_t types[] = {DNS_A, DNS_AAAA};

static bool holds(const struct ip *ips, size_t n, const struct ip *ip)
{
	for (size_t i = 0; i < n; i++)
		if (ip_eq(&ips[i], ip))
			return true;
	return false;
}

/* Adds the addresses of a name that may be reached, as far as the resolver knows them. `forbidden`: gets one that may
 * not, or NULL. */
static size_t gather(struct gate_box *b, const struct reach_to *to, struct ip *ips, size_t n, struct ip *forbidden)
{
	struct ip_host *host = gate_host(b->gate);
	const struct policy *p = box_policy(b);
	for (size_t t = ARRAY_LEN(types); p && t-- > 0;) {
		uint32_t age;
		const struct dns_answer *a = resolver_get(b->gate->resolver, to->name, types[t], &age);
		for (size_t i = 0; a && i < a->n && n < GATE_DIAL_MAX; i++) {
			struct ip ip;
			if (!dns_record_ip(&a->v[i], &ip) || !(ip_is4(&ip) || host->v6) || holds(ips, n, &ip))
				continue;
			if (policy_address_ok(p, host, false, &ip, to->port, to->name).answer == POLICY_ALLOW)
				ips[n++] = ip;
			else if (forbidden)
				*forbidden = ip;
		}
	}
	return n;
}

bool reach_is_own(struct gate_box *b, const struct reach_to *to)
{
	struct ip ips[GATE_DIAL_MAX];
	return holds(ips, gather(b, to, ips, 0, NULL), &to->wanted);
}

const char *reach_why(struct gate_box *b, const struct ip *forbidden, uint16_t port)
{
	const struct policy *p = box_policy(b);
	return p ? policy_address_ok(p, gate_host(b->gate), false, forbidden, port, NULL).why : "the sandbox is gone";
}

void reach_cancel(struct reach *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < ARRAY_LEN(r->wait); i++)
		resolver_cancel(&r->wait[i]);
	if (r->dial)
		dial_cancel(r->dial);
	if (r->tunnel)
		tunnel_cancel(r->tunnel);
	list_del(&r->task.node);
	free(r);
}

static void done(struct reach *r, int fd, const struct ip *ip)
{
	reach_on_done on_done = r->on_done;
	void *arg = r->arg;
	struct ip reached = *ip;
	reach_cancel(r);
	on_done(arg, fd, &reached);
}

static void ask(struct reach *r);

static void on_dialled(void *arg, int fd, const struct ip *ip)
{
	struct reach *r = arg;
	r->dial = NULL;
	if (fd >= 0 || r->second || r->to.own_only || !*r->name)
		return done(r, fd, ip);
	r->second = true;
	r->failed = fd;
	ask(r);
}

static void tell_failed(struct loop_task *t)
{
	struct reach *r = container_of(t, struct reach, task);
	turn_bill(r->box->bucket.party);
	done(r, r->failed, r->failed == REACH_FORBIDDEN ? &r->forbidden : &r->to.wanted);
}

/* ---- through the host's proxy ---- */

static void tunnel_next(struct reach *r);

static void on_tunnel(void *arg, int fd, const struct ip *ip)
{
	struct reach *r = arg;
	turn_bill(r->box->bucket.party);
	r->tunnel = NULL;
	if (fd < 0 && r->ips_at < r->ips_n)
		return tunnel_next(r);
	on_dialled(r, fd, ip);
}

static void tunnel_next(struct reach *r)
{
	struct egress_to to = {.name = "", .ip = r->ips[r->ips_at++], .port = r->to.port};
	r->tunnel = tunnel_start(r->box->gate, &to, on_tunnel, r);
}

/* The proxy looks the name up. Nothing is known about its addresses here. */
static bool by_proxy(const struct reach *r)
{
	return r->box->gate->egress.names && r->to.own_only && *r->name;
}

static void tunnel_name(struct reach *r)
{
	struct egress_to to = {.name = r->name, .ip = r->to.wanted, .port = r->to.port};
	r->tunnel = tunnel_start(r->box->gate, &to, on_tunnel, r);
}

/* It may have been decided long ago (a request on a kept connection, one that was held), and be the host's by now. */
static bool may_dial_wanted(struct reach *r)
{
	const struct policy *p = box_policy(r->box);
	if (r->to.own_only)
		return reach_is_own(r->box, &r->to);
	return p && policy_address_ok(p, gate_host(r->box->gate), false, &r->to.wanted, r->to.port, r->name).answer ==
			    POLICY_ALLOW;
}

static void fail(struct reach *r, int how)
{
	r->failed = how;
	loop_defer(r->box->gate->loop, &r->task, tell_failed);
}

static void dial(struct reach *r)
{
	static const struct ip none;
	struct ip ips[GATE_DIAL_MAX];
	size_t n = 0;
	if (may_dial_wanted(r))
		ips[n++] = r->to.wanted;
	else if (!r->to.own_only) {
		r->forbidden = r->to.wanted;
		return fail(r, REACH_FORBIDDEN);
	}
	if (*r->name)
		n = gather(r->box, &r->to, ips, n, &r->forbidden);
	if (n == 0 && !ip_eq(&r->forbidden, &none))
		r->failed = REACH_FORBIDDEN;
	/* The first has been tried. */
	if (r->second && n) {
		n--;
		memmove(ips, ips + 1, n * sizeof *ips);
	}
	if (n == 0)
		return fail(r, r->failed ? r->failed : -EHOSTUNREACH);
	dial_order(ips, n);
	if (r->box->gate->egress.kind) {
		memcpy(r->ips, ips, n * sizeof *ips);
		r->ips_n = n;
		r->ips_at = 0;
		return tunnel_next(r);
	}
	r->dial = dial_start(r->box->gate->loop, ips, n, r->to.port, on_dialled, r);
	dial_for(r->dial, r->box->bucket.party);
}

static bool is_known(const struct reach *r, uint16_t type)
{
	uint32_t age;
	return resolver_get(r->box->gate->resolver, r->name, type, &age);
}

static void on_resolved(struct reach *r)
{
	turn_bill(r->box->bucket.party);
	if (r->wait[0].waiting || r->wait[1].waiting)
		return;
	if (r->again || is_known(r, DNS_A))
		return dial(r);
	r->again = true;
	ask(r);
}

static void on_four(struct resolve_wait *w, const struct dns_answer *a, uint32_t age)
{
	(void)a;
	(void)age;
	on_resolved(container_of(w, struct reach, wait[0]));
}

static void on_six(struct resolve_wait *w, const struct dns_answer *a, uint32_t age)
{
	(void)a;
	(void)age;
	on_resolved(container_of(w, struct reach, wait[1]));
}

/* Both families of the name, as far as they are not known. */
static void ask(struct reach *r)
{
	struct resolver *s = r->box->gate->resolver;
	if (!is_known(r, DNS_A))
		resolver_ask(s, r->name, DNS_A, &r->wait[0], on_four);
	if (gate_host(r->box->gate)->v6 && !is_known(r, DNS_AAAA))
		resolver_ask(s, r->name, DNS_AAAA, &r->wait[1], on_six);
	on_resolved(r);
}

struct reach *reach_start(struct gate_box *b, const struct reach_to *to, reach_on_done on_done, void *arg)
{
	struct reach *r = xcalloc(1, sizeof *r);
	r->box = b;
	r->to = *to;
	snprintf(r->name, sizeof r->name, "%s", to->name);
	r->to.name = r->name;
	r->on_done = on_done;
	r->arg = arg;
	if (by_proxy(r))
		tunnel_name(r);
	else if (to->own_only)
		ask(r);
	else
		dial(r);
	return r;
}
