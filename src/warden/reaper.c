/*
 * Two helper processes do the slow clean-up after a box, so that the loop never does. A box decides how slow it is: the
 * end of a mount namespace frees every file in the box's memory-backed mounts, and a layer holds as many
 * files as the box has written.
 *
 *	closer  closes descriptors of mounts and mount namespaces, in the order they come, and reports those with a
 *		ticket (closing.c). Sees an empty directory.
 *	reaper  deletes the files in the trash, slowly and with low priority. Sees the trash directory and nothing else.
 *		The trash of the pool, of plain directories and of staging.h have one each.
 *
 * They are apart because a box that is started again on its files waits for the closer, and the deletion of one large
 * file can take seconds. Both end when the warden closes its socket; the next reaper finds the files that are left.
 *
 * The kernel frees the mounts in the process that closes their last descriptor. That must be the closer: it closes a
 * descriptor when the warden has said that its own copy is closed (confirm).
 *
 * Descriptors that the closer's socket cannot take yet wait in a list. Past WARDEN_CLOSING_MAX of them no more slots
 * are prepared, so creates slow down instead of memory growing.
 *
 * The closer holds a lock on closer.lock as long as it lives. A warden that starts waits for it: mounts that the closer
 * of a killed warden has not taken down yet must not meet new mounts of the same layer.
 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "base/fd_pass.h"
#include "base/log.h"
#include "cage/caps.h"
#include "cage/trash.h"
#include "warden/closing.h"
#include "warden/limits.h"
#include "warden/warden.h"

/* Low enough to stay behind requests. At 19 a busy machine leaves the reaper so little time that the trash grows. */
enum { REAPER_RESTART = 1000, REAPER_STUCK_RETRY = 60000, REAPER_NICE = 5 };
enum { IOPRIO_WHO_PROCESS = 1, IOPRIO_IDLE = 3 << 13 };
enum { FD_SOCK = 0, FD_LOCK = 1, FD_KEPT = 3 };

/* A descriptor on its way to the closer. */
struct handover {
	int fd;
	uint64_t ticket; /* 0: no report */
	struct list node;
};

/* ---- the closer's life ---- */

/* Takes one descriptor, waits until the warden has closed its copy, and closes it: that returns when the mounts behind
 * it are gone. False when the warden is gone. */
static bool close_one(void)
{
	uint64_t ticket;
	char word;
	int fd;
	struct fd_record r = {.data = &ticket, .size = sizeof ticket, .fds = &fd, .fds_max = 1};
	if (fd_recv(FD_SOCK, &r, 0) != (ssize_t)sizeof ticket ||
		fd_recv(FD_SOCK, &(struct fd_record){.data = &word, .size = sizeof word}, 0) <= 0)
		return false;
	fd_record_close(&r);
	if (ticket)
		send(FD_SOCK, &ticket, sizeof ticket, MSG_NOSIGNAL);
	return true;
}

_Noreturn static void closer_life(void)
{
	struct err e;
	prctl(PR_SET_NAME, "atoll-closer");
	if (caps_bound(0, &e) < 0 || caps_limit(0, &e) < 0)
		_exit(1);
	while (close_one())
		;
	_exit(0);
}

/* ---- the reaper's life ---- */

/* Reads the wake-ups that have come. False when the warden is gone. */
static bool drain_wakes(void)
{
	char byte;
	ssize_t n;
	while ((n = recv(FD_SOCK, &byte, 1, MSG_DONTWAIT)) > 0)
		;
	return n != 0;
}

_Noreturn static void reaper_life(void)
{
	prctl(PR_SET_NAME, "atoll-reaper");
	setpriority(PRIO_PROCESS, 0, REAPER_NICE);
	syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, IOPRIO_IDLE);
	int trash = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct err e;
	if (trash < 0 || caps_bound(CAPS_REAPER, &e) < 0 || caps_limit(CAPS_REAPER, &e) < 0)
		_exit(1);
	while (drain_wakes()) {
		unsigned stuck = trash_empty(trash);
		poll(&(struct pollfd){.fd = FD_SOCK, .events = POLLIN}, 1, stuck ? REAPER_STUCK_RETRY : -1);
	}
	_exit(0);
}

/* ---- the warden's side: start ---- */

_Noreturn static void helper_child(const struct helper *h, int sock, int lock)
{
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	setsid();
	int in = h->is_closer ? open("/box/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : h->trash;
	if (fchdir(in) < 0 || chroot(".") < 0 || dup2(sock, FD_SOCK) < 0)
		_exit(1);
	if (h->is_closer ? dup2(lock, FD_LOCK) < 0 : close(FD_LOCK) < 0)
		_exit(1);
	if (sys_close_range(FD_KEPT, ~0u) < 0)
		_exit(1);
	if (h->is_closer)
		closer_life();
	reaper_life();
}

/* The lock of the closer. Waits for the end of a closer that the warden before us has left. -1 and errno. */
static int lock_closer(void)
{
	auto_fd int fd = open("/run/closer.lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	while (fd >= 0 && fcntl(fd, F_OFD_SETLKW, &whole) < 0)
		if (errno != EINTR)
			return -1;
	return take_fd(&fd);
}

static void helper_flush(struct helper *h);
static int helper_start(struct helper *h, struct err *e);

/* The closer reports tickets. */
static void on_helper_says(struct loop_io *io, uint32_t events)
{
	struct helper *h = container_of(io, struct helper, sock_io);
	uint64_t ticket;
	if (events & EPOLLOUT)
		helper_flush(h);
	while (h->sock >= 0 && recv(h->sock, &ticket, sizeof ticket, MSG_DONTWAIT) == (ssize_t)sizeof ticket)
		closing_done(h->w, ticket);
	if (events & (EPOLLHUP | EPOLLERR))
		loop_del(io); /* on_helper_exit follows */
}

static void helper_restart(struct loop_timer *t)
{
	struct helper *h = container_of(t, struct helper, timer);
	struct err e;
	if (helper_start(h, &e) < 0) {
		log_event(LOG_ERROR, "cannot start a helper", "error=%s", LOG_Q(e.msg));
		loop_timer_set(h->w->loop, t, REAPER_RESTART, helper_restart);
	}
}

static void on_helper_exit(struct loop_io *io, uint32_t events)
{
	(void)events;
	struct helper *h = container_of(io, struct helper, exit_io);
	waitid(P_PIDFD, (id_t)h->pidfd, &(siginfo_t){0}, WEXITED | WNOHANG);
	loop_del(&h->exit_io);
	loop_del(&h->sock_io);
	fd_close(&h->pidfd);
	fd_close(&h->sock);
	h->unconfirmed = false;
	/* Its end has closed all its descriptors, also those in its socket. */
	if (h->is_closer)
		closing_done_upto(h->w, h->sent_upto);
	log_event(LOG_WARN, h->is_closer ? "the closer ended" : "the reaper ended", "restart_ms=%d", REAPER_RESTART);
	loop_timer_set(h->w->loop, &h->timer, REAPER_RESTART, helper_restart);
}

static int helper_start(struct helper *h, struct err *e)
{
	int ends[2];
	auto_fd int lock = h->is_closer ? lock_closer() : -1;
	if (h->is_closer && lock < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, errno, "lock closer.lock");
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, errno, "make the reaper's socket");
	auto_fd int its_end = ends[0];
	auto_fd int our_end = ends[1];
	struct clone_args a = {.flags = CLONE_PIDFD, .pidfd = (uint64_t)(uintptr_t)&h->pidfd, .exit_signal = SIGCHLD};
	pid_t pid = sys_clone3(&a);
	if (pid == 0)
		helper_child(h, its_end, lock);
	if (pid < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, errno, "start the reaper");
	int r = loop_add(h->w->loop, &h->exit_io, h->pidfd, EPOLLIN, on_helper_exit);
	if (r == 0)
		r = loop_add(h->w->loop, &h->sock_io, our_end, EPOLLIN, on_helper_says);
	if (r < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, -r, "watch the reaper");
	h->sock = take_fd(&our_end);
	helper_flush(h);
	return 0;
}

void reaper_init(struct warden *w)
{
	w->reaper = (struct helper){.w = w, .sock = -1, .pidfd = -1};
	w->plain_reaper = w->staging_reaper = w->reaper;
	w->closer = (struct helper){.w = w, .sock = -1, .pidfd = -1, .is_closer = true};
	list_init(&w->reaper.queue);
	list_init(&w->plain_reaper.queue);
	list_init(&w->staging_reaper.queue);
	list_init(&w->closer.queue);
	list_init(&w->closings);
}

int reaper_start(struct warden *w, struct err *e)
{
	w->reaper.trash = w->host.trash;
	w->plain_reaper.trash = w->plain_trash;
	w->staging_reaper.trash = w->images.staging.trash;
	if (helper_start(&w->closer, e) < 0 || helper_start(&w->reaper, e) < 0 ||
		(w->images.usable && helper_start(&w->staging_reaper, e) < 0))
		return -1;
	return w->plain_trash != w->host.trash ? helper_start(&w->plain_reaper, e) : 0;
}

/* ---- the warden's side: work ---- */

static int hand_over(struct helper *h, const struct handover *it)
{
	return fd_send(h->sock, &it->ticket, sizeof it->ticket, &it->fd, 1, MSG_DONTWAIT) < 0 ? -1 : 0;
}

bool reaper_behind(const struct warden *w)
{
	return w->closer.queued >= WARDEN_CLOSING_MAX;
}

/* Tells the closer that our copy is closed. False: its socket is full. */
static bool confirm(struct helper *h)
{
	if (h->unconfirmed && send(h->sock, "c", 1, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		return false;
	h->unconfirmed = false;
	return true;
}

/* Sends the descriptors that wait. The closer closes its copy after ours is closed, so ours is never the last one. */
static void helper_flush(struct helper *h)
{
	bool behind = reaper_behind(h->w);
	while (h->sock >= 0 && confirm(h) && !list_empty(&h->queue)) {
		struct handover *it = list_entry(h->queue.next, struct handover, node);
		if (hand_over(h, it) < 0)
			break;
		if (it->ticket)
			h->sent_upto = it->ticket;
		list_pop(&h->queue);
		h->queued--;
		fd_close(&it->fd);
		h->unconfirmed = true;
		free(it);
	}
	bool waits = h->unconfirmed || !list_empty(&h->queue);
	if (h->sock_io.loop)
		loop_set_events(&h->sock_io, waits ? EPOLLIN | EPOLLOUT : EPOLLIN);
	if (behind && !reaper_behind(h->w))
		pool_kick(h->w);
}

void reaper_close(struct warden *w, int fd, uint64_t ticket)
{
	if (fd < 0)
		return;
	struct handover *it = xcalloc(1, sizeof *it);
	it->fd = fd;
	it->ticket = ticket;
	list_push(&w->closer.queue, &it->node);
	w->closer.queued++;
	helper_flush(&w->closer);
}

/* A full socket needs no more: the reaper has wake-ups to read and looks into the trash after them. */
void reaper_wake(struct warden *w)
{
	const int socks[] = {w->reaper.sock, w->plain_reaper.sock, w->staging_reaper.sock};
	for (size_t i = 0; i < ARRAY_LEN(socks); i++)
		if (socks[i] >= 0)
			send(socks[i], "w", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}
