/*
 * wire.h - a non-blocking stream socket in the loop, with its output. Internal to src/http.
 *
 * Output is gathered and sent once per event or turn (small pieces), or at once together with what waits (large
 * pieces): a response of head and body is one system call either way, and a body is copied only as far as the peer
 * did not take it. Reading is the owner's: wire_read fills the thread's shared scratch when nothing is left over, so an
 * idle connection holds no read buffer.
 *
 * The owner gets on_event for epoll events and on_flush (from the loop, at the end of the turn) after anything was
 * written outside its own on_event; both end in the owner's own step. Nothing here calls the owner synchronously.
 */
#pragma once

#include <sys/uio.h>

#include "base/buf.h"
#include "base/loop.h"
#include "base/tcp_mem.h"
#include "http/layer.h"
#include "http/limits.h"

struct wire {
	struct loop *loop;
	struct loop_io io;
	struct loop_task task;
	struct buf out;
	struct http_layer *layer; /* owned; NULL: bytes go to the socket as they are */
	int fd;			  /* owned; -1 when closed */
	uint32_t window;	  /* of TCP, as it was set; 0: the kernel's own */
	bool blocked;		  /* the kernel took no more: wait for EPOLLOUT */
	bool broken;		  /* sending failed: the peer is gone */
	bool full;		  /* the writer was told to stop */
	bool yields;		  /* it was told to stop because it has had its turn: go on at the next EPOLLOUT */
	bool in_waits;		  /* the layer can read on only after EPOLLOUT */
	bool held;		  /* connecting: nothing may be sent yet */
	uint64_t turn;		  /* `sent` when its turn began */
	uint64_t sent;		  /* bytes handed to the kernel in all */
	void (*on_ready)(struct loop_io *io, uint32_t events);
	void (*on_flush)(struct wire *w);
};

/* Owns fd from now on. */
void wire_open(struct wire *w, struct loop *l, int fd, void (*on_ready)(struct loop_io *, uint32_t),
	void (*on_flush)(struct wire *w));
/* Which events are wanted from now on. -errno when the loop cannot watch it. */
int wire_watch(struct wire *w, uint32_t events);
/* Not even EPOLLHUP, which otherwise cannot be turned off: for a socket whose end has been seen but whose last bytes
 * may not be read yet. */
void wire_unwatch(struct wire *w);
/* Closes now. `reset`: so that a TCP peer sees an error, not an end. Safe when closed. The struct may be freed. */
void wire_close(struct wire *w, bool reset);

/* Ends our side, with the layer's goodbye. */
void wire_shutdown(struct wire *w);

/* The window of TCP, from now on (base/tcp_mem.h). */
static inline void wire_window(struct wire *w, uint32_t window)
{
	if (w->window != window)
		tcp_window_set(w->fd, window);
	w->window = window;
}

/* Takes all the bytes. False when more than HTTP_OUT_HIGH wait, or when HTTP_TURN_MAX have been sent without a pause: a
 * peer that reads as fast as we write must not keep the loop to itself. */
bool wire_write(struct wire *w, struct iovec *v, int n);
static inline bool wire_put(struct wire *w, struct str s)
{
	return wire_write(w, &(struct iovec){(void *)s.p, s.n}, 1);
}
/* Sends what it can now. Sets broken or blocked. */
void wire_flush(struct wire *w);
/* EPOLLOUT has come. */
static inline void wire_writable(struct wire *w)
{
	w->blocked = w->yields = w->in_waits = false;
	w->turn = w->sent;
}
/* The writer was told to stop and may go on now; true once. */
bool wire_take_room(struct wire *w);
/* EPOLLOUT when it is needed, else 0. */
static inline uint32_t wire_out_event(const struct wire *w)
{
	return (w->blocked && buf_size(&w->out)) || w->yields || w->in_waits ? EPOLLOUT : 0;
}
/* Calls on_flush at the end of this turn. */
void wire_kick(struct wire *w);
static inline size_t wire_pending(const struct wire *w)
{
	return buf_size(&w->out);
}

/* An empty buffer of a connection that may be idle for hours holds on to HTTP_KEEP bytes at most. */
static inline void wire_relax(struct buf *b)
{
	if (!buf_size(b) && b->cap > HTTP_KEEP)
		buf_free(b);
}

/* One recv into the shared scratch: its length, 0 at the end, -EAGAIN or another -errno. Valid until the next call. */
ssize_t wire_read(struct wire *w, char **ret_p);

/* Overwrites the scratch: it held secrets. Not while its bytes are being used. */
void wire_forget(void);

bool wire_is_tcp(int fd);
