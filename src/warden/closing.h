/*
 * closing.h - layers whose last mount the closer still takes down, and the boxes that wait for it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct warden;
struct box;

/* Takes the mount namespace (or -1) that the box of this id has left; its layer stays. */
void closing_begin(struct warden *w, const char *id, int mntns);
/* True: the box's layer is still mounted; box_place follows when it is not. */
bool closing_wait(struct box *b);
/* Whether the layer of this id is still mounted. */
bool closing_is(struct warden *w, const char *id);
/* The box waits no longer. */
void closing_leave(struct box *b);
/* The layer is in the trash: no box has to wait for its mount. */
void closing_forget(struct warden *w, const char *id);
void closing_done(struct warden *w, uint64_t ticket);
void closing_done_upto(struct warden *w, uint64_t ticket);
