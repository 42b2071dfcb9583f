#include "agent/proc/ending.h"

#include <signal.h>

#include "agent/limits.h"
#include "base/clock.h"

struct ending {
	struct loop *loop;
	pid_t leader;
	struct proclist tree;
	uint64_t began, kill_at; /* monotonic ms */
	void (*on_gone)(void *arg);
	void *arg;
	struct loop_timer timer;
	struct loop_task free_task;
};

/* SIGKILL goes out again until a look finds no new process. Any other signal goes once: what the tree starts behind it
 * is its own clean-up (a trap that runs rm), and has the grace for it. */
static void send(struct ending *e, int sig)
{
	auto_procs struct proclist done = {0};
	int looks = sig == SIGKILL ? PROCESS_KILL_LOOKS : 1;
	for (int i = 0, hit = 1; i < looks && hit; i++) {
		auto_procs struct proclist look = {0};
		if (proclist_read(&look) < 0)
			return;
		hit = proctree_signal(&look, e->leader, sig, &e->tree, &done);
	}
}

static void free_ending(struct loop_task *t)
{
	struct ending *e = container_of(t, struct ending, free_task);
	proclist_free(&e->tree);
	free(e);
}

static void step(struct loop_timer *t)
{
	struct ending *e = container_of(t, struct ending, timer);
	if (proctree_is_gone(proclist_look_after(e->began), e->leader, &e->tree)) {
		if (e->on_gone)
			e->on_gone(e->arg);
		loop_defer(e->loop, &e->free_task, free_ending);
		return;
	}
	if (clock_ms() >= e->kill_at)
		send(e, SIGKILL);
	loop_timer_set(e->loop, &e->timer, ENDING_POLL, step);
}

struct ending *ending_begin(struct loop *l, const struct ending_spec *spec)
{
	struct ending *e = xcalloc(1, sizeof *e);
	*e = (struct ending){.loop = l,
		.leader = spec->leader,
		.tree = spec->tree,
		.began = clock_ms(),
		.on_gone = spec->on_gone,
		.arg = spec->arg};
	e->kill_at = e->began + spec->grace_ms;
	for (size_t i = 0; i < e->tree.n; i++)
		e->tree.v[i].member = false;
	send(e, spec->sig);
	loop_timer_set(l, &e->timer, ENDING_POLL, step);
	return e;
}

void ending_forget(struct ending *e)
{
	e->on_gone = NULL;
}
