#include "agent/proc/children.h"

#include <sys/wait.h>

enum { CHILD_BUCKETS = 64 };

static struct list buckets[CHILD_BUCKETS];
static struct children_stats stats;
static void (*on_stranger)(void);
static void (*on_stranger_end)(pid_t pid, int wstatus);

static struct list *bucket(pid_t pid)
{
	struct list *b = &buckets[(unsigned)pid % CHILD_BUCKETS];
	if (!b->next)
		list_init(b);
	return b;
}

void child_watch(struct child *c, pid_t pid, void (*on_exit)(struct child *c, int wstatus))
{
	INVARIANT(pid > 0);
	c->pid = pid;
	c->on_exit = on_exit;
	list_push(bucket(pid), &c->node);
}

void child_forget(struct child *c)
{
	if (!c->pid)
		return;
	c->pid = 0;
	list_del(&c->node);
}

struct child *child_find(pid_t pid)
{
	struct list *b = bucket(pid);
	list_each(it, b)
	{
		struct child *c = list_entry(it, struct child, node);
		if (c->pid == pid)
			return c;
	}
	return NULL;
}

void child_each(void (*fn)(struct child *c, void *arg), void *arg)
{
	for (size_t i = 0; i < CHILD_BUCKETS; i++) {
		if (list_empty(&buckets[i]))
			continue;
		list_each(it, &buckets[i]) fn(list_entry(it, struct child, node), arg);
	}
}

void children_on_stranger(void (*fn)(void))
{
	on_stranger = fn;
}

void children_on_stranger_end(void (*fn)(pid_t pid, int wstatus))
{
	on_stranger_end = fn;
}

static void ended(pid_t pid, int wstatus)
{
	struct child *c = child_find(pid);
	stats.reaped++;
	if (!c) {
		stats.strangers++;
		if (on_stranger_end)
			on_stranger_end(pid, wstatus);
		return;
	}
	child_forget(c);
	c->on_exit(c, wstatus);
}

bool children_reap(void)
{
	for (;;) {
		siginfo_t si = {0};
		int wstatus, r = waitid(P_ALL, 0, &si, WEXITED | WNOHANG | WNOWAIT | __WALL);
		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0 || !si.si_pid)
			return r == 0;
		if (on_stranger && !child_find(si.si_pid))
			on_stranger();
		if (waitpid(si.si_pid, &wstatus, WNOHANG | __WALL) != si.si_pid)
			return true;
		ended(si.si_pid, wstatus);
	}
}

struct children_stats children_stats(void)
{
	return stats;
}
