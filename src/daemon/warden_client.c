/*
 * Theory of operation. While connected, `io` watches the SEQPACKET socket; otherwise `timer` runs the pause before the
 * next attempt. A call is in `unsent` until the kernel has taken its record, then in `waiting` until its reply arrives.
 * Both lists keep their order. Replies mostly arrive in that order, so the call of a reply is near the head. The two
 * questions of the handshake are ordinary calls.
 */
#include "daemon/warden_client.h"

#include <stdio.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/fd_pass.h"
#include "base/list.h"
#include "base/log.h"
#include "daemon/limits.h"
#include "proto/limits.h"

enum { RETRY_FIRST_MS = 20, RETRY_MAX_MS = 1000, READ_BATCH = 64 };

enum phase { PHASE_AWAY, PHASE_HELLO, PHASE_LIST, PHASE_UP };

struct call {
	struct list node;
	struct warden_client *warden;
	struct warden_request request;
	uint64_t asked_us;
	warden_on_answer on_answer;
	void *arg;
};

struct warden_client {
	struct loop *loop;
	char path[108];
	const struct warden_ops *ops;
	void *arg;

	struct loop_io io;
	int fd;
	enum phase phase;
	bool complained; /* log one line for each loss, not for each attempt */
	struct loop_timer timer;
	uint32_t retry_ms;
	uint64_t seq;
	struct list unsent, waiting;

	struct box_info *listed;
	size_t listed_n, listed_cap;
	struct warden_host host;
	bool have_host;
	struct warden_stats stats;
};

static void connect_now(struct warden_client *w);

static void connection_lost(struct warden_client *w, const char *why);

/* While disconnected: the pause is over. While connected: the handshake took too long. */
static void on_timer(struct loop_timer *t)
{
	struct warden_client *w = container_of(t, struct warden_client, timer);
	if (w->phase == PHASE_AWAY)
		connect_now(w);
	else
		connection_lost(w, "it does not answer");
}

static void answer_call(struct call *c, const struct warden_answer *a)
{
	list_del(&c->node);
	if (c->on_answer)
		c->on_answer(c->arg, a);
	free(c);
}

static void fail_all(struct list *calls, const struct err *why)
{
	list_each(it, calls)
	{
		struct call *c = list_entry(it, struct call, node);
		c->warden->stats.lost++;
		answer_call(c, &(struct warden_answer){.err = why, .lost = true});
	}
}

static void connection_lost(struct warden_client *w, const char *why)
{
	bool was_up = w->phase == PHASE_UP;
	loop_del(&w->io);
	fd_close(&w->fd);
	w->phase = PHASE_AWAY;
	w->listed_n = 0;
	if (!w->complained)
		log_event(LOG_WARN, "warden away", "socket=%s why=%s", w->path, LOG_Q(why));
	w->complained = true;
	struct err e;
	err_set(&e, ERRC_CONTAINER_UNAVAILABLE, "the warden went away: %s", why);
	fail_all(&w->waiting, &e);
	fail_all(&w->unsent, &e);
	if (was_up)
		w->ops->on_down(w->arg);
	loop_timer_set(w->loop, &w->timer, w->retry_ms, on_timer);
	w->retry_ms = w->retry_ms * 2 > RETRY_MAX_MS ? RETRY_MAX_MS : w->retry_ms * 2;
}

static bool send_one(struct warden_client *w, struct call *c)
{
	ssize_t n = send(w->fd, &c->request, sizeof c->request, MSG_NOSIGNAL);
	if (n < 0)
		return false;
	list_del(&c->node);
	list_push(&w->waiting, &c->node);
	return true;
}

/* 0, or -errno when the connection is broken. */
static int flush_unsent(struct warden_client *w)
{
	while (!list_empty(&w->unsent))
		if (!send_one(w, list_entry(w->unsent.next, struct call, node))) {
			if (errno == EINTR)
				continue;
			if (errno != EAGAIN)
				return -errno;
			loop_set_events(&w->io, EPOLLIN | EPOLLOUT);
			return 0;
		}
	loop_set_events(&w->io, EPOLLIN);
	return 0;
}

static void send_request(struct warden_client *w, const struct warden_request *r, warden_on_answer on_answer, void *arg)
{
	struct call *c = xcalloc(1, sizeof *c);
	c->warden = w;
	c->request = *r;
	c->request.magic = WARDEN_MAGIC;
	c->request.seq = ++w->seq;
	c->asked_us = clock_us();
	c->on_answer = on_answer;
	c->arg = arg;
	w->stats.calls++;
	list_push(&w->unsent, &c->node);
	/* A broken connection is noticed by the loop, never from inside the caller. */
	if (flush_unsent(w) < 0)
		loop_set_events(&w->io, EPOLLIN | EPOLLOUT);
}

void warden_client_call(struct warden_client *w, const struct warden_request *r, warden_on_answer on_answer, void *arg)
{
	INVARIANT(w->phase == PHASE_UP);
	send_request(w, r, on_answer, arg);
}

static void remember(struct warden_client *w, const struct box_info *info)
{
	if (w->listed_n == w->listed_cap) {
		w->listed_cap = w->listed_cap ? w->listed_cap * 2 : 64;
		w->listed = xrealloc(w->listed, w->listed_cap * sizeof *w->listed);
	}
	w->listed[w->listed_n++] = *info;
}

static void become_up(struct warden_client *w)
{
	w->phase = PHASE_UP;
	loop_timer_stop(&w->timer);
	w->retry_ms = RETRY_FIRST_MS;
	w->complained = false;
	log_event(LOG_INFO, "warden up", "socket=%s boxes=%zu", w->path, w->listed_n);
	w->ops->on_up(w->arg, w->listed, w->listed_n);
	w->listed_n = 0;
}

static struct call *find_call(struct warden_client *w, uint64_t seq)
{
	// NOLINTNEXTLINE(clang-analyzer-unix.Malloc): what is freed has been taken out of the list
	list_each(it, &w->waiting)
	{
		struct call *c = list_entry(it, struct call, node);
		if (c->request.seq == seq)
			return c;
	}
	return NULL;
}

/* A reply and the descriptors that came with it. */
struct packet {
	struct warden_reply reply;
	int fds[WARDEN_SOCKETS_MAX];
	size_t fds_n;
};

static void finish_call(struct warden_client *w, struct call *c, struct packet *p)
{
	const struct warden_reply *r = &p->reply;
	bool failed = r->err.code != ERRC_OK;
	if (c->request.op == WARDEN_HELLO && !failed)
		w->host = r->host;
	if (c->request.op != WARDEN_CREATE) {
		w->stats.round_trip_us += clock_us() - c->asked_us;
		w->stats.round_trips++;
	}
	struct warden_answer a = {.info = r->has_info ? &r->info : NULL,
		.err = failed ? &r->err : NULL,
		.fds = p->fds,
		.fds_n = p->fds_n};
	answer_call(c, &a);
}

static int handshake(struct warden_client *w, struct call *c, const struct warden_reply *r)
{
	if (r->err.code != ERRC_OK)
		return -1;
	if (w->phase == PHASE_HELLO && r->op == WARDEN_HELLO) {
		w->host = r->host;
		w->have_host = true;
		w->phase = PHASE_LIST;
		answer_call(c, NULL);
		send_request(w, &(struct warden_request){.op = WARDEN_LIST}, NULL, NULL);
		return 0;
	}
	if (w->phase != PHASE_LIST || r->op != WARDEN_LIST)
		return -1;
	if (r->has_info)
		remember(w, &r->info);
	if (!r->more) {
		answer_call(c, NULL);
		become_up(w);
	}
	return 0;
}

/* False: the record is malformed, or the warden refused the handshake. */
static bool take_reply(struct warden_client *w, struct packet *p)
{
	struct warden_reply *r = &p->reply;
	if (r->magic != WARDEN_MAGIC)
		return false;
	err_seal(&r->err);
	if (r->has_info) {
		r->info.id[sizeof r->info.id - 1] = 0;
		r->info.image[sizeof r->info.image - 1] = 0;
	}
	if (r->op == WARDEN_HELLO)
		r->host.pool_why[sizeof r->host.pool_why - 1] = 0;
	if (r->op == WARDEN_BOX_DIED) {
		/* Before the list has arrived, the event tells nothing new. */
		if (w->phase == PHASE_UP && r->has_info)
			w->ops->on_died(w->arg, &r->info);
		return true;
	}
	struct call *c = find_call(w, r->seq);
	if (!c)
		return true;
	if (w->phase != PHASE_UP)
		return handshake(w, c, r) == 0;
	finish_call(w, c, p);
	return true;
}

/* Descriptors that no callback took. */
static void close_rest(struct packet *p)
{
	for (size_t i = 0; i < p->fds_n; i++)
		fd_close(&p->fds[i]);
}

static void on_ready(struct loop_io *io, uint32_t events)
{
	struct warden_client *w = container_of(io, struct warden_client, io);
	for (int i = 0; i < READ_BATCH && w->phase != PHASE_AWAY; i++) {
		struct packet p;
		struct fd_record record = {
			.data = &p.reply, .size = sizeof p.reply, .fds = p.fds, .fds_max = ARRAY_LEN(p.fds)};
		ssize_t n = fd_recv(w->fd, &record, MSG_DONTWAIT);
		if (n == -EAGAIN)
			break;
		p.fds_n = record.fds_n;
		bool taken = n == (ssize_t)sizeof p.reply && take_reply(w, &p);
		close_rest(&p);
		if (taken)
			continue;
		return connection_lost(w, n == 0  ? "it closed the connection"
					  : n < 0 ? strerror((int)-n)
						  : "it does not speak this version's records");
	}
	if (w->phase != PHASE_AWAY && (events & EPOLLOUT)) {
		int r = flush_unsent(w);
		if (r < 0)
			connection_lost(w, strerror(-r));
	}
}

static void connect_now(struct warden_client *w)
{
	int fd = fd_unix_connect(w->path, SOCK_SEQPACKET);
	if (fd < 0)
		return connection_lost(w, strerror(-fd));
	w->fd = fd;
	int r = loop_add(w->loop, &w->io, fd, EPOLLIN, on_ready);
	if (r < 0)
		return connection_lost(w, strerror(-r));
	w->stats.connects++;
	w->phase = PHASE_HELLO;
	loop_timer_set(w->loop, &w->timer, WARDEN_REPLY_TIMEOUT, on_timer);
	send_request(w, &(struct warden_request){.op = WARDEN_HELLO}, NULL, NULL);
}

struct warden_client *warden_client_new(
	struct loop *l, const char *socket_path, const struct warden_ops *ops, void *arg)
{
	struct warden_client *w = xcalloc(1, sizeof *w);
	w->loop = l;
	w->ops = ops;
	w->arg = arg;
	w->fd = -1;
	w->retry_ms = RETRY_FIRST_MS;
	snprintf(w->path, sizeof w->path, "%s", socket_path);
	list_init(&w->unsent);
	list_init(&w->waiting);
	loop_timer_set(l, &w->timer, 0, on_timer);
	return w;
}

static void forget_all(struct list *calls)
{
	list_each(it, calls)
	{
		struct call *c = list_entry(it, struct call, node);
		list_del(it);
		free(c);
	}
}

void warden_client_free(struct warden_client *w)
{
	if (!w)
		return;
	loop_timer_stop(&w->timer);
	loop_del(&w->io);
	fd_close(&w->fd);
	forget_all(&w->unsent);
	forget_all(&w->waiting);
	free(w->listed);
	free(w);
}

bool warden_client_is_up(const struct warden_client *w)
{
	return w->phase == PHASE_UP;
}

const struct warden_host *warden_host(const struct warden_client *w)
{
	return w->have_host ? &w->host : NULL;
}

struct warden_stats warden_stats(const struct warden_client *w)
{
	return w->stats;
}
