/*
 * background.h - processes that make and restore backups: they get little processor time when others want it
 * (cage/cgroup.h). The storer's jobs go there by themselves; the daemon's own processes are put there on its request.
 *
 * The other groups beside those of boxes are the gate's and the daemon's. `atoll up` puts these programs there, by
 * descriptors that the warden sends it at its start.
 */
#pragma once

#include "warden/server.h"

struct cgroups;
struct warden;

void background_open(struct warden *w);
/* Sends the groups of gate and daemon to the supervisor that has handed down a socket for them; else does nothing. */
void background_tell_up(const struct cgroups *c);
void background_take(struct warden *w, const struct warden_request *rq, struct warden_asker who);
