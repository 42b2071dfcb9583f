#include "agent/code/zygote_client.h"

#include <sys/socket.h>

#include "agent/agent.h"
#include "agent/limits.h"
#include "agent/proc/netlink.h"
#include "base/fd.h"
#include "base/fd_pass.h"
#include "proto/zygote.h"

/* The way to one zygote: the image's outside, or the box's own (nursery.h). */
struct line {
	int reply_fd, ask_fd;
	struct loop_io io;
	bool ready;
};

static struct line shared = {.reply_fd = -1, .ask_fd = -1}, own = {.reply_fd = -1, .ask_fd = -1};
static struct list calls = {&calls, &calls};
static uint32_t last_serial;

static void line_open(struct line *l, int reply, int ask)
{
	const int on = 1;
	l->reply_fd = reply;
	l->ask_fd = ask;
	/* The kernel adds the pid of the worker that answers, as the agent sees it. */
	if (reply >= 0)
		setsockopt(reply, SOL_SOCKET, SO_PASSCRED, &on, sizeof on);
}

void zygote_init(int reply, int ask)
{
	line_open(&shared, reply, ask);
	shared.ready = true;
}

static bool line_there(const struct line *l)
{
	return l->ready && l->reply_fd >= 0 && l->ask_fd >= 0;
}

bool zygote_there(void)
{
	return line_there(&shared);
}

void zygote_note(uint32_t number)
{
	if (zygote_there())
		(void)!write(shared.ask_fd, &number, sizeof number); /* a full pipe: one note less */
}

static void answer(struct zygote_call *c, pid_t pid, struct worker_fds fds)
{
	list_del(&c->node);
	loop_timer_stop(&c->timer);
	c->serial = 0;
	c->on_answer(c, pid, fds);
}

static const struct worker_fds no_fds = {-1, -1, -1, -1};

/* The warden is gone, or the nursery is. The box lives on, but this connection does not come back. */
static void hang_up(struct line *l)
{
	loop_del(&l->io);
	fd_close(&l->reply_fd);
	fd_close(&l->ask_fd);
	l->ready = false;
	list_each(it, &calls)
	{
		struct zygote_call *c = list_entry(it, struct zygote_call, node);
		if (c->own == (l == &own))
			answer(c, 0, no_fds);
	}
}

static struct zygote_call *find(uint32_t serial)
{
	list_each(it, &calls)
	{
		struct zygote_call *c = list_entry(it, struct zygote_call, node);
		if (c->serial == serial)
			return c;
	}
	return NULL;
}

struct answer {
	struct zygote_reply record;
	pid_t pid;
	struct worker_fds fds;
	int listener;
};

/* Returns 1 for an answer, 0 when there is none to read, -1 when the other side is gone or sends something else. */
static int receive(struct line *l, struct answer *a)
{
	int fds[ZYGOTE_REPLY_FDS] = {-1, -1, -1, -1};
	*a = (struct answer){.fds = no_fds, .listener = -1};
	struct fd_record r = {.data = &a->record, .size = sizeof a->record, .fds = fds, .fds_max = ZYGOTE_REPLY_FDS};
	ssize_t n = fd_recv(l->reply_fd, &r, MSG_DONTWAIT);
	if (n == -EAGAIN)
		return 0;
	if (n <= 0)
		return -1;
	a->pid = r.pid;
	a->fds = (struct worker_fds){fds[0], fds[1], fds[2], -1};
	a->listener = fds[3];
	return n == (ssize_t)sizeof a->record && a->record.magic == ZYGOTE_MAGIC ? 1 : -1;
}

static void on_reply(struct loop_io *io, uint32_t events)
{
	(void)events;
	struct line *l = container_of(io, struct line, io);
	struct answer a;
	int r = receive(l, &a);
	struct zygote_call *c = r > 0 ? find(a.record.serial) : NULL;
	if (r > 0 && !a.record.serial)
		l->ready = true;
	bool good = c && !a.record.error && a.pid > 0 && a.fds.err >= 0;
	if (good) {
		fd_set_nonblock(a.fds.socket, true);
		fd_set_nonblock(a.fds.out, true);
		fd_set_nonblock(a.fds.err, true);
		netlink_adopt(a.listener);
		return answer(c, a.pid, a.fds);
	}
	fd_close(&a.listener);
	worker_fds_close(&a.fds); /* too late: the worker reads the end of its socket and ends */
	if (c)
		answer(c, 0, no_fds);
	if (r < 0)
		hang_up(l);
}

static void on_wait_over(struct loop_timer *t)
{
	answer(container_of(t, struct zygote_call, timer), 0, no_fds);
}

static bool ask(struct line *l, struct zygote_call *c)
{
	if (!line_there(l) || (!l->io.loop && loop_add(agent.loop, &l->io, l->reply_fd, EPOLLIN, on_reply) < 0))
		return false;
	c->serial = ++last_serial ? last_serial : ++last_serial;
	c->own = l == &own;
	if (write(l->ask_fd, &c->serial, sizeof c->serial) != (ssize_t)sizeof c->serial) {
		c->serial = 0;
		return false;
	}
	list_push(&calls, &c->node);
	loop_timer_set(agent.loop, &c->timer, ZYGOTE_WAIT, on_wait_over);
	return true;
}

bool zygote_ask(struct zygote_call *c, zygote_on_answer on_answer)
{
	c->on_answer = on_answer;
	return ask(&shared, c);
}

bool zygote_ask_own(struct zygote_call *c, zygote_on_answer on_answer)
{
	c->on_answer = on_answer;
	return ask(&own, c);
}

bool zygote_own_ready(void)
{
	return line_there(&own);
}

void zygote_own_open(int reply, int ask_end)
{
	line_open(&own, reply, ask_end);
	fd_set_nonblock(ask_end, true);
	if (loop_add(agent.loop, &own.io, reply, EPOLLIN, on_reply) < 0)
		hang_up(&own);
}

void zygote_own_close(void)
{
	hang_up(&own);
}

void zygote_forget(struct zygote_call *c)
{
	if (!c->serial)
		return;
	list_del(&c->node);
	loop_timer_stop(&c->timer);
	c->serial = 0;
}
