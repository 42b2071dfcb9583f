/* The states of a code worker. */
#include <signal.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/code/worker_impl.h"
#include "test.h"

static struct worker new_worker(void)
{
	return (struct worker){.fd = -1, .interrupt_fd = -1, .pipe = {{.fd = -1}, {.fd = -1}}};
}

TEST(a_worker_that_ended_moves_no_more)
{
	for (int to = 0; to < WORKER_STATES; to++)
		CHECK(!worker_move_allowed(WORKER_ENDED, (enum worker_state)to));
}

TEST(only_a_reaped_worker_ends)
{
	for (int from = 0; from < WORKER_STATES; from++)
		CHECK(worker_move_allowed((enum worker_state)from, WORKER_ENDED) == (from == WORKER_EXITED));
}

TEST(only_a_worker_that_is_not_ready_starts_again)
{
	for (int from = 0; from < WORKER_STATES; from++)
		CHECK(worker_move_allowed((enum worker_state)from, WORKER_STARTING) ==
			(from == WORKER_ASKING || from == WORKER_JOINING));
}

TEST(a_killed_start_ends_without_a_process)
{
	struct worker w = new_worker();
	worker_move(&w, WORKER_CANCELLED);
	worker_move(&w, WORKER_EXITED);
	worker_move(&w, WORKER_ENDED);
	CHECK(w.state == WORKER_ENDED);
}

static int moves_without_process(void)
{
	pid_t pid = fork();
	if (pid == 0) {
		struct worker w = new_worker();
		worker_move(&w, WORKER_RUNNING);
		_exit(0);
	}
	int wstatus = 0;
	waitpid(pid, &wstatus, 0);
	return wstatus;
}

TEST(a_worker_cannot_run_without_a_process)
{
	CHECK(WIFSIGNALED(moves_without_process()));
}

TEST_MAIN()
