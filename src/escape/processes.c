/*
 * Processes: the host's, the box's own init, and priorities and limits beyond those of a box.
 */
#include "escape/escape.h"

#include <fcntl.h>
#include <linux/ioprio.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "proto/limits.h"

/* host_pid: a process of the host that waits there to be hit; the caller looks at it afterwards. */
static void host_pids(const struct check *c, struct outcome *o)
{
	(void)c;
	long pid;
	char path[64];
	if (!arg_need(o, "host_pid", &pid))
		return;
	snprintf(path, sizeof(path), "/proc/%ld", pid);
	TRY(o, "kill(host process, 0)", kill((pid_t)pid, 0), ESRCH);
	TRY(o, "pidfd_open(host process)", syscall(SYS_pidfd_open, pid, 0), ESRCH);
	TRY(o, path, open(path, O_PATH | O_CLOEXEC), ENOENT);
	/* Every number there is: none may belong to a process that /proc does not show. */
	int hidden = 0;
	for (int p = 2; p < 65536; p++) {
		snprintf(path, sizeof(path), "/proc/%d", p);
		if (kill(p, 0) == 0 && access(path, F_OK) < 0 && kill(p, 0) == 0)
			hidden++;
	}
	if (hidden)
		escaped(o, "%d processes can be signalled that /proc does not show", hidden);
}

static int kill_all(void *arg)
{
	(void)arg;
	return kill(-1, SIGTERM) == 0 ? 0 : errno;
}

/* Everything that may be signalled, at once: the box's own processes and nothing else. */
static void kill_everything(const struct check *c, struct outcome *o)
{
	(void)c;
	sigset_t term;
	sigemptyset(&term);
	sigaddset(&term, SIGTERM);
	/* Blocked until the bystander can die of it: a signal that comes earlier waits. */
	sigprocmask(SIG_BLOCK, &term, NULL);
	pid_t bystander = fork();
	if (bystander == 0) {
		signal(SIGTERM, SIG_DFL);
		sigprocmask(SIG_UNBLOCK, &term, NULL);
		for (;;)
			pause();
	}
	sigprocmask(SIG_UNBLOCK, &term, NULL);
	int status = 0, code = in_child(kill_all, NULL);
	waitpid(bystander, &status, 0);
	expect(o, "only processes of this box die");
	if (code != 0 && code != ESRCH)
		errored(o, "kill(-1): %s", errno_name(code));
	else if (!WIFSIGNALED(status))
		errored(o, "kill(-1) did not reach a process of this box");
	else
		refused(o, "kill(-1) ended inside; host and neighbour are looked at from outside");
}

/* An init ignores signals without a handler from inside its own namespace, also SIGKILL and SIGSTOP. The signals that
 * the agent handles (SIGTERM ends the box, SIGHUP goes on to its commands) are its own to give. */
static void kill_init(const struct check *c, struct outcome *o)
{
	(void)c;
	static const int signals[] = {SIGKILL, SIGSTOP, SIGSEGV, SIGILL, SIGABRT, SIGTSTP, SIGTTIN};
	char status[4096];
	expect(o, "PID 1 runs on");
	for (size_t i = 0; i < ARRAY_LEN(signals); i++)
		if (kill(1, signals[i]) < 0)
			errored(o, "kill(1, %d): %s", signals[i], errno_name(errno));
	if (slurp("/proc/1/status", status, sizeof(status)) <= 0)
		escaped(o, "PID 1 is gone");
	const char *state = strstr(status, "State:\t");
	if (state && (state[7] == 'T' || state[7] == 't' || state[7] == 'Z' || state[7] == 'X'))
		escaped(o, "PID 1 is in state %c", state[7]);
	else
		refused(o, "PID 1 runs on in state %c", state ? state[7] : '?');
}

/* A process that writes into the agent speaks to the daemon in its place. */
static void trace_init(const struct check *c, struct outcome *o)
{
	(void)c;
	char byte = 0;
	struct iovec local = {&byte, 1}, remote = {(void *)&byte, 1};
	/* SEIZE does not stop the agent. A kernel that allows it is not asked for ATTACH, which does stop it. */
	if (TRY(o, "ptrace(SEIZE, 1)", ptrace(PTRACE_SEIZE, 1, 0, 0), EPERM) < 0)
		TRY(o, "ptrace(ATTACH, 1)", ptrace(PTRACE_ATTACH, 1, 0, 0), EPERM);
	TRY(o, "process_vm_readv(1)", syscall(SYS_process_vm_readv, 1, &local, 1, &remote, 1, 0), EPERM);
	TRY(o, "process_vm_writev(1)", syscall(SYS_process_vm_writev, 1, &local, 1, &remote, 1, 0), EPERM);
	TRY(o, "open(/proc/1/mem)", open("/proc/1/mem", O_RDONLY | O_CLOEXEC), EACCES, EPERM);
	TRY(o, "open(/proc/1/mem, rw)", open("/proc/1/mem", O_RDWR | O_CLOEXEC), EACCES, EPERM, EROFS);
	TRY(o, "open(/proc/1/maps)", open("/proc/1/maps", O_RDONLY | O_CLOEXEC), EACCES, EPERM);
}

static void raise_limits(const struct check *c, struct outcome *o)
{
	(void)c;
	static const struct {
		const char *name;
		int what;
	} limits[] = {{"NOFILE", RLIMIT_NOFILE}, {"NPROC", RLIMIT_NPROC}, {"MEMLOCK", RLIMIT_MEMLOCK},
		{"NICE", RLIMIT_NICE}, {"RTPRIO", RLIMIT_RTPRIO}, {"MSGQUEUE", RLIMIT_MSGQUEUE},
		{"SIGPENDING", RLIMIT_SIGPENDING}, {"CORE", RLIMIT_CORE}};
	char what[64];
	for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
		struct rlimit l;
		getrlimit(limits[i].what, &l);
		if (l.rlim_max == RLIM_INFINITY)
			continue; /* nothing to raise: bounded by a cgroup or not at all, which limits-bounded judges */
		l.rlim_max++;
		snprintf(what, sizeof(what), "setrlimit(%s) past the hard limit", limits[i].name);
		TRY(o, what, setrlimit(limits[i].what, &l), EPERM);
	}
	if (o->verdict == VERDICT_NONE)
		errored(o, "no limit is set at all");
}

static void priorities(const struct check *c, struct outcome *o)
{
	(void)c;
	struct sched_param rt = {.sched_priority = 1};
	TRY(o, "setpriority(-20)", setpriority(PRIO_PROCESS, 0, -20), EACCES, EPERM);
	TRY(o, "sched_setscheduler(FIFO)", syscall(SYS_sched_setscheduler, 0, SCHED_FIFO, &rt), EPERM);
	TRY(o, "sched_setscheduler(RR)", syscall(SYS_sched_setscheduler, 0, SCHED_RR, &rt), EPERM);
	struct {
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t runtime, deadline, period;
	} attr = {.size = 48, .policy = 6, .runtime = 1000000, .deadline = 10000000, .period = 10000000};
	TRY(o, "sched_setattr(DEADLINE)", syscall(SYS_sched_setattr, 0, &attr, 0), EPERM);
	TRY(o, "ioprio_set(real time)", syscall(SYS_ioprio_set, 1, 0, 1 << 13), EPERM);
}

/* The process with the lower score is killed later. A command starts at BOX_OOM_SCORE; unconfined root makes itself
 * one. */
static void oom_score(const struct check *c, struct outcome *o)
{
	(void)c;
	static const char *const paths[] = {"/proc/self/oom_score_adj", "/proc/self/oom_adj",
		"/proc/thread-self/oom_score_adj", "/proc/1/oom_score_adj"};
	static const char *const scores[] = {BOX_OOM_SCORE, "199", "0", "-1000"};
	char now[16];
	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		auto_fd int fd = open(paths[i], O_WRONLY | O_CLOEXEC);
		/* PID 1 of the host needs no lower score. */
		for (size_t k = 0; fd >= 0 && i < ARRAY_LEN(paths) - 1 && k < ARRAY_LEN(scores); k++)
			(void)!write(fd, scores[k], strlen(scores[k]));
		TRY(o, paths[i], fd, EROFS);
	}
	ssize_t n = slurp("/proc/self/oom_score_adj", now, sizeof(now));
	if (n <= 0)
		errored(o, "the score cannot be read");
	else if (leading_number(now) < leading_number(BOX_OOM_SCORE))
		escaped(o, "the score is %.*s", (int)strcspn(now, "\n"), now);
}

static const struct check checks[] = {
	{"host-pids", "signals to processes of the host", "pid namespace", host_pids, NULL, CHECK_HOST | CHECK_DEMO},
	{"kill-all", "kill(-1, …) with the host and a neighbour watching", "pid namespace", kill_everything, NULL,
		CHECK_HOST | CHECK_NEIGHBOUR | CHECK_OWN_BOX},
	{"kill-init", "SIGKILL, SIGSTOP and others to PID 1", "pid namespace", kill_init, NULL, CHECK_OWN_BOX},
	{"trace-init", "ptrace, read or write the memory of PID 1", "non-dumpable init", trace_init, NULL,
		CHECK_OWN_BOX | CHECK_DEMO},
	{"rlimit-raise", "resource limits past the hard ones", "capabilities", raise_limits, NULL, 0},
	{"priorities", "real time, deadline and negative nice", "capabilities", priorities, NULL, CHECK_DEMO},
	{"oom-score", "make the kernel kill others first", "read-only /proc", oom_score, NULL, CHECK_DEMO},
};
const struct check_group group_processes = {"processes", checks, ARRAY_LEN(checks)};
