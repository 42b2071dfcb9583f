/*
 * ask.h - connections that wait for somebody to approve them.
 *
 * A question is about a sandbox, a host (a name, or an address where no name is known) and a port. Connections that
 * wait for the same share one question. atolld is told of a new question, shows it to its clients, and sends the
 * answer; when it connects anew it is told of all that are open. A question ends with its answer, after the policy's
 * askTimeout, or when no connection waits for it any more; atolld is told of the last two.
 *
 *	{"op":"ask","ask":"…","id":sandbox,"host":…,"port":n,"protocol":"tls","address":…,"time":ms,"until":ms}
 *		to atolld
 *	{"op":"unask","ask":"…","end":"timeout"|"gone"}	to atolld
 *	{"op":"answer","ask":"…","decision":"allow"|"deny"}	from atolld
 *
 * Ids are random and never used again, so that a late answer cannot mean another question. A box has at most
 * GATE_ASKS_MAX questions. Thread: the loop's.
 */
#pragma once

#include "base/list.h"
#include "base/loop.h"
#include "gate/limits.h"
#include "proto/ip.h"

struct gate;
struct gate_box;
struct ask;

enum ask_answer { ASK_ALLOW, ASK_DENY, ASK_LATE };

struct ask_wait {
	struct list node;
	struct ask *ask; /* NULL: waits for nothing */
	/* From the loop, once. */
	void (*on_answer)(struct ask_wait *w, enum ask_answer a);
};

struct ask_what {
	const char *host, *protocol;
	const struct ip *wanted;
	uint16_t port;
};

/* `w->on_answer` is set. False: the box has too many questions, nothing waits. */
bool ask_start(struct gate_box *b, const struct ask_what *what, struct ask_wait *w);
/* Safe when it waits for nothing. The last one takes the question back. */
void ask_cancel(struct ask_wait *w);

/* ---- for control.c ---- */
void ask_answered(struct gate *g, const char *id, bool allow);
void ask_tell_all(struct gate *g);
