#include "warden/storage/storer.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/fd_pass.h"
#include "base/log.h"
#include "cage/caps.h"
#include "warden/limits.h"
#include "warden/storage/storage.h"
#include "warden/warden.h"

enum { RESTART_MS = 1000 };

/* ---- the storer's life ---- */

struct child {
	pid_t pid;
	uint64_t ticket; /* 0: nobody waits for it */
};

struct life {
	struct storer_view view;
	struct pool pool;
	struct child children[STORER_JOBS];
	unsigned running;
	uint64_t free_before;
	bool growing;
};

static void report(uint64_t ticket, int os)
{
	struct storer_done d = {.ticket = ticket, .os = os};
	if (ticket)
		send(STORER_FD_SOCK, &d, sizeof d, MSG_NOSIGNAL);
}

static struct child *free_place(struct life *l)
{
	for (size_t i = 0; i < STORER_JOBS; i++)
		if (!l->children[i].pid)
			return &l->children[i];
	return NULL;
}

/* In the child: `job` NULL means growth. */
_Noreturn static void child_life(struct life *l, const struct storer_job *job, int fd, pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	l->pool.last_group += (uint64_t)getpid() << 8; /* far from those that the warden counts */
	if (!job) {
		int r = pool_grow_slow(&l->pool);
		pool_prepare_slow(&l->pool);
		pool_brake_join_all_slow(&l->pool);
		pool_sweep_groups_slow(&l->pool);
		_exit(r < 0);
	}
	report(job->ticket, storer_run(&l->view, job, fd));
	_exit(0);
}

static bool spawn(struct life *l, const struct storer_job *job, int fd)
{
	struct child *c = free_place(l);
	pid_t parent = getpid();
	pid_t pid = c ? fork() : -1;
	if (pid == 0)
		child_life(l, job, fd, parent);
	if (pid < 0)
		return false;
	*c = (struct child){pid, job ? job->ticket : 0};
	l->running++;
	return true;
}

static void cancel(struct life *l, uint64_t ticket)
{
	for (size_t i = 0; i < STORER_JOBS; i++)
		if (l->children[i].pid && l->children[i].ticket == ticket)
			kill(l->children[i].pid, SIGKILL);
}

static void reap(struct life *l)
{
	int status = 0;
	pid_t pid;
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		for (size_t i = 0; i < STORER_JOBS; i++) {
			struct child *c = &l->children[i];
			if (c->pid != pid)
				continue;
			if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
				report(c->ticket, WIFSIGNALED(status) ? ECANCELED : EIO);
			l->growing = l->growing && c->ticket;
			*c = (struct child){0};
			l->running--;
		}
}

/* False when the warden is gone. */
static bool take_job(struct life *l)
{
	struct storer_job job = {0};
	int fd = -1;
	struct fd_record r = {.data = &job, .size = sizeof job, .fds = &fd, .fds_max = 1};
	if (fd_recv(STORER_FD_SOCK, &r, 0) != (ssize_t)sizeof job)
		return false;
	if (job.kind == STORER_CANCEL)
		cancel(l, job.other);
	else if (!spawn(l, &job, r.fds_n ? fd : -1))
		report(job.ticket, EAGAIN);
	fd_record_close(&r);
	return true;
}

/* How long until the next look at the free space: soon while it changes. */
static int look_at_space(struct life *l)
{
	bool near = pool_brake_look(&l->pool);
	uint64_t now = pool_free(&l->pool);
	bool changes = now != l->free_before;
	l->free_before = now;
	if (!l->growing && pool_wants_growth(&l->pool))
		l->growing = spawn(l, NULL, -1);
	return near ? POOL_LOOK_NEAR : changes ? POOL_LOOK_BUSY : POOL_LOOK_IDLE;
}

_Noreturn static void storer_life(struct life *l)
{
	sigset_t chld;
	struct err e;
	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	sigprocmask(SIG_BLOCK, &chld, NULL);
	int sfd = signalfd(-1, &chld, SFD_CLOEXEC | SFD_NONBLOCK);
	prctl(PR_SET_NAME, "atoll-storer");
	if (sfd < 0 || caps_bound(CAPS_STORER, &e) < 0 || caps_limit(CAPS_STORER, &e) < 0)
		_exit(1);
	l->growing = spawn(l, NULL, -1); /* a growth that was interrupted */
	for (;;) {
		int wait = look_at_space(l);
		struct pollfd p[2] = {{.fd = sfd, .events = POLLIN},
			{.fd = l->running < STORER_JOBS ? STORER_FD_SOCK : -1, .events = POLLIN}};
		struct signalfd_siginfo si;
		if (poll(p, 2, wait) < 0 && errno != EINTR)
			_exit(1);
		while (read(sfd, &si, sizeof si) == (ssize_t)sizeof si)
			;
		reap(l);
		if (p[1].revents && !take_job(l))
			_exit(0);
	}
}

static int by_number(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

/* Closes all but these and the standard ones. */
static void close_all_but(int *keep, size_t n)
{
	unsigned from = 3;
	qsort(keep, n, sizeof *keep, by_number);
	for (size_t i = 0; i < n; i++) {
		if (keep[i] < (int)from)
			continue;
		if ((unsigned)keep[i] > from)
			sys_close_range(from, (unsigned)keep[i] - 1);
		from = (unsigned)keep[i] + 1;
	}
	sys_close_range(from, ~0u);
}

_Noreturn static void become_storer(struct storer *s, int sock)
{
	struct warden *w = s->w;
	const struct pool *p = &w->pool;
	int keep[] = {p->root, p->boxes, p->snapshots, p->making, p->debts, p->trash, p->groups, p->file, p->device,
		w->plain_boxes, w->plain_trash, w->host.images, w->background};
	static struct life l;
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	setsid();
	int empty = open("/box/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fchdir(empty) < 0 || chroot(".") < 0 || dup2(sock, STORER_FD_SOCK) < 0 || dup2(s->lock, STORER_FD_LOCK) < 0)
		_exit(1);
	close_all_but(keep, ARRAY_LEN(keep));
	l.pool = *p;
	l.view = (struct storer_view){&l.pool, w->plain_boxes, w->plain_trash, w->host.images, w->background};
	storer_life(&l);
}

/* ---- the warden's side ---- */

struct ask {
	struct storer_job job;
	int fd;
	storer_on_done on_done;
	void *arg;
	struct list node;
};

/* It is in no list any more. */
static void ask_end(struct ask *a, int os)
{
	fd_close(&a->fd);
	if (a->on_done)
		a->on_done(a->arg, os);
	free(a);
}

static size_t under_way(struct storer *s, bool (*is_such)(enum storer_kind kind))
{
	size_t n = 0;
	list_each(it, &s->waiting)
	{
		n += is_such(list_entry(it, struct ask, node)->job.kind);
	}
	return n;
}

static bool is_count(enum storer_kind kind)
{
	return kind == STORER_RECOUNT;
}

/* These last as long as a box or a client likes. */
static bool is_long(enum storer_kind kind)
{
	return kind == STORER_SEND || kind == STORER_RECEIVE || kind == STORER_DIFF;
}

/* Counts run one at a time. Places are left for snapshots and restores, whatever else there is to do. */
static bool may_begin(struct storer *s, const struct ask *a)
{
	if (is_count(a->job.kind))
		return under_way(s, is_count) == 0;
	return !is_long(a->job.kind) || under_way(s, is_long) < STORER_LONG_JOBS;
}

static bool storer_send(struct storer *s, struct ask *a)
{
	if (fd_send(s->sock, &a->job, sizeof a->job, &a->fd, a->fd >= 0, MSG_DONTWAIT) < 0)
		return false;
	list_del(&a->node);
	fd_close(&a->fd);
	if (a->job.kind == STORER_CANCEL)
		ask_end(a, 0);
	else
		list_push(&s->waiting, &a->node);
	return true;
}

static void storer_flush(struct storer *s)
{
	bool full = false;
	list_each(it, &s->unsent)
	{
		struct ask *a = list_entry(it, struct ask, node);
		if (s->sock < 0 || full)
			break;
		if (may_begin(s, a))
			full = !storer_send(s, a);
	}
	if (s->sock_io.loop)
		loop_set_events(&s->sock_io, full ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

static void on_report(struct storer *s, const struct storer_done *d)
{
	// NOLINTNEXTLINE(clang-analyzer-unix.Malloc): what is freed has been taken out of the list
	list_each(it, &s->waiting)
	{
		struct ask *a = list_entry(it, struct ask, node);
		if (a->job.ticket != d->ticket)
			continue;
		list_del(&a->node);
		return ask_end(a, d->os);
	}
}

static void on_says(struct loop_io *io, uint32_t events)
{
	struct storer *s = container_of(io, struct storer, sock_io);
	struct storer_done d = {0};
	while (s->sock >= 0 && recv(s->sock, &d, sizeof d, MSG_DONTWAIT) == (ssize_t)sizeof d)
		on_report(s, &d);
	storer_flush(s); /* there may be room in the socket, or a place */
	if (events & (EPOLLHUP | EPOLLERR))
		loop_del(io); /* on_exit_storer follows */
}

static void on_counted(void *arg, int os);

/* Debts become smaller as forks delete files that they were given: counts them all, a while after the last time. */
static void count_debts(struct loop_timer *t)
{
	struct storer *s = container_of(t, struct storer, debts);
	if (!s->w->uncounted)
		storage_note_counting(s->w, EINPROGRESS);
	storer_ask(s->w, &(struct storer_job){.kind = STORER_RECOUNT}, -1, on_counted, s);
}

static void on_counted(void *arg, int os)
{
	struct storer *s = arg;
	storage_note_counting(s->w, os);
	loop_timer_set(s->w->loop, &s->debts, DEBT_LOOK, count_debts);
}

static void restart(struct loop_timer *t)
{
	struct storer *s = container_of(t, struct storer, timer);
	struct err e;
	storage_recover(s->w); /* what its jobs left half-made; they died with it */
	reaper_wake(s->w);
	if (storer_start(s->w, &e) < 0) {
		log_event(LOG_ERROR, "cannot start the storer", "error=%s", LOG_Q(e.msg));
		loop_timer_set(s->w->loop, t, RESTART_MS, restart);
	}
}

static void on_exit_storer(struct loop_io *io, uint32_t events)
{
	(void)events;
	struct storer *s = container_of(io, struct storer, exit_io);
	waitid(P_PIDFD, (id_t)s->pidfd, &(siginfo_t){0}, WEXITED | WNOHANG);
	loop_del(&s->exit_io);
	loop_del(&s->sock_io);
	fd_close(&s->pidfd);
	fd_close(&s->sock);
	log_event(LOG_WARN, "the storer ended", "restart_ms=%d", RESTART_MS);
	while (!list_empty(&s->waiting))
		ask_end(list_entry(list_pop(&s->waiting), struct ask, node), EIO);
	loop_timer_set(s->w->loop, &s->timer, RESTART_MS, restart);
}

void storer_init(struct warden *w)
{
	w->storer = (struct storer){.w = w, .sock = -1, .pidfd = -1, .lock = -1};
	list_init(&w->storer.unsent);
	list_init(&w->storer.waiting);
}

int storer_lock(struct warden *w, struct err *e)
{
	struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	if (w->pool.kind == POOL_PLAIN)
		return 0;
	auto_fd int fd = open("/run/storer.lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	while (fd >= 0 && fcntl(fd, F_OFD_SETLKW, &whole) < 0)
		if (errno != EINTR)
			return err_os(e, ERRC_INTERNAL_ERROR, errno, "lock storer.lock");
	w->storer.lock = take_fd(&fd);
	return w->storer.lock < 0 ? err_os(e, ERRC_INTERNAL_ERROR, errno, "open storer.lock") : 0;
}

int storer_start(struct warden *w, struct err *e)
{
	struct storer *s = &w->storer;
	int ends[2];
	if (w->pool.kind == POOL_PLAIN)
		return 0;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, errno, "make the storer's socket");
	auto_fd int its_end = ends[0];
	auto_fd int our_end = ends[1];
	struct clone_args a = {.flags = CLONE_PIDFD, .pidfd = (uint64_t)(uintptr_t)&s->pidfd, .exit_signal = SIGCHLD};
	pid_t pid = sys_clone3(&a);
	if (pid == 0)
		become_storer(s, its_end);
	if (pid < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, errno, "start the storer");
	int r = loop_add(w->loop, &s->exit_io, s->pidfd, EPOLLIN, on_exit_storer);
	if (r == 0)
		r = loop_add(w->loop, &s->sock_io, our_end, EPOLLIN, on_says);
	if (r < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, -r, "watch the storer");
	s->sock = take_fd(&our_end);
	if (!s->counts)
		on_counted(s, 0);
	s->counts = true;
	storer_flush(s);
	return 0;
}

uint64_t storer_ask(struct warden *w, const struct storer_job *job, int fd, storer_on_done on_done, void *arg)
{
	struct ask *a = xcalloc(1, sizeof *a);
	a->job = *job;
	a->job.ticket = ++w->storer.last_ticket;
	a->fd = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 3);
	a->on_done = on_done;
	a->arg = arg;
	list_push(&w->storer.unsent, &a->node);
	uint64_t ticket = a->job.ticket;
	storer_flush(&w->storer);
	return ticket;
}
