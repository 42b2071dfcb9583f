/* How a command's end is told. */
#include <signal.h>

#include "agent/proc/result.h"
#include "test.h"

TEST(a_wait_status_becomes_a_result)
{
	struct cmd_result exited = cmd_result_of(3 << 8, UINT64_MAX), killed = cmd_result_of(SIGKILL, UINT64_MAX);
	CHECK(exited.outcome == OUTCOME_EXITED && exited.exit_code == 3 && exited.signal == 0);
	CHECK(killed.outcome == OUTCOME_KILLED && killed.exit_code == 137 && killed.signal == SIGKILL);
}

TEST(public_outcomes_have_five_names)
{
	CHECK_CSTR(outcome_name(OUTCOME_EXITED), "exited");
	CHECK_CSTR(outcome_name(OUTCOME_KILLED), "killed");
	CHECK_CSTR(outcome_name(OUTCOME_TIMEOUT), "timeout");
	CHECK_CSTR(outcome_name(OUTCOME_OOM), "oom");
	CHECK_CSTR(outcome_name(OUTCOME_LOST), "lost");
	CHECK_CSTR(outcome_name(OUTCOME_NO_DIRECTORY), "exited");
}

TEST_MAIN()
