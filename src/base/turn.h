/*
 * turn.h - who may work how long in one turn of a loop, so that no one participant makes the others wait.
 *
 * Theory of operation. A turn of the loop serves everything that is ready, so it is as long as the work that it finds.
 * Work that a client or a box can make as long as it likes (requests in a row, chunks of one byte, handshakes) is cut
 * into units, and each unit needs the consent of turn_may():
 *
 *	party	a participant. A connection is one, or several are one together: those of the same owner, however many
 *		it opens, and those of all strangers.
 *	bill	a callback says for which party it works (turn_bill); the loop adds the time until the callback's end
 *		to what the party has spent in this turn.
 *	part	every party may spend TURN_PART in a turn. Beyond that, parties that want more divide TURN_SHARED
 *		among themselves: a party that is alone has all of it, and then the next turn. Strangers have
 *		TURN_STRANGERS together.
 *	seat	a connection whose party has had its part waits in its party's queue, and the party in the loop's. The
 *		end of each turn serves the parties in their order, each at least one seat, strangers last. What
 *		is left goes on in the next turn, which does not sleep and first serves what has become ready. Among
 *		the seats of a party those that are `ahead` come first: clients that have had nothing yet.
 *
 * So a turn lasts about TURN_SHARED + TURN_STRANGERS, and one unit for each party that has work; a party with a
 * thousand connections delays the others no longer than a party with one. A unit is never divided: its owner bounds it.
 * While a seat waits, its io is not watched: epoll's list holds what can be served.
 *
 * Ownership: a party lives in its owner's object (turn_party_init, turn_party_leave), or is counted (turn_party_new).
 * A seat is embedded, and its owner removes it before it is freed. Thread: the loop's.
 */
#pragma once

#include "base/base.h"
#include "base/list.h"

struct loop;
struct loop_io;

/* Of one loop, and part of it (loop_turns). */
struct turns {
	struct list parties, strangers; /* that have waiting seats */
	struct list fresh;		/* seats that began to wait in this turn */
	uint64_t number;		/* of the turn, from 1 on */
	unsigned greedy, greedy_before; /* parties that have spent TURN_PART in this turn; in the one before */
	bool serving;			/* the queue is being served: strangers may work */
	struct turn_party *billed;	/* NULL: the running callback works for nobody … */
	uint64_t since;			/* … else from here on; ns */
};

struct turn_party {
	struct turns *turns;
	struct list node, ahead, seats; /* ahead: of turn_seat.ahead */
	uint64_t number;		/* of the turn that `spent` counts in */
	uint64_t spent;			/* ns */
	unsigned refs;
	void *owner; /* of who made it, for its use; NULL: none, or gone */
	bool strangers;
	bool granted; /* its turn in the queue: the next unit is free */
};

struct turn_seat {
	struct list node, fresh;
	struct turn_party *party;
	struct loop_io *io; /* what to stop watching while it waits */
	uint32_t events;    /* that came while it waited */
	uint64_t served;    /* number of the turn in which it last ran */
	bool ahead;	    /* waits before those of its party that are not; set while it does not wait */
	void (*run)(struct turn_seat *s, uint32_t events);
};

void turn_party_init(struct turn_party *p, struct loop *l, bool strangers);
/* Its owner ends. No seat waits for it. */
void turn_party_leave(struct turn_party *p);
/* The same for a party with several owners: the last reference frees it. NULL is none. */
struct turn_party *turn_party_new(struct loop *l);
struct turn_party *turn_party_ref(struct turn_party *p);
void turn_party_unref(struct turn_party *p);

/* The running callback works for this party from here on. */
void turn_bill(struct turn_party *p);
/* May the party begin another unit now? */
bool turn_may(struct turn_party *p);

/* Waits for the party's next part: run() is called in this turn or a later one, with the events that have come. */
void turn_wait(struct turn_seat *s);
/* For an io's callback: true when it may go on; else the seat waits, and has noted the events. */
bool turn_admit(struct turn_seat *s, uint32_t events);
/* For work that is left over: true when it may go on; else the seat waits. */
bool turn_go_on(struct turn_seat *s);
/* The unit that the queue has granted is in use: what comes behind it asks again. */
static inline void turn_use(struct turn_seat *s)
{
	s->party->granted = false;
}
/* Works for another party from here on; a seat that waits goes to its queue. */
void turn_move(struct turn_seat *s, struct turn_party *to);
/* Waits no longer. Safe when it does not wait. */
void turn_leave(struct turn_seat *s);
static inline bool turn_waits(const struct turn_seat *s)
{
	return !list_empty(&s->node);
}

/* ---- for loop.c ---- */

void turns_init(struct turns *t);
void turns_begin(struct turns *t);
/* A callback has ended. */
void turns_settle(struct turns *t);
/* Serves those who wait. */
void turns_serve(struct turns *t);
static inline bool turns_wait(const struct turns *t)
{
	return !list_empty(&t->parties) || !list_empty(&t->strangers);
}
