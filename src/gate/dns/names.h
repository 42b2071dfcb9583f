/*
 * names.h - which names our resolver has told a box for which address.
 *
 * For protocols whose first bytes carry no name (ssh, Postgres, SMTP): the names of a connection are those that this
 * box was given for its address. At most GATE_NAMES_MAX addresses with GATE_NAMES_PER_IP names each; the address that
 * was told longest ago makes room. Entries end GATE_NAMES_KEEP after the record's own time.
 */
#pragma once

#include "base/list.h"
#include "base/map.h"
#include "gate/limits.h"
#include "proto/ip.h"

struct names {
	struct map map;	   /* 16 bytes of address → struct names_entry */
	struct list order; /* least recently told first */
};

struct names_entry {
	struct list node;
	struct ip ip;
	size_t n;
	struct {
		uint64_t until; /* monotonic ms */
		char *name;
	} v[GATE_NAMES_PER_IP];
};

void names_init(struct names *s);
void names_free(struct names *s);
/* `name` is in lower case. */
void names_add(struct names *s, const struct ip *ip, const char *name, uint64_t ttl_ms, uint64_t now);
/* The i-th living name of an address, the latest told first; NULL at the end. Valid until the next names_add. */
const char *names_get(const struct names *s, const struct ip *ip, size_t i, uint64_t now);
