/*
 * pump.h - an answer that is made while it is sent: a piece at a time, as fast as the client takes it.
 *
 * Memory is one piece and what the connection may hold (HTTP_OUT_HIGH). A client that reads as fast as we write does
 * not keep the loop to itself: after PUMP_TURN bytes everybody else has a turn.
 *
 *	struct listing { struct pump pump; … };
 *	http_respond_begin(x, 200, HTTP_CHUNKED);
 *	pump_start(&l->pump, x, next_piece, free_listing);
 *
 * Ownership: from pump_start on the exchange owns the pump; `free` is called once, when it closes.
 */
#pragma once

#include "agent/limits.h"
#include "http/limits.h"
#include "http/server/server.h"

enum pump_state {
	PUMP_MORE,   /* there is more to say */
	PUMP_LATER,  /* there may be more, but there was nothing now: everybody else has a turn first */
	PUMP_END,    /* that was all */
	PUMP_BROKEN, /* it cannot be finished as announced: the client must see that */
};

struct pump {
	struct http_exchange *x;
	struct loop_timer again;
	size_t wrote; /* in this turn */
	bool room;
	/* Writes the next piece with pump_write or pump_event. */
	enum pump_state (*next)(struct pump *p);
	void (*free)(struct pump *p);
};

/* The response has begun. Sets the exchange's ops and sends the first pieces. */
void pump_start(struct pump *p, struct http_exchange *x, enum pump_state (*next)(struct pump *p),
	void (*free_pump)(struct pump *p));
void pump_write(struct pump *p, struct str bytes);
/* One Server-Sent Event. */
void pump_event(struct pump *p, struct str json);
