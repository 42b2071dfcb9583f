/*
 * One question to workerd: connect, CONNECT, its answer. Nothing behind the answer's head is read.
 */
#include "gate/worker.h"

#include <stdio.h>
#include <sys/socket.h>

#include "base/log.h"
#include "base/sock_owner.h"
#include "gate/gate.h"

struct worker_ask {
	struct gate *gate;
	struct dial *dial;
	struct loop_io io;
	struct loop_timer limit;
	struct loop_task fail_task;
	struct buf question, in;
	int fd;
	worker_on_done on_done;
	void *arg;
};

/* ---- what atolld tells ---- */

int worker_read(const struct json *o, struct worker **ret, struct err *e)
{
	uint64_t port = 0, uid = 0;
	const struct json *internet = json_get(o, "internet");
	struct hooks *names = NULL;
	*ret = NULL;
	if (json_read_u64(o, "port", 0, 65535, &port, e) < 0 || json_read_u64(o, "uid", 0, UINT32_MAX, &uid, e) < 0)
		return -1;
	if (!port)
		return 0;
	if (hooks_read(o, &names, e) < 0)
		return -1;
	*ret = xcalloc(1, sizeof **ret);
	**ret = (struct worker){.port = (uint16_t)port,
		.uid = (uint32_t)uid,
		.internet = internet && internet->type == JSON_T_BOOL && internet->boolean,
		.names = names};
	return 0;
}

void worker_free(struct worker *w)
{
	if (!w)
		return;
	hooks_free(w->names);
	free(w);
}

bool worker_names(const struct worker *w, const char *name)
{
	return w && (hooks_any(w->names) || hooks_name(w->names, name));
}

/* ---- one question ---- */

void worker_ask_cancel(struct worker_ask *a)
{
	if (!a)
		return;
	if (a->dial)
		dial_cancel(a->dial);
	loop_del(&a->io);
	loop_timer_stop(&a->limit);
	list_del(&a->fail_task.node);
	fd_close(&a->fd);
	buf_free(&a->question);
	buf_free(&a->in);
	free(a);
}

static void done(struct worker_ask *a, int status)
{
	worker_on_done on_done = a->on_done;
	void *arg = a->arg;
	int fd = status == 200 || status == 202 ? take_fd(&a->fd) : -1;
	worker_ask_cancel(a);
	on_done(arg, status, fd);
}

static void fail(struct worker_ask *a, const char *why)
{
	log_limited(LOG_WARN, "workerd did not answer for a box's connection", "why=%s", LOG_Q(why));
	done(a, 0);
}

static void on_limit(struct loop_timer *t)
{
	fail(container_of(t, struct worker_ask, limit), "it took too long");
}

static void on_stranger(struct loop_task *t)
{
	fail(container_of(t, struct worker_ask, fail_task), "nobody, or another user, listens on its port");
}

/* Looks first, and takes what belongs to the head. */
static void on_answer(struct loop_io *io, uint32_t events)
{
	struct worker_ask *a = container_of(io, struct worker_ask, io);
	char piece[1024];
	uint64_t status = 0;
	(void)events;
	ssize_t n = recv(a->fd, piece, sizeof piece, MSG_PEEK);
	if (n < 0 && errno == EAGAIN)
		return;
	size_t before = buf_size(&a->in);
	if (n <= 0 || !buf_add(&a->in, piece, (size_t)n))
		return fail(a, "it hung up, or its answer is too long");
	struct str all = buf_str(&a->in);
	char *end = memmem(all.p, all.n, "\r\n\r\n", 4);
	size_t take = end ? (size_t)(end - all.p) + 4 - before : (size_t)n;
	if (recv(a->fd, piece, take, 0) != (ssize_t)take)
		return fail(a, "it hung up");
	if (!end)
		return;
	if (all.n < 12 || !str_starts(all, STR("HTTP/1.")) || !str_to_u64(str_n(all.p + 9, 3), 999, &status))
		return fail(a, "it does not speak HTTP");
	loop_del(&a->io);
	done(a, (int)status);
}

static void on_dialled(void *arg, int fd, const struct ip *ip)
{
	struct worker_ask *a = arg;
	struct str q = buf_str(&a->question);
	(void)ip;
	a->dial = NULL;
	if (fd < 0)
		return fail(a, strerror(-fd));
	a->fd = fd;
	/* A new connection takes that much without waiting. */
	if (send(fd, q.p, q.n, MSG_NOSIGNAL) != (ssize_t)q.n ||
		loop_add(a->gate->loop, &a->io, fd, EPOLLIN, on_answer) < 0)
		fail(a, "it cannot be asked");
}

struct worker_ask *worker_ask_start(
	struct gate *g, const struct worker *w, const struct worker_to *to, worker_on_done on_done, void *arg)
{
	struct worker_ask *a = xcalloc(1, sizeof *a);
	struct ip loopback = ip_v4(INADDR_LOOPBACK);
	char text[IP_TEXT], where[IP_TEXT + 16];
	bool six = !ip_is4(to->ip);
	*a = (struct worker_ask){.gate = g, .fd = -1, .on_done = on_done, .arg = arg, .in.max = GATE_WORKER_HEAD_MAX};
	list_init(&a->fail_task.node);
	snprintf(where, sizeof where, "%s%s%s:%u", six ? "[" : "", ip_format(to->ip, text), six ? "]" : "", to->port);
	buf_printf(
		&a->question, "CONNECT %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nX-Proto: tcp\r\n", where, where);
	if (to->hostname)
		buf_printf(&a->question, "X-Hostname: %s\r\n", to->hostname);
	if (to->sni)
		buf_printf(&a->question, "X-Tls-Sni: %s\r\n", to->sni);
	buf_add_c(&a->question, "\r\n");
	loop_timer_set(g->loop, &a->limit, GATE_DIAL_TIMEOUT, on_limit);
	/* The port may belong to somebody else since workerd ended. */
	if (sock_owner_listener(w->port) != (int64_t)w->uid)
		loop_defer(g->loop, &a->fail_task, on_stranger);
	else
		a->dial = dial_start(g->loop, &loopback, 1, w->port, on_dialled, a);
	return a;
}
