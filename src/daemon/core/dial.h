/*
 * dial.h - connections into a box's network, over a stock of sockets that the warden made there.
 *
 * A socket belongs to the network namespace in which it was made. The warden makes sockets in the box's namespace
 * (WARDEN_SOCKETS) and hands them over unconnected. The HTTP client takes one for each new connection (http_dialer) and
 * connects it to the box's loopback. The stock is refilled in the background: only the first connection, or a rush of
 * them, waits for the warden. The stock is dropped after DIAL_IDLE without use, and when the box ends.
 *
 * The sandbox owns it (sandbox.dial, made at the first use). Thread: the loop's.
 */
#pragma once

#include "daemon/core/sandbox.h"
#include "daemon/limits.h"

struct dial;
struct stock;

/* Embedded in an object that waits for a socket. */
struct dial_waiter {
	struct list node;
	struct stock *stock; /* while it waits */
	uint64_t until;
	/* e is NULL when a socket is there: take it before returning. */
	void (*on_done)(struct dial_waiter *w, const struct err *e);
};

/* 127.0.0.1:port inside the box, or [::1]:port, through its dialer. The sandbox must be kept while calls use it. */
struct http_endpoint dial_endpoint(struct sandbox *s, uint16_t port, bool six);
/* Which of the two answered last on this port. */
bool dial_is_six(const struct sandbox *s, uint16_t port);
void dial_remember(struct sandbox *s, uint16_t port, bool six);

/* Waits for a socket after the stock was found empty. on_done is called later, never from inside; with an error after
 * WARDEN_WAIT. -1: too many wait already. */
int dial_wait(struct sandbox *s, bool six, struct dial_waiter *w, struct err *e);
/* Safe when it does not wait. */
void dial_wait_cancel(struct dial_waiter *w);

/* The box ends or sleeps: closes stock and idle connections. Waiters get an error later, from the loop. Safe when there
 * is no dial. */
void dial_drop(struct sandbox *s);
void dial_free(struct sandbox *s);

/* In stock now, of all sandboxes. */
size_t dial_stocked(void);
