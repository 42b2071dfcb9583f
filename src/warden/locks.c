#include "warden/locks.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "base/log.h"
#include "warden/locks_look.h"
#include "warden/warden.h"

enum { LOCKS_RESTART = 1000, FD_SOCK = 3 };

static int locks_start(struct lock_watch *l, struct err *e);

static void end_box(struct warden *w, const struct locks_report *r)
{
	list_each(it, &w->slots)
	{
		const struct warden_slot *c = list_entry(it, struct warden_slot, node);
		if (c->slot.number != r->slot || !c->box || c->stage != SLOT_TAKEN)
			continue;
		log_event(LOG_WARN,
			r->all ? "sandbox ended: all hold too many file locks, and it holds most"
			       : "sandbox ended: it holds too many file locks",
			"id=%s locks=%u max=%u", LOG_Q(c->box->info.id), r->locks, r->all ? LOCKS_ALL : LOCKS_MAX);
		cgroup_kill(&w->cgroups, r->slot);
		return;
	}
}

static void on_report(struct loop_io *io, uint32_t events)
{
	struct lock_watch *l = container_of(io, struct lock_watch, sock_io);
	struct locks_report r;
	while (recv(io->fd, &r, sizeof r, MSG_DONTWAIT) == (ssize_t)sizeof r)
		end_box(l->w, &r);
	if (events & (EPOLLHUP | EPOLLERR))
		loop_del(io); /* on_looker_exit follows */
}

static void locks_restart(struct loop_timer *t)
{
	struct lock_watch *l = container_of(t, struct lock_watch, timer);
	struct err e;
	if (locks_start(l, &e) < 0) {
		log_event(LOG_ERROR, "cannot watch file locks", "error=%s", LOG_Q(e.msg));
		loop_timer_set(l->w->loop, t, LOCKS_RESTART, locks_restart);
	}
}

static void on_looker_exit(struct loop_io *io, uint32_t events)
{
	(void)events;
	struct lock_watch *l = container_of(io, struct lock_watch, exit_io);
	waitid(P_PIDFD, (id_t)l->pidfd, &(siginfo_t){0}, WEXITED | WNOHANG);
	loop_del(&l->exit_io);
	loop_del(&l->sock_io);
	fd_close(&l->pidfd);
	fd_close(&l->sock);
	log_event(LOG_WARN, "the watch of file locks ended", "restart_ms=%d", LOCKS_RESTART);
	loop_timer_set(l->w->loop, &l->timer, LOCKS_RESTART, locks_restart);
}

_Noreturn static void looker_child(const struct lock_watch *l, int sock)
{
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	setsid();
	if (dup2(sock, FD_SOCK) < 0 || sys_close_range(FD_SOCK + 1, ~0u) < 0)
		_exit(1);
	locks_look_life(FD_SOCK, l->w->cgroups.name, l->table);
}

static int locks_start(struct lock_watch *l, struct err *e)
{
	int ends[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, errno, "make the socket of the watch of file locks");
	auto_fd int its_end = ends[0];
	auto_fd int our_end = ends[1];
	struct clone_args a = {.flags = CLONE_PIDFD, .pidfd = (uint64_t)(uintptr_t)&l->pidfd, .exit_signal = SIGCHLD};
	pid_t pid = sys_clone3(&a);
	if (pid == 0)
		looker_child(l, its_end);
	if (pid < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, errno, "start the watch of file locks");
	int r = loop_add(l->w->loop, &l->exit_io, l->pidfd, EPOLLIN, on_looker_exit);
	if (r == 0)
		r = loop_add(l->w->loop, &l->sock_io, our_end, EPOLLIN, on_report);
	if (r < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, -r, "watch the watch of file locks");
	l->sock = take_fd(&our_end);
	return 0;
}

void locks_box_started(struct warden *w, const struct slot *s)
{
	struct locks_table *t = w->locks.table;
	for (size_t i = 0; t && i < ARRAY_LEN(t->boxes); i++) {
		struct locks_box *b = &t->boxes[i];
		if (atomic_load(&b->serial))
			continue;
		b->slot = s->number;
		b->pid = s->pid;
		b->start_time = s->start_time;
		atomic_store(&b->serial, ++t->serials);
		return;
	}
}

void locks_box_ended(struct warden *w, const struct slot *s)
{
	struct locks_table *t = w->locks.table;
	for (size_t i = 0; t && i < ARRAY_LEN(t->boxes); i++)
		if (t->boxes[i].slot == s->number)
			atomic_store(&t->boxes[i].serial, 0);
}

int locks_watch(struct warden *w, struct err *e)
{
	struct locks_table *t = mmap(NULL, sizeof *t, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (t == MAP_FAILED)
		return err_os(e, ERRC_INTERNAL_ERROR, errno, "share memory with the watch of file locks");
	w->locks = (struct lock_watch){.w = w, .sock = -1, .pidfd = -1, .table = t};
	list_each(it, &w->slots)
	{
		const struct warden_slot *c = list_entry(it, struct warden_slot, node);
		if (c->stage == SLOT_TAKEN)
			locks_box_started(w, &c->slot);
	}
	return locks_start(&w->locks, e);
}
