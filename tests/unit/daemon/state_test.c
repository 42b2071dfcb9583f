#include "daemon/core/state.h"
#include "test.h"

static bool may(enum sandbox_state from, enum sandbox_state to)
{
	return state_move_allowed(from, to);
}

TEST(moves_are_those_of_the_picture)
{
	CHECK(may(SB_CREATING, SB_RUNNING));
	CHECK(may(SB_RUNNING, SB_ASLEEP));
	CHECK(may(SB_ASLEEP, SB_RUNNING));
	CHECK(may(SB_CREATING, SB_STOPPED));
	CHECK(may(SB_RUNNING, SB_STOPPED));
	CHECK(may(SB_ASLEEP, SB_STOPPED));
	CHECK(may(SB_STOPPED, SB_CREATING));
	CHECK(may(SB_CREATING, SB_FAILED));
	CHECK(may(SB_FAILED, SB_CREATING));
	for (int s = 0; s < SB_DESTROYED; s++)
		CHECK(may((enum sandbox_state)s, SB_DESTROYED));
}

TEST(nothing_else_is_allowed)
{
	int n = 0;
	for (int from = 0; from < SB_STATES; from++)
		for (int to = 0; to < SB_STATES; to++)
			n += may((enum sandbox_state)from, (enum sandbox_state)to);
	CHECK_INT(n, 14);
	for (int to = 0; to < SB_STATES; to++)
		CHECK(!may(SB_DESTROYED, (enum sandbox_state)to));
	CHECK(!may(SB_STOPPED, SB_RUNNING));
	CHECK(!may(SB_FAILED, SB_RUNNING));
	CHECK(!may(SB_CREATING, SB_ASLEEP));
}

TEST(an_operation_begins_only_in_its_states)
{
	int n = 0;
	for (int s = 0; s < SB_STATES; s++)
		for (int op = 0; op < SANDBOX_OPS; op++)
			n += state_op_allowed((enum sandbox_state)s, (enum sandbox_op)op);
	CHECK_INT(n, 16);
	for (int s = 0; s < SB_DESTROYED; s++)
		CHECK(state_op_allowed((enum sandbox_state)s, OP_DESTROY));
	CHECK(state_op_allowed(SB_CREATING, OP_CREATE));
	CHECK(state_op_allowed(SB_ASLEEP, OP_WAKE));
	CHECK(state_op_allowed(SB_RUNNING, OP_SLEEP));
	CHECK(state_op_allowed(SB_RUNNING, OP_STOP));
	CHECK(state_op_allowed(SB_ASLEEP, OP_STOP));
	CHECK(state_op_allowed(SB_RUNNING, OP_CHECK));
	CHECK(state_op_allowed(SB_STOPPED, OP_SWEEP));
	CHECK(state_op_allowed(SB_CREATING, OP_FILL));
	CHECK(state_op_allowed(SB_STOPPED, OP_REPLACE));
	CHECK(!state_op_allowed(SB_CREATING, OP_REPLACE));
}

TEST(names_go_both_ways)
{
	for (int i = 0; i < SB_STATES; i++) {
		enum sandbox_state back;
		CHECK(state_from_name(str_of(state_name((enum sandbox_state)i)), &back));
		CHECK_INT(back, i);
	}
	enum sandbox_state s;
	CHECK(!state_from_name(STR("Running"), &s));
	CHECK(!state_from_name(STR(""), &s));
	CHECK(!state_from_name(STR("runningx"), &s));
}

TEST_MAIN()
