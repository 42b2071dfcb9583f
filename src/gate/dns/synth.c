#include "gate/dns/synth.h"

enum { RANGE = 0xc6120000u, RANGE_BITS = 17 }; /* 198.18.0.0/15: 17 bits are free */

struct synth_entry {
	struct list node;
	struct ip ip;
	char name[];
};

static struct str ip_key(const struct ip *ip)
{
	return str_n(ip->b, sizeof ip->b);
}

void synth_init(struct synth *s)
{
	*s = (struct synth){.next = 1};
	list_init(&s->order);
}

static void drop(struct synth *s, struct synth_entry *t)
{
	map_del(&s->by_ip, ip_key(&t->ip));
	map_del(&s->by_name, str_of(t->name));
	list_del(&t->node);
	free(t);
}

void synth_free(struct synth *s)
{
	while (!list_empty(&s->order))
		drop(s, list_entry(list_pop(&s->order), struct synth_entry, node));
	map_free(&s->by_ip);
	map_free(&s->by_name);
}

bool synth_is(const struct ip *ip)
{
	struct ip range = ip_v4(RANGE);
	return ip_in(ip, &range, IP_BITS - RANGE_BITS);
}

/* The range is far larger than the number of entries, so a free address is found soon. */
static struct ip free_address(struct synth *s)
{
	struct ip ip;
	do {
		ip = ip_v4(RANGE | s->next);
		s->next = (s->next + 1) & ((1u << RANGE_BITS) - 1);
	} while ((ip.b[15] == 0) || (ip.b[15] == 255) || map_get(&s->by_ip, ip_key(&ip)));
	return ip;
}

static struct synth_entry *make(struct synth *s, const char *name)
{
	size_t n = strlen(name) + 1;
	if (s->by_name.count >= GATE_SYNTH_MAX)
		drop(s, list_entry(s->order.next, struct synth_entry, node));
	struct synth_entry *t = xcalloc(1, sizeof *t + n);
	memcpy(t->name, name, n);
	t->ip = free_address(s);
	map_put(&s->by_name, str_of(t->name), t);
	map_put(&s->by_ip, ip_key(&t->ip), t);
	return t;
}

struct ip synth_address(struct synth *s, const char *name)
{
	struct synth_entry *t = map_get(&s->by_name, str_of(name));
	t = t ? t : make(s, name);
	list_del(&t->node);
	list_push(&s->order, &t->node);
	return t->ip;
}

const char *synth_name(const struct synth *s, const struct ip *ip)
{
	const struct synth_entry *t = map_get(&s->by_ip, ip_key(ip));
	return t ? t->name : NULL;
}
