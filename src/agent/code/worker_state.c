/*
 * The states of a worker: the allowed moves, and the invariants of each state.
 */
#include "agent/code/worker_impl.h"

static const bool allowed[WORKER_STATES][WORKER_STATES] = {
	[WORKER_STARTING] = {[WORKER_ASKING] = true,
		[WORKER_JOINING] = true, /* a spare */
		[WORKER_RUNNING] = true,
		[WORKER_CANCELLED] = true,
		[WORKER_EXITED] = true}, /* the program could not be started */
	[WORKER_ASKING] = {[WORKER_JOINING] = true, [WORKER_STARTING] = true, [WORKER_CANCELLED] = true},
	[WORKER_JOINING] = {[WORKER_RUNNING] = true, [WORKER_STARTING] = true},
	[WORKER_RUNNING] = {[WORKER_BROKEN] = true, [WORKER_EXITED] = true},
	[WORKER_BROKEN] = {[WORKER_EXITED] = true},
	[WORKER_CANCELLED] = {[WORKER_EXITED] = true},
	[WORKER_EXITED] = {[WORKER_ENDED] = true},
	[WORKER_ENDED] = {0},
};

bool worker_move_allowed(enum worker_state from, enum worker_state to)
{
	return allowed[from][to];
}

static bool has_process(enum worker_state s)
{
	return s == WORKER_JOINING || s == WORKER_RUNNING || s == WORKER_BROKEN;
}

static bool has_no_descriptor(const struct worker *w)
{
	return w->fd < 0 && w->interrupt_fd < 0 && w->pipe[0].fd < 0 && w->pipe[1].fd < 0;
}

static void check(const struct worker *w)
{
	bool before = w->state == WORKER_STARTING || w->state == WORKER_ASKING || w->state == WORKER_CANCELLED;
	INVARIANT(has_process(w->state) == (w->child.pid != 0));
	INVARIANT((w->state == WORKER_ASKING) == (w->call.serial != 0));
	if (before || w->state == WORKER_ENDED)
		INVARIANT(has_no_descriptor(w));
	if (w->state == WORKER_BROKEN)
		INVARIANT(w->end.error.code && w->fd < 0);
	if (before)
		INVARIANT(w->part == PART_NONE && !w->closed && !w->end.error.code);
}

void worker_move(struct worker *w, enum worker_state to)
{
	INVARIANT(worker_move_allowed(w->state, to));
	w->state = to;
	check(w);
}
