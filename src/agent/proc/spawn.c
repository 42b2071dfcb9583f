#include "agent/proc/spawn.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "agent/fuse/mounts.h"
#include "agent/proc/user.h"
#include "base/fd_pass.h"
#include "base/sig.h"
#include "proto/limits.h"

enum { SPAWN_STACK = 32 * 1024, SPAWN_FD_FLOOR = 64, SPAWN_FD_ASIDE = 256 };

/* The child writes it, and the parent reads it after the child's exec or exit: both share the memory. */
struct spawn_state {
	const struct spawn_spec *spec;
	enum spawn_step step;
	int os;
	bool apart; /* nobody waits for it */
};

static int null_fd = -1;
static int proc_box = -1; /* a socket with the writable procfs in its queue */
static int leaves[SPAWN_LEAVES_MAX], leaves_n;
static struct rlimit child_nofile; /* the limit that children get back */
static char stack[SPAWN_STACK] __attribute__((aligned(64)));

int spawn_init(struct err *e)
{
	/* Other inherited descriptors must not reach children. */
	syscall(SYS_close_range, 3u, ~0u, CLOSE_RANGE_CLOEXEC);
	sig_default_all();
	umask(022);
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, errno, "open /dev/null");
	/* Above the small numbers, so that placing 0, 1, 2 in a child never overwrites a source. */
	null_fd = fcntl(fd, F_DUPFD_CLOEXEC, SPAWN_FD_FLOOR);
	close(fd);
	if (null_fd < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, errno, "move /dev/null");
	if (getrlimit(RLIMIT_NOFILE, &child_nofile) == 0) {
		struct rlimit own = {.rlim_cur = child_nofile.rlim_max, .rlim_max = child_nofile.rlim_max};
		setrlimit(RLIMIT_NOFILE, &own);
	}
	return 0;
}

/* The descriptor waits in the queue of a socket, and each child peeks a copy of it. The agent must not hold it open
 * itself: /proc/1/fd would then offer it as a directory to every path that a client names. */
void spawn_use_proc(int fd)
{
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return;
	bool sent = fd_send(pair[0], "p", 1, &fd, 1, 0) == 1;
	proc_box = sent ? fcntl(pair[1], F_DUPFD_CLOEXEC, SPAWN_FD_FLOOR) : -1;
	close(pair[0]);
	close(pair[1]);
	close(fd);
}

/* Runs in a child: returns the child's own descriptor of the procfs, or -1. fd_recv allocates nothing. */
static int take_proc(void)
{
	char byte;
	int fd = -1;
	struct fd_record r = {.data = &byte, .size = 1, .fds = &fd, .fds_max = 1};
	if (proc_box < 0 || fd_recv(proc_box, &r, MSG_PEEK | MSG_DONTWAIT) != 1 || !r.fds_n)
		return -1;
	return fd;
}

void spawn_use_leaf(int fd)
{
	if (fd < 0)
		return;
	INVARIANT(leaves_n < SPAWN_LEAVES_MAX);
	leaves[leaves_n++] = fd;
}

/* A command that stayed beside the agent would have its memory and time. */
static int join_leaves(void)
{
	for (int i = 0; i < leaves_n; i++)
		if (write(leaves[i], "0", 1) != 1)
			return -1;
	return 0;
}

int spawn_null(void)
{
	return null_fd;
}

/* Sets an OOM score above 0 if the kernel allows it; a failure does not matter. Must leave nothing open: the working
 * directory comes next, and a client could name a descriptor. */
static void raise_oom_score(void)
{
	const int flags = O_WRONLY | O_CLOEXEC;
	int proc = take_proc();
	int fd = proc >= 0 ? openat(proc, "self/oom_score_adj", flags) : open("/proc/self/oom_score_adj", flags);
	if (proc >= 0)
		close(proc);
	if (fd < 0)
		return;
	ssize_t r = write(fd, BOX_OOM_SCORE, sizeof BOX_OOM_SCORE - 1);
	(void)r;
	close(fd);
}

/* A source may have the number of another source's target, so all sources are moved out of the way first. */
static int place_extra(const struct spawn_spec *s)
{
	int from[3 + SPAWN_EXTRA_MAX];
	for (int i = 0; i < 3 + s->extra_n; i++) {
		int fd = i >= 3 ? s->extra[i - 3].from : s->fd[i] < 0 ? null_fd : s->fd[i];
		from[i] = fcntl(fd, F_DUPFD_CLOEXEC, SPAWN_FD_ASIDE);
		if (from[i] < 0)
			return -1;
	}
	for (int i = 0; i < 3 + s->extra_n; i++)
		if (dup2(from[i], i >= 3 ? s->extra[i - 3].to : i) < 0)
			return -1;
	return 0;
}

static int place_fds(const struct spawn_spec *s)
{
	if (s->extra_n)
		return place_extra(s);
	for (int i = 0; i < 3; i++)
		if (dup2(s->fd[i] < 0 ? null_fd : s->fd[i], i) < 0)
			return -1;
	return 0;
}

static void close_range_to(unsigned from, int keep)
{
	if ((int)from < keep)
		syscall(SYS_close_range, from, (unsigned)keep - 1, 0);
}

static int compare_fds(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

/* What spawn needs itself, in ascending order. */
static size_t own_fds(int ret[2 + SPAWN_LEAVES_MAX])
{
	size_t n = 0;
	ret[n++] = null_fd;
	ret[n++] = proc_box;
	for (int i = 0; i < leaves_n; i++)
		ret[n++] = leaves[i];
	qsort(ret, n, sizeof *ret, compare_fds);
	return n;
}

void spawn_close_others(const int *keep, size_t n)
{
	int own[2 + SPAWN_LEAVES_MAX];
	size_t own_n = own_fds(own);
	unsigned from = 3;
	for (size_t i = 0, k = 0; i < n || k < own_n;) {
		int next = k == own_n || (i < n && keep[i] < own[k]) ? keep[i++] : own[k++];
		close_range_to(from, next);
		if (next >= (int)from)
			from = (unsigned)next + 1;
	}
	syscall(SYS_close_range, from, ~0u, 0);
}

/* Before it may wait: it must not hold the pipes and connections of others open. */
static void close_others(const struct spawn_spec *s)
{
	int keep[SPAWN_EXTRA_MAX] = {0};
	for (int i = 0; i < s->extra_n; i++)
		keep[i] = s->extra[i].to;
	spawn_close_others(keep, (size_t)s->extra_n);
}

/* The words of api_execute.c for a directory that cannot be entered. */
static void say_failure(const struct spawn_state *st)
{
	if (st->step == SPAWN_CHDIR)
		dprintf(2, "Failed to change directory to '%s'\n", st->spec->cwd);
	else
		dprintf(2, "%s: %s\n", st->spec->path, strerror(st->os));
	_exit(st->step == SPAWN_CHDIR ? 1 : st->os == ENOENT ? 127 : 126);
}

static bool enter_directory(const struct spawn_state *st)
{
	const struct spawn_spec *s = st->spec;
	if (!s->cwd || chdir(s->cwd) == 0)
		return true;
	int os = errno;
	bool other = st->apart && s->cwd_else && chdir(s->cwd_else) == 0;
	errno = os;
	return other;
}

/* Tries the directories of PATH in their order; one that fails, because of its FUSE server too, is passed over. Returns
 * with the first error that is not "not there". */
static void exec_searched(const struct spawn_spec *s)
{
	const char *const *var = s->envp;
	int os = ENOENT;
	while (*var && strncmp(*var, "PATH=", 5) != 0)
		var++;
	for (struct str rest = str_of(*var ? *var + 5 : ""); rest.n;) {
		struct str dir = str_split(rest, ':', &rest);
		auto_free char *full = xasprintf("%.*s/%s", STR_ARG(dir), s->path);
		if (dir.n && dir.p[0] == '/')
			execve(full, (char *const *)s->argv, (char *const *)s->envp);
		if (os == ENOENT)
			os = errno;
	}
	errno = os;
}

/* Runs in the parent's memory, unless apart: system calls only, no allocation, no return. */
static int child_main(void *arg)
{
	struct spawn_state *st = arg;
	const struct spawn_spec *s = st->spec;

	st->step = SPAWN_SETUP;
	setsid();
	if (join_leaves() < 0 || place_fds(s) < 0)
		goto fail;
	if (s->terminal && ioctl(0, TIOCSCTTY, 0) < 0)
		goto fail;
	if (child_nofile.rlim_cur != child_nofile.rlim_max)
		setrlimit(RLIMIT_NOFILE, &child_nofile);
	raise_oom_score();
	/* A directory of another user may be the image's WORKDIR: the agent enters it for the user. */
	st->step = SPAWN_CHDIR;
	if (st->apart)
		close_others(s);
	if (!enter_directory(st))
		goto fail;
	st->step = SPAWN_SETUP;
	if (box_user_become() < 0)
		goto fail;
	if (s->tied) /* after the change of user, which clears it */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	st->step = SPAWN_EXEC;
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (strchr(s->path, '/'))
		execve(s->path, (char *const *)s->argv, (char *const *)s->envp);
	else
		exec_searched(s);
fail:
	st->os = errno;
	if (st->apart)
		say_failure(st);
	_exit(127);
}

static pid_t fork_apart(struct spawn_state *st)
{
	pid_t pid = fork();
	if (pid == 0)
		child_main(st);
	return pid;
}

bool spawn_waits(const char *cwd, const char *path)
{
	return (cwd && fuse_mounts_on(cwd)) || fuse_mounts_run(cwd, path);
}

static int explain(const struct spawn_state *st, struct err *e)
{
	switch (st->step) {
	case SPAWN_CHDIR:
		return err_os(e, ERRC_COMMAND_EXECUTION_ERROR, st->os, "enter directory %s", st->spec->cwd);
	case SPAWN_EXEC:
		return err_os(e, st->os == ENOENT ? ERRC_COMMAND_NOT_FOUND : ERRC_COMMAND_EXECUTION_ERROR, st->os,
			"run %s", st->spec->path);
	case SPAWN_CLONE:
		if (st->os == EAGAIN)
			return err_set(e, ERRC_COMMAND_EXECUTION_ERROR,
				"start a process: the sandbox has as many processes as it may have");
		/* fallthrough */
	case SPAWN_SETUP:
	default:
		return err_os(e, ERRC_COMMAND_EXECUTION_ERROR, st->os, "start a process");
	}
}

int spawn(const struct spawn_spec *s, pid_t *ret_pid, enum spawn_step *ret_step, struct err *e)
{
	/* A pipe end that happens to be 0, 1 or 2 could be overwritten while the others are placed. */
	for (int i = 0; i < 3; i++)
		INVARIANT(s->fd[i] < 0 || s->fd[i] > 2);
	INVARIANT(s->extra_n <= SPAWN_EXTRA_MAX);

	struct spawn_state st = {.spec = s, .step = SPAWN_CLONE};
	st.apart = spawn_waits(s->cwd, s->path) || !strchr(s->path, '/');
	/* No signal may be handled on the shared stack: the child gets its mask back right before exec. */
	sigset_t all, old;
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &old);
	pid_t pid = st.apart ? fork_apart(&st)
			     : clone(child_main, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, &st);
	if (pid < 0)
		st.os = errno;
	sigprocmask(SIG_SETMASK, &old, NULL);

	if (st.os == 0) {
		*ret_pid = pid;
		return 0;
	}
	if (pid > 0)
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
	*ret_step = st.step;
	return explain(&st, e);
}
