#include "base/loop.h"
#include "test.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>

struct timers {
	struct loop_timer t[100];
	uint64_t last;
	int fired;
};
static struct timers timers;

static void note_timer(struct loop_timer *t)
{
	CHECK(t->due >= timers.last);
	timers.last = t->due;
	if (++timers.fired == 50)
		loop_stop(t->loop);
}

TEST(loop_runs_timers_in_order_and_not_the_stopped_ones)
{
	struct loop *l = loop_new();
	for (int i = 0; i < 100; i++)
		loop_timer_set(l, &timers.t[i], (uint64_t)((i * 37) % 20), note_timer);
	for (int i = 0; i < 100; i += 2)
		loop_timer_stop(&timers.t[i]);
	loop_run(l);
	CHECK_INT(timers.fired, 50);
	loop_free(l);
}

static struct loop_io pair_io[2];
static int ready_calls;

static void delete_the_other(struct loop_io *io, uint32_t events)
{
	(void)events;
	ready_calls++;
	struct loop *l = io->loop;
	loop_del(&pair_io[0]);
	loop_del(&pair_io[1]);
	loop_stop(l);
}

TEST(loop_does_not_call_an_io_that_was_removed_in_the_same_turn)
{
	struct loop *l = loop_new();
	int a[2], b[2];
	CHECK(pipe(a) == 0 && pipe(b) == 0);
	CHECK_INT(write(a[1], "x", 1), 1);
	CHECK_INT(write(b[1], "x", 1), 1);
	CHECK_INT(loop_add(l, &pair_io[0], a[0], EPOLLIN, delete_the_other), 0);
	CHECK_INT(loop_add(l, &pair_io[1], b[0], EPOLLIN, delete_the_other), 0);
	loop_run(l);
	CHECK_INT(ready_calls, 1);
	loop_free(l);
}

static struct loop_task tasks[3];
static char order[16];
static struct loop *task_loop;

static void run_task(struct loop_task *t)
{
	size_t n = strlen(order);
	order[n] = (char)('a' + (t - tasks));
	if (t == &tasks[0] && n == 0)
		loop_defer(task_loop, &tasks[2], run_task); /* in the same turn */
	if (t == &tasks[2])
		loop_stop(task_loop);
}

TEST(loop_runs_deferred_tasks_once_in_order_in_the_same_turn)
{
	struct loop *l = task_loop = loop_new();
	loop_defer(l, &tasks[0], run_task);
	loop_defer(l, &tasks[1], run_task);
	loop_defer(l, &tasks[0], run_task);
	loop_turn(l, -1); /* does not wait: there is work */
	CHECK_CSTR(order, "abc");
	loop_defer(l, &tasks[1], run_task);
	loop_turn(l, -1);
	CHECK_CSTR(order, "abcb");
	loop_free(l);
}

TEST(loop_runs_the_last_tasks_when_there_is_no_other)
{
	struct loop *l = task_loop = loop_new();
	memset(order, 0, sizeof order);
	loop_defer_last(l, &tasks[1], run_task);
	loop_defer(l, &tasks[1], run_task); /* is deferred already */
	loop_defer(l, &tasks[0], run_task); /* brings another */
	loop_turn(l, -1);		    /* does not wait: there is work */
	CHECK_CSTR(order, "acb");
	loop_defer_last(l, &tasks[1], run_task);
	loop_turn(l, -1);
	CHECK_CSTR(order, "acbb");
	loop_free(l);
}

struct thing {
	struct loop_io io;
	struct loop_task task;
	int *freed;
};

static void free_thing(struct loop_task *t)
{
	struct thing *thing = container_of(t, struct thing, task);
	++*thing->freed;
	free(thing);
}

static void close_thing(struct loop_io *io, uint32_t events)
{
	(void)events;
	struct thing *thing = container_of(io, struct thing, io);
	struct loop *l = io->loop;
	int fd = io->fd;
	loop_del(io);
	loop_del(io);
	close(fd);
	loop_defer(l, &thing->task, free_thing);
	loop_stop(l);
}

TEST(loop_object_may_be_freed_by_a_task_deferred_in_its_callback)
{
	struct loop *l = loop_new();
	int freed = 0;
	for (int i = 0; i < 300; i++) { /* more than a batch */
		int fds[2];
		CHECK_INT(pipe2(fds, O_CLOEXEC), 0);
		close(fds[1]);
		struct thing *t = calloc(1, sizeof *t);
		t->freed = &freed;
		CHECK_INT(loop_add(l, &t->io, fds[0], EPOLLIN, close_thing), 0);
	}
	while (freed < 300)
		loop_turn(l, -1);
	CHECK_INT(freed, 300);
	loop_free(l);
}

static int signals_seen[3];

static void note_signal(void *arg, int signo)
{
	int *seen = arg;
	seen[signo == SIGUSR1 ? 0 : signo == SIGUSR2 ? 1 : 2]++;
	if (seen[0] && seen[1])
		loop_stop(task_loop);
}

TEST(loop_delivers_signals_as_events)
{
	struct loop *l = task_loop = loop_new();
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGUSR2);
	CHECK_INT(loop_signals(l, &set, note_signal, signals_seen), 0);
	raise(SIGUSR1);
	raise(SIGUSR1); /* the kernel keeps one */
	raise(SIGUSR2);
	CHECK_INT(signals_seen[0], 0);
	loop_run(l);
	CHECK_INT(signals_seen[0], 1);
	CHECK_INT(signals_seen[1], 1);
	CHECK_INT(signals_seen[2], 0);
	loop_free(l);
}

static int rearmed;

static void rearm(struct loop_timer *t)
{
	CHECK_INT(t->pos, 0);
	CHECK(loop_now(t->loop) >= t->due);
	if (++rearmed == 3)
		loop_stop(t->loop);
	else
		loop_timer_set(t->loop, t, 1, rearm);
}

TEST(loop_timer_may_be_set_again_in_its_callback)
{
	struct loop *l = loop_new();
	struct loop_timer t = {0};
	loop_timer_stop(&t);
	loop_timer_set(l, &t, 1, rearm);
	loop_run(l);
	CHECK_INT(rearmed, 3);
	loop_free(l);
}

static void must_not_run(struct loop_timer *t)
{
	(void)t;
	test_fail(__FILE__, __LINE__, "a timer that is set to never ran");
}

TEST(loop_timer_of_any_length_does_not_wrap)
{
	struct loop *l = loop_new();
	struct loop_timer never = {0}, soon = {0};
	loop_timer_set(l, &never, UINT64_MAX, must_not_run);
	loop_timer_set(l, &never, UINT64_MAX - 1, must_not_run);
	rearmed = 2;
	loop_timer_set(l, &soon, 3, rearm);
	loop_run(l);
	CHECK_INT(rearmed, 3);
	loop_free(l);
}

static void count_ready(struct loop_io *io, uint32_t events)
{
	(void)io;
	ready_calls += events & EPOLLIN ? 1 : 100;
}

TEST(loop_reports_only_what_was_asked_for)
{
	struct loop *l = loop_new();
	int fds[2];
	CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	struct loop_io io = {0};
	CHECK_INT(loop_add(l, &io, fds[0], 0, count_ready), 0);
	CHECK_INT(write(fds[1], "x", 1), 1);
	loop_turn(l, 0);
	CHECK_INT(ready_calls, 0);
	loop_set_events(&io, EPOLLIN);
	loop_turn(l, 0);
	loop_turn(l, 0); /* level-triggered */
	CHECK_INT(ready_calls, 2);
	loop_set_events(&io, 0);
	loop_turn(l, 0);
	CHECK_INT(ready_calls, 2);
	loop_del(&io);
	loop_set_events(&io, EPOLLIN);
	CHECK_INT(io.fd, -1);
	loop_free(l);
}

TEST(loop_refuses_what_cannot_be_waited_for)
{
	struct loop *l = loop_new();
	struct loop_io io = {0};
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	CHECK(fd >= 0);
	CHECK_INT(loop_add(l, &io, fd, EPOLLIN, count_ready), -EPERM);
	CHECK_INT(loop_add(l, &io, -1, EPOLLIN, count_ready), -EBADF);
	close(fd);
	loop_free(l);
}

TEST(loop_stop_before_run_is_not_lost)
{
	struct loop *l = loop_new();
	loop_stop(l);
	loop_run(l);
	loop_free(l);
}

TEST_MAIN()
