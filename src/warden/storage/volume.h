/*
 * volume.h - named volumes: directories with a limit of their own that outlive boxes and that several boxes share.
 *
 * A volume is a subvolume of the pool, made like a layer; its files are in upper/. A box gets it as a mount whose
 * owners are mapped through the box's user namespace: files belong to user 0 and up on the disk, and to each box's own
 * root and users inside. Which sandbox has which volume is the daemon's knowledge.
 */
#pragma once

#include "proto/warden.h"
#include "warden/server.h"

struct warden;

/* WARDEN_VOLUME, WARDEN_VOLUME_DISK, WARDEN_VOLUME_DROP */
void volume_make(struct warden *w, const struct warden_request *rq, struct warden_asker who);
void volume_disk(struct warden *w, const struct warden_request *rq, struct warden_asker who);
void volume_drop(struct warden *w, const struct warden_request *rq, struct warden_asker who);

/* A detached mount of it for the box that has this user namespace; -1 and *e: NOT_FOUND. */
int volume_open(const struct warden *w, const struct warden_volume *v, int userns, struct err *e);
