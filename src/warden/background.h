/*
 * background.h - processes that make and restore backups: they get little processor time when others want it
 * (cage/cgroup.h). The storer's jobs go there by themselves; the daemon's own processes are put there on its request.
 */
#pragma once

#include "warden/server.h"

struct warden;

void background_open(struct warden *w);
void background_take(struct warden *w, const struct warden_request *rq, struct warden_asker who);
