/*
 * dial.h - connects to the first of several addresses that answers (Happy Eyeballs, RFC 8305).
 *
 * Addresses are tried in the order given (dial_order puts the families in turns), the next one GATE_DIAL_STAGGER after
 * the last, or at once when one fails. The first connection that stands wins; the others are closed. All together have
 * GATE_DIAL_TIMEOUT. Sockets are non-blocking, with TCP_NODELAY and keep-alive. Thread: the loop's.
 */
#pragma once

#include "base/loop.h"
#include "base/turn.h"
#include "gate/limits.h"
#include "proto/ip.h"

struct dial;
/* From the loop, once. `fd` is the caller's, or -errno of the last failure; `ip` is the address that answered, or the
 * first one. The dial is freed behind. */
typedef void (*dial_on_done)(void *arg, int fd, const struct ip *ip);

struct dial *dial_start(struct loop *l, const struct ip *ips, size_t n, uint16_t port, dial_on_done on_done, void *arg);
/* It is work of this party (base/turn.h), which outlives it. */
void dial_for(struct dial *d, struct turn_party *party);
/* Nothing is called any more. */
void dial_cancel(struct dial *d);

/* Puts the families in turns, the family of the first address first. */
void dial_order(struct ip *ips, size_t n);
