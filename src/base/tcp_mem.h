/*
 * tcp_mem.h - the memory that the kernel holds for TCP: of one socket, of the host, and how to bound it.
 *
 * Buffers of TCP belong to the kernel and grow to some 10 MB for each connection whose reader stops; all programs of
 * the host share what there is (net.ipv4.tcp_mem). tcp_owner.h divides it.
 *
 * Thread: any; a struct belongs to its caller.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

/* ---- the host ---- */

struct tcp_host {
	int sockstat;	/* -1: none */
	uint64_t mark;	/* pages from which the host is short */
	uint64_t over;	/* bytes above it, at the last look */
	bool is_short;	/* at the last look */
	uint32_t looks; /* that found it short without a break */
};

/* The host is short while TCP has one in `share` pages of the mark below which the kernel is at ease. Opens a file. */
void tcp_host_open(struct tcp_host *h, uint32_t share);
/* True when is_short has changed. */
bool tcp_host_look(struct tcp_host *h);

/* The low mark, in pages, by the text of net.ipv4.tcp_mem; where it has none (in network namespaces), the kernel's own
 * default for so many pages of memory. */
uint64_t tcp_low_mark(struct str tcp_mem, uint64_t pages);
/* Pages of TCP by the text of /proc/net/sockstat, or 0. */
uint64_t tcp_pages(struct str sockstat);

/* ---- one socket ---- */

/* Bytes received and not read, and sent and not taken by the peer's kernel. 0 for -1. */
size_t tcp_held(int fd);
/* The second part of it. */
size_t tcp_unsent(int fd);
/* Bytes that the peer's kernel has taken. */
uint64_t tcp_taken(int fd);
/* Tells a socket from another one that has got its number; 0: none. */
uint64_t tcp_cookie(int fd);

/* ---- windows ---- */

/* For one of `n` connections of an owner whose window is `now`; 0: the kernel's own. With more than `few` connections it
 * is four times `min`, with four times as many twice, with eight times as many once. A window that has become small
 * stays so until the owner has half as many connections. */
uint32_t tcp_window_for(size_t n, size_t few, uint32_t min, uint32_t now);
/* 0: the kernel's own from now on. Nothing for -1. */
void tcp_window_set(int fd, uint32_t window);

/* ---- one direction of a connection ---- */

struct tcp_way {
	uint64_t since; /* ms: it waits, and has moved less than TCP_WAY_MOVES since then; 0: it does not wait */
	uint64_t mark;	/* what it had moved then */
	uint64_t moved;
};

/* At each look: whether bytes wait for its reader, and how many have been moved in all. */
void tcp_way_look(struct tcp_way *w, uint64_t now, bool waits, uint64_t moved);
/* It has waited for `patience` ms, and moved less than TCP_WAY_MOVES in TCP_WAY_SPAN. */
bool tcp_way_is_stuck(const struct tcp_way *w, uint64_t now, uint64_t patience);
