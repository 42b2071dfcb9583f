/*
 * relay.h - moves bytes between two connected sockets, both ways, until both have ended.
 *
 * Small reads are copied through a buffer that all relays share; a read of GATE_SMALL or more turns that way into a
 * pipe, through which the kernel moves pages with splice, until it has run dry. So an idle connection holds neither
 * buffers nor pipes. What the other side does not take is kept (at most one read), and nothing more is read until it is
 * gone.
 *
 * An end passes on as an end (shutdown), a reset as a reset. A client that has closed for good (client_left) ends the
 * whole relay, as it would end a connection without a gate. Both are acted on at the end of the turn, so that new
 * connections and bytes go first. After GATE_IDLE without a byte in either direction, or
 * GATE_HALF_IDLE when one side has ended, the relay is cut. A bucket limits how many bytes move in a second over
 * all relays that share it, and they are one party of the loop's turns (base/turn.h). Thread: the loop's.
 */
#pragma once

#include "base/buf.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/turn.h"
#include "gate/limits.h"

enum relay_end {
	RELAY_CLOSED, /* both sides ended */
	RELAY_CLIENT_RESET,
	RELAY_SERVER_RESET,
	RELAY_IDLE,
	RELAY_UNWATCHED, /* the kernel has no room to wait for it */
};

/* A rate for several relays. `rate` 0: no limit. */
struct relay_bucket {
	struct loop *loop;
	struct turn_party *party;
	uint64_t rate; /* bytes a second */
	int64_t tokens;
	uint64_t filled; /* monotonic ms */
	struct list waiting;
	struct loop_timer timer;
	void (*on_moved)(struct relay_bucket *b); /* bytes have moved; NULL: nobody wants to know */
};
void relay_bucket_init(struct relay_bucket *b, struct loop *l);
/* Takes effect at once. */
void relay_bucket_set(struct relay_bucket *b, uint64_t rate);
/* Takes what a datagram needs. False: it is over the rate, and is to be lost. */
bool relay_bucket_take(struct relay_bucket *b, size_t n);
void relay_bucket_free(struct relay_bucket *b); /* no relay uses it any more */

struct relay;

struct relay_side {
	struct loop_io io;
	int fd;
	bool hung;	 /* both directions are over; reported on and on */
	uint32_t events; /* that `later` is to act on */
	struct loop_task later;
	struct turn_seat seat; /* not used without a bucket */
	struct relay *relay;
};

struct relay_way {
	struct relay_side *from, *to;
	struct buf left;  /* read and not yet taken by the other side */
	int pipe[2];	  /* -1: none */
	size_t piped;	  /* bytes in it */
	bool bulk;	  /* the last read was long: use a pipe */
	bool ended, shut; /* from has ended; to has been told */
	uint64_t bytes;	  /* taken by `to` */
};

struct relay {
	struct loop *loop;
	struct relay_side client, server;
	struct relay_way up, down;   /* client → server, server → client */
	struct relay_bucket *bucket; /* or NULL */
	struct list waits;	     /* of the bucket */
	struct loop_timer idle;
	uint64_t moved; /* loop time of the last byte */
	bool over;
	bool server_first;	/* the server spoke before anything of the client had been passed on */
	struct loop_task first; /* what the client has said already is moved in the same turn */
	/* The client's bytes have ended: is it gone, or does it still read? NULL: unknown. Set after relay_start. */
	bool (*client_left)(struct relay *r);
	/* NULL, or a list in which `place` goes to the end when a byte has moved. Set after relay_start. */
	struct list *order, *place;
	uint64_t ordered;
	/* From the loop; the relay has let go of pipes. The descriptors are the caller's, who closes both at once. */
	void (*on_end)(struct relay *r, enum relay_end how);
};

/* `r` is zeroed. The descriptors must not block. */
void relay_start(struct relay *r, struct loop *l, int client, int server, struct relay_bucket *bucket,
	void (*on_end)(struct relay *r, enum relay_end how));
/* No byte has been read from either side, and neither has ended: whoever takes over begins at the first one. */
bool relay_is_untouched(const struct relay *r);
/* Bytes wait in this direction for a side that takes none. */
bool relay_holds(const struct relay_way *w);
/* Ends without calling back. Safe when it has ended, or never began. */
void relay_stop(struct relay *r);

/* So that the peer sees an error, not an end. */
void relay_reset(int *fd);
