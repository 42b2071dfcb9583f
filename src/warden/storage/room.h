/*
 * room.h - creates in a full pool. The space of deleted files comes back with the next commit of the file system, that
 * of deleted sandboxes after a few: a create waits for it before it is refused.
 */
#pragma once

#include "warden/server.h"

struct warden;

void room_init(struct warden *w);
/* True: the pool is full, and this create of a new sandbox goes on when the storer has waited for space. */
bool room_defer(struct warden *w, const struct warden_request *rq, struct warden_asker who);
