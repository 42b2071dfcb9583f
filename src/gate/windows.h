/*
 * windows.h - how much of the host's memory the connections of a box may fill (base/tcp_owner.h).
 *
 * All sockets of a connection count together: the client's, the server's, and what HTTP goes through. Connections that
 * wait for a decision stand still as long as they hold what their client has sent.
 */
#pragma once

#include "base/loop.h"
#include "base/tcp_owner.h"

struct gate;
struct gate_box;
struct passage;

struct windows {
	struct loop_timer look;
	struct tcp_host host;
};

/* Before confine(). */
void windows_open(struct gate *g);
/* The number of connections of a box has changed. */
void windows_changed(struct gate_box *b);
/* A socket of one of its connections begins to move bytes. */
void windows_set(const struct gate_box *b, int fd);
