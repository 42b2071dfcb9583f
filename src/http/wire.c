#include "http/wire.h"

#include "base/limits.h"
#include "http/limits.h"
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

enum { WIRE_DIRECT = 8192, IOV_MAX_HERE = 7 };

/* One per thread: a loop never reads from inside a read. */
static _Thread_local char scratch[HTTP_READ_CHUNK];

void wire_open(struct wire *w, struct loop *l, int fd, void (*on_ready)(struct loop_io *, uint32_t),
	void (*on_flush)(struct wire *w))
{
	*w = (struct wire){.loop = l, .fd = fd, .on_ready = on_ready, .on_flush = on_flush};
	w->out.max = 2 * BUF_MAX_DEFAULT;
}

int wire_watch(struct wire *w, uint32_t events)
{
	if (!w->io.loop)
		return loop_add(w->loop, &w->io, w->fd, events, w->on_ready);
	loop_set_events(&w->io, events);
	return 0;
}

void wire_unwatch(struct wire *w)
{
	loop_del(&w->io);
}

void wire_close(struct wire *w, bool reset)
{
	list_del(&w->task.node);
	loop_del(&w->io);
	if (w->layer)
		w->layer->ops->free(w->layer);
	w->layer = NULL;
	if (reset && w->fd >= 0)
		setsockopt(w->fd, SOL_SOCKET, SO_LINGER, &(struct linger){1, 0}, sizeof(struct linger));
	fd_close(&w->fd);
	buf_free(&w->out);
	w->broken = true;
}

void wire_shutdown(struct wire *w)
{
	if (w->layer && !w->broken)
		w->layer->ops->goodbye(w->layer);
	shutdown(w->fd, SHUT_WR);
}

static void run_flush(struct loop_task *t)
{
	struct wire *w = container_of(t, struct wire, task);
	w->on_flush(w);
}

void wire_kick(struct wire *w)
{
	loop_defer(w->loop, &w->task, run_flush);
}

static ssize_t send_layered(struct wire *w, const struct iovec *v)
{
	ssize_t r = w->layer->ops->write(w->layer, v->iov_base, v->iov_len);
	errno = r < 0 ? (int)-r : 0;
	return r < 0 ? -1 : r;
}

/* How many bytes of v the kernel took; sets blocked and broken. With a layer v is one piece. */
static size_t send_some(struct wire *w, struct iovec *v, int n)
{
	struct msghdr m = {.msg_iov = v, .msg_iovlen = (size_t)n};
	const int flags = MSG_NOSIGNAL | MSG_DONTWAIT;
	ssize_t r;
	do
		r = w->layer ? send_layered(w, v)
		    : n == 1 ? send(w->fd, v->iov_base, v->iov_len, flags)
			     : sendmsg(w->fd, &m, flags);
	while (r < 0 && errno == EINTR);
	if (r >= 0) {
		w->sent += (size_t)r;
		return (size_t)r;
	}
	if (errno == EAGAIN || errno == ENOBUFS)
		w->blocked = true;
	else
		w->broken = true;
	return 0;
}

void wire_flush(struct wire *w)
{
	while (buf_size(&w->out) && !w->blocked && !w->broken && !w->held) {
		struct str s = buf_str(&w->out);
		struct iovec v = {(void *)s.p, s.n};
		size_t n = send_some(w, &v, 1);
		buf_consume(&w->out, n);
		if (n < s.n)
			w->blocked = true;
	}
	wire_relax(&w->out);
}

/* Sends the waiting bytes and v in one call and keeps what was not taken. */
static void write_direct(struct wire *w, struct iovec *v, int n, size_t total)
{
	struct iovec all[IOV_MAX_HERE];
	struct str waiting = buf_str(&w->out);
	int k = 0;
	if (waiting.n)
		all[k++] = (struct iovec){(void *)waiting.p, waiting.n};
	for (int i = 0; i < n; i++)
		all[k++] = v[i];
	size_t sent = send_some(w, all, k);
	size_t first = sent < waiting.n ? sent : waiting.n;
	if (sent < waiting.n + total)
		w->blocked = true;
	buf_consume(&w->out, first);
	sent -= first;
	for (int i = 0; i < n; i++) {
		size_t skip = sent < v[i].iov_len ? sent : v[i].iov_len;
		buf_add(&w->out, (char *)v[i].iov_base + skip, v[i].iov_len - skip);
		sent -= skip;
	}
}

bool wire_write(struct wire *w, struct iovec *v, int n)
{
	INVARIANT(n < IOV_MAX_HERE);
	if (w->broken)
		return false;
	size_t total = 0;
	for (int i = 0; i < n; i++)
		total += v[i].iov_len;
	if (total >= WIRE_DIRECT && !w->blocked && !w->held && !w->layer)
		write_direct(w, v, n, total);
	else
		for (int i = 0; i < n; i++)
			buf_add(&w->out, v[i].iov_base, v[i].iov_len);
	/* A layer copies anyway, and makes full records of what it gets in one piece. */
	if (w->layer && total >= WIRE_DIRECT)
		wire_flush(w);
	if (w->out.failed)
		w->broken = true;
	wire_kick(w);
	w->yields |= w->sent - w->turn > HTTP_TURN_MAX;
	w->full |= buf_size(&w->out) > HTTP_OUT_HIGH || w->broken || w->yields;
	return !w->full;
}

bool wire_take_room(struct wire *w)
{
	if (!w->full || w->yields || w->broken || buf_size(&w->out) >= HTTP_OUT_LOW)
		return false;
	w->full = false;
	return true;
}

static ssize_t read_layered(struct wire *w, char **ret_p)
{
	enum layer_wants wants = LAYER_WANTS_NOTHING;
	ssize_t n = w->layer->ops->read(w->layer, scratch, sizeof scratch, &wants);
	w->in_waits = n == -EAGAIN && wants == LAYER_WANTS_WRITE;
	/* A blocked write of the layer may have waited for these bytes. */
	w->blocked &= n == -EAGAIN;
	*ret_p = scratch;
	return n;
}

ssize_t wire_read(struct wire *w, char **ret_p)
{
	ssize_t n;
	if (w->layer)
		return read_layered(w, ret_p);
	do
		n = recv(w->fd, scratch, sizeof scratch, MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	*ret_p = scratch;
	return n < 0 ? -errno : n;
}

void wire_forget(void)
{
	explicit_bzero(scratch, sizeof scratch);
}

bool wire_is_tcp(int fd)
{
	int domain = 0;
	socklen_t len = sizeof domain;
	getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len);
	return domain == AF_INET || domain == AF_INET6;
}
