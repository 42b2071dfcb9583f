/*
 * ingress.c - the listener of a sidecar, on loopback: PUT /egress, GET /ca, and CONNECT into a port of the container.
 *
 * workerd sends CONNECT without a Host header, so requests are read here and not by the HTTP server: one head of at
 * most INGRESS_HEAD_MAX, then either an answer and the end, or raw bytes both ways with half-close. Port 3000 is the
 * agent's: it has no TCP port, and the bytes go to its socket. Every other port is dialled in the box's network
 * (sandbox/dial.h), first 127.0.0.1, then ::1.
 *
 * workerd learns of a container's end a moment after it, and stop() of the SDK does not wait for it at all. A request
 * to the agent of a container that is ending was never begun: it is answered with 503, which the SDK repeats. The
 * agent's connections therefore outlive the box by INGRESS_BETWEEN; a container that runs again by then gets them.
 *
 * Any user of the machine can connect to loopback. The kernel is asked whose socket the other end is (sock_diag);
 * connections of another user than the container's owner are closed.
 */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/sock_owner.h"
#include "daemon/core/dial.h"
#include "daemon/network/gate_client.h"
#include "doors/docker/docker.h"

enum { AGENT_PORT = 3000 };

struct ingress {
	struct container *c;
	struct loop_io io;
	uint16_t port;
	struct list conns;
	size_t conns_n;
	struct loop_timer rest; /* it does not accept until then */
};

/* One direction. */
struct way {
	char *p; /* INGRESS_BUFFER bytes, or NULL while nothing waits */
	size_t at, n;
	bool fresh;  /* the last look has brought bytes */
	bool ended;  /* no more will be read */
	bool passed; /* … and the other side was told */
};

enum stage { STAGE_HEAD, STAGE_EGRESS, STAGE_DIAL, STAGE_CONNECT, STAGE_RELAY, STAGE_BETWEEN, STAGE_REFUSED };

struct tunnel {
	struct list node;
	struct ingress *in; /* NULL: the sidecar is gone */
	struct loop *loop;
	enum stage stage;
	struct loop_io near, far;
	struct buf head;
	struct way out, back; /* to the box, from the box */
	struct sandbox *s;
	struct dial_waiter waiter;
	struct egress *egress; /* the change that it waits for, or NULL */
	uint16_t port;
	bool six;
	bool asked;  /* the last bytes went to the box: a request is under way */
	bool opened; /* CONNECT has been answered */
	struct loop_timer timer;
	struct loop_task free_task;
};

/* ---- life ---- */

static void free_tunnel(struct loop_task *t)
{
	struct tunnel *u = container_of(t, struct tunnel, free_task);
	buf_free(&u->head);
	free(u->out.p);
	free(u->back.p);
	free(u);
}

static void close_io(struct loop_io *io)
{
	if (!io->loop)
		return;
	int fd = io->fd;
	loop_del(io);
	close(fd);
}

static void tunnel_close(struct tunnel *u)
{
	if (u->in)
		u->in->conns_n--;
	u->in = NULL;
	list_del(&u->node);
	loop_timer_stop(&u->timer);
	dial_wait_cancel(&u->waiter);
	egress_forget(take_ptr(&u->egress));
	close_io(&u->near);
	close_io(&u->far);
	if (u->s) {
		sandbox_leave(u->s);
		u->s = NULL;
	}
	loop_defer(u->loop, &u->free_task, free_tunnel);
}

static void on_tunnel_due(struct loop_timer *t)
{
	tunnel_close(container_of(t, struct tunnel, timer));
}

/* Short answers fit into a socket's buffer; then the connection ends. */
static void answer(struct tunnel *u, const char *status, const char *type, struct str body)
{
	auto_buf struct buf out = {0};
	buf_printf(&out, "HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n%.*s",
		status, type, body.n, STR_ARG(body));
	if (send(u->near.fd, buf_str(&out).p, buf_size(&out), MSG_NOSIGNAL | MSG_DONTWAIT) > 0)
		shutdown(u->near.fd, SHUT_WR);
	tunnel_close(u);
}

static void refuse(struct tunnel *u)
{
	char text[80];
	snprintf(text, sizeof text, "nothing listens on port %u of the container", u->port);
	answer(u, "400 Bad Request", "text/plain", str_of(text));
}

/* ---- bytes both ways ---- */

static void set_interest(struct tunnel *u)
{
	uint32_t near = 0, far = 0;
	if (!u->out.ended && u->out.n == 0)
		near |= EPOLLIN;
	if (!u->back.ended && u->back.n == 0)
		far |= EPOLLIN;
	if (u->out.n)
		far |= EPOLLOUT;
	if (u->back.n)
		near |= EPOLLOUT;
	/* A socket that has hung up is reported on and on, wanted or not: once is enough for one that has to wait. */
	loop_set_events(&u->near, near ? near : EPOLLET);
	loop_set_events(&u->far, far ? far : EPOLLET);
}

/* Moves what it can. False: the connection is broken. */
static bool move(struct way *w, int from, int to, bool readable)
{
	w->fresh = false;
	if (readable && !w->ended && w->n == 0) {
		if (!w->p)
			w->p = xmalloc(INGRESS_BUFFER);
		ssize_t n = recv(from, w->p, INGRESS_BUFFER, MSG_DONTWAIT);
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return false;
		w->at = 0;
		w->n = n > 0 ? (size_t)n : 0;
		w->fresh = n > 0;
		w->ended = n == 0;
	}
	while (w->n) {
		ssize_t n = send(to, w->p + w->at, w->n, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN;
		w->at += (size_t)n;
		w->n -= (size_t)n;
	}
	free(take_ptr(&w->p)); /* an idle connection holds no buffer */
	if (w->ended && !w->passed) {
		w->passed = true;
		shutdown(to, SHUT_WR);
	}
	return true;
}

/* ---- between two boxes ---- */

static void dial_app(struct tunnel *u, struct sandbox *s);

/* The sandbox of the sidecar's container when requests may go there, else NULL. */
static struct sandbox *ready_box(const struct tunnel *u)
{
	struct container *app = container_partner(u->in->c);
	bool takes = app && app->state == CONTAINER_RUNNING && app->wanted < 0;
	struct sandbox *s = takes ? sandbox_find(app->docker->daemon, app->box) : NULL;
	return s && sandbox_is_ready(s) ? s : NULL;
}

/* The container was there and is on its way out, or gone: workerd may not know yet. */
static bool is_ending(const struct tunnel *u)
{
	const struct container *app = container_partner(u->in->c);
	return app && (app->state == CONTAINER_EXITED || (app->state == CONTAINER_RUNNING && app->wanted >= 0));
}

static void on_refused(struct loop_io *io, uint32_t events)
{
	struct tunnel *u = container_of(io, struct tunnel, near);
	char chunk[4096];
	(void)events;
	ssize_t n = recv(io->fd, chunk, sizeof chunk, MSG_DONTWAIT);
	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		tunnel_close(u);
}

/* Reads the rest of the request away: a close before would take the answer along. */
static void refuse_request(struct tunnel *u)
{
	static const char head[] = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n"
				   "Retry-After: 1\r\nConnection: close\r\n";
	static const char body[] = "{\"code\":\"INTERNAL_ERROR\",\"message\":\"the container is stopping; try "
				   "again\",\"context\":{},\"httpStatus\":503}";
	auto_buf struct buf out = {0};
	int fd = u->near.fd;
	buf_printf(&out, "%sContent-Length: %zu\r\n\r\n%s", head, sizeof body - 1, body);
	u->stage = STAGE_REFUSED;
	loop_timer_set(u->loop, &u->timer, INGRESS_BETWEEN, on_tunnel_due);
	loop_del(&u->near);
	if (send(fd, buf_str(&out).p, buf_size(&out), MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)buf_size(&out) ||
		shutdown(fd, SHUT_WR) < 0 || loop_add(u->loop, &u->near, fd, EPOLLIN, on_refused) < 0) {
		close(fd);
		tunnel_close(u);
	}
}

/* A request on a connection without a box. */
static void on_between(struct loop_io *io, uint32_t events)
{
	struct tunnel *u = container_of(io, struct tunnel, near);
	char first = 0;
	(void)events;
	ssize_t n = recv(io->fd, &first, 1, MSG_DONTWAIT | MSG_PEEK);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	/* It is being connected to the next box: the client has gone. */
	if (u->stage != STAGE_BETWEEN)
		return tunnel_close(u);
	/* The first letter of a method; a frame of a WebSocket begins with another byte. */
	if (n != 1 || first < 'A' || first > 'Z')
		return tunnel_close(u);
	struct sandbox *s = ready_box(u);
	if (s)
		dial_app(u, s);
	else
		refuse_request(u);
}

static void go_between(struct tunnel *u, int ms)
{
	int fd = u->near.fd;
	close_io(&u->far);
	if (u->s)
		sandbox_leave(take_ptr(&u->s));
	free(u->out.p);
	free(u->back.p);
	u->out = u->back = (struct way){0};
	u->stage = STAGE_BETWEEN;
	loop_timer_set(u->loop, &u->timer, ms, on_tunnel_due);
	loop_del(&u->near);
	if (loop_add(u->loop, &u->near, fd, EPOLLIN, on_between) < 0) {
		close(fd);
		tunnel_close(u);
	}
}

/* Whether a request comes to a container that is ending, or the box behind an idle connection has ended. */
static bool is_left(struct tunnel *u, bool near, bool far)
{
	char byte;
	if (u->port != AGENT_PORT || u->asked || u->out.n || u->back.n || !is_ending(u))
		return false;
	return near || (far && recv(u->far.fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) <= 0);
}

static void relay(struct tunnel *u, uint32_t near, uint32_t far)
{
	const uint32_t in = EPOLLIN | EPOLLHUP | EPOLLERR;
	if (is_left(u, near & in, far & in))
		return go_between(u, INGRESS_BETWEEN);
	if (u->s)
		sandbox_touch(u->s);
	if (!move(&u->out, u->near.fd, u->far.fd, near & in) || !move(&u->back, u->far.fd, u->near.fd, far & in) ||
		(u->out.passed && u->back.passed))
		return tunnel_close(u);
	u->asked = u->out.fresh || (u->asked && !u->back.fresh);
	set_interest(u);
}

static void on_near(struct loop_io *io, uint32_t events)
{
	relay(container_of(io, struct tunnel, near), events, 0);
}

static void on_far(struct loop_io *io, uint32_t events)
{
	relay(container_of(io, struct tunnel, far), 0, events);
}

static const char ok[] = "HTTP/1.1 200 OK\r\n\r\n";

static void begin_relay(struct tunnel *u)
{
	int fd = u->near.fd;
	loop_timer_stop(&u->timer);
	u->stage = STAGE_RELAY;
	if (!u->opened && send(fd, ok, sizeof ok - 1, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)sizeof ok - 1)
		return tunnel_close(u);
	u->opened = true;
	u->asked = u->out.n > 0;
	loop_del(&u->near);
	if (loop_add(u->loop, &u->near, fd, EPOLLIN, on_near) < 0) {
		close(fd);
		return tunnel_close(u);
	}
	int far = u->far.fd;
	loop_del(&u->far);
	if (loop_add(u->loop, &u->far, far, EPOLLIN, on_far) < 0) {
		close(far);
		return tunnel_close(u);
	}
	relay(u, 0, 0);
}

/* ---- into the box ---- */

static void dial(struct tunnel *u);

static void on_connected(struct loop_io *io, uint32_t events)
{
	struct tunnel *u = container_of(io, struct tunnel, far);
	int error = 0;
	socklen_t n = sizeof error;
	(void)events;
	if (getsockopt(io->fd, SOL_SOCKET, SO_ERROR, &error, &n) == 0 && !error)
		return begin_relay(u);
	close_io(&u->far);
	if (u->six || u->port == AGENT_PORT)
		return refuse(u);
	u->six = true;
	dial(u);
}

static void connect_to(struct tunnel *u, int fd, const struct http_endpoint *at)
{
	int one = 1;
	if (at->sa.sa_family != AF_UNIX)
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	bool failed = connect(fd, &at->sa, at->len) < 0 && errno != EINPROGRESS;
	if (failed || loop_add(u->loop, &u->far, fd, EPOLLOUT, on_connected) < 0) {
		close(fd);
		if (u->six || u->port == AGENT_PORT)
			return refuse(u);
		u->six = true;
		return dial(u);
	}
	u->stage = STAGE_CONNECT;
}

static void on_socket(struct dial_waiter *w, const struct err *e)
{
	struct tunnel *u = container_of(w, struct tunnel, waiter);
	if (e)
		refuse(u);
	else
		dial(u);
}

static void dial(struct tunnel *u)
{
	struct err e;
	if (u->port == AGENT_PORT) {
		int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		return fd < 0 ? refuse(u) : connect_to(u, fd, &u->s->agent);
	}
	struct http_endpoint at = dial_endpoint(u->s, u->port, u->six);
	int fd = at.dialer->take(at.dialer, u->six ? AF_INET6 : AF_INET);
	if (fd >= 0)
		return connect_to(u, fd, &at);
	u->waiter.on_done = on_socket;
	u->stage = STAGE_DIAL;
	if (fd != -EAGAIN || dial_wait(u->s, u->six, &u->waiter, &e) < 0)
		refuse(u);
}

static void dial_app(struct tunnel *u, struct sandbox *s)
{
	u->s = s;
	u->six = false;
	u->stage = STAGE_DIAL;
	sandbox_enter(s);
	loop_set_events(&u->near, 0);
	loop_timer_set(u->loop, &u->timer, INGRESS_CONNECT, on_tunnel_due);
	dial(u);
}

/* ---- requests ---- */

/* "127.0.0.1:PORT" */
static void on_connect_request(struct tunnel *u, struct str target)
{
	const char *colon = target.n ? memrchr(target.p, ':', target.n) : NULL;
	uint64_t port = 0;
	if (!colon || !str_to_u64(str_skip(target, (size_t)(colon - target.p) + 1), 65535, &port) || !port)
		return answer(u, "400 Bad Request", "text/plain", STR("CONNECT needs an address with a port"));
	u->port = (uint16_t)port;
	struct sandbox *s = ready_box(u);
	if (s)
		return dial_app(u, s);
	if (u->port != AGENT_PORT || !is_ending(u))
		return refuse(u);
	u->opened = true;
	if (send(u->near.fd, ok, sizeof ok - 1, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)sizeof ok - 1)
		tunnel_close(u);
	else if (u->out.n)
		refuse_request(u);
	else
		go_between(u, INGRESS_HEAD_TIMEOUT);
}

static void on_egress(void *arg, int status, const char *text)
{
	struct tunnel *u = arg;
	u->egress = NULL;
	if (status == 204)
		return answer(u, "204 No Content", "text/plain", STR(""));
	answer(u, status == 503 ? "503 Service Unavailable" : "500 Internal Server Error", "text/plain", str_of(text));
}

static void on_egress_request(struct tunnel *u, struct str body)
{
	struct egress_wish wish;
	struct err e;
	if (egress_read(body, &wish, &e) < 0)
		return answer(u, "400 Bad Request", "text/plain", str_of(e.msg));
	loop_set_events(&u->near, 0);
	u->stage = STAGE_EGRESS;
	u->egress = egress_change(u->in->c, &wish, on_egress, u);
	free(wish.hosts);
	if (!u->egress)
		answer(u, "503 Service Unavailable", "text/plain", STR("another change of /egress is under way"));
}

/* The host's authority: the gate ends the TLS of connections that a handler answers. */
static void on_ca_request(struct tunnel *u)
{
	const char *pem = gate_client_ca(u->in->c->docker->daemon->gate);
	answer(u, "200 OK", "application/x-pem-file", str_of(pem ? pem : ""));
}

static void on_request(struct tunnel *u, struct str head, struct str body)
{
	struct str rest, line = str_split(head, '\r', &rest), target, method = str_split(line, ' ', &target);
	target = str_split(target, ' ', &rest);
	if (str_eq_c(method, "CONNECT"))
		return on_connect_request(u, target);
	if (str_eq_c(method, "PUT") && str_eq_c(target, "/egress"))
		return on_egress_request(u, body);
	if (str_eq_c(method, "GET") && str_eq_c(target, "/ca"))
		return on_ca_request(u);
	answer(u, "404 Not Found", "text/plain", STR("no such path"));
}

/* The number of bytes that belong to the body; SIZE_MAX: too many, or not told. */
static size_t body_length(struct str head)
{
	uint64_t n = 0;
	struct str rest = head;
	while (rest.n) {
		struct str after, line = str_split(str_split(rest, '\n', &rest), '\r', &after), value;
		struct str name = str_split(line, ':', &value);
		if (str_eq_nocase(name, STR("transfer-encoding")))
			return SIZE_MAX;
		if (str_eq_nocase(name, STR("content-length")) && !str_to_u64(str_trim(value), INGRESS_BODY_MAX, &n))
			return SIZE_MAX;
	}
	return (size_t)n;
}

static void on_head(struct loop_io *io, uint32_t events)
{
	struct tunnel *u = container_of(io, struct tunnel, near);
	char chunk[4096];
	(void)events;
	/* The client has gone while it was served. */
	if (u->stage != STAGE_HEAD)
		return tunnel_close(u);
	/* A CONNECT is the whole of what comes before the answer, but for bytes that are sent ahead of it. */
	ssize_t n = recv(io->fd, chunk, sizeof chunk, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0 || buf_size(&u->head) + (size_t)n > INGRESS_HEAD_MAX + INGRESS_BODY_MAX)
		return tunnel_close(u);
	buf_add(&u->head, chunk, (size_t)n);
	struct str all = buf_str(&u->head);
	const char *end = memmem(all.p, all.n, "\r\n\r\n", 4);
	if (!end)
		return all.n > INGRESS_HEAD_MAX ? tunnel_close(u) : (void)0;
	struct str head = str_n(all.p, (size_t)(end + 4 - all.p));
	bool connects = str_starts(head, STR("CONNECT "));
	size_t body = connects ? 0 : body_length(head);
	if (body == SIZE_MAX)
		return answer(u, "413 Payload Too Large", "text/plain",
			STR("the body is too long, or has no Content-Length"));
	if (all.n < head.n + body)
		return;
	if (connects && all.n > head.n) {
		u->out.p = xmalloc(INGRESS_BUFFER);
		u->out.n = all.n - head.n < INGRESS_BUFFER ? all.n - head.n : INGRESS_BUFFER;
		memcpy(u->out.p, all.p + head.n, u->out.n);
	}
	on_request(u, head, str_n(all.p + head.n, body));
}

static void on_rested(struct loop_timer *t)
{
	loop_set_events(&container_of(t, struct ingress, rest)->io, EPOLLIN);
}

/* A connection that cannot be taken for want of descriptors or memory would be reported on and on. */
static void rest(struct ingress *in, int os)
{
	if (os != EMFILE && os != ENFILE && os != ENOBUFS && os != ENOMEM)
		return;
	log_limited(LOG_WARN, "connection to a sidecar not taken", "name=%s error=%s", LOG_Q(in->c->name),
		LOG_Q(strerror(os)));
	loop_set_events(&in->io, 0);
	loop_timer_set(in->c->docker->daemon->loop, &in->rest, INGRESS_REST, on_rested);
}

static void on_accept(struct loop_io *io, uint32_t events)
{
	struct ingress *in = container_of(io, struct ingress, io);
	(void)events;
	auto_fd int fd = accept4(io->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	int one = 1;
	if (fd < 0)
		return rest(in, errno);
	int64_t uid = sock_owner_peer(fd);
	if (uid != (int64_t)in->c->uid || in->conns_n >= INGRESS_CONNS_MAX) {
		log_limited(LOG_WARN, "connection to a sidecar refused", "name=%s uid=%lld", LOG_Q(in->c->name),
			(long long)uid);
		return;
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	struct tunnel *u = xcalloc(1, sizeof *u);
	*u = (struct tunnel){.in = in, .loop = in->c->docker->daemon->loop};
	if (loop_add(u->loop, &u->near, fd, EPOLLIN, on_head) < 0) {
		free(u);
		return;
	}
	(void)take_fd(&fd);
	list_push(&in->conns, &u->node);
	in->conns_n++;
	loop_timer_set(u->loop, &u->timer, INGRESS_HEAD_TIMEOUT, on_tunnel_due);
}

/* ---- listener ---- */

struct ingress *ingress_open(struct container *c, uint16_t port, struct err *e)
{
	int fd = fd_loopback_listen(port, 128, &port);
	if (fd < 0 && port)
		fd = fd_loopback_listen(0, 128, &port);
	if (fd < 0) {
		err_os(e, ERRC_INTERNAL_ERROR, -fd, "listen for the container '%.60s'", c->name);
		return NULL;
	}
	struct ingress *in = xcalloc(1, sizeof *in);
	in->c = c;
	list_init(&in->conns);
	if (loop_add(c->docker->daemon->loop, &in->io, fd, EPOLLIN, on_accept) < 0) {
		err_os(e, ERRC_INTERNAL_ERROR, errno, "listen for the container '%.60s'", c->name);
		close(fd);
		free(in);
		return NULL;
	}
	in->port = port;
	return in;
}

uint16_t ingress_port(const struct ingress *in)
{
	return in->port;
}

void ingress_close(struct ingress *in)
{
	if (!in)
		return;
	loop_timer_stop(&in->rest);
	close_io(&in->io);
	while (!list_empty(&in->conns))
		tunnel_close(list_entry(in->conns.next, struct tunnel, node));
	free(in);
}
