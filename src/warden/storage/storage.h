/*
 * storage.h - the layers of boxes in the warden's hands: where each one is, its limit, its numbers.
 *
 * New layers are in the pool (cage/pool/pool.h), but for those that become layers of images (staging.h). Layers of an
 * installation without a pool are plain directories; each moves into the pool while its box does not run (carry.h). A
 * layer that is in both places is in the pool: the plain one is a rest.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "proto/warden.h"

struct warden;
struct box;

/* Before and after the warden leaves the host's mounts. */
int storage_open(struct warden *w, const char *data, struct err *e);
int storage_enter(struct warden *w, struct err *e);
/* After a restart, of the storer too: half-made layers and rests go. */
void storage_recover(struct warden *w);

/* The directory that holds the layer of this file name; -1: there is no such layer. False when it cannot be found out
 * counts as a layer: files that may be a client's are kept. */
int storage_find(const struct warden *w, const char *name);
bool storage_has(const struct warden *w, const char *name);
/* Whether a directory of storage_find holds plain layers. */
bool storage_is_plain(const struct warden *w, int dir);
/* Whether it is that of staging.h, whose boxes see the image and nothing else. */
bool storage_is_staging(const struct warden *w, int dir);
/* Moves the layer to the trash, wherever it is. */
void storage_drop(struct warden *w, const char *name);
/* The trash beside the layers of this directory. */
int storage_trash(const struct warden *w, int dir);

/* NO_SPACE when there is no room for a new sandbox or volume. */
int storage_check_room(const struct warden *w, struct err *e);
/* Sets the limit of a box's layer. */
int storage_limit(struct warden *w, const char *id, uint64_t bytes, struct err *e);
/* Fills the disk numbers of a box or a sandbox without one. */
void storage_usage(struct warden *w, const char *id, struct box_info *info);
/* What the host offers. */
void storage_offer(struct warden *w);

/* Logs once when the kernel has given up counting the pool's quotas, and once when it counts again. `os` says how the
 * last count ended; EINPROGRESS: it is about to begin. */
void storage_note_counting(struct warden *w, int os);

/* WARDEN_DISK */
struct warden_asker;
void storage_disk(struct warden *w, const struct warden_request *rq, struct warden_asker who);
