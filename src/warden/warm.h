/*
 * warm.h - slots with a Node worker that waits (docs/design/009-js-worker.md).
 *
 * Node needs longer to start than the rest of a box together. So some slots of the pool are *warm*: their half-made box
 * is already in its root and has started a worker there (cage/init_warm.h), which the box's agent hands to its first
 * JavaScript or TypeScript context. A warm slot serves only new boxes of its image, without volumes, with at least
 * WARM_BOX_MEM_MIN and WARM_BOX_PIDS: its root cannot be changed any more, and the worker counts in the box's limits.
 *
 * Credit decides whether there are any. A box's first JavaScript context pays for WARM_CREDIT slots, each warm slot
 * costs one. So a daemon whose boxes use no JavaScript has none, and boxes that do not use their worker come at most
 * WARM_CREDIT to one that uses JavaScript. After WARM_KEEP without such a box the warm slots are ended. Only images of
 * Atoll's own have them: programs of a user's image run in that user's boxes and nowhere else.
 *
 * A worker is started while nothing starts or ends, one at a time, with memory to spare on the host.
 */
#pragma once

#include "base/loop.h"

struct warden;
struct warden_slot;
struct box;

struct warm {
	uint32_t max;	    /* warm slots; 0: none ever */
	uint32_t credit;    /* warm slots that are paid for … */
	uint32_t credit_ts; /* … with the TypeScript compiler */
	uint64_t noted_ms;  /* the last note of a box */
	struct loop_timer timer;
};

/* `text`: the setting. Empty means WARM_SLOTS. */
void warm_init(struct warden *w, const char *text);
/* The box in this slot has started its first JavaScript or TypeScript context. False: it has said so before. */
bool warm_note(struct warden_slot *c, bool typescript);
/* A box has just started: workers are started a little later. */
void warm_rest(struct warden *w);
/* A warm slot that this new box may have, or NULL. */
struct warden_slot *warm_slot(const struct box *b);
/* Ends warm slots of images that no slots are prepared for any more. lately_lacks() has looked the images up. */
void warm_end_unwanted(struct warden *w);
