/*
 * synth.h - addresses of 198.18.0.0/15 that stand for names, in one box.
 *
 * A name that somebody has to approve first must not be asked of the host's servers: the question alone would tell
 * them something. The box gets an address of this range instead, which nobody on the internet has, and the name is
 * looked up when a connection to the address has been approved. The same holds for names that only the host's own proxy
 * looks up (egress.h).
 *
 * A name keeps its address while it is among the last GATE_SYNTH_MAX that were asked for.
 */
#pragma once

#include "base/list.h"
#include "base/map.h"
#include "gate/limits.h"
#include "proto/ip.h"

struct synth {
	struct map by_name, by_ip; /* → struct synth_entry */
	struct list order;	   /* asked for longest ago first */
	uint32_t next;		   /* offset in the range */
};

void synth_init(struct synth *s);
void synth_free(struct synth *s);
bool synth_is(const struct ip *ip);
/* The address of a name, the same as before or a new one. `name` is in lower case. */
struct ip synth_address(struct synth *s, const char *name);
/* NULL: it stands for no name of this box. Valid until the next synth_address. */
const char *synth_name(const struct synth *s, const struct ip *ip);
