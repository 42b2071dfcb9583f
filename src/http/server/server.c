/* Listeners and the life of a server. */
#include "http/server/server.h"

#include <sys/socket.h>

#include "base/fd.h"
#include "base/log.h"
#include "http/client/client.h"
#include "http/limits.h"
#include "http/server/conn.h"

enum { ACCEPT_BATCH = 16, REST_MS = 100, BACKLOG = 4096 };

struct listener {
	struct list node;
	struct loop_io io;
	struct http_server *s;
	int fd, tag;
};

struct http_server *http_server_new(struct loop *l, http_on_request on_request, void *arg)
{
	struct http_server *s = xcalloc(1, sizeof *s);
	s->loop = l;
	s->on_request = on_request;
	s->arg = arg;
	s->config = (struct http_server_config){
		.head_timeout = HTTP_HEAD_TIMEOUT,
		.idle_timeout = HTTP_IDLE_TIMEOUT,
		.body_stall = HTTP_BODY_STALL,
		.send_stall = HTTP_SEND_STALL,
		.linger = HTTP_LINGER,
		.gone_probe = HTTP_GONE_PROBE,
		.conns_max = HTTP_CONNS_MAX,
		.address_max = HTTP_ADDRESS_MAX,
		.lingering_max = HTTP_LINGERING_MAX,
	};
	list_init(&s->listeners);
	list_init(&s->conns);
	list_init(&s->strangers);
	list_init(&s->lingering);
	list_init(&s->senders);
	for (int i = 0; i < HTTP_RANKS; i++)
		list_init(&s->idle[i]);
	turn_party_init(&s->strangers_party, l, true);
	return s;
}

struct http_server_config *http_server_config(struct http_server *s)
{
	return &s->config;
}

struct http_server_stats http_server_stats(const struct http_server *s)
{
	struct http_server_stats stats = s->stats;
	list_each(it, &s->conns) stats.bytes_out += list_entry(it, struct http_conn, node)->w.sent;
	return stats;
}

static void listeners_watch(struct http_server *s, bool on)
{
	list_each(it, &s->listeners) loop_set_events(&list_entry(it, struct listener, node)->io, on ? EPOLLIN : 0);
	s->resting = !on;
}

static void on_rested(struct loop_timer *t)
{
	listeners_watch(container_of(t, struct http_server, retry), true);
}

static bool make_room(struct http_server *s, bool is_public)
{
	struct http_conn *victim = place_victim(s, is_public);
	if (!victim)
		return false;
	s->stats.shed[HTTP_SHED_ROOM]++;
	conn_gone(victim);
	return true;
}

/* No descriptors or memory for another connection: the listeners rest, so that the loop does not spin on them. */
static void rest(struct http_server *s, int os)
{
	log_limited(LOG_WARN, "cannot accept", "errno=%d conns=%zu", os, s->stats.conns);
	listeners_watch(s, false);
	loop_timer_set(s->loop, &s->retry, REST_MS, on_rested);
}

/* False: stop accepting for now. */
static bool accept_one(struct listener *l)
{
	struct http_server *s = l->s;
	bool is_public = s->has_public && l->tag == s->public_tag;
	bool full = place_is_full(s, is_public);
	if (full && !place_victim(s, is_public)) {
		/* This listener alone: there may be places for those of another one. */
		loop_set_events(&l->io, 0);
		s->resting = true;
		return false;
	}
	int fd = accept4(l->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (fd >= 0) {
		fd_refuse_rights(fd);
		if (full)
			make_room(s, is_public);
		conn_new(s, fd, l->tag, NULL, NULL);
		return true;
	}
	int os = errno;
	if (os == EMFILE || os == ENFILE || os == ENOBUFS || os == ENOMEM) {
		if (make_room(s, false))
			return true;
		rest(s, os);
	}
	return os == ECONNABORTED || os == EINTR;
}

static void on_listener(struct loop_io *io, uint32_t events)
{
	(void)events;
	struct listener *l = container_of(io, struct listener, io);
	/* Whoever connects is a stranger until its request is read. */
	if (l->s->has_public && l->tag == l->s->public_tag)
		turn_bill(&l->s->strangers_party);
	for (int i = 0; i < ACCEPT_BATCH && accept_one(l); i++)
		;
}

int http_server_listen(struct http_server *s, int listen_fd, int tag, struct err *e)
{
	auto_fd int fd = listen_fd;
	struct listener *l = xcalloc(1, sizeof *l);
	int r = fd_set_nonblock(fd, true);
	if (r == 0)
		r = loop_add(s->loop, &l->io, fd, EPOLLIN, on_listener);
	if (r < 0) {
		free(l);
		return err_os(e, ERRC_INTERNAL_ERROR, -r, "watch a listening socket");
	}
	l->s = s;
	l->fd = take_fd(&fd);
	l->tag = tag;
	list_push(&s->listeners, &l->node);
	return 0;
}

int http_server_adopt(struct http_server *s, int fd, int tag, struct turn_party *party, struct err *e)
{
	int r = fd_set_nonblock(fd, true);
	if (r == 0)
		return conn_new(s, fd, tag, party, e);
	close(fd);
	return err_os(e, ERRC_INTERNAL_ERROR, -r, "adopt a connection");
}

void http_server_set_public(struct http_server *s, int tag, http_exempt exempt, void *arg)
{
	s->has_public = true;
	s->public_tag = tag;
	s->exempt = exempt;
	s->exempt_arg = arg;
}

void http_server_set_layer(struct http_server *s, int tag, http_layer_open open, void *arg)
{
	s->layer_open = open;
	s->layer_arg = arg;
	s->layer_tag = tag;
}

void http_server_set_refusal(struct http_server *s, http_on_refusal on_refusal, void *arg)
{
	s->on_refusal = on_refusal;
	s->refusal_arg = arg;
}

int http_listen_tcp(struct str address, int *ret_fd, struct err *e)
{
	struct http_endpoint ep;
	if (http_endpoint_tcp(&ep, address, e) < 0)
		return -1;
	auto_fd int fd = socket(ep.sa.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, errno, "make a socket");
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
	if (bind(fd, &ep.sa, ep.len) < 0 || listen(fd, BACKLOG) < 0)
		return err_os(e, errno == EADDRINUSE ? ERRC_PORT_IN_USE : ERRC_INTERNAL_ERROR, errno, "listen on %.*s",
			STR_ARG(address));
	*ret_fd = take_fd(&fd);
	return 0;
}

static void close_listeners(struct http_server *s)
{
	loop_timer_stop(&s->retry);
	list_each(it, &s->listeners)
	{
		struct listener *l = list_entry(it, struct listener, node);
		loop_del(&l->io);
		close(l->fd);
		list_del(&l->node);
		free(l);
	}
}

static void run_drained(struct loop_task *t)
{
	struct http_server *s = container_of(t, struct http_server, drained_task);
	loop_timer_stop(&s->grace);
	void (*on_drained)(void *) = s->on_drained;
	s->on_drained = NULL;
	if (on_drained)
		on_drained(s->drained_arg);
}

static void check_drained(struct http_server *s)
{
	if (s->draining && list_empty(&s->conns) && s->on_drained)
		loop_defer(s->loop, &s->drained_task, run_drained);
}

void server_room_made(struct http_server *s)
{
	if (s->resting && !s->freed)
		loop_timer_set(s->loop, &s->retry, 0, on_rested);
	check_drained(s);
}

static void cut_all(struct http_server *s)
{
	list_each(it, &s->conns) conn_gone(list_entry(it, struct http_conn, node));
}

static void on_grace_over(struct loop_timer *t)
{
	cut_all(container_of(t, struct http_server, grace));
}

void http_server_drain(struct http_server *s, uint32_t grace_ms, void (*on_drained)(void *arg), void *arg)
{
	s->draining = true;
	s->on_drained = on_drained;
	s->drained_arg = arg;
	close_listeners(s);
	for (int i = 0; i < HTTP_RANKS; i++)
		while (!list_empty(&s->idle[i]))
			conn_gone(list_entry(s->idle[i].next, struct http_conn, idle));
	/* Those that have not begun to answer will say "Connection: close". */
	list_each(it, &s->conns) exchange_end_at_least(&list_entry(it, struct http_conn, node)->x, END_CLOSE);
	loop_timer_set(s->loop, &s->grace, grace_ms, on_grace_over);
	check_drained(s);
}

static void free_server(struct loop_task *t)
{
	struct http_server *s = container_of(t, struct http_server, free_task);
	map_free(&s->addresses);
	turn_party_leave(&s->strangers_party);
	free(s);
}

void http_server_free(struct http_server *s)
{
	if (!s)
		return;
	s->freed = true;
	s->on_drained = NULL;
	close_listeners(s);
	cut_all(s);
	loop_timer_stop(&s->grace);
	loop_timer_stop(&s->retry);
	list_del(&s->drained_task.node);
	loop_defer(s->loop, &s->free_task, free_server);
}
