/* Connections of the client, and the pool of idle ones. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "http/client/call.h"
#include "http/limits.h"

int failure_set(struct http_failure *f, enum http_fail fail, const char *what)
{
	static const enum errc codes[] = {
		[HTTP_FAIL_NONE] = ERRC_OK,
		[HTTP_FAIL_CONNECT] = ERRC_CONTAINER_UNAVAILABLE,
		[HTTP_FAIL_CLOSED] = ERRC_BAD_GATEWAY,
		[HTTP_FAIL_TIMEOUT] = ERRC_GATEWAY_TIMEOUT,
		[HTTP_FAIL_PROTOCOL] = ERRC_BAD_GATEWAY,
		[HTTP_FAIL_CANCELLED] = ERRC_INTERNAL_ERROR,
	};
	f->fail = fail;
	return err_set(&f->err, codes[fail], "%s", what);
}

static void fail_os(struct http_failure *f, int os, const char *what)
{
	failure_set(f, HTTP_FAIL_CONNECT, what);
	err_os(&f->err, ERRC_CONTAINER_UNAVAILABLE, os, "%s", what);
}

static struct str key_of(const struct http_endpoint *ep)
{
	_Static_assert(offsetof(struct http_endpoint, sa) == sizeof ep->dialer, "a key has no holes");
	return str_n(&ep->dialer, sizeof ep->dialer + ep->len);
}

static void free_link(struct loop_task *t)
{
	struct link *k = container_of(t, struct link, free_task);
	wire_close(&k->w, false);
	free(k);
}

static void leave_pool(struct link *k)
{
	struct pool *p = k->pool;
	if (!p)
		return;
	p->idle_n -= !k->call && !list_empty(&k->node);
	list_del(&k->node);
	k->pool = NULL;
	if (--p->links)
		return;
	map_del(&k->cl->pools, key_of(&p->ep));
	free(p);
}

static void join_pool(struct link *k)
{
	struct pool *p = map_get(&k->cl->pools, key_of(&k->ep));
	if (!p) {
		p = xcalloc(1, sizeof *p);
		p->ep = k->ep;
		list_init(&p->idle);
		list_init(&p->waiting);
		map_put(&k->cl->pools, key_of(&k->ep), p);
	}
	p->links++;
	k->pool = p;
}

static void link_close(struct link *k)
{
	leave_pool(k);
	loop_timer_stop(&k->timer);
	/* Closing a connection takes a while in the kernel: let the answer go out to the client first. */
	list_del(&k->w.task.node);
	wire_unwatch(&k->w);
	loop_defer(k->cl->loop, &k->free_task, free_link);
}

static void on_ready(struct loop_io *io, uint32_t events)
{
	struct link *k = container_of(io, struct link, w.io);
	/* Input on an idle connection is not an answer: the peer closed, or misbehaves. */
	if (!k->call)
		return link_close(k);
	call_on_ready(k, events);
}

static void on_flush(struct wire *w)
{
	struct link *k = container_of(w, struct link, w);
	if (!k->call)
		return;
	turn_bill(k->call->seat.party);
	call_step(k->call);
}

static struct link *link_make(struct http_client *cl, int fd)
{
	struct link *k = xcalloc(1, sizeof *k);
	k->cl = cl;
	wire_open(&k->w, cl->loop, fd, on_ready, on_flush);
	return k;
}

struct link *link_adopt(struct http_client *cl, int fd)
{
	struct link *k = link_make(cl, fd);
	wire_watch(&k->w, EPOLLIN);
	return k;
}

void link_waits(struct link *k, struct http_call *c)
{
	k->call = c;
	k->since = loop_now(k->cl->loop);
	if (k->pool)
		list_push(&k->pool->waiting, &k->node);
}

/* A server that serves one connection at a time may be waiting on an idle connection of ours. So if a call has had no
 * answer for long, idle connections to its endpoint are closed. */
static bool is_starved(const struct pool *p)
{
	if (!p->ep.dialer || list_empty(&p->waiting))
		return false;
	const struct link *k = list_entry(p->waiting.next, struct link, node);
	return loop_now(k->cl->loop) - k->since >= HTTP_STARVED;
}

/* Nothing can be read, neither the end nor bytes: they would be taken for the answer to the next request. */
static bool still_quiet(struct link *k)
{
	char byte;
	return recv(k->w.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

static struct link *take_idle(struct http_client *cl, const struct http_endpoint *ep)
{
	struct pool *p = map_get(&cl->pools, key_of(ep));
	while (p && p->idle_n) {
		struct link *k = list_entry(p->idle.prev, struct link, node);
		if (still_quiet(k)) {
			list_del(&k->node);
			p->idle_n--;
			k->reused = true;
			return k;
		}
		bool last = p->links == 1;
		link_close(k);
		if (last)
			return NULL;
	}
	return NULL;
}

/* The handshake over a loopback interface is over when connect returns, but only the next call says how it went. That
 * costs less than a turn of the loop. */
static int connect_once(struct link *k)
{
	if (k->ep.dialer && k->ep.dialer->connected)
		return 0;
	int os = connect(k->w.fd, &k->ep.sa, k->ep.len) < 0 ? errno : 0;
	if (os == EINPROGRESS && k->ep.dialer)
		os = connect(k->w.fd, &k->ep.sa, k->ep.len) < 0 ? errno : 0;
	return os == EINTR || os == EALREADY ? EINPROGRESS : os;
}

bool link_connect(struct link *k, struct http_failure *fail)
{
	int os = connect_once(k);
	/* A unix socket whose backlog is full says EAGAIN and cannot be waited for: the call's timer asks again. */
	if (os == EAGAIN)
		return false;
	if (os && os != EINPROGRESS && os != EISCONN) {
		fail_os(fail, os, "connect");
		return true;
	}
	k->connecting = k->w.held = os == EINPROGRESS;
	int w = wire_watch(&k->w, k->connecting ? EPOLLOUT : EPOLLIN);
	if (w < 0)
		fail_os(fail, -w, "watch a connection");
	return !k->connecting || w < 0;
}

static int open_socket(const struct http_endpoint *ep)
{
	if (ep->dialer)
		return ep->dialer->take(ep->dialer, ep->sa.sa_family);
	int fd = socket(ep->sa.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd >= 0 && ep->sa.sa_family == AF_UNIX)
		fd_refuse_rights(fd);
	return fd < 0 ? -errno : fd;
}

struct link *link_get(struct http_client *cl, const struct http_endpoint *ep, bool fresh, struct http_failure *fail)
{
	struct link *k = fresh ? NULL : take_idle(cl, ep);
	if (k)
		return k;
	int fd = open_socket(ep);
	if (fd < 0) {
		fail_os(fail, -fd, "make a socket");
		return NULL;
	}
	if (ep->sa.sa_family != AF_UNIX && !ep->dialer)
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
	k = link_make(cl, fd);
	k->ep = *ep;
	if (ep->dialer && ep->dialer->layer)
		k->w.layer = ep->dialer->layer(ep->dialer, fd);
	join_pool(k);
	k->connecting = k->w.held = true;
	return k;
}

static void on_idle_due(struct loop_timer *t);

static void idle_for(struct link *k, uint64_t ms)
{
	bool looks = k->ep.dialer && ms > HTTP_STARVED;
	loop_timer_set(k->cl->loop, &k->timer, looks ? HTTP_STARVED : ms, on_idle_due);
}

static void on_idle_due(struct loop_timer *t)
{
	struct link *k = container_of(t, struct link, timer);
	uint64_t now = loop_now(k->cl->loop);
	if (k->call)
		return;
	if (k->idle_due <= now || is_starved(k->pool))
		return link_close(k);
	idle_for(k, k->idle_due - now);
}

void link_release(struct link *k, bool reusable)
{
	struct http_client *cl = k->cl;
	struct pool *p = k->pool;
	list_del(&k->node);
	k->call = NULL;
	if (!reusable || !p || k->w.broken || is_starved(p) || wire_watch(&k->w, EPOLLIN) < 0)
		return link_close(k);
	list_push(&p->idle, &k->node);
	k->input_waits = k->w.full = false;
	wire_writable(&k->w);
	const struct http_dialer *d = k->ep.dialer;
	uint32_t idle_ms = d ? d->idle_ms : HTTP_POOL_IDLE_TIMEOUT;
	k->idle_due = loop_now(cl->loop) + idle_ms;
	if (!k->timer.pos)
		idle_for(k, idle_ms);
	if (++p->idle_n > (d ? d->idle_max : HTTP_POOL_IDLE_MAX))
		link_close(list_entry(p->idle.next, struct link, node));
}

static void close_idle(struct pool *p)
{
	for (bool more = p->idle_n > 0; more;) {
		more = p->idle_n > 1;
		link_close(list_entry(p->idle.next, struct link, node));
	}
}

void http_client_forget(struct http_client *cl, const struct http_endpoint *ep)
{
	struct pool *p = map_get(&cl->pools, key_of(ep));
	if (p)
		close_idle(p);
}

/* The next pool with idle links, of this dialer or of all; closing them may change the map. */
static struct pool *find_idle(struct http_client *cl, const struct http_dialer *d, bool all)
{
	size_t it = 0;
	struct str key;
	void *value;
	while (map_next(&cl->pools, &it, &key, &value)) {
		struct pool *p = value;
		if (p->idle_n && (all || p->ep.dialer == d))
			return p;
	}
	return NULL;
}

void http_client_forget_dialer(struct http_client *cl, const struct http_dialer *d)
{
	for (struct pool *p; (p = find_idle(cl, d, false));)
		close_idle(p);
}

void link_free_idle(struct http_client *cl)
{
	for (struct pool *p; (p = find_idle(cl, NULL, true));)
		close_idle(p);
}
