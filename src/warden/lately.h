/*
 * lately.h - the images that slots are prepared for: those that were used lately.
 *
 * The image of the last create gets most of the pool, each of the others a few slots. An image enters with its second
 * create, or when it gets a name: every step of a build is a create of an image that is never used again. A slot whose
 * image is not wanted any more, or was collected, gets another layer; so the pool holds no files of removed images.
 */
#pragma once

#include "cage/slot.h"
#include "warden/limits.h"

struct warden;
struct warden_slot;

struct lately_image {
	char name[BOX_IMAGE_NAME_MAX + 1]; /* as creates give it */
	struct image image;		   /* that the name stood for at the last look; key "": none */
	uint32_t ready;			   /* slots of the pool that have it, counted by lately_look */
};

struct lately {
	struct lately_image images[WARDEN_POOL_IMAGES]; /* the last one used first */
	size_t n;
	char once[WARDEN_POOL_IMAGES][BOX_IMAGE_NAME_MAX + 1]; /* used once, a ring */
	size_t once_next;
};

/* The image got a name: it is the next one after the first. */
void lately_name(struct warden *w, const char *name);
/* A create of it: it becomes the first one, unless it was never heard of. */
void lately_use(struct warden *w, const char *name);
/* The slot of the pool that a box of this image takes: one that is prepared for it, else one of the image that has the
 * most to spare; NULL when the pool is empty. Never a warm one (warm.h). */
struct warden_slot *lately_slot(struct warden *w, const struct image *image);
/* Whether slots are prepared for the image of this slot. */
bool lately_wants(struct warden *w, const struct warden_slot *c);
/* Looks all names up and counts the slots. The image that lacks slots most, or NULL. */
const struct image *lately_lacks(struct warden *w);
/* In a full pool: gives one slot of an image that has too many to the image that lacks slots. False when there is
 * nothing to do, or it failed. */
bool lately_swap(struct warden *w);
