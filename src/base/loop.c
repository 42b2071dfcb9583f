#include "base/loop.h"

#include <sys/signalfd.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/turn.h"

enum { LOOP_BATCH = 128 };

struct loop {
	int epoll_fd;
	bool stopping, turning;
	uint64_t now;

	struct epoll_event batch[LOOP_BATCH];
	int batch_at, batch_len; /* the part of the batch that is still to be run; loop_del strikes entries out */

	struct loop_timer **heap;
	size_t heap_len, heap_cap;

	struct list tasks, last_tasks;
	struct turns turns;

	struct loop_io signal_io;
	void (*on_signal)(void *arg, int signo);
	void *signal_arg;
};

struct loop *loop_new(void)
{
	int fd = epoll_create1(EPOLL_CLOEXEC);
	if (fd < 0)
		return NULL;
	struct loop *l = xcalloc(1, sizeof *l);
	l->epoll_fd = fd;
	l->now = clock_ms();
	l->signal_io.fd = -1;
	list_init(&l->tasks);
	list_init(&l->last_tasks);
	turns_init(&l->turns);
	return l;
}

void loop_free(struct loop *l)
{
	if (!l)
		return;
	if (l->signal_io.fd >= 0)
		close(l->signal_io.fd);
	close(l->epoll_fd);
	free(l->heap);
	free(l);
}

int loop_add(struct loop *l, struct loop_io *io, int fd, uint32_t events, void (*on_ready)(struct loop_io *, uint32_t))
{
	INVARIANT(!io->loop);
	struct epoll_event ev = {.events = events, .data.ptr = io};
	if (epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0)
		return -errno;
	*io = (struct loop_io){.fd = fd, .events = events, .on_ready = on_ready, .loop = l};
	return 0;
}

void loop_set_events(struct loop_io *io, uint32_t events)
{
	if (io->events == events || !io->loop)
		return;
	struct epoll_event ev = {.events = events, .data.ptr = io};
	int r = epoll_ctl(io->loop->epoll_fd, EPOLL_CTL_MOD, io->fd, &ev);
	INVARIANT(r == 0);
	io->events = events;
}

void loop_del(struct loop_io *io)
{
	if (io->loop)
		epoll_ctl(io->loop->epoll_fd, EPOLL_CTL_DEL, io->fd, NULL);
	loop_del_closing(io);
}

void loop_del_closing(struct loop_io *io)
{
	struct loop *l = io->loop;
	if (!l)
		return;
	for (int i = l->batch_at; i < l->batch_len; i++)
		if (l->batch[i].data.ptr == io)
			l->batch[i].data.ptr = NULL;
	io->loop = NULL;
	io->fd = -1;
}

static void heap_place(struct loop *l, struct loop_timer *t, size_t i)
{
	l->heap[i] = t;
	t->pos = i + 1;
}

static void heap_up(struct loop *l, struct loop_timer *t, size_t i)
{
	while (i > 0 && l->heap[(i - 1) / 2]->due > t->due) {
		heap_place(l, l->heap[(i - 1) / 2], i);
		i = (i - 1) / 2;
	}
	heap_place(l, t, i);
}

static void heap_down(struct loop *l, struct loop_timer *t, size_t i)
{
	for (;;) {
		size_t child = 2 * i + 1;
		if (child >= l->heap_len)
			break;
		if (child + 1 < l->heap_len && l->heap[child + 1]->due < l->heap[child]->due)
			child++;
		if (l->heap[child]->due >= t->due)
			break;
		heap_place(l, l->heap[child], i);
		i = child;
	}
	heap_place(l, t, i);
}

void loop_timer_stop(struct loop_timer *t)
{
	if (!t->pos)
		return;
	struct loop *l = t->loop;
	size_t i = t->pos - 1;
	t->pos = 0;
	struct loop_timer *last = l->heap[--l->heap_len];
	if (last == t)
		return;
	heap_up(l, last, i);
	heap_down(l, last, last->pos - 1);
}

void loop_timer_set(struct loop *l, struct loop_timer *t, uint64_t delay_ms, void (*on_due)(struct loop_timer *))
{
	loop_timer_stop(t);
	if (l->heap_len == l->heap_cap) {
		l->heap_cap = l->heap_cap ? l->heap_cap * 2 : 64;
		l->heap = xrealloc(l->heap, l->heap_cap * sizeof *l->heap);
	}
	uint64_t now = clock_ms();
	*t = (struct loop_timer){
		.due = delay_ms < UINT64_MAX - now ? now + delay_ms : UINT64_MAX, .on_due = on_due, .loop = l};
	heap_up(l, t, l->heap_len++);
}

static void push_task(struct list *tasks, struct loop_task *task, void (*run)(struct loop_task *))
{
	if (task->node.next && task->node.next != &task->node)
		return;
	task->run = run;
	list_push(tasks, &task->node);
}

void loop_defer(struct loop *l, struct loop_task *task, void (*run)(struct loop_task *))
{
	push_task(&l->tasks, task, run);
}

void loop_defer_last(struct loop *l, struct loop_task *task, void (*run)(struct loop_task *))
{
	push_task(&l->last_tasks, task, run);
}

static void run_timers(struct loop *l)
{
	while (l->heap_len && l->heap[0]->due <= l->now) {
		struct loop_timer *t = l->heap[0];
		loop_timer_stop(t);
		t->on_due(t);
		turns_settle(&l->turns);
	}
}

static bool has_tasks(const struct loop *l)
{
	return !list_empty(&l->tasks) || !list_empty(&l->last_tasks);
}

static void run_task(struct loop *l, struct list *of)
{
	struct loop_task *task = list_entry(list_pop(of), struct loop_task, node);
	task->run(task);
	turns_settle(&l->turns);
}

static void run_tasks(struct loop *l)
{
	while (!list_empty(&l->tasks))
		run_task(l, &l->tasks);
	if (turns_wait(&l->turns))
		turns_serve(&l->turns);
	while (has_tasks(l))
		run_task(l, list_empty(&l->tasks) ? &l->last_tasks : &l->tasks);
}

static int wait_bound(struct loop *l, int timeout_ms)
{
	if (has_tasks(l) || turns_wait(&l->turns))
		return 0;
	if (!l->heap_len)
		return timeout_ms;
	uint64_t now = clock_ms();
	uint64_t left = l->heap[0]->due > now ? l->heap[0]->due - now : 0;
	if (left > INT32_MAX)
		left = INT32_MAX;
	return timeout_ms < 0 || (int)left < timeout_ms ? (int)left : timeout_ms;
}

/* True when there may be more that is ready. */
static bool run_batch(struct loop *l, int timeout_ms)
{
	int n = epoll_wait(l->epoll_fd, l->batch, LOOP_BATCH, timeout_ms);
	l->now = clock_ms();
	l->batch_len = n > 0 ? n : 0;
	for (l->batch_at = 0; l->batch_at < l->batch_len;) {
		struct epoll_event *ev = &l->batch[l->batch_at++];
		struct loop_io *io = ev->data.ptr;
		if (!io)
			continue;
		io->on_ready(io, ev->events);
		turns_settle(&l->turns);
	}
	l->batch_len = 0;
	return n == LOOP_BATCH;
}

void loop_turn(struct loop *l, int timeout_ms)
{
	INVARIANT(!l->turning);
	l->turning = true;
	turns_begin(&l->turns);
	bool more = run_batch(l, wait_bound(l, timeout_ms));
	/* Behind those that wait for the end of the turn there may be others that need not. */
	for (int i = 1; more && i < TURN_BATCHES && turns_wait(&l->turns); i++)
		more = run_batch(l, 0);
	run_timers(l);
	run_tasks(l);
	l->turning = false;
}

void loop_run(struct loop *l)
{
	while (!l->stopping)
		loop_turn(l, -1);
	l->stopping = false;
}

void loop_stop(struct loop *l)
{
	l->stopping = true;
}

static void on_signalfd(struct loop_io *io, uint32_t events)
{
	(void)events;
	struct loop *l = io->loop;
	struct signalfd_siginfo si;
	while (io->loop && read(io->fd, &si, sizeof si) == (ssize_t)sizeof si)
		l->on_signal(l->signal_arg, (int)si.ssi_signo);
}

int loop_signals(struct loop *l, const sigset_t *set, void (*on_signal)(void *arg, int signo), void *arg)
{
	if (sigprocmask(SIG_BLOCK, set, NULL) < 0)
		return -errno;
	auto_fd int fd = signalfd(-1, set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0)
		return -errno;
	l->on_signal = on_signal;
	l->signal_arg = arg;
	int r = loop_add(l, &l->signal_io, fd, EPOLLIN, on_signalfd);
	if (r == 0)
		take_fd(&fd);
	return r;
}

int loop_service_signals(struct loop *l, void (*on_signal)(void *arg, int signo), void *arg)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	signal(SIGPIPE, SIG_IGN);
	return loop_signals(l, &set, on_signal, arg);
}

struct turns *loop_turns(struct loop *l)
{
	return &l->turns;
}

uint64_t loop_now(const struct loop *l)
{
	return l->now;
}
