/*
 * The reaper: a process of its own that does what takes long after a box is gone, slowly and with little power. It
 * closes the box's mount namespace, which takes down its mounts, and deletes its files. It sees the trash directory and
 * nothing else, and ends when the warden closes its socket. What it leaves the next one finds.
 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/log.h"
#include "box/caps.h"
#include "box/trash.h"
#include "warden/warden.h"

/* Nice enough to stay behind requests; at 19 a busy machine leaves it so little that the trash grows. */
enum { REAPER_RESTART = 1000, REAPER_STUCK_RETRY = 60000, REAPER_NICE = 5 };
enum { IOPRIO_WHO_PROCESS = 1, IOPRIO_IDLE = 3 << 13 };

/* Takes one message; closing what came with it is the point. 1, 0 when the warden is gone, -1 when there is none. */
static int take_one(int sock, int flags)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} rights = {0};
	char byte;
	struct iovec iov = {&byte, 1};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &rights, .msg_controllen = sizeof rights};
	ssize_t n = recvmsg(sock, &m, MSG_CMSG_CLOEXEC | flags);
	if (n <= 0)
		return n == 0 ? 0 : -1;
	struct cmsghdr *h = CMSG_FIRSTHDR(&m);
	if (h && h->cmsg_type == SCM_RIGHTS) {
		int fd;
		memcpy(&fd, CMSG_DATA(h), sizeof fd);
		close(fd);
	}
	return 1;
}

/* Between two deletions: namespaces hold kernel memory and go first. */
static void take_all(void *arg)
{
	while (take_one(*(int *)arg, MSG_DONTWAIT) > 0)
		;
}

_Noreturn static void reaper_life(int sock)
{
	setpriority(PRIO_PROCESS, 0, REAPER_NICE);
	syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, IOPRIO_IDLE);
	int trash = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct err e;
	if (trash < 0 || caps_bound(CAPS_REAPER, &e) < 0 || caps_limit(CAPS_REAPER, &e) < 0)
		_exit(1);
	for (;;) {
		take_all(&sock);
		unsigned stuck = trash_empty(trash, take_all, &sock);
		struct pollfd p = {.fd = sock, .events = POLLIN};
		if (poll(&p, 1, stuck ? REAPER_STUCK_RETRY : -1) > 0 && take_one(sock, 0) == 0)
			_exit(0);
	}
}

static void reaper_child(struct warden *w, int sock)
{
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	setsid();
	prctl(PR_SET_NAME, "atoll-reaper");
	if (fchdir(w->host.trash) < 0 || chroot(".") < 0 || dup2(sock, STDIN_FILENO) < 0 || sys_close_range(3, ~0u) < 0)
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
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, errno, "make the reaper's socket");
	auto_fd int its_end = ends[0];
	auto_fd int our_end = ends[1];
	struct clone_args a = {
		.flags = CLONE_PIDFD, .pidfd = (uint64_t)(uintptr_t)&w->reaper_pidfd, .exit_signal = SIGCHLD};
	pid_t pid = sys_clone3(&a);
	if (pid == 0)
		reaper_child(w, its_end);
	if (pid < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, errno, "start the reaper");
	int r = loop_add(w->loop, &w->reaper_io, w->reaper_pidfd, EPOLLIN, on_reaper_exit);
	if (r < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, -r, "watch the reaper");
	w->reaper_fd = take_fd(&our_end);
	return 0;
}

/* When its socket is full it has enough to do: the descriptor is closed here, and it looks into the trash anyway. */
void reaper_take(struct warden *w, int fd)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} rights = {0};
	auto_fd int owned = fd;
	struct iovec iov = {"w", 1};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
	if (owned >= 0) {
		m.msg_control = &rights;
		m.msg_controllen = sizeof rights;
		struct cmsghdr *h = CMSG_FIRSTHDR(&m);
		h->cmsg_level = SOL_SOCKET;
		h->cmsg_type = SCM_RIGHTS;
		h->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(h), &owned, sizeof owned);
	}
	if (w->reaper_fd >= 0)
		sendmsg(w->reaper_fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
}
