#include "gate/relay.h"

#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "gate/spare.h"

static char scratch[GATE_SMALL * 4];

/* ---- pipes ---- */

static int idle_pipes[GATE_PIPES_IDLE][2];
static size_t idle_pipes_n;

static bool take_pipe(struct relay_way *w)
{
	if (idle_pipes_n) {
		idle_pipes_n--;
		w->pipe[0] = idle_pipes[idle_pipes_n][0];
		w->pipe[1] = idle_pipes[idle_pipes_n][1];
		return true;
	}
	if (!spare_take(2))
		return false;
	if (pipe2(w->pipe, O_CLOEXEC | O_NONBLOCK) < 0) {
		spare_give(2);
		w->pipe[0] = w->pipe[1] = -1;
		return false;
	}
	/* More than the user's share is refused; the default size works as well. */
	fcntl(w->pipe[1], F_SETPIPE_SZ, (int)GATE_PIPE_SIZE);
	return true;
}

/* A pipe with bytes in it is of no use to another way. */
static void drop_pipe(struct relay_way *w)
{
	if (w->pipe[0] < 0)
		return;
	if (!w->piped && idle_pipes_n < GATE_PIPES_IDLE) {
		idle_pipes[idle_pipes_n][0] = w->pipe[0];
		idle_pipes[idle_pipes_n++][1] = w->pipe[1];
		w->pipe[0] = w->pipe[1] = -1;
		return;
	}
	fd_close(&w->pipe[0]);
	fd_close(&w->pipe[1]);
	spare_give(2);
	w->piped = 0;
}

/* ---- rates ---- */

static void on_refill(struct loop_timer *t);

void relay_bucket_init(struct relay_bucket *b, struct loop *l)
{
	*b = (struct relay_bucket){.loop = l, .party = turn_party_new(l)};
	list_init(&b->waiting);
}

static void refill(struct relay_bucket *b)
{
	uint64_t now = loop_now(b->loop), ms = now - b->filled;
	b->filled = now;
	b->tokens += (int64_t)(b->rate * (ms < 1000 ? ms : 1000) / 1000);
	/* A quarter of a second may come at once. */
	int64_t most = (int64_t)(b->rate / 4 > GATE_SMALL ? b->rate / 4 : GATE_SMALL);
	if (b->tokens > most)
		b->tokens = most;
}

/* How much may be read now; 0: wait. */
static size_t allowance(struct relay *r, size_t want)
{
	struct relay_bucket *b = r->bucket;
	if (!b || !b->rate)
		return want;
	refill(b);
	if (b->tokens > 0)
		return (size_t)b->tokens < want ? (size_t)b->tokens : want;
	if (!r->waits.next || list_empty(&r->waits))
		list_push(&b->waiting, &r->waits);
	if (!b->timer.pos)
		loop_timer_set(b->loop, &b->timer, GATE_RATE_SLICE, on_refill);
	return 0;
}

static void pump_both(struct relay *r);

static void on_refill(struct loop_timer *t)
{
	struct relay_bucket *b = container_of(t, struct relay_bucket, timer);
	turn_bill(b->party);
	refill(b);
	struct list now;
	list_init(&now);
	while (!list_empty(&b->waiting))
		list_push(&now, list_pop(&b->waiting));
	while (!list_empty(&now))
		pump_both(list_entry(list_pop(&now), struct relay, waits));
}

void relay_bucket_set(struct relay_bucket *b, uint64_t rate)
{
	b->rate = rate;
	b->tokens = 0;
	b->filled = loop_now(b->loop);
	if (!list_empty(&b->waiting))
		loop_timer_set(b->loop, &b->timer, 0, on_refill);
}

bool relay_bucket_take(struct relay_bucket *b, size_t n)
{
	if (!b->rate)
		return true;
	refill(b);
	if (b->tokens <= 0)
		return false;
	b->tokens -= (int64_t)n;
	return true;
}

void relay_bucket_free(struct relay_bucket *b)
{
	loop_timer_stop(&b->timer);
	turn_party_unref(b->party);
}

/* ---- one way ---- */

bool relay_holds(const struct relay_way *w)
{
	return buf_size(&w->left) || w->piped;
}

static void put_last(struct relay *r)
{
	if (!r->order || r->moved - r->ordered < GATE_ORDER_SLICE)
		return;
	r->ordered = r->moved;
	list_del(r->place);
	list_push(r->order, r->place);
}

static void spent(struct relay *r, struct relay_way *w, size_t n)
{
	r->server_first |= n && w == &r->down && !r->up.bytes;
	w->bytes += n;
	r->moved = loop_now(r->loop);
	put_last(r);
	if (r->bucket && r->bucket->rate)
		r->bucket->tokens -= (int64_t)n;
	if (n && r->bucket && r->bucket->on_moved)
		r->bucket->on_moved(r->bucket);
}

/* Passes on what waits. 0: all is gone, or the other side takes no more; -errno: it is broken. */
static int flush(struct relay *r, struct relay_way *w)
{
	while (buf_size(&w->left)) {
		struct str s = buf_str(&w->left);
		ssize_t n = send(w->to->fd, s.p, s.n, MSG_NOSIGNAL);
		if (n < 0)
			return errno == EAGAIN ? 0 : -errno;
		buf_consume(&w->left, (size_t)n);
		spent(r, w, (size_t)n);
	}
	if (w->left.cap)
		buf_free(&w->left);
	while (w->piped) {
		ssize_t n = splice(w->pipe[0], NULL, w->to->fd, NULL, w->piped, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
		if (n < 0)
			return errno == EAGAIN ? 0 : -errno;
		w->piped -= (size_t)n;
		spent(r, w, (size_t)n);
	}
	return 0;
}

/* Reads once and passes on what the other side takes. > 0: bytes, 0: the end, -EAGAIN, or another -errno; *broken says
 * whose. */
static ssize_t move_piped(struct relay *r, struct relay_way *w, size_t most, struct relay_side **broken)
{
	ssize_t n = splice(w->from->fd, NULL, w->pipe[1], NULL, most, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
	*broken = w->from;
	if (n <= 0)
		return n < 0 ? -errno : 0;
	w->piped = (size_t)n;
	int f = flush(r, w);
	*broken = w->to;
	return f < 0 ? f : n;
}

static ssize_t move_copied(struct relay *r, struct relay_way *w, size_t most, struct relay_side **broken)
{
	ssize_t n = recv(w->from->fd, scratch, most < sizeof scratch ? most : sizeof scratch, 0);
	*broken = w->from;
	if (n <= 0)
		return n < 0 ? -errno : 0;
	ssize_t s = send(w->to->fd, scratch, (size_t)n, MSG_NOSIGNAL);
	*broken = w->to;
	if (s < 0 && errno != EAGAIN)
		return -errno;
	s = s < 0 ? 0 : s;
	spent(r, w, (size_t)s);
	buf_add(&w->left, scratch + s, (size_t)(n - s));
	return n;
}

static ssize_t move(struct relay *r, struct relay_way *w, struct relay_side **broken)
{
	size_t most = allowance(r, GATE_PIPE_SIZE);
	*broken = w->from;
	if (!most)
		return -EAGAIN;
	if (w->bulk && w->pipe[0] < 0 && !take_pipe(w))
		w->bulk = false;
	ssize_t n = w->bulk ? move_piped(r, w, most, broken) : move_copied(r, w, most, broken);
	if (n > 0)
		w->bulk = (size_t)n >= GATE_SMALL;
	return n;
}

static void stop(struct relay *r);

static void end(struct relay *r, enum relay_end how)
{
	loop_del_closing(&r->client.io);
	loop_del_closing(&r->server.io);
	stop(r);
	r->on_end(r, how);
}

/* Only when the server has got all of its bytes: closing with some under way and an answer unread would drop them. */
static bool has_left(struct relay *r)
{
	struct tcp_info i = {0};
	socklen_t n = sizeof i;
	if (r->down.shut || !r->client_left || getsockopt(r->server.fd, IPPROTO_TCP, TCP_INFO, &i, &n) < 0)
		return false;
	return !i.tcpi_unacked && !i.tcpi_notsent_bytes && r->client_left(r);
}

static void on_idle(struct loop_timer *t);

/* False: the relay is over. A short read is the last one: epoll says when there is more. */
static bool pump(struct relay *r, struct relay_way *w)
{
	struct relay_side *broken = w->to;
	ssize_t n = flush(r, w);
	bool more = n >= 0;
	for (size_t turn = 0; more && !relay_holds(w) && !w->ended && turn < GATE_TURN_MAX;) {
		n = move(r, w, &broken);
		if (n > 0)
			turn += (size_t)n;
		w->ended |= n == 0;
		more = n > 0 && w->bulk;
	}
	/* Idle from here on, for all we know: the pipe is for others. */
	if (!w->piped)
		drop_pipe(w);
	if (n == -EAGAIN)
		n = 0;
	if (n < 0) {
		end(r, broken == &r->client ? RELAY_CLIENT_RESET : RELAY_SERVER_RESET);
		return false;
	}
	if (w->ended && !relay_holds(w) && !w->shut) {
		if (w == &r->up && has_left(r)) {
			end(r, RELAY_CLOSED);
			return false;
		}
		w->shut = true;
		if (w == &r->up && r->client_left)
			loop_timer_set(r->loop, &r->idle, GATE_LEFT_LOOK, on_idle);
		/* The last end of both: the descriptors are closed now, which says the same. */
		if (!r->up.shut || !r->down.shut)
			shutdown(w->to->fd, SHUT_WR);
	}
	return true;
}

/* ---- both ---- */

enum { READABLE = EPOLLIN | EPOLLRDHUP };

static bool is_throttled(const struct relay *r)
{
	return r->waits.next && !list_empty(&r->waits);
}

static void on_ready(struct loop_io *io, uint32_t events);

/* What a side is waited for: input while its way out is free, output while its way in holds something. False: the
 * kernel cannot wait for it. */
static bool watch(struct relay *r, struct relay_side *s, struct relay_way *out, struct relay_way *in)
{
	bool reads = !out->ended && !relay_holds(out) && !is_throttled(r);
	uint32_t events = (reads ? READABLE : 0) | (relay_holds(in) ? EPOLLOUT : 0);
	bool done = out->ended && in->shut;
	/* Set when it has been served. */
	if (turn_waits(&s->seat))
		return true;
	/* A socket that has hung up is reported on and on, wanted or not. */
	if (done || (!events && s->hung))
		loop_del(&s->io);
	else if (s->io.loop)
		loop_set_events(&s->io, events);
	else
		return loop_add(r->loop, &s->io, s->fd, events, on_ready) == 0;
	return true;
}

static void settle(struct relay *r)
{
	if (r->up.shut && r->down.shut)
		return end(r, RELAY_CLOSED);
	if (!watch(r, &r->client, &r->up, &r->down) || !watch(r, &r->server, &r->down, &r->up))
		end(r, RELAY_UNWATCHED);
}

static void pump_both(struct relay *r)
{
	if (!r->over && pump(r, &r->up) && pump(r, &r->down))
		settle(r);
}

static void act(struct relay_side *s, uint32_t events)
{
	struct relay *r = s->relay;
	struct relay_way *out = s == &r->client ? &r->up : &r->down, *in = s == &r->client ? &r->down : &r->up;
	int os = 0;
	socklen_t n = sizeof os;
	s->hung |= (events & EPOLLHUP) != 0;
	if (events & EPOLLERR && getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &os, &n) == 0 && os)
		return end(r, s == &r->client ? RELAY_CLIENT_RESET : RELAY_SERVER_RESET);
	if (events & EPOLLOUT && !pump(r, in))
		return;
	if (events & (EPOLLIN | EPOLLHUP) && !pump(r, out))
		return;
	settle(r);
}

static void on_later(struct loop_task *t)
{
	struct relay_side *s = container_of(t, struct relay_side, later);
	if (s->seat.party)
		turn_bill(s->seat.party);
	act(s, s->events);
}

/* Ending takes longer than beginning: sockets say goodbye and are closed. Connections that begin in this turn, and
 * their first bytes, do not wait for that. */
static void take_up(struct turn_seat *seat, uint32_t events)
{
	struct relay_side *s = container_of(seat, struct relay_side, seat);
	if (!(events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)))
		return act(s, events);
	s->events = events;
	loop_defer_last(s->relay->loop, &s->later, on_later);
}

static void on_ready(struct loop_io *io, uint32_t events)
{
	struct relay_side *s = container_of(io, struct relay_side, io);
	if (s->seat.party)
		turn_bill(s->seat.party);
	if (!s->seat.party || turn_admit(&s->seat, events))
		take_up(&s->seat, events);
}

static void on_idle(struct loop_timer *t)
{
	struct relay *r = container_of(t, struct relay, idle);
	uint64_t limit = r->up.shut || r->down.shut ? GATE_HALF_IDLE : GATE_IDLE, since = loop_now(r->loop) - r->moved;
	uint64_t next = r->up.shut && r->client_left ? GATE_LEFT_LOOK : GATE_HALF_IDLE;
	if (since >= limit)
		return end(r, RELAY_IDLE);
	if (r->up.shut && has_left(r))
		return end(r, RELAY_CLOSED);
	loop_timer_set(r->loop, &r->idle, limit - since < next ? limit - since : next, on_idle);
}

/* The client's first bytes are on their way before anything is waited for. */
static void on_first(struct loop_task *t)
{
	struct relay *r = container_of(t, struct relay, first);
	if (r->bucket)
		turn_bill(r->bucket->party);
	if (pump(r, &r->up))
		settle(r);
}

void relay_start(struct relay *r, struct loop *l, int client, int server, struct relay_bucket *bucket,
	void (*on_end)(struct relay *r, enum relay_end how))
{
	r->loop = l;
	r->bucket = bucket;
	r->on_end = on_end;
	r->moved = loop_now(l);
	r->client.fd = client;
	r->server.fd = server;
	r->client.relay = r->server.relay = r;
	r->client.seat = (struct turn_seat){.io = &r->client.io, .run = take_up};
	r->server.seat = (struct turn_seat){.io = &r->server.io, .run = take_up};
	r->client.seat.party = r->server.seat.party = bucket ? bucket->party : NULL;
	r->up = (struct relay_way){
		.from = &r->client, .to = &r->server, .pipe = {-1, -1}, .left = {.max = sizeof scratch}};
	r->down = (struct relay_way){
		.from = &r->server, .to = &r->client, .pipe = {-1, -1}, .left = {.max = sizeof scratch}};
	loop_timer_set(l, &r->idle, GATE_HALF_IDLE, on_idle);
	loop_defer(l, &r->first, on_first);
}

static bool is_untouched(const struct relay_way *w)
{
	return !w->bytes && !relay_holds(w) && !w->ended;
}

bool relay_is_untouched(const struct relay *r)
{
	return r->loop && !r->over && is_untouched(&r->up) && is_untouched(&r->down);
}

static void stop(struct relay *r)
{
	r->over = true;
	loop_timer_stop(&r->idle);
	list_del(&r->waits);
	list_del(&r->first.node);
	list_del(&r->client.later.node);
	list_del(&r->server.later.node);
	turn_leave(&r->client.seat);
	turn_leave(&r->server.seat);
	drop_pipe(&r->up);
	drop_pipe(&r->down);
	buf_free(&r->up.left);
	buf_free(&r->down.left);
}

void relay_stop(struct relay *r)
{
	if (!r->loop || r->over)
		return;
	loop_del(&r->client.io);
	loop_del(&r->server.io);
	stop(r);
}

void relay_reset(int *fd)
{
	const struct linger now = {.l_onoff = 1, .l_linger = 0};
	if (*fd >= 0)
		setsockopt(*fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
	fd_close(fd);
}
