/*
 * slots.h - slots in the warden's hands: made ahead (the pool), watched, swept when their box has left.
 *
 * A warden_slot is a slot of src/cage and the loop's view of its process. Each is used for one box only. The list
 * warden.slots owns it; it is freed at the end of a turn (loop_defer), never inside a callback.
 */
#pragma once

#include "base/list.h"
#include "base/loop.h"
#include "cage/slot.h"
#include "warden/fuse/fuse.h"
#include "warden/network.h"

struct warden;
struct box;

/* warden_slot_move() asserts that a step is in the table of slots.c and keeps warden.making and warden.ready. */
enum slot_stage {
	SLOT_MAKING, /* its process prepares itself */
	SLOT_READY,  /* in the pool */
	SLOT_TAKEN,  /* by `box` */
	SLOT_ENDED,  /* its process is gone; a dead box may still be in it */
	SLOT_SWEPT,  /* its cgroups are being removed */
	SLOT_STAGES
};

struct warden_slot {
	struct warden *w;
	struct slot slot;
	enum slot_stage stage;
	struct box *box; /* of TAKEN and ENDED; NULL in the pool */
	struct loop_io exit_io, control_io, ask_io;
	struct slot_network network;
	struct slot_fuse fuse;
	uint64_t asked_ms, tokens;     /* of contexts */
	uint64_t refused_ms, refusals; /* thousandths */
	bool warm;		       /* warm.h: in its root, with a worker */
	bool told_js;		       /* its box has said that it uses JavaScript … */
	bool told_ts;		       /* … TypeScript */
	bool unwanted;		       /* the warden ends it */
	struct loop_timer timer;
	struct loop_task free_task;
	struct list node; /* of warden.slots */
};

/* MAKING for a new one; TAKEN or ENDED for one of the warden before us. */
struct warden_slot *warden_slot_new(struct warden *w, enum slot_stage stage);
void warden_slot_move(struct warden_slot *c, enum slot_stage to);
/* Watches its process and its control socket. */
int warden_slot_watch(struct warden_slot *c, struct err *e);
/* After the end of its process: removes cgroups, socket and record, gives the number back, frees it. */
void warden_slot_sweep(struct warden_slot *c);
void warden_slot_kill(struct warden_slot *c);
void warden_slot_drop_control(struct warden_slot *c);
/* Hands the mounts that its layer was made from to the closer. */
void warden_slot_close_spent(struct warden_slot *c);

/* Makes slots when some are missing and nothing more urgent is under way. */
void pool_kick(struct warden *w);
/* The box that has just started runs its first command: slots are made a little later, unless few are left. */
void pool_rest(struct warden *w);
/* Ends the pool's processes and waits for them: for a clean stop. */
void pool_drain(struct warden *w);

/* Free slot numbers. numbers_init follows the recovery: it counts numbers that no slot has. */
void numbers_init(struct warden *w);
void numbers_give(struct warden *w, uint32_t number);
int numbers_take(struct warden *w, uint32_t *ret, struct err *e);
