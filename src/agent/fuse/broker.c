#include "agent/fuse/broker.h"

#include <fcntl.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "agent/agent.h"
#include "agent/fuse/mounts.h"
#include "agent/limits.h"
#include "base/fd.h"
#include "base/fd_pass.h"
#include "base/list.h"
#include "base/log.h"
#include "proto/fuse.h"

/* A program of the box that asks, until it has its reply. An ask of our own has no socket. */
struct asker {
	struct list node; /* of askers */
	struct loop_io io;
	struct loop_timer timer;
	struct loop_task free_task;
	struct ucred who;
	bool asked;   /* `ask` is complete */
	int listener; /* of a call of umount2; -1: none */
	uint64_t id;
	struct fuse_ask ask;
};

static int ring_fd = -1, listen_fd = -1;
static int notices[2] = {-1, -1}; /* from the other thread */
static struct loop_io notices_io;
static struct loop_io listen_io, joiner_io;
static struct loop_timer again;
static struct list askers; /* in the order in which they came */
static unsigned askers_n;
static struct asker *current; /* the joiner works on it; may be NULL while joiner_busy: its asker has left */
static bool joiner_busy;
static struct fuse_ask left; /* what `current` asked for when it left */

static void serve(void);

/* ---- askers ---- */

static void free_asker(struct loop_task *t)
{
	free(container_of(t, struct asker, free_task));
}

static void asker_end(struct asker *a)
{
	list_del(&a->node);
	askers_n--;
	loop_timer_stop(&a->timer);
	if (a->io.loop) {
		int fd = a->io.fd;
		loop_del(&a->io);
		close(fd);
	}
	if (current == a) {
		left = a->ask;
		current = NULL;
	}
	loop_defer(agent.loop, &a->free_task, free_asker);
}

static void asker_reply(struct asker *a, const struct fuse_reply *r, int fd)
{
	if (a->io.loop)
		fd_send(a->io.fd, r, sizeof *r, &fd, fd >= 0 ? 1 : 0, MSG_DONTWAIT);
	if (a->listener >= 0) {
		/* What is no FUSE mount is refused as the kernel refuses it. */
		struct seccomp_notif_resp answer = {.id = a->id, .error = r->error == EINVAL ? -EPERM : -r->error};
		ioctl(a->listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
	}
	asker_end(a);
}

static void asker_fail(struct asker *a, int os, const char *said)
{
	struct fuse_reply r = {.magic = FUSE_MAGIC, .error = os};
	snprintf(r.said, sizeof r.said, "%s", said);
	asker_reply(a, &r, -1);
}

static void on_asker_late(struct loop_timer *t)
{
	struct asker *a = container_of(t, struct asker, timer);
	asker_fail(a, ETIMEDOUT, a->asked ? "the mount was not answered in time" : "no request came");
}

static void on_asker(struct loop_io *io, uint32_t events)
{
	struct asker *a = container_of(io, struct asker, io);
	struct fuse_ask ask;
	(void)events;
	/* With descriptors, or of another size: refused. Bytes after the ask: the program has left, or breaks the
	 * rules. */
	struct fd_record r = {.data = &ask, .size = sizeof ask};
	ssize_t n = fd_recv(io->fd, &r, MSG_DONTWAIT);
	if (n == -EAGAIN)
		return;
	if (a->asked || n != (ssize_t)sizeof ask || !fuse_ask_ok(&ask)) {
		if (!a->asked && n > 0)
			return asker_fail(a, EINVAL, "the request is not understood");
		return asker_end(a);
	}
	a->ask = ask;
	a->ask.uid = a->who.uid;
	a->ask.gid = a->who.gid;
	a->asked = true;
	loop_timer_set(agent.loop, &a->timer, FUSE_WAIT, on_asker_late);
	serve();
}

static struct asker *asker_new(void)
{
	struct asker *a = xcalloc(1, sizeof *a);
	a->listener = -1;
	list_push(&askers, &a->node);
	askers_n++;
	loop_timer_set(agent.loop, &a->timer, FUSE_WAIT, on_asker_late);
	return a;
}

/* The program that asked for a mount has left: nobody serves it. */
static void take_away(const struct fuse_ask *mounted)
{
	struct asker *a = asker_new();
	a->ask = *mounted;
	a->ask.op = FUSE_UNMOUNT;
	a->ask.flags = FUSE_LAZY;
	a->asked = true;
}

/* ---- the joiner ---- */

static void joiner_end(void)
{
	if (!joiner_io.loop)
		return;
	int fd = joiner_io.fd;
	loop_del(&joiner_io);
	close(fd);
	if (current)
		asker_fail(current, EIO, "the mount was broken off");
	joiner_busy = false;
}

static struct asker *next_asker(void)
{
	list_each(it, &askers)
	{
		struct asker *a = list_entry(it, struct asker, node);
		if (a->asked)
			return a;
	}
	return NULL;
}

static void on_again(struct loop_timer *t)
{
	(void)t;
	serve();
}

/* Gives the joiner its next ask; rings for one when there is none. */
static void serve(void)
{
	struct asker *a = joiner_busy ? NULL : next_asker();
	if (joiner_busy)
		return;
	if (joiner_io.loop) {
		if (a && send(joiner_io.fd, &a->ask, sizeof a->ask, MSG_DONTWAIT | MSG_NOSIGNAL) ==
				 (ssize_t)sizeof a->ask) {
			current = a;
			joiner_busy = true;
			return;
		}
		joiner_end();
	}
	if (!a)
		return;
	const uint32_t ring = FUSE_RING;
	/* The warden may be away, or have much to read: it is rung again. */
	ssize_t n = write(ring_fd, &ring, sizeof ring);
	loop_timer_set(agent.loop, &again, n < 0 ? FUSE_AGAIN : FUSE_AGAIN * 4, on_again);
}

static void on_joiner(struct loop_io *io, uint32_t events)
{
	(void)events;
	struct fuse_reply reply;
	int fd = -1;
	struct fd_record r = {.data = &reply, .size = sizeof reply, .fds = &fd, .fds_max = 1};
	ssize_t n = fd_recv(io->fd, &r, MSG_DONTWAIT);
	if (n == -EAGAIN)
		return;
	if (n != (ssize_t)sizeof reply || reply.magic != FUSE_MAGIC || !joiner_busy) {
		fd_close(&fd);
		joiner_end();
		return serve();
	}
	joiner_busy = false;
	struct asker *a = current;
	current = NULL;
	fuse_mounts_begin();
	if (a)
		asker_reply(a, &reply, fd);
	else if (left.op == FUSE_MOUNT && !reply.error)
		take_away(&left);
	fd_close(&fd);
	serve();
}

/* ---- calls of umount2 ---- */

static void on_notice(struct loop_io *io, uint32_t events)
{
	(void)events;
	struct fuse_notice n;
	if (recv(io->fd, &n, sizeof n, MSG_DONTWAIT) != (ssize_t)sizeof n)
		return;
	struct asker *a = asker_new();
	a->listener = n.listener;
	a->id = n.id;
	a->ask = (struct fuse_ask){.magic = FUSE_MAGIC, .op = FUSE_UNMOUNT, .flags = n.lazy ? FUSE_LAZY : 0};
	snprintf(a->ask.path, sizeof a->ask.path, "%s", n.path);
	a->asked = true;
	if (askers_n > FUSE_ASKERS_MAX)
		return asker_fail(a, EBUSY, "");
	serve();
}

bool fuse_broker_pass(const struct fuse_notice *n)
{
	return notices[1] >= 0 && send(notices[1], n, sizeof *n, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)sizeof *n;
}

/* ---- connections ---- */

static void take_joiner(int fd)
{
	joiner_end();
	if (loop_add(agent.loop, &joiner_io, fd, EPOLLIN, on_joiner) < 0)
		close(fd);
	serve();
}

static void take_asker(int fd, const struct ucred *who)
{
	if (askers_n >= FUSE_ASKERS_MAX) {
		close(fd);
		return;
	}
	struct asker *a = asker_new();
	a->who = *who;
	fd_refuse_rights(fd);
	if (loop_add(agent.loop, &a->io, fd, EPOLLIN, on_asker) < 0) {
		close(fd);
		asker_end(a);
	}
}

static void on_listen(struct loop_io *io, uint32_t events)
{
	(void)events;
	int fd = accept4(io->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct ucred who = {.pid = -1};
	socklen_t n = sizeof who;
	if (fd < 0)
		return;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n) < 0 || who.pid < 0)
		close(fd);
	else if (who.pid == 0)
		take_joiner(fd);
	else
		take_asker(fd, &who);
}

void fuse_broker_init(int ask_fd)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	memcpy(sa.sun_path, FUSE_SOCKET, sizeof FUSE_SOCKET - 1);
	socklen_t n = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + sizeof FUSE_SOCKET - 1);
	list_init(&askers);
	ring_fd = ask_fd < 0 ? -1 : fcntl(ask_fd, F_DUPFD_CLOEXEC, 64);
	listen_fd = ring_fd < 0 ? -1 : socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (listen_fd < 0 || bind(listen_fd, (struct sockaddr *)&sa, n) < 0 || listen(listen_fd, FUSE_ASKERS_MAX) < 0 ||
		loop_add(agent.loop, &listen_io, listen_fd, EPOLLIN, on_listen) < 0) {
		log_event(LOG_WARN, "no FUSE mounts in this box", "reason=%s", LOG_Q(strerror(errno)));
		fd_close(&listen_fd);
		return;
	}
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, notices) < 0 ||
		loop_add(agent.loop, &notices_io, notices[0], EPOLLIN, on_notice) < 0)
		log_event(LOG_WARN, "umount does not reach FUSE mounts", "reason=%s", LOG_Q(strerror(errno)));
}
