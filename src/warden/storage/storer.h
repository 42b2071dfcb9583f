/*
 * storer.h - the helper process for everything that takes as long as the pool's disk does: snapshots, layers made from
 * them, deletions, counts, growth.
 *
 * The storer holds descriptors of the pool and nothing else. It runs each job in a process of its own, so a slow job
 * holds up no other, and reports its result. Its processes end with it. It is started again when it ends; jobs that
 * were under way fail with EIO. It holds a lock as long as it or one of its jobs lives; the next warden waits for it.
 */
#pragma once

#include "base/list.h"
#include "base/loop.h"
#include "proto/id.h"
#include "proto/limits.h"

struct warden;

enum { STORER_FD_SOCK = 0, STORER_FD_LOCK = 1 }; /* in the storer and its jobs */

enum storer_kind {
	STORER_FLUSH = 1, /* layer: writes its dirty data to the disk */
	STORER_SNAPSHOT,  /* layer → snapshot */
	STORER_DROP,	  /* snapshot */
	STORER_CLONE,	  /* snapshot → a layer that is not there yet; limit */
	STORER_REPLACE,	  /* snapshot → a layer in the place of another; limit */
	STORER_RECOUNT,	  /* layer; "": all that have changed */
	STORER_DIFF,	  /* layer, snapshot, image; a descriptor to write to */
	STORER_ROOM,	  /* waits for space that is being freed */
	STORER_CARRY,	  /* a plain layer → the pool; limit */
	STORER_SEND,	  /* snapshot, parent ("": none); a descriptor to write the stream to */
	STORER_RECEIVE,	  /* snapshot, limit; a socket to read streams from, which gets an errno (4 bytes) at the end */
	STORER_CANCEL,	  /* ends the job with the ticket `other`; no report of its own */
};

struct storer_job {
	uint64_t ticket, other;
	uint32_t kind, padding;
	char layer[BOX_FILENAME_MAX];
	char snapshot[SNAPSHOT_NAME_MAX + 1], parent[SNAPSHOT_NAME_MAX + 1];
	char image[BOX_IMAGE_NAME_MAX + 1];
	uint64_t limit;
};

struct storer_done {
	uint64_t ticket;
	int32_t os; /* 0, or an errno */
	uint32_t padding;
};

typedef void (*storer_on_done)(void *arg, int os);

struct storer {
	struct warden *w;
	int sock, pidfd, lock; /* -1: it does not run */
	struct loop_io sock_io, exit_io;
	struct loop_timer timer, debts;
	bool counts;		     /* `debts` is set, or its count is under way */
	struct list unsent, waiting; /* asks, in order */
	uint64_t last_ticket;
};

void storer_init(struct warden *w);
/* Waits for the storer of a killed warden. Does nothing without a pool. */
int storer_lock(struct warden *w, struct err *e);
int storer_start(struct warden *w, struct err *e);
/* Queues a job. It begins when there is a place: counts one at a time, and jobs that may last for long in
 * STORER_LONG_JOBS of the places. Its ticket is filled in here and returned. `fd` (or -1) goes with it and stays the
 * caller's. */
uint64_t storer_ask(struct warden *w, const struct storer_job *job, int fd, storer_on_done on_done, void *arg);

/* storer_jobs.c: one job, in a process of its own. 0 or an errno. */
struct pool;
struct storer_view {
	struct pool *pool;
	int plain_boxes, plain_trash, images;
	int background; /* takes processes in; -1: none */
};
int storer_run(struct storer_view *v, const struct storer_job *job, int fd);
