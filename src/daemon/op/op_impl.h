/*
 * op_impl.h - for the operations themselves: the object that each embeds first.
 */
#pragma once

#include "daemon/op/op.h"

/* As the API calls it, whichever door it came through: the record says so. */
struct op_kind {
	const char *method, *route;
	int done, made; /* status when it succeeds */
};

struct operation {
	struct daemon *daemon;
	struct caller caller;
	const struct op_kind *kind; /* NULL: a part of another operation, which has the record */
	char id[BOX_ID_MAX + 1];
	op_on_done on_done; /* NULL once the client is gone */
	void *arg;
	struct sandbox *sandbox; /* referenced while set */
	struct sandbox_waiter waiter;
	bool begun, ended;			 /* op_begun was called; op_end was */
	bool gone;				 /* the client is */
	void (*on_forget)(struct operation *op); /* NULL, or what else the end of the client means */
	void (*free)(struct operation *op);	 /* frees the object that embeds this one; NULL: free() */
};

/* Fills an operation that was allocated with zeroes. The function that begins it returns op_begun(op), which is NULL
 * when the operation has ended meanwhile. */
void op_begin(struct operation *op, const struct op_call *call, const struct op_kind *kind);
struct operation *op_begun(struct operation *op);
void op_use(struct operation *op, struct sandbox *s);
/* Writes the record, tells the client if there is one, and frees. */
void op_end(struct operation *op, const struct op_result *result);
void op_fail(struct operation *op, const struct err *e);
/* op->sandbox is there or as it was asked for. */
void op_succeed(struct operation *op, bool made);
/* Queues op->waiter for `s`; NULL: for the sandbox op->id, which is made when there is none. If it cannot wait, the
 * operation ends with the reason. */
void op_wait(struct operation *op, struct sandbox *s);
/* The warden is there. -1: CONTAINER_UNAVAILABLE. */
int op_needs_warden(const struct operation *op, struct err *e);
