#include "gate/dial.h"

#include <netinet/tcp.h>
#include <sys/socket.h>

#include "gate/spare.h"

struct attempt {
	struct loop_io io;
	struct dial *d;
	int fd;
};

struct dial {
	struct loop *loop;
	struct turn_party *party; /* or NULL */
	struct ip ips[GATE_DIAL_MAX];
	struct attempt tries[GATE_DIAL_MAX];
	size_t n, next, open;
	size_t spare; /* descriptors that are lent to attempts beside the first */
	uint16_t port;
	int last; /* -errno */
	dial_on_done on_done;
	void *arg;
	struct loop_timer stagger, limit;
	struct loop_task done_task;
	int fd; /* of the winner */
	size_t winner;
};

static void bill(const struct dial *d)
{
	if (d->party)
		turn_bill(d->party);
}

void dial_for(struct dial *d, struct turn_party *party)
{
	d->party = party;
}

static void give_back(struct dial *d)
{
	spare_give(d->spare);
	d->spare = 0;
}

static void close_attempt(struct attempt *t)
{
	loop_del(&t->io);
	fd_close(&t->fd);
}

void dial_cancel(struct dial *d)
{
	for (size_t i = 0; i < d->next; i++)
		close_attempt(&d->tries[i]);
	loop_timer_stop(&d->stagger);
	loop_timer_stop(&d->limit);
	list_del(&d->done_task.node);
	fd_close(&d->fd);
	give_back(d);
	free(d);
}

static void tell(struct loop_task *task)
{
	struct dial *d = container_of(task, struct dial, done_task);
	bill(d);
	dial_on_done on_done = d->on_done;
	void *arg = d->arg;
	int fd = d->fd >= 0 ? take_fd(&d->fd) : d->last;
	struct ip ip = d->ips[d->winner];
	dial_cancel(d);
	on_done(arg, fd, &ip);
}

static void finish(struct dial *d)
{
	for (size_t i = 0; i < d->next; i++)
		close_attempt(&d->tries[i]);
	give_back(d);
	loop_timer_stop(&d->stagger);
	loop_timer_stop(&d->limit);
	loop_defer(d->loop, &d->done_task, tell);
}

static void try_next(struct dial *d);

static void failed(struct attempt *t, int os)
{
	struct dial *d = t->d;
	d->last = -os;
	d->open--;
	close_attempt(t);
	if (d->next < d->n)
		try_next(d);
	else if (!d->open)
		finish(d);
}

static void won(struct attempt *t)
{
	struct dial *d = t->d;
	d->winner = (size_t)(t - d->tries);
	loop_del(&t->io);
	d->fd = take_fd(&t->fd);
	finish(d);
}

static void on_ready(struct loop_io *io, uint32_t events)
{
	struct attempt *t = container_of(io, struct attempt, io);
	bill(t->d);
	int os = 0;
	socklen_t n = sizeof os;
	if (events & (EPOLLERR | EPOLLHUP) && getsockopt(t->fd, SOL_SOCKET, SO_ERROR, &os, &n) < 0)
		os = errno;
	if (os)
		failed(t, os);
	else
		won(t);
}

static void on_stagger(struct loop_timer *t)
{
	struct dial *d = container_of(t, struct dial, stagger);
	bill(d);
	try_next(d);
}

static void on_limit(struct loop_timer *t)
{
	struct dial *d = container_of(t, struct dial, limit);
	d->last = -ETIMEDOUT;
	finish(d);
}

/* The handshake with a server that is near is over when connect() returns, but only another call says so. That costs
 * less than a turn of the loop. */
static int try_connect(int fd, const struct sockaddr *sa, socklen_t n)
{
	for (int i = 0; i < 2; i++) {
		if (connect(fd, sa, n) == 0)
			return 0;
		if (errno != EINPROGRESS)
			break;
	}
	return errno == EALREADY ? -EINPROGRESS : -errno;
}

/* 0: waits for the server, 1: it is connected, or -errno. */
static int begin(struct attempt *t, const struct ip *ip, uint16_t port)
{
	const int on = 1;
	union ip_sockaddr sa;
	socklen_t n = ip_to_sockaddr(ip, port, &sa);
	t->fd = socket(sa.sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (t->fd < 0)
		return -errno;
	int r = try_connect(t->fd, &sa.sa, n);
	if (r < 0 && r != -EINPROGRESS)
		return r;
	/* While the server answers. */
	setsockopt(t->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	setsockopt(t->fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
	return r == 0 ? 1 : loop_add(t->d->loop, &t->io, t->fd, EPOLLOUT, on_ready);
}

/* Without a descriptor for another attempt, the one that has waited longest ends. */
static void make_room(struct dial *d)
{
	if (d->open < 1 + d->spare)
		return;
	if (spare_take(1)) {
		d->spare++;
		return;
	}
	size_t i = 0;
	while (i < d->next && d->tries[i].fd < 0)
		i++;
	INVARIANT(i < d->next);
	close_attempt(&d->tries[i]);
	d->open--;
}

static void try_next(struct dial *d)
{
	make_room(d);
	struct attempt *t = &d->tries[d->next++];
	t->d = d;
	d->open++;
	if (d->next < d->n)
		loop_timer_set(d->loop, &d->stagger, GATE_DIAL_STAGGER, on_stagger);
	else
		loop_timer_stop(&d->stagger);
	int r = begin(t, &d->ips[d->next - 1], d->port);
	if (r < 0)
		failed(t, -r);
	else if (r > 0)
		won(t);
}

struct dial *dial_start(struct loop *l, const struct ip *ips, size_t n, uint16_t port, dial_on_done on_done, void *arg)
{
	INVARIANT(n > 0);
	struct dial *d = xcalloc(1, sizeof *d);
	d->loop = l;
	d->n = n < GATE_DIAL_MAX ? n : GATE_DIAL_MAX;
	memcpy(d->ips, ips, d->n * sizeof *ips);
	for (size_t i = 0; i < GATE_DIAL_MAX; i++)
		d->tries[i].fd = -1;
	d->fd = -1;
	d->port = port;
	d->on_done = on_done;
	d->arg = arg;
	loop_timer_set(l, &d->limit, GATE_DIAL_TIMEOUT, on_limit);
	try_next(d);
	return d;
}

void dial_order(struct ip *ips, size_t n)
{
	for (size_t i = 1; i < n; i++) {
		size_t k = i;
		while (k < n && ip_is4(&ips[k]) == ip_is4(&ips[i - 1]))
			k++;
		if (k == n)
			return;
		struct ip moved = ips[k];
		memmove(&ips[i + 1], &ips[i], (k - i) * sizeof *ips);
		ips[i] = moved;
	}
}
