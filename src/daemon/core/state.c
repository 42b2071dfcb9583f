#include "daemon/core/state.h"

static const char *const names[SB_STATES] = {
	[SB_CREATING] = "creating",
	[SB_RUNNING] = "running",
	[SB_ASLEEP] = "asleep",
	[SB_STOPPED] = "stopped",
	[SB_FAILED] = "failed",
	[SB_DESTROYED] = "destroyed",
};

static const bool allowed[SB_STATES][SB_STATES] = {
	[SB_CREATING] = {[SB_RUNNING] = true, [SB_STOPPED] = true, [SB_FAILED] = true, [SB_DESTROYED] = true},
	[SB_RUNNING] = {[SB_ASLEEP] = true, [SB_STOPPED] = true, [SB_DESTROYED] = true},
	[SB_ASLEEP] = {[SB_RUNNING] = true, [SB_STOPPED] = true, [SB_DESTROYED] = true},
	[SB_STOPPED] = {[SB_CREATING] = true, [SB_DESTROYED] = true},
	[SB_FAILED] = {[SB_CREATING] = true, [SB_DESTROYED] = true},
	[SB_DESTROYED] = {0},
};

static const bool op_allowed[SANDBOX_OPS][SB_STATES] = {
	[OP_CREATE] = {[SB_CREATING] = true},
	[OP_DESTROY] = {[SB_CREATING] = true,
		[SB_RUNNING] = true,
		[SB_ASLEEP] = true,
		[SB_STOPPED] = true,
		[SB_FAILED] = true},
	[OP_WAKE] = {[SB_ASLEEP] = true},
	[OP_SLEEP] = {[SB_RUNNING] = true},
	[OP_STOP] = {[SB_RUNNING] = true, [SB_ASLEEP] = true},
	[OP_CHECK] = {[SB_RUNNING] = true},
	[OP_SWEEP] = {[SB_STOPPED] = true},
	[OP_FILL] = {[SB_CREATING] = true},
	[OP_REPLACE] = {[SB_RUNNING] = true, [SB_ASLEEP] = true, [SB_STOPPED] = true},
};

const char *state_name(enum sandbox_state s)
{
	return names[s];
}

bool state_from_name(struct str name, enum sandbox_state *ret)
{
	for (int i = 0; i < SB_STATES; i++)
		if (str_eq_c(name, names[i])) {
			*ret = (enum sandbox_state)i;
			return true;
		}
	return false;
}

bool state_move_allowed(enum sandbox_state from, enum sandbox_state to)
{
	return allowed[from][to];
}

bool state_op_allowed(enum sandbox_state s, enum sandbox_op op)
{
	return op_allowed[op][s];
}
