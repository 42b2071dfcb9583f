/*
 * dial.h - the daemon's way into a box's network: sockets that the warden made there, in stock, ready to be connected.
 *
 * A socket belongs to the network namespace that it was made in. The warden makes some in the box's (WARDEN_SOCKETS)
 * and hands them over unconnected; the HTTP client takes one for each new connection (http_dialer) and connects it to
 * the box's own loopback. The stock is filled again in the background, so a connection waits for the warden only when
 * it is the first or there is a rush. It is dropped when it has not been used for DIAL_IDLE, and when the box ends.
 *
 * Belongs to a sandbox (sandbox.dial, made by the first use) and lives as long. Thread: the loop's.
 */
#pragma once

#include "daemon/limits.h"
#include "daemon/sandbox/sandbox.h"

struct dial;
struct stock;

/* Embedded in the object of whoever waits for a socket. */
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

/* There was no socket in stock. on_done comes later, never from inside; after WARDEN_WAIT with an error. -1: too many
 * wait already. */
int dial_wait(struct sandbox *s, bool six, struct dial_waiter *w, struct err *e);
/* Safe when it does not wait. */
void dial_wait_cancel(struct dial_waiter *w);

/* The box ends or sleeps: closes stock and idle connections; those who wait are told, later. Safe when there is none.
 */
void dial_drop(struct sandbox *s);
void dial_free(struct sandbox *s);

/* In stock now, of all sandboxes. */
size_t dial_stocked(void);
