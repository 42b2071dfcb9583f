#include "agent/proc/proctree.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "agent/limits.h"
#include "base/clock.h"
#include "base/str.h"

enum { KILL_ROUNDS = 16, STAT_MAX = 512, STATUS_MAX = 4096 };

void proclist_free(struct proclist *l)
{
	free(l->v);
	*l = (struct proclist){0};
}

/* "pid (name) S ppid pgrp sid …": the name may hold anything, so the last ')' ends it. */
static bool parse_stat(char *text, struct proc *ret)
{
	char *close_paren = strrchr(text, ')');
	if (!close_paren)
		return false;
	int ppid, pgrp, sid;
	char state;
	unsigned long long start;
	int n = sscanf(close_paren + 1, " %c %d %d %d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
		&state, &ppid, &pgrp, &sid, &start);
	if (n != 5)
		return false;
	*ret = (struct proc){.ppid = ppid, .pgrp = pgrp, .sid = sid, .start = start, .state = state};
	return true;
}

bool proc_read(pid_t pid, struct proc *ret)
{
	char path[32], text[STAT_MAX];
	snprintf(path, sizeof path, "/proc/%d/stat", pid);
	auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	ssize_t n = read(fd, text, sizeof text - 1);
	if (n <= 0)
		return false;
	text[n] = 0;
	if (!parse_stat(text, ret))
		return false;
	ret->pid = pid;
	return true;
}

/* The mask of a line such as "SigCgt:\t0000000000004a02". */
static uint64_t signal_mask(const char *status, const char *name)
{
	const char *at = strstr(status, name);
	return at ? strtoull(at + strlen(name), NULL, 16) : 0;
}

bool proc_takes_signal(pid_t pid, int sig)
{
	char path[32], text[STATUS_MAX];
	snprintf(path, sizeof path, "/proc/%d/status", pid);
	auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
	if (n <= 0)
		return false;
	text[n] = 0;
	uint64_t taken =
		signal_mask(text, "\nSigBlk:") | signal_mask(text, "\nSigIgn:") | signal_mask(text, "\nSigCgt:");
	return taken >> (sig - 1) & 1;
}

static void add(struct proclist *l, const struct proc *p)
{
	if (l->n == l->cap) {
		l->cap = l->cap ? l->cap * 2 : 64;
		l->v = xrealloc(l->v, l->cap * sizeof *l->v);
	}
	l->v[l->n++] = *p;
}

int proclist_read(struct proclist *ret)
{
	DIR *d = opendir("/proc");
	if (!d)
		return -errno;
	struct dirent *de;
	while ((de = readdir(d))) {
		uint64_t pid;
		struct proc p;
		if (str_to_u64(str_of(de->d_name), INT32_MAX, &pid) && proc_read((pid_t)pid, &p))
			add(ret, &p);
	}
	closedir(d);
	return 0;
}

const struct proclist *proclist_look_after(uint64_t since)
{
	static struct proclist look;
	static uint64_t at;
	uint64_t now = clock_ms();
	if (at > since && now - at < PROCESS_KILL_POLL / 2)
		return &look;
	at = now;
	look.n = 0;
	if (proclist_read(&look) < 0)
		look.n = 0;
	return &look;
}

static struct proc *find(const struct proclist *l, pid_t pid)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->v[i].pid == pid)
			return &l->v[i];
	return NULL;
}

static bool holds(const struct proclist *l, const struct proc *p)
{
	const struct proc *o = find(l, p->pid);
	return o && o->start == p->start;
}

static bool is_member(const struct proclist *l, pid_t pid)
{
	const struct proc *p = find(l, pid);
	return p && p->member;
}

/* A child is a member when its parent is, and so is a process whose session a member leads: nobody joins a session from
 * outside. The session of `leader` does not count: the caller decides about it. Repeated until nothing changes, since
 * /proc lists in no such order. */
static void spread(struct proclist *l, pid_t leader)
{
	for (bool changed = true; changed;) {
		changed = false;
		for (size_t i = 0; i < l->n; i++) {
			struct proc *p = &l->v[i];
			if (!p->member && (is_member(l, p->ppid) || (p->sid != leader && is_member(l, p->sid))))
				p->member = changed = true;
		}
	}
}

static void keep_members(struct proclist *l)
{
	size_t n = 0;
	for (size_t i = 0; i < l->n; i++)
		if (l->v[i].member && l->v[i].state != 'Z' && l->v[i].state != 'X')
			l->v[n++] = l->v[i];
	l->n = n;
}

static void keep(struct proclist *l, pid_t leader, bool by_group, bool by_session, bool with_leader)
{
	for (size_t i = 0; i < l->n; i++) {
		struct proc *p = &l->v[i];
		p->member = p->pid == leader || (by_group && p->pgrp == leader) || (by_session && p->sid == leader);
	}
	spread(l, leader);
	for (size_t i = 0; i < l->n; i++)
		l->v[i].member &= with_leader || l->v[i].pid != leader;
	keep_members(l);
}

void proclist_keep_tree(struct proclist *l, pid_t leader)
{
	keep(l, leader, true, true, true);
}

void proclist_keep_below(struct proclist *l, pid_t shell)
{
	keep(l, shell, true, false, false);
}

void proclist_keep_session(struct proclist *l, pid_t shell)
{
	keep(l, shell, true, true, false);
}

void proclist_keep_since(struct proclist *l, pid_t shell, uint64_t start)
{
	for (size_t i = 0; i < l->n; i++) {
		struct proc *p = &l->v[i];
		p->member = p->pid != shell && p->start >= start && (p->ppid == shell || p->pgrp == shell);
	}
	spread(l, shell);
	keep_members(l);
}

void proclist_drop(struct proclist *l, const struct proclist *old)
{
	size_t n = 0;
	for (size_t i = 0; i < l->n; i++) {
		if (!holds(old, &l->v[i]))
			l->v[n++] = l->v[i];
	}
	l->n = n;
}

/* Whether the process is in a group, other than the leader's, that a process in `old` is in too. */
static bool shares_group(const struct proclist *old, const struct proc *p, pid_t leader)
{
	for (size_t i = 0; i < old->n && p->pgrp != leader; i++)
		if (old->v[i].pgrp == p->pgrp)
			return true;
	return false;
}

void proclist_spare(struct proclist *l, const struct proclist *old, pid_t leader)
{
	for (size_t i = 0; i < l->n; i++) {
		l->v[i].member = holds(old, &l->v[i]) || shares_group(old, &l->v[i], leader);
	}
	spread(l, leader);
	size_t n = 0;
	for (size_t i = 0; i < l->n; i++)
		if (!l->v[i].member)
			l->v[n++] = l->v[i];
	l->n = n;
}

typedef void (*keep_fn)(struct proclist *l, pid_t leader);

/* Signals the processes that are not in `done`, and adds them. */
static int kill_round(keep_fn select, pid_t leader, int sig, const struct proclist *spare, struct proclist *done)
{
	auto_procs struct proclist l = {0};
	int hit = 0;
	if (proclist_read(&l) < 0)
		return 0;
	select(&l, leader);
	if (spare)
		proclist_spare(&l, spare, leader);
	proclist_drop(&l, done);
	for (size_t i = 0; i < l.n; i++) {
		hit += kill(l.v[i].pid, sig) == 0;
		add(done, &l.v[i]);
	}
	return hit;
}

/* A process that is forked between the look and the signal is found by the next look. */
static int kill_rounds(keep_fn select, pid_t leader, int sig, const struct proclist *spare)
{
	auto_procs struct proclist done = {0};
	int total = 0;
	for (int i = 0, hit = 1; i < KILL_ROUNDS && hit; i++)
		total += hit = kill_round(select, leader, sig, spare, &done);
	return total;
}

int proctree_kill(pid_t leader, int sig)
{
	return kill_rounds(proclist_keep_tree, leader, sig, NULL);
}

/* A copy of `all` that holds only the tree of `leader` and of the processes in `known`. */
static struct proclist known_tree(const struct proclist *all, pid_t leader, const struct proclist *known)
{
	struct proclist l = {.v = xmalloc((all->n + 1) * sizeof *l.v), .n = all->n, .cap = all->n + 1};
	memcpy(l.v, all->v, all->n * sizeof *l.v);
	for (size_t i = 0; i < l.n; i++) {
		struct proc *p = &l.v[i];
		bool led = leader > 0 && (p->pid == leader || p->pgrp == leader || p->sid == leader);
		p->member = led || holds(known, p);
	}
	spread(&l, leader);
	keep_members(&l);
	return l;
}

/* A process may be signalled for ever: its list must not grow with the children that it has had. */
static void forget_gone(struct proclist *known, const struct proclist *all)
{
	size_t n = 0;
	for (size_t i = 0; i < known->n; i++)
		if (holds(all, &known->v[i]))
			known->v[n++] = known->v[i];
	known->n = n;
}

int proctree_signal(const struct proclist *all, pid_t leader, int sig, struct proclist *known, struct proclist *done)
{
	auto_procs struct proclist l = known_tree(all, leader, known);
	int hit = 0;
	forget_gone(known, all);
	for (size_t i = 0; i < l.n; i++) {
		if (!holds(known, &l.v[i])) {
			l.v[i].takes = sig != SIGKILL && l.v[i].ppid == leader && proc_takes_signal(l.v[i].pid, sig);
			add(known, &l.v[i]);
		}
		if (holds(done, &l.v[i]))
			continue;
		add(done, &l.v[i]);
		hit += kill(l.v[i].pid, sig) == 0;
		/* A stopped process cannot act on the signal. */
		if (sig == SIGTERM || sig == SIGHUP)
			kill(l.v[i].pid, SIGCONT);
	}
	return hit;
}

bool proctree_is_gone(const struct proclist *all, pid_t leader, const struct proclist *known)
{
	auto_procs struct proclist l = known_tree(all, leader, known);
	return l.n == 0;
}

uint64_t proc_ticks(void)
{
	struct timespec ts;
	uint64_t hz = (uint64_t)sysconf(_SC_CLK_TCK);
	clock_gettime(CLOCK_BOOTTIME, &ts);
	return (uint64_t)ts.tv_sec * hz + (uint64_t)ts.tv_nsec / (1000000000ull / hz);
}

int proctree_kill_young(pid_t leader, int sig, uint64_t age_ms)
{
	auto_procs struct proclist l = {0};
	uint64_t hz = (uint64_t)sysconf(_SC_CLK_TCK), now = proc_ticks();
	int hit = 0;
	if (proclist_read(&l) < 0)
		return 0;
	proclist_keep_tree(&l, leader);
	for (size_t i = 0; i < l.n; i++)
		if (now - l.v[i].start <= age_ms * hz / 1000 && kill(l.v[i].pid, sig) == 0)
			hit++;
	return hit;
}

int proctree_kill_below(pid_t shell, int sig, const struct proclist *spare)
{
	return kill_rounds(proclist_keep_below, shell, sig, spare);
}

int proctree_kill_session(pid_t shell, int sig, const struct proclist *spare)
{
	return kill_rounds(proclist_keep_session, shell, sig, spare);
}
