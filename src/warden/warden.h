/*
 * warden.h - the state that holds the warden together: one daemon's connection, the boxes by id, the slots they live
 * in, the helpers, the zygotes. Each part has a header of its own.
 *
 * One thread, one loop; every function that takes a struct warden runs in it.
 */
#pragma once

#include "base/list.h"
#include "base/loop.h"
#include "base/map.h"
#include "cage/cgroup.h"
#include "cage/ids.h"
#include "cage/pool/pool.h"
#include "cage/slot.h"
#include "proto/limits.h"
#include "proto/warden.h"
#include "warden/boxes.h"
#include "warden/fuse/fuse.h"
#include "warden/images.h"
#include "warden/lately.h"
#include "warden/limits.h"
#include "warden/locks.h"
#include "warden/network.h"
#include "warden/reaper.h"
#include "warden/server.h"
#include "warden/slots.h"
#include "warden/storage/pager.h"
#include "warden/storage/storer.h"
#include "warden/warm.h"
#include "warden/zygotes.h"

enum { NUMBERS_MAX = 20 * IDS_BLOCK }; /* WARDEN_BOXES_MAX, the pool, and those being swept */

/* The move of a layer into the pool (carry.h). */
struct carry_state {
	uint64_t ticket; /* of the job; 0: none */
	char id[BOX_ID_MAX + 1];
	bool dropped; /* the sandbox was destroyed meanwhile */
	uint64_t since;
	unsigned moved;
	struct map failed;	  /* ids that are not tried again */
	struct warden_request rq; /* a create that waits */
	struct warden_asker who;
	struct loop_timer timer;
};

/* Creates that wait for space in the pool (room.h). */
struct room_state {
	struct list waiting;
	unsigned waiting_n;
	bool asked; /* the storer is at it */
	bool over;  /* it has tried: no create waits a second time */
};

struct warden {
	struct loop *loop;
	struct cgroups cgroups;
	int background; /* takes processes in (background.h); -1: there is none */
	struct ids ids;
	struct slot_host host;
	struct warden_host offer;
	struct pool pool;
	int uncounted; /* why the kernel does not count the pool's quotas, as storage_note_counting heard; 0: it does */
	int boxes_dir, records_dir;   /* layers by id; records by slot */
	int plain_boxes, plain_trash; /* layers that are not in the pool; the same as boxes_dir without a pool */
	int own_net;		      /* the warden's own network namespace */
	int own_mounts;		      /* … and its mount namespace */
	uid_t user;

	/* server.h */
	int listen_fd;
	struct loop_io listen_io, conn_io;
	uint64_t conn; /* grows with every connection; 0: none yet */
	struct reply_queue queue;
	uint64_t list_seq;
	bool listing;
	struct list list_mark; /* in `all`, before the next box of a WARDEN_LIST under way */

	/* boxes.h */
	struct map boxes;    /* id -> struct box */
	struct list all;     /* the same boxes, oldest first */
	struct list waiting; /* boxes without a slot, first come first served */
	uint32_t busy;	     /* boxes that are starting or ending: the pool waits for them */

	/* slots.h */
	struct list slots;
	uint32_t ready, making;
	uint32_t numbers[NUMBERS_MAX]; /* free slot numbers, reused as late as possible */
	size_t numbers_head, numbers_count, numbers_owned;
	struct lately lately; /* the images that the pool prepares layers for */
	struct loop_timer pool_timer;
	uint64_t pool_pause_until;

	/* reaper.h, closing.h */
	struct helper reaper, closer, plain_reaper, staging_reaper;
	struct storer storer;
	struct list storage_ops; /* snapshot.h */
	struct carry_state carry;
	struct room_state room;
	struct list closings; /* layers that are still mounted, in the order of their tickets */
	uint64_t last_ticket;

	/* images.h */
	struct images images;

	/* network.h */
	struct network network;

	/* fuse.h */
	struct fuse_host fuse;

	/* pager.h */
	struct pager pager;

	/* locks.h */
	struct lock_watch locks;

	/* zygotes.h */
	struct zygote zygotes[ZYGOTES_MAX];
	bool zygotes_off;

	/* warm.h */
	struct warm warm;
};
