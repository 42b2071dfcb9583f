/*
 * windows.h - how much of the host's memory the connections of a box may fill (base/tcp_mem.h).
 *
 * A box with few connections has the kernel's own windows. The more it has, the smaller are theirs. Once a second the
 * memory of all sockets of a box is added up, as the kernel tells it (SO_MEMINFO). A box that holds more than
 * GATE_UNREAD_MAX has the smallest windows at once, until it holds half of that, and loses connections of which one
 * direction stands still, the largest first: bytes wait for a reader, and it takes fewer than TCP_WAY_MOVES in
 * TCP_WAY_SPAN, whatever moves in the other direction.
 *
 * While the host's TCP holds a quarter of the mark below which the kernel is at ease, windows are the smallest for all
 * boxes, and what is above the quarter is taken from the boxes that hold most.
 */
#pragma once

#include "base/loop.h"
#include "base/tcp_mem.h"

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
