/*
 * snapshot.h - requests about the files of sandboxes that take a while: snapshots, layers made from them, comparisons.
 *
 * A snapshot of a running box: its dirty data is written while it runs; then it is frozen for the moment of the copy.
 * A box that was frozen for a snapshot is noted in its record, so the next warden lets it go on.
 *
 * Requests about one sandbox follow each other, and so do those that make, use and delete one snapshot. No box starts
 * on a layer that is being made.
 */
#pragma once

#include "warden/server.h"

struct warden;

void snapshot_make(struct warden *w, const struct warden_request *rq, struct warden_asker who);
void snapshot_drop(struct warden *w, const struct warden_request *rq, struct warden_asker who);
void snapshot_clone(struct warden *w, const struct warden_request *rq, struct warden_asker who);
void snapshot_replace(struct warden *w, const struct warden_request *rq, struct warden_asker who);
void snapshot_diff(struct warden *w, const struct warden_request *rq, struct warden_asker who);
/* Backups: the descriptor goes out at once; the request lasts until its job has ended. */
void snapshot_send(struct warden *w, const struct warden_request *rq, struct warden_asker who);
void snapshot_receive(struct warden *w, const struct warden_request *rq, struct warden_asker who);
/* The sandbox is destroyed: a layer that is being made for it goes when it is there. False: none is being made. */
bool snapshot_cancel(struct warden *w, const char *id);
/* Whether the layer of this sandbox is being made or replaced. */
bool snapshot_busy(const struct warden *w, const char *id);
/* Has the debt of a layer counted again in the background (cage/pool/pool.h). */
void snapshot_recount(struct warden *w, const char *id);
