/*
 * resolve.h - names to records, through c-ares on our loop, with a cache for all boxes.
 *
 * A and AAAA go through ares_getaddrinfo, which reads the host's /etc/hosts first; other types are queries of their
 * own. Search domains are not used: a box's name means what it says. Questions for the same name and type that come
 * while one is under way share its answer. The cache holds GATE_DNS_CACHE_MAX answers; the one used longest ago makes
 * room. When /etc/resolv.conf or /etc/hosts changes, the cache is dropped and the servers are read again.
 *
 * Policies are the caller's: this answers every name. Thread: the loop's.
 */
#pragma once

#include "base/list.h"
#include "base/loop.h"
#include "gate/dns/dns.h"
#include "proto/errc.h"

struct resolver;
struct resolve_entry;

struct resolve_wait {
	struct list node;
	/* `a` is good for the call. Comes once, from the loop. */
	void (*on_answer)(struct resolve_wait *w, const struct dns_answer *a, uint32_t age);
	bool waiting;
};

struct resolver *resolver_new(struct loop *l, struct err *e);
void resolver_free(struct resolver *r);

/* What is known already, and how many seconds old it is; NULL: ask. Good until the loop turns. */
const struct dns_answer *resolver_get(struct resolver *r, const char *name, uint16_t type, uint32_t *ret_age);
/* Always answers later, also when it is known. */
void resolver_ask(struct resolver *r, const char *name, uint16_t type, struct resolve_wait *w,
	void (*on_answer)(struct resolve_wait *, const struct dns_answer *, uint32_t));
void resolver_cancel(struct resolve_wait *w);
