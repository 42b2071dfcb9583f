/*
 * Sockets of a box's network namespace, for atolld. A socket belongs to the namespace that it was made in, in any
 * process. The warden enters the namespace, makes sockets, comes back, and sends them unconnected. atolld connects them
 * to the servers inside. No process of the box ever holds one of these descriptions, so none can change their flags.
 *
 * There is one thread, and no function is called in between that forks or returns to the loop: no other work is ever
 * done in a box's namespace. A warden that cannot come back ends, and is started again in its own namespace.
 */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "proto/limits.h"
#include "warden/control.h"
#include "warden/warden.h"

static void close_all(int *fds, size_t n)
{
	for (size_t i = 0; i < n; i++)
		close(fds[i]);
}

/* How many were made; errno tells why not all. */
static size_t make_sockets(int family, int *fds, size_t n)
{
	size_t i = 0;
	while (i < n) {
		fds[i] = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		if (fds[i] < 0)
			break;
		/* One of the few things that can be done ahead. */
		setsockopt(fds[i++], IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
	}
	return i;
}

/* The pidfd names the namespaces of the box's first process, or nothing at all when that is gone. */
static int make_inside(struct warden *w, struct box *b, int family, int *fds, size_t n, struct err *e)
{
	if (setns(b->place->slot.pidfd, CLONE_NEWNET) < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, errno, "enter the network of sandbox '%s'", b->info.id);
	size_t made = make_sockets(family, fds, n);
	int os = errno;
	INVARIANT(setns(w->own_net, CLONE_NEWNET) == 0);
	if (made == n)
		return 0;
	close_all(fds, made);
	return err_os(e, ERRC_INTERNAL_ERROR, os, "make sockets for sandbox '%s'", b->info.id);
}

int sockets_one(struct warden *w, struct box *b, int *ret, struct err *e)
{
	if (b->stage != STAGE_RUNNING)
		return err_set(e, ERRC_INVALID_STATE, "sandbox '%s' does not run", b->info.id);
	return make_inside(w, b, AF_INET, ret, 1, e);
}

void sockets_make(struct warden *w, const struct warden_request *rq, struct warden_asker who)
{
	int fds[WARDEN_SOCKETS_MAX];
	struct err e;
	memset(fds, -1, sizeof fds);
	struct box *b = control_living(w, rq, &who);
	if (!b)
		return;
	bool known = rq->family == AF_INET || rq->family == AF_INET6;
	if (!known || rq->count < 1 || rq->count > WARDEN_SOCKETS_MAX) {
		err_set(&e, ERRC_INVALID_REQUEST, "%u sockets of family %u cannot be made", rq->count, rq->family);
		return server_reply(w, &who, &e, NULL);
	}
	if (make_inside(w, b, (int)rq->family, fds, rq->count, &e) < 0)
		return server_reply(w, &who, &e, NULL);
	int sent = server_reply_fds(w, &who, b, fds, rq->count);
	close_all(fds, rq->count);
	if (sent == -EAGAIN) {
		err_set(&e, ERRC_RESOURCE_BUSY, "the warden's replies wait to be read");
		server_reply(w, &who, &e, NULL);
	}
}
