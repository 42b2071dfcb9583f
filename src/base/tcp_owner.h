/*
 * tcp_owner.h - the memory of TCP that the connections of one owner hold, and what is done when it is too much.
 *
 * The gate's owners are boxes, with the connections that they make; atolld's are sandboxes, with those of their previews.
 * Once in TCP_LOOK the program looks at every connection (tcp_conn_look), adds up what an owner's hold, and judges it
 * (tcp_owner_judge). An owner with more than TCP_OWNER_MAX has the smallest windows until it holds half of that. It
 * also loses connections of which one direction stands still, the largest first (tcp_doomed), whatever moves in the
 * other direction; after TCP_OWNER_PATIENCE also those that are just fast enough. While the host is short
 * (tcp_mem.h), the owners that hold most lose down to their part (tcp_host_part), until the host is not, and the others
 * nothing.
 *
 * Nothing here knows a connection: it is embedded in one.
 */
#pragma once

#include "base/limits.h"
#include "base/tcp_mem.h"

struct tcp_owner {
	size_t held;	 /* at the last look */
	uint64_t over;	 /* ms since which that is too much, or 0 */
	uint32_t window; /* 0: the kernel's own */
};

/* A connection, or what two sockets of it hold together. */
struct tcp_conn {
	size_t held;
	struct tcp_way up, down;
};

/* The window of each of its `n` connections. True when it has changed. */
bool tcp_owner_window(struct tcp_owner *o, const struct tcp_host *h, size_t n);
/* After `held` has been added up; tcp_owner_window follows. */
void tcp_owner_judge(struct tcp_owner *o, uint64_t now);

/* One direction of a connection: `holds` says that the program has bytes that the socket `to` does not take. */
void tcp_way_look_at(struct tcp_way *w, uint64_t now, bool holds, int to);

/* Small windows have had their time, and some owners must lose connections. */
static inline bool tcp_host_needs(const struct tcp_host *h)
{
	return h->looks > TCP_STUCK_SHORT / TCP_LOOK;
}

/* What each of `n` owners that hold more than TCP_OWNER_KEPT keeps then: of half of the mark. The other half is for the
 * other ends and other programs of the host, whose memory nothing here can free. */
size_t tcp_host_part(const struct tcp_host *h, size_t n);

/* How long a connection has to stand still in order to be lost. TCP_ANY: waiting is enough. */
enum { TCP_ANY = 0 };
uint64_t tcp_owner_patience(const struct tcp_owner *o, uint64_t now);
bool tcp_conn_is_stuck(const struct tcp_conn *c, uint64_t now, uint64_t patience);

/* A growing list of connections that stand still. */
struct tcp_doomed {
	struct tcp_conn **conns;
	size_t n, room;
};
void tcp_doomed_add(struct tcp_doomed *d, struct tcp_conn *c);
/* The largest first; as many of them as it takes until the owner holds no more than `most`. o->held and the return
 * value tell what is freed. Frees the list. */
size_t tcp_doomed_end(struct tcp_doomed *d, struct tcp_owner *o, size_t most,
	void (*reset)(void *arg, struct tcp_conn *c), void *arg);
