#include "proto/gate.h"

#include <stdio.h>
#include <sys/socket.h>

#include "base/fd_pass.h"
#include "base/log.h"
#include "gate/gate.h"

static void hang_up(struct gate *g)
{
	int fd = g->intake.io.fd;
	if (!g->intake.io.loop)
		return;
	loop_del(&g->intake.io);
	close(fd);
}

static void close_fds(const int fds[GATE_FDS_MAX])
{
	for (int i = 0; i < GATE_FDS_MAX; i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

static void on_box(struct gate *g, const struct gate_record *r, const int fds[GATE_FDS_MAX])
{
	struct gate_box *b = box_find(g, r->slot);
	if (b && b->generation != r->generation) {
		box_drop(b);
		b = NULL;
	}
	if (b)
		close_fds(fds);
	else if (fds[0] < 0 || fds[1] < 0 || !(b = box_new(g, r->slot, r->generation, fds))) {
		close_fds(fds);
		log_event(LOG_ERROR, "a box of the warden could not be taken", "slot=%u", r->slot);
		return;
	}
	b->seen = g->intake.seq;
	if (*r->id)
		box_name(b, r->id);
}

static void on_sync(struct gate *g)
{
	size_t it = 0, n = 0;
	void *v;
	struct gate_box **gone = xcalloc(g->boxes.count + 1, sizeof *gone);
	while (map_next(&g->boxes, &it, &(struct str){0}, &v))
		if (((struct gate_box *)v)->seen != g->intake.seq)
			gone[n++] = v;
	for (size_t i = 0; i < n; i++)
		box_drop(gone[i]);
	log_event(LOG_INFO, "the warden's boxes are known", "boxes=%zu gone=%zu", g->boxes.count, n);
	free(gone);
}

/* The warden has a box and asks whether we have its sockets. */
static bool on_have(struct gate *g, const struct gate_record *r)
{
	struct gate_box *b = box_find(g, r->slot);
	if (b && b->generation == r->generation) {
		b->seen = g->intake.seq;
		if (*r->id)
			box_name(b, r->id);
		return true;
	}
	struct gate_record need = {.magic = GATE_MAGIC, .op = GATE_NEED, .slot = r->slot, .generation = r->generation};
	/* One that does not take our answers asks again on its next connection. */
	return send(g->intake.io.fd, &need, sizeof need, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)sizeof need;
}

/* False: the peer speaks another language. */
static bool on_record(struct gate *g, const struct gate_record *r, const int fds[GATE_FDS_MAX])
{
	if (r->magic != GATE_MAGIC || !memchr(r->id, 0, sizeof r->id)) {
		close_fds(fds);
		return false;
	}
	if (r->op == GATE_BOX) {
		on_box(g, r, fds);
		return true;
	}
	if (r->op == GATE_DROPS && fds[0] >= 0) {
		drops_open(g, fds[0]);
		close_fds((int[]){-1, fds[1], fds[2], fds[3], fds[4]});
		return true;
	}
	close_fds(fds);
	if (r->op == GATE_HAVE)
		return on_have(g, r);
	struct gate_box *b = box_find(g, r->slot);
	bool ours = b && b->generation == r->generation;
	if (r->op == GATE_NAME && ours) {
		b->seen = g->intake.seq;
		box_name(b, r->id);
	} else if (r->op == GATE_GONE && ours) {
		drops_take(g);
		box_drop(b);
	} else if (r->op == GATE_SYNC) {
		on_sync(g);
	}
	return r->op >= GATE_BOX && r->op <= GATE_DROPS;
}

static void on_ready(struct loop_io *io, uint32_t events)
{
	struct gate *g = container_of(io, struct gate, intake.io);
	(void)events;
	while (g->intake.io.loop) {
		struct gate_record r;
		int fds[GATE_FDS_MAX] = {-1, -1, -1, -1, -1};
		struct fd_record in = {.data = &r, .size = sizeof r, .fds = fds, .fds_max = GATE_FDS_MAX};
		ssize_t n = fd_recv(io->fd, &in, MSG_DONTWAIT);
		if (n == -EAGAIN)
			return;
		if (n == (ssize_t)sizeof r && on_record(g, &r, fds))
			continue;
		if (n != (ssize_t)sizeof r)
			fd_record_close(&in);
		log_event(n == 0 ? LOG_INFO : LOG_ERROR, "the warden has hung up; boxes keep their sockets",
			"bytes=%zd", n);
		hang_up(g);
	}
}

static void on_accept(struct loop_io *io, uint32_t events)
{
	struct gate *g = container_of(io, struct gate, intake.listen);
	struct ucred who;
	socklen_t n = sizeof who;
	(void)events;
	int fd = accept4(io->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0)
		return;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n) < 0 || who.uid != 0) {
		log_event(LOG_WARN, "a stranger connected to the warden's socket", "fd=%d", fd);
		close(fd);
		return;
	}
	hang_up(g);
	g->intake.seq++;
	if (loop_add(g->loop, &g->intake.io, fd, EPOLLIN, on_ready) < 0)
		close(fd);
}

int intake_listen(struct gate *g, int fd, struct err *e)
{
	int r = loop_add(g->loop, &g->intake.listen, fd, EPOLLIN, on_accept);
	return r < 0 ? err_os(e, ERRC_INTERNAL_ERROR, -r, "listen for the warden") : 0;
}
