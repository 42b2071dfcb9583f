/*
 * staging.h - layers of boxes that unpack archives, beside the layers of images.
 *
 * A box whose files become a layer of an image has its own layer on the file system of the image directory, so that
 * taking it is a rename. The image service asks for it (IMAGE_STAGE) before it creates the box; the box finds the layer
 * as any box finds files that were kept (storage_find). It sees the image alone, without the programs that other boxes
 * have (cage/tools.h): they are no part of an image, neither of one that is unpacked nor of one that is packed.
 *
 *	staging/INSTANCE/boxes/NAME	upper/ and work/ of such a box; reads/ when it packs and does not unpack
 *	staging/INSTANCE/trash		what is left of them; a reaper of its own empties it
 *
 * The pool's limits do not count here. A box that leaves less than the reserve of the file system (image_has_room) is
 * killed. staging/INSTANCE is locked while its warden lives: a warden that starts removes those of others that are not.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/loop.h"

struct warden;

struct staging {
	int lock, boxes, trash; /* in staging/INSTANCE; -1: none */
	struct loop_timer timer;
};

/* 0 or -errno. */
int staging_open(struct warden *w, const char *instance);
/* After a restart, when the boxes that live on are known: the layers of all others go. */
void staging_recover(struct warden *w);

/* A layer for a box that is to be created. reads: it is not for unpacking, and not ended for want of room. */
int staging_make(struct warden *w, const char *id, bool reads, struct err *e);
/* Its owner is gone: drops the layer, unless a box has it, whose end drops it. */
void staging_leave(struct warden *w, const char *id);
