/*
 * reach.h - from a decided destination to a connected socket: resolve, check every address, dial.
 *
 * With `own_only` (a name decided) only addresses count that our resolver has for the name, whatever address the box
 * asked for; the one it asked for goes first when it is among them. Otherwise the asked one is dialled, and beside it
 * the others that the name has, so that a client is not stuck with one family. Every address is checked against the
 * policy (policy_address_ok) right before it is dialled.
 */
#pragma once

#include "proto/ip.h"

struct gate_box;
struct reach;

struct reach_to {
	const char *name; /* or "" */
	struct ip wanted;
	uint16_t port;
	bool own_only;
};

/* Beyond every errno: each address of the name is forbidden. */
enum { REACH_FORBIDDEN = -4096 };

/* From the loop, once: a descriptor, or -errno (-EHOSTUNREACH: the name has no address), or REACH_FORBIDDEN with such
 * an address. The reach is freed behind. */
typedef void (*reach_on_done)(void *arg, int fd, const struct ip *ip);

struct reach *reach_start(struct gate_box *b, const struct reach_to *to, reach_on_done on_done, void *arg);
/* NULL is fine. Nothing is called any more. */
void reach_cancel(struct reach *r);

/* The rule that forbids it. */
const char *reach_why(struct gate_box *b, const struct ip *forbidden, uint16_t port);

/* Whether the resolver is known to give this address for the name, and it may be reached. */
bool reach_is_own(struct gate_box *b, const struct reach_to *to);
