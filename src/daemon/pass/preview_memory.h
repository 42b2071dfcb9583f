/*
 * preview_memory.h - how much of the host's memory the previews of a sandbox may fill (base/tcp_owner.h).
 *
 * A viewer needs no token and may stop to read, and an app may stop to read what viewers send. All sockets of a
 * sandbox's previews count together: those to viewers, also between two requests, and those into the box. Their
 * windows follow the number of requests that are under way. A viewer that is reset takes its connection into the box
 * along.
 */
#pragma once

#include "daemon/daemon.h"
#include "daemon/route/request.h"

void preview_memory_start(struct daemon *d);
/* A request to a preview begins, and is counted in s->previews. */
void preview_memory_begin(struct sandbox *s, struct daemon_request *r);
