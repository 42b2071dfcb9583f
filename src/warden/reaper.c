/*
 * The reaper: a process of its own that deletes the files of destroyed boxes, slowly and with little power. It sees
 * the trash directory and nothing else, and ends when the warden closes its pipe. What it leaves the next one finds.
 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/log.h"
#include "box/caps.h"
#include "box/trash.h"
#include "warden/warden.h"

enum { REAPER_RESTART = 1000, REAPER_STUCK_RETRY = 60000 };
enum { IOPRIO_WHO_PROCESS = 1, IOPRIO_IDLE = 3 << 13 };

_Noreturn static void reaper_life(int pipe_fd)
{
	setpriority(PRIO_PROCESS, 0, 19);
	syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, IOPRIO_IDLE);
	int trash = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct err e;
	if (trash < 0 || caps_bound(CAPS_REAPER, &e) < 0 || caps_limit(CAPS_REAPER, &e) < 0)
		_exit(1);
	for (unsigned stuck = 0;;) {
		stuck = trash_empty(trash);
		struct pollfd p = {.fd = pipe_fd, .events = POLLIN};
		char wakes[256];
		poll(&p, 1, stuck ? REAPER_STUCK_RETRY : -1);
		ssize_t n = read(pipe_fd, wakes, sizeof wakes);
		if (n == 0)
			_exit(0);
	}
}

static void reaper_child(struct warden *w, int pipe_fd)
{
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	setsid();
	prctl(PR_SET_NAME, "atoll-reaper");
	if (fchdir(w->host.trash) < 0 || chroot(".") < 0 || dup2(pipe_fd, STDIN_FILENO) < 0 ||
		sys_close_range(3, ~0u) < 0)
		_exit(1);
	reaper_life(STDIN_FILENO);
}

static void restart(struct loop_timer *t)
{
	struct warden *w = container_of(t, struct warden, reaper_timer);
	struct err e;
	if (reaper_start(w, &e) < 0) {
		log_event(LOG_ERROR, "cannot start the reaper", "error=%s", LOG_Q(e.msg));
		loop_timer_set(w->loop, t, REAPER_RESTART, restart);
	}
}

static void on_reaper_exit(struct loop_io *io, uint32_t events)
{
	(void)events;
	struct warden *w = container_of(io, struct warden, reaper_io);
	waitid(P_PIDFD, (id_t)w->reaper_pidfd, &(siginfo_t){0}, WEXITED | WNOHANG);
	loop_del(io);
	fd_close(&w->reaper_pidfd);
	fd_close(&w->reaper_fd);
	log_event(LOG_WARN, "the reaper ended", "restart_ms=%d", REAPER_RESTART);
	loop_timer_set(w->loop, &w->reaper_timer, REAPER_RESTART, restart);
}

int reaper_start(struct warden *w, struct err *e)
{
	int ends[2];
	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, errno, "make the reaper's pipe");
	auto_fd int read_end = ends[0];
	auto_fd int write_end = ends[1];
	struct clone_args a = {
		.flags = CLONE_PIDFD, .pidfd = (uint64_t)(uintptr_t)&w->reaper_pidfd, .exit_signal = SIGCHLD};
	pid_t pid = sys_clone3(&a);
	if (pid == 0)
		reaper_child(w, read_end);
	if (pid < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, errno, "start the reaper");
	int r = loop_add(w->loop, &w->reaper_io, w->reaper_pidfd, EPOLLIN, on_reaper_exit);
	if (r < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, -r, "watch the reaper");
	w->reaper_fd = take_fd(&write_end);
	return 0;
}

/* A full pipe means that it will look anyway. */
void reaper_wake(struct warden *w)
{
	ssize_t ignored = w->reaper_fd >= 0 ? write(w->reaper_fd, "w", 1) : 0;
	(void)ignored;
}
