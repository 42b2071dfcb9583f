/*
 * pager.h - pushes the memory of frozen boxes out to swap.
 *
 * One box at a time, first come first served, each in a short-lived process: the write that does it lasts as long as
 * the box has memory, and the loop never waits. A box that is thawed meanwhile runs at once; the kernel then finds that
 * no more of it may go to swap, and the process ends. A process that outlives a killed warden ends by itself.
 */
#pragma once

#include "base/list.h"
#include "base/loop.h"
#include "proto/warden.h"
#include "warden/server.h"

struct warden;

struct pager {
	struct warden *w;
	struct list queue; /* struct page_out; the head is under way while pidfd is open */
	size_t queued;
	int pidfd; /* -1: nothing is under way */
	struct loop_io io;
};

void pager_init(struct warden *w);
/* WARDEN_PAGE_OUT */
void pager_page_out(struct warden *w, const struct warden_request *rq, struct warden_asker who);
