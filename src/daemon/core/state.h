/*
 * state.h - the states of a sandbox, the moves between them, and the operations that a state allows: two tables.
 *
 *	creating → running ⇄ asleep        processes there, or frozen
 *	creating, running, asleep → stopped   processes gone, files kept
 *	stopped → creating                    the next request starts it again
 *	creating → failed → creating          a PUT failed: requests get its error until another PUT, or a DELETE
 *	any → destroyed                       nothing left; the end
 */
#pragma once

#include "base/base.h"
#include "base/str.h"

enum sandbox_state { SB_CREATING, SB_RUNNING, SB_ASLEEP, SB_STOPPED, SB_FAILED, SB_DESTROYED, SB_STATES };

const char *state_name(enum sandbox_state s);
/* False when the text names none. */
bool state_from_name(struct str name, enum sandbox_state *ret);
bool state_move_allowed(enum sandbox_state from, enum sandbox_state to);

/* At most one operation is under way for a sandbox. */
enum sandbox_op {
	OP_NONE,
	OP_CREATE,
	OP_DESTROY,
	OP_WAKE,
	OP_SLEEP,
	OP_STOP,
	OP_CHECK,
	OP_SWEEP,
	OP_FILL,
	OP_REPLACE,
	SANDBOX_OPS
};
/* Whether the operation may begin in this state. */
bool state_op_allowed(enum sandbox_state s, enum sandbox_op op);
