/*
 * Budgets that the kernel counts per user and not per cgroup: queued signals, message queues, inotify. It charges the
 * user that made the user namespace, in every namespace above it. If that is root for all boxes, one box takes the
 * share of all boxes and of the host; each box must have a budget of its own. The judge is the neighbour (`atoll-escape
 * pong`).
 */
#include "escape/escape.h"

#include <fcntl.h>
#include <mqueue.h>
#include <signal.h>
#include <stdio.h>
#include <sys/inotify.h>

static void judge(struct outcome *o, const char *what, long n, int os, int right)
{
	char text[64];
	snprintf(text, sizeof(text), "%s, and a neighbour with a budget of its own", errno_name(right));
	expect(o, text);
	if (os == 0)
		escaped(o, "%ld %s and no end", n, what);
	else if (os == right && n > 0)
		refused(o, "%s after %ld %s", errno_name(os), n, what);
	else if (os == right)
		escaped(o, "%s at the first of the %s: somebody else has taken them all", errno_name(os), what);
	else
		errored(o, "%s after %ld %s", errno_name(os), n, what);
	hold();
}

static void signals(const struct check *c, struct outcome *o)
{
	(void)c;
	enum { MANY = 4000000 };
	sigset_t set;
	long n = 0;
	int os = 0;
	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN);
	sigprocmask(SIG_BLOCK, &set, NULL);
	while (n < MANY && sigqueue(getpid(), SIGRTMIN, (union sigval){0}) == 0)
		n++;
	if (n < MANY)
		os = errno;
	/* Two children that take at once stop each other a little too early: take the rest, and all that becomes free.
	 */
	for (int i = 0; i < HOLD_MS; i++, usleep(1000))
		while (sigqueue(getpid(), SIGRTMIN, (union sigval){0}) == 0)
			;
	judge(o, "queued signals", n, os, EAGAIN);
}

static void queues(const struct check *c, struct outcome *o)
{
	(void)c;
	enum { MANY = 4096 };
	char name[32];
	long n = 0;
	int os = 0;
	for (; n < MANY; n++) {
		snprintf(name, sizeof(name), "/atoll-escape-%ld", n);
		if (mq_open(name, O_CREAT | O_RDWR, 0600, NULL) == (mqd_t)-1) {
			os = errno;
			break;
		}
	}
	judge(o, "message queues", n, os, EMFILE);
	for (long i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "/atoll-escape-%ld", i);
		mq_unlink(name);
	}
}

static void inotify_instances(const struct check *c, struct outcome *o)
{
	(void)c;
	enum { MANY = 16000 };
	long n = 0;
	while (n < MANY && inotify_init1(IN_CLOEXEC) >= 0)
		n++;
	judge(o, "inotify instances", n, n < MANY ? errno : 0, EMFILE);
}

/* Few files, but each watched by every instance. */
static void inotify_watches(const struct check *c, struct outcome *o)
{
	(void)c;
	enum { FILES = 9000, INSTANCES = 128 };
	char path[200];
	int fds[INSTANCES], instances = 0, os = 0;
	long n = 0;
	while (instances < INSTANCES && (fds[instances] = inotify_init1(IN_CLOEXEC)) >= 0)
		instances++;
	for (int f = 0; f < FILES && !os; f++) {
		snprintf(path, sizeof(path), "%s/%d", scratch_dir(), f);
		int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
		if (fd >= 0)
			close(fd);
		for (int i = 0; i < instances && !os; i++)
			if (inotify_add_watch(fds[i], path, IN_DELETE_SELF) < 0)
				os = errno;
			else
				n++;
	}
	if (os == ENOMEM) {
		refused(o, "the memory limit after %ld watches", n);
		hold();
	} else {
		judge(o, "inotify watches", n, os, ENOSPC);
	}
}

#define OWN "user namespace made by the box's own root"
static const struct check checks[] = {
	{"signal-exhaustion", "all the queued signals and timers that root may have", OWN, signals, NULL, NEXT_DOOR},
	{"mqueue-exhaustion", "all the POSIX message queues that root may have", OWN, queues, NULL, NEXT_DOOR},
	{"inotify-exhaustion", "all the inotify instances that root may have", OWN ", its limit", inotify_instances,
		NULL, NEXT_DOOR},
	{"inotify-watches", "all the inotify watches that root may have", OWN ", its limit", inotify_watches, NULL,
		NEXT_DOOR},
};
const struct check_group group_budgets = {"budgets", checks, ARRAY_LEN(checks)};
