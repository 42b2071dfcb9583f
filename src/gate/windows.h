/*
 * windows.h - how much of the host's memory the connections of a box may fill.
 *
 * Buffers of TCP belong to the kernel and grow to some 10 MB for each connection whose reader stops; all boxes and the
 * host share what there is (net.ipv4.tcp_mem). A box with few connections has the kernel's own windows. The more it
 * has, the smaller are theirs, and they are small for all boxes while the host's TCP holds a quarter of the mark below
 * which the kernel is at ease. Once a second the memory of connections that cannot move is added up: a box with more
 * than GATE_UNREAD_MAX of it loses those that have stood still for longest.
 *
 * The memory is what the kernel says (SO_MEMINFO). A connection to a server of HTTP that is decided by requests belongs
 * to the HTTP client: it gets a window when it is dialled, and is not added up.
 */
#pragma once

#include "base/loop.h"

struct gate;
struct gate_box;
struct passage;

struct windows {
	struct loop_timer look;
	int sockstat;  /* of the host; -1: none */
	uint64_t mark; /* pages of TCP from which windows are small */
	bool pressed;
};

/* Before confine(). */
void windows_open(struct gate *g);
/* The number of connections of a box has changed. */
void windows_changed(struct gate_box *b);
/* A socket of one of its connections begins to move bytes. */
void windows_set(const struct gate_box *b, int fd);
