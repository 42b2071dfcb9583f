#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/beside.h"
#include "base/clock.h"
#include "base/log.h"
#include "cli/up/up.h"

/* ---- in the child, between fork and exec ---- */

static void hand_down(const struct up_child *ch)
{
	/* Move all above the targets first: any may have another's number. */
	int high[ARRAY_LEN(ch->down)], n = 0;
	for (size_t i = 0; i < ARRAY_LEN(ch->down) && ch->down[i] > 0; i++)
		high[n++] = fcntl(ch->down[i], F_DUPFD_CLOEXEC, 10);
	for (int i = 0; i < n; i++)
		if (dup2(high[i], 3 + i) != 3 + i)
			_exit(1);
	char pid[16], count[4];
	snprintf(pid, sizeof pid, "%d", getpid());
	snprintf(count, sizeof count, "%d", n);
	setenv("LISTEN_PID", pid, 1);
	setenv("LISTEN_FDS", count, 1);
	setenv("LISTEN_FDNAMES", ch->down_names, 1);
}

static void drop_to_user(uid_t uid, gid_t gid)
{
	if (setgroups(1, &gid) < 0 || setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0)
		_exit(1);
}

/* The descriptor was opened by root: the user may not be able to walk to the directory. */
static void execute(int program, const char *path, const char *name)
{
	char *argv[] = {(char *)name, NULL};
	extern char **environ;
	if (program >= 0)
		fexecve(program, argv, environ);
	/* A script cannot start from a descriptor that is closed at exec. */
	if (program < 0 || errno == ENOENT)
		execv(path, argv);
}

static _Noreturn void become_program(const struct up_child *ch, pid_t parent)
{
	char path[PATH_MAX + 64];
	sigset_t none;
	sigemptyset(&none);
	signal(SIGPIPE, SIG_DFL);
	if (ch->group)
		up_group_enter(ch->group);
	/* Leave the terminal's foreground group: Ctrl-C reaches only the supervisor, which stops the programs in order.
	 */
	setpgid(0, 0);
	int null = open("/dev/null", O_RDONLY);
	if (null >= 0)
		dup2(null, 0);
	dup2(2, 1);
	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDS");
	unsetenv("NOTIFY_SOCKET");
	if (ch->down_names)
		hand_down(ch);
	snprintf(path, sizeof path, "%s/%s", cli_bin_dir(), ch->name);
	/* Not before hand_down, which takes the numbers from 3 on. */
	beside_hand_down(cli_bin_dir(), ch->beside);
	int program = open(path, O_RDONLY | O_CLOEXEC);
	if (ch->uid)
		drop_to_user(ch->uid, ch->gid);
	/* After the change of user, which clears this setting. The next line finds a parent that died before it. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	if (ch->uid)
		prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	sigprocmask(SIG_SETMASK, &none, NULL);
	execute(program, path, ch->name);
	log_event(LOG_ERROR, "cannot be started", "program=%s err=%s", path, LOG_Q(strerror(errno)));
	_exit(127);
}

/* ---- in the supervisor ---- */

void up_child_describe(int status, char *ret, size_t n)
{
	if (WIFSIGNALED(status))
		snprintf(ret, n, "killed by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
	else
		snprintf(ret, n, "exit code %d", WEXITSTATUS(status));
}

static void on_ended(struct loop_io *io, uint32_t events);

static int spawn(struct up_child *ch, struct err *e)
{
	pid_t self = getpid(), pid = fork();
	if (pid < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, errno, "starting %s", ch->name);
	if (pid == 0)
		become_program(ch, self);
	ch->pid = pid;
	ch->started = clock_ms();
	ch->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	int r = ch->pidfd < 0 ? -errno : loop_add(ch->loop, &ch->io, ch->pidfd, EPOLLIN, on_ended);
	return r < 0 ? err_os(e, ERRC_INTERNAL_ERROR, -r, "watching %s", ch->name) : 0;
}

static void on_restart(struct loop_timer *t)
{
	struct up_child *ch = container_of(t, struct up_child, timer);
	struct err e;
	if (ch->stopping)
		return;
	if (spawn(ch, &e) < 0) {
		log_event(LOG_ERROR, "cannot restart program", "program=%s err=%s", ch->name, LOG_Q(e.msg));
		loop_timer_set(ch->loop, &ch->timer, UP_BACKOFF_MAX, on_restart);
		return;
	}
	ch->on_change(ch);
}

/* The first restart is immediate, the next ones wait longer and longer; a long run resets the wait. */
static uint64_t next_delay(struct up_child *ch)
{
	if (clock_ms() - ch->started >= UP_QUIET)
		ch->delay = 0;
	uint64_t now = ch->delay;
	ch->delay = now == 0 ? UP_BACKOFF_FIRST : now * 2 > UP_BACKOFF_MAX ? UP_BACKOFF_MAX : now * 2;
	return now;
}

static void on_ended(struct loop_io *io, uint32_t events)
{
	(void)events;
	struct up_child *ch = container_of(io, struct up_child, io);
	if (waitpid(ch->pid, &ch->status, WNOHANG) != ch->pid)
		return;
	loop_del(&ch->io);
	fd_close(&ch->pidfd);
	ch->pid = 0;
	ch->on_change(ch);
	if (!ch->stopping) {
		char how[80];
		uint64_t delay = next_delay(ch);
		up_child_describe(ch->status, how, sizeof how);
		log_event(LOG_WARN, "program ended, restarting it", "program=%s how=%s after_ms=%llu", ch->name,
			LOG_Q(how), (unsigned long long)delay);
		loop_timer_set(ch->loop, &ch->timer, delay, on_restart);
	}
}

int up_child_start(struct up_child *ch, struct loop *l, struct err *e)
{
	ch->loop = l;
	return spawn(ch, e);
}

void up_child_stop(struct up_child *ch, int signo)
{
	ch->stopping = true;
	loop_timer_stop(&ch->timer);
	if (ch->pid)
		kill(ch->pid, signo);
}
