/*
 * The cgroups of the gate and of the daemon. Only the warden knows the hierarchies, so it opens the groups and sends
 * descriptors (proto/groups.h); each program enters its groups before it becomes what it is, so that all memory and
 * all sockets that it makes are counted there. The descriptors stay here: a program that is restarted while the warden
 * is away enters the same groups.
 */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/fd_pass.h"
#include "base/log.h"
#include "cli/up/up.h"

static void close_group(struct up_group *g)
{
	while (g->n)
		fd_close(&g->procs[--g->n]);
}

/* The record says how many of the descriptors are whose. */
static bool take(struct up_groups *g, const struct groups_record *r, struct fd_record *in)
{
	size_t at = 0;
	if (r->magic != GROUPS_MAGIC)
		return false;
	for (size_t i = 0; i < GROUPS_PROGRAMS; i++)
		if (r->n[i] > GROUPS_FILES || (at += r->n[i]) > in->fds_n)
			return false;
	at = 0;
	for (size_t i = 0; i < GROUPS_PROGRAMS; i++) {
		struct up_group *one = &g->of[i];
		close_group(one);
		while (one->n < r->n[i])
			one->procs[one->n++] = take_fd(&in->fds[at++]);
	}
	return true;
}

static void on_ready(struct loop_io *io, uint32_t events)
{
	struct up_groups *g = container_of(io, struct up_groups, io);
	struct groups_record r = {0};
	int fds[GROUPS_PROGRAMS * GROUPS_FILES];
	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		fds[i] = -1;
	struct fd_record in = {.data = &r, .size = sizeof r, .fds = fds, .fds_max = ARRAY_LEN(fds)};
	(void)events;
	ssize_t n = fd_recv(io->fd, &in, MSG_DONTWAIT);
	if (n == -EAGAIN)
		return;
	if (n != (ssize_t)sizeof r || !take(g, &r, &in)) {
		log_event(LOG_ERROR, "the warden speaks another language", "bytes=%zd", n);
		fd_record_close(&in);
		return;
	}
	g->on_come(g);
}

int up_groups_open(struct up_groups *g, struct loop *l, void (*on_come)(struct up_groups *g), struct err *e)
{
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, errno, "socket for the warden");
	*g = (struct up_groups){.warden = pair[1], .on_come = on_come};
	int r = loop_add(l, &g->io, pair[0], EPOLLIN, on_ready);
	return r < 0 ? err_os(e, ERRC_INTERNAL_ERROR, -r, "watch the warden's socket") : 0;
}

/* Without its group a program serves as well. */
void up_group_enter(const struct up_group *g)
{
	for (size_t i = 0; i < g->n; i++)
		if (write(g->procs[i], "0", 1) != 1)
			log_event(LOG_WARN, "cannot enter a cgroup", "err=%s", LOG_Q(strerror(errno)));
}
