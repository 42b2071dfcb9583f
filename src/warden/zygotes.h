/*
 * zygotes.h - one zygote for each image, and the way of a box's request for a context to the zygote of its image.
 *
 * The array warden.zygotes owns all; zygote_start.h starts a process.
 */
#pragma once

#include "base/loop.h"
#include "cage/layers.h"
#include "warden/limits.h"
#include "warden/zygote_start.h"

struct warden;
struct warden_slot;

/* zygote_move() asserts that a step is in the table of zygotes.c and that zygote_check() holds after it. */
enum zygote_stage {
	ZYGOTE_UNUSED,
	ZYGOTE_PAUSING,	 /* `timer` starts it */
	ZYGOTE_STARTING, /* its process imports; it says when it is ready */
	ZYGOTE_READY,
	ZYGOTE_SILENT,	 /* has answered nothing for ZYGOTE_STUCK: gets no asks */
	ZYGOTE_ENDING,	 /* killed */
	ZYGOTE_SWEEPING, /* its process is gone; `timer` removes its cgroups */
	ZYGOTE_HOPELESS, /* the same, but its image has no python3: it is not started again */
	ZYGOTE_STAGES
};

struct zygote {
	struct warden *w;
	enum zygote_stage stage;
	struct image image;
	struct image next; /* its image after it has ended; key "": the same */
	uint32_t slot;
	struct zygote_process p;
	uint64_t since, used, retry_ms;
	struct loop_io exit_io, control_io;
	struct loop_timer timer;
	/* Asks without an answer, oldest first; it answers in this order. */
	struct zygote_asked {
		uint32_t slot, serial;
	} asked[ZYGOTE_ASKS_MAX];
	size_t asked_head, asked_n;
	size_t refused_n; /* so many of the oldest were told "no" meanwhile */
	struct loop_timer watch;
};

/* Sees to it that this image has a zygote, now or a little later. */
void zygote_want(struct warden *w, const struct image *image);
/* Takes the requests of the box in this slot. */
void zygote_listen(struct warden_slot *c);
/* Ends all and waits for them: for a clean stop. */
void zygotes_end(struct warden *w);
