/*
 * boxes.h - the life of a box: create, start, end.
 *
 * A box waits for a slot, starts in it, runs, and leaves it. Its layer is named by its id; everything else that belongs
 * to it is named by its slot's number. The map warden.boxes owns it until it is GONE; then the loop frees it at the end
 * of the turn (loop_defer), never inside a callback.
 */
#pragma once

#include "base/list.h"
#include "base/loop.h"
#include "cage/layers.h"
#include "proto/warden.h"
#include "warden/record.h"
#include "warden/server.h"

struct warden_slot;
struct closing;

/* stage_move() asserts that a step is in the table of boxes.c and that box_check() holds after it. */
enum stage {
	STAGE_WAITING,	/* for a slot, or for the end of its layer's last mount */
	STAGE_STARTING, /* its first process finishes the set-up */
	STAGE_RUNNING,
	STAGE_FREEZING,
	STAGE_FROZEN,
	STAGE_ENDING, /* killed; its first process is not gone yet */
	STAGE_DEAD,   /* ended by itself; kept until it is destroyed */
	STAGE_GONE,
	STAGES
};

/* The box's layer: where it comes from, then where it goes. layer_move() asserts the steps. */
enum box_layer {
	LAYER_UNKNOWN, /* no start has looked for it */
	LAYER_FOUND,   /* was there before this create: a create that fails keeps it */
	LAYER_MADE,    /* by this create: a create that fails drops it */
	LAYER_ADOPTED, /* MADE, from the layer that the slot had ahead */
	LAYER_KEPT,    /* the box ends; its layer stays */
	LAYER_DROPPED, /* the box ends; its layer goes to the trash */
	LAYERS
};

struct box {
	struct warden *w;
	struct warden_slot *place; /* NULL while waiting */
	enum stage stage;
	struct box_info info;
	struct image image;
	struct warden_asker waiter; /* of a create, freeze or destroy */
	struct err failure;	    /* why a create ends */
	enum box_layer layer;
	bool held;	  /* frozen for a snapshot, beside what `stage` says */
	uint32_t steer;	  /* flags of cage/steer.h */
	bool is_volatile; /* its fsync does not wait for the disk */
	uint64_t freeze_until;
	bool may_swap; /* frozen, and its memory was pushed out, or may have been by the warden before us */
	struct loop_timer timer;
	struct loop_task free_task;
	struct warden_volume *volumes; /* until it starts */
	uint64_t volume_bytes;	       /* the limit of the largest */
	uint32_t volumes_n;	       /* BOX_VOLUMES_MAX, without them: an earlier warden started it */
	struct closing *after;	       /* the mount of its layer that has to end first; NULL: none */
	struct list node;	       /* of warden.waiting */
	struct list all;	       /* of warden.all */
};

struct box *box_find(struct warden *w, const char *id);
struct box *box_new(struct warden *w, const char *id);
/* A box of the warden before us, with the slot `c`: RUNNING, FROZEN or DEAD. */
struct box *box_restore(struct warden_slot *c, const struct box_info *info, enum stage stage);
void stage_move(struct box *b, enum stage to);
/* Moves the layer of this id to the trash. */
void box_drop_layer(struct warden *w, const char *id);
/* Notes on disk how far the box is. 0 or -errno. */
int box_write_record(const struct box *b, enum record_state state);

void box_create(struct warden *w, const struct warden_request *rq, struct warden_asker who);
void box_destroy(struct warden *w, const struct warden_request *rq, struct warden_asker who);
/* Whether it may have the layer that was made ahead in this slot. */
bool box_may_adopt(const struct box *b, const struct warden_slot *c);
/* Starts a new box in a slot that is ready; without one the box waits. */
void box_place(struct box *b);
void box_start(struct box *b, struct warden_slot *c);
/* The first process has executed the agent. */
void box_started(struct box *b);
/* Ends a create and tells the reason to the daemon. */
void box_fail(struct box *b, const struct err *why);
/* The first process has ended; `known`: with this code or signal. */
void box_process_gone(struct box *b, bool known, int code, int signo);
