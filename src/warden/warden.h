/*
 * warden.h - the server's state: one daemon's connection, the boxes by id, the cells they live in.
 *
 * A cell is a slot of src/cage and the loop's view of its process. Cells are made ahead (the pool) and each is used for
 * one box only. A box is what atolld named: it waits for a cell, starts in it, runs, and leaves it. The box's layer is
 * named by its id; everything else that belongs to it is named by its cell's number.
 *
 * One thread, one loop; every function here runs in it. Boxes and cells are freed at the end of a turn (loop_defer),
 * never inside a callback.
 */
#pragma once

#include "base/list.h"
#include "base/loop.h"
#include "base/map.h"
#include "cage/slot.h"
#include "proto/warden.h"
#include "warden/network.h"
#include "warden/zygote_start.h"

/* The life of a box. stage_move() asserts that a step is one of the table in boxes.c. */
enum stage {
	STAGE_WAITING,	/* for a cell */
	STAGE_STARTING, /* its first process finishes the set-up */
	STAGE_RUNNING,
	STAGE_FREEZING,
	STAGE_FROZEN,
	STAGE_ENDING, /* killed, not all gone yet */
	STAGE_DEAD,   /* ended by itself; kept until it is destroyed */
	STAGE_GONE,
	STAGES
};

/* Who asked, and waits for the answer. `conn` tells one connection from the next. */
struct waiter {
	bool waiting;
	uint64_t conn, seq;
	uint32_t op;
};

struct warden;
struct cell;
struct closing;

struct box {
	struct warden *w;
	struct cell *cell; /* NULL while waiting */
	enum stage stage;
	struct box_info info;
	struct image image;
	struct waiter waiter; /* of a create, freeze or destroy */
	struct err failure;   /* why a create ends */
	bool keep_files;      /* on its way to GONE: the layer stays */
	bool fresh;	      /* the layer was made by this create */
	bool layer_unused;    /* the one that its cell had made ahead */
	uint32_t steer;	      /* flags of cage/steer.h */
	uint64_t freeze_until;
	struct loop_timer timer;
	struct loop_task free_task;
	struct closing *after; /* its layer is still mounted elsewhere; NULL: it is not */
	struct list node;      /* of warden.waiting */
	struct list all;       /* of warden.all */
};

struct cell {
	struct warden *w;
	struct slot slot;
	struct box *box; /* NULL: in the pool, or being swept */
	bool ready, dead, adopted;
	struct loop_io exit_io, control_io, ask_io;
	uint64_t asked_ms, tokens;     /* of contexts */
	uint64_t refused_ms, refusals; /* thousandths */
	struct cell_network network;
	struct loop_timer timer;
	struct loop_task free_task;
	struct list node; /* of warden.cells */
};

/* In use when image.key is set. */
struct zygote {
	struct warden *w;
	struct image image;
	struct image next; /* what it becomes when it has ended */
	uint32_t slot;
	struct zygote_process p;
	bool ready, hopeless;
	bool stuck; /* an ask waits for ZYGOTE_STUCK: no others meanwhile */
	uint64_t since, used, retry_ms;
	struct loop_io exit_io, control_io;
	struct loop_timer timer;
	/* Asks without an answer, oldest first; it answers in this order. */
	struct zygote_asked {
		uint32_t cell, serial;
	} asked[ZYGOTE_ASKS_MAX];
	size_t asked_head, asked_n;
	struct loop_timer watch;
};

enum { NUMBERS_MAX = 20 * IDS_BLOCK }; /* WARDEN_BOXES_MAX, the pool, and those being swept */

/* A process of ours that does what takes long (reaper.c). */
struct helper {
	struct warden *w;
	bool is_closer;
	int sock, pidfd; /* -1: it does not run */
	struct loop_io sock_io, exit_io;
	struct loop_timer timer;
	struct list queue; /* descriptors that its socket cannot take yet */
	size_t queued;
	uint64_t sent_upto; /* ticket */
};

struct reply_queue {
	struct warden_reply *items;
	size_t head, count;
};

struct warden {
	struct loop *loop;
	struct cgroups cgroups;
	struct ids ids;
	struct slot_host host;
	struct warden_host offer;
	int boxes_dir, records_dir; /* layers by id; records by slot */
	int own_net;		    /* the warden's own network namespace */
	uid_t user;

	int listen_fd;
	struct loop_io listen_io, conn_io;
	uint64_t conn; /* grows with every connection; 0: none yet */
	struct reply_queue queue;
	uint64_t list_seq;
	bool listing;
	struct list list_mark; /* in `all`, before the next box of a WARDEN_LIST under way */

	struct map boxes; /* id -> struct box */
	struct list all;  /* the same boxes, oldest first */
	struct list cells;
	struct list waiting; /* boxes without a cell, first come first served */
	uint32_t ready, making;
	uint32_t busy; /* boxes that are starting or ending: the pool waits for them */

	uint32_t numbers[NUMBERS_MAX]; /* free slot numbers, reused as late as possible */
	size_t numbers_head, numbers_count, numbers_owned;

	struct image pool_image; /* what the pool prepares layers for; key "" for none */
	char pool_image_name[BOX_IMAGE_NAME_MAX + 1];
	struct loop_timer pool_timer;
	uint64_t pool_pause_until;

	struct helper reaper, closer;
	struct list closings; /* layers that are still mounted, in the order of their tickets */
	uint64_t last_ticket;

	struct network network;

	struct zygote zygotes[ZYGOTES_MAX];
	bool zygotes_off;
};

/* boxes.c */
void stage_move(struct box *b, enum stage to);
void box_create(struct warden *w, const struct warden_request *rq, struct waiter who);
void box_destroy(struct warden *w, const struct warden_request *rq, struct waiter who);
void box_start(struct box *b, struct cell *c); /* a cell is there */
/* A new box, or one that has waited for its layer: into a cell that is ready, else it waits for one. */
void box_place(struct box *b);
void box_started(struct box *b);
void box_fail(struct box *b, const struct err *why); /* of a create: end it, say why */
void box_process_gone(struct box *b, bool known, int code, int signo);
struct box *box_find(struct warden *w, const char *id);
struct box *box_new(struct warden *w, const char *id);

/* control.c: signal, freeze, thaw, inspect, limits */
/* The box, living; else replies and returns NULL. */
struct box *control_living(struct warden *w, const struct warden_request *rq, struct waiter *who);
void control_signal(struct warden *w, const struct warden_request *rq, struct waiter who);
void control_freeze(struct warden *w, const struct warden_request *rq, struct waiter who);
void control_thaw(struct warden *w, const struct warden_request *rq, struct waiter who);
void control_inspect(struct warden *w, const struct warden_request *rq, struct waiter who);
void control_limits(struct warden *w, const struct warden_request *rq, struct waiter who);
void control_network(struct warden *w, const struct warden_request *rq, struct waiter who);
/* Fills defaults into zero fields and checks against the host. */
int limits_check(const struct warden_host *offer, struct box_limits *l, struct err *e);

/* sockets.c: into the box's network, for atolld */
void sockets_make(struct warden *w, const struct warden_request *rq, struct waiter who);

/* slots.c */
struct cell *cell_new(struct warden *w);
int cell_watch(struct cell *c, struct err *e); /* exit and control */
struct cell *cell_take_ready(struct warden *w);
/* The box has left it: removes cgroups, socket and record, frees the number, then itself. */
void cell_sweep(struct cell *c);
void cell_kill(struct cell *c);
void cell_drop_control(struct cell *c);
void pool_kick(struct warden *w);
void numbers_init(struct warden *w); /* after recovery: what no cell has */
void numbers_give(struct warden *w, uint32_t number);
int numbers_take(struct warden *w, uint32_t *ret, struct err *e);
/* Ends the pool's processes and waits for them: for a clean stop. */
void pool_drain(struct warden *w);

/* server.c */
int server_start(struct warden *w, const char *path, gid_t group, struct err *e);
void server_reply(struct warden *w, struct waiter *who, const struct err *err, const struct box *b);
/* A success with descriptors, which stay the caller's. -EAGAIN: it would have to wait, and descriptors do not. */
int server_reply_fds(struct warden *w, const struct waiter *who, const struct box *b, const int *fds, size_t n);
void server_event_died(struct warden *w, const struct box *b);
void server_reply_host(struct warden *w, struct waiter *who);

/* reaper.c */
void reaper_init(struct warden *w);
int reaper_start(struct warden *w, struct err *e);
/* Takes `fd` (or -1) and has it closed by another process: it may be the last one of mounts that a box has filled. A
 * ticket other than 0 comes back in closing_done. */
void reaper_close(struct warden *w, int fd, uint64_t ticket);
/* Something lies in the trash. */
void reaper_wake(struct warden *w);
/* So much waits to be closed that no more slots should be made. */
bool reaper_behind(const struct warden *w);

/* closing.c */
/* Takes the mount namespace (or -1) that the box of this id has left; its layer stays. */
void closing_begin(struct warden *w, const char *id, int mntns);
/* True: the box's layer is still mounted, and box_place follows when it is not. */
bool closing_wait(struct box *b);
void closing_leave(struct box *b);
/* The layer is in the trash: nobody has to wait. */
void closing_forget(struct warden *w, const char *id);
void closing_done(struct warden *w, uint64_t ticket);
void closing_done_upto(struct warden *w, uint64_t ticket);

/* zygotes.c */
/* Sees to it that this image has one, now or a little later. */
void zygote_want(struct warden *w, const struct image *image);
/* Takes the requests of the box in this cell. */
void zygote_listen(struct cell *c);
void zygotes_end(struct warden *w);

/* recover.c */
void recover(struct warden *w);
