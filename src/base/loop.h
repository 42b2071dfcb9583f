/*
 * loop.h - the event loop: epoll, timers in a heap, signals, deferred tasks. One thread owns a loop and all it touches.
 *
 * One turn of the loop: wait for events or the next timer; run the callbacks of all ready descriptors; run due timers;
 * run deferred tasks; serve those who have had their part of a turn and still have work (turn.h); run deferred tasks
 * until none is left, those of loop_defer_last when there is no other. Everything is embedded in the caller's structs
 * and found again with container_of; the loop allocates nothing per event.
 *
 * Ownership: the loop never closes a descriptor and never frees an object. An object must not be freed inside a
 * callback that the loop still walks over: use loop_defer() with a task that frees it. Removing an io or a timer is
 * always allowed, also from inside its own callback, and takes effect at once. A callback must not turn the loop.
 */
#pragma once

#include <signal.h>
#include <sys/epoll.h>

#include "base/base.h"
#include "base/list.h"

struct loop;

struct loop_io {
	int fd; /* -1 while not in the loop */
	uint32_t events;
	void (*on_ready)(struct loop_io *io, uint32_t events);
	struct loop *loop;
};

struct loop_timer {
	uint64_t due; /* monotonic ms */
	size_t pos;   /* heap position + 1; 0 while not set */
	void (*on_due)(struct loop_timer *t);
	struct loop *loop;
};

struct loop_task {
	struct list node;
	void (*run)(struct loop_task *task);
};

struct loop *loop_new(void); /* NULL and errno on failure */
void loop_free(struct loop *l);

/* Runs until loop_stop, not at all when that came before. */
void loop_run(struct loop *l);
void loop_stop(struct loop *l);

/* One turn that waits at most timeout_ms (-1: no bound). For tests and for clients that drive their own loop. */
void loop_turn(struct loop *l, int timeout_ms);

/* Level-triggered. `io` is embedded and zeroed or removed before. EPOLLHUP and EPOLLERR are always reported.
 * Returns 0 or -errno. */
int loop_add(struct loop *l, struct loop_io *io, int fd, uint32_t events, void (*on_ready)(struct loop_io *, uint32_t));
void loop_set_events(struct loop_io *io, uint32_t events);
/* Safe on an io that is not in a loop. Does not close the descriptor. */
void loop_del(struct loop_io *io);
/* The same without a call of the kernel, for a descriptor that is closed in the same turn and has no copy (dup, fork,
 * SCM_RIGHTS): the kernel forgets it with its last descriptor. */
void loop_del_closing(struct loop_io *io);

/* Sets or moves the timer; runs once. */
void loop_timer_set(struct loop *l, struct loop_timer *t, uint64_t delay_ms, void (*on_due)(struct loop_timer *));
void loop_timer_stop(struct loop_timer *t);

/* Runs the task at the end of this turn, once. Deferring a task that is already deferred does nothing. */
void loop_defer(struct loop *l, struct loop_task *task, void (*run)(struct loop_task *));
/* The same, when all that the turn brings has been done. */
void loop_defer_last(struct loop *l, struct loop_task *task, void (*run)(struct loop_task *));

/* Blocks the signals of the set in this thread and delivers them through the loop instead. Once per loop.
 * Returns 0 or -errno. */
int loop_signals(struct loop *l, const sigset_t *set, void (*on_signal)(void *arg, int signo), void *arg);
/* The same for a service: TERM, INT and HUP come through the loop, PIPE is ignored. */
int loop_service_signals(struct loop *l, void (*on_signal)(void *arg, int signo), void *arg);

/* Monotonic milliseconds, cached for the turn. */
uint64_t loop_now(const struct loop *l);

/* How its turns are divided: turn.h. */
struct turns *loop_turns(struct loop *l);
