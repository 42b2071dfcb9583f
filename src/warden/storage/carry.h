/*
 * carry.h - layers that move from plain directories into the pool, one at a time, while their boxes do not run.
 *
 * A box that starts goes first: the move is cancelled and its rest deleted; the layer stays where it is until the box
 * stops again. The layer is in the pool when its copy is complete (cage/pool/carry.h); a kill before that leaves the
 * plain one.
 */
#pragma once

#include "warden/server.h"

struct warden;

/* Looks for layers to move, now and then, as long as there are some. */
void carry_start(struct warden *w);
/* True: the layer of this create is on its way; the create goes on when the move has been cancelled. */
bool carry_defer(struct warden *w, const struct warden_request *rq, struct warden_asker who);
/* The sandbox is destroyed: what is on its way goes too. */
void carry_drop(struct warden *w, const char *id);
