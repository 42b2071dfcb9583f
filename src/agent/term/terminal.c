#include "agent/term/terminal.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>

#include "agent/limits.h"
#include "agent/proc/children.h"
#include "agent/proc/proctree.h"
#include "agent/proc/spawn.h"
#include "agent/proc/user.h"
#include "http/limits.h"

/* A read gives at most 4 KiB: this is more than the kernel holds for a terminal. */
enum { LAST_READS = 64 };

/*
 *	OPEN ──▶ EXITED ──▶ OVER
 *	  └────▶ HUNG_UP ─────▲
 */
enum terminal_state {
	TERMINAL_OPEN,	  /* the program runs, its output is read */
	TERMINAL_EXITED,  /* the program has been reaped, the rest of its output is being read */
	TERMINAL_HUNG_UP, /* the output has ended, the program has not been reaped */
	TERMINAL_OVER,	  /* both: the loop frees it */
	TERMINAL_STATES
};

static const bool allowed[TERMINAL_STATES][TERMINAL_STATES] = {
	[TERMINAL_OPEN] = {[TERMINAL_EXITED] = true, [TERMINAL_HUNG_UP] = true},
	[TERMINAL_EXITED] = {[TERMINAL_OVER] = true},
	[TERMINAL_HUNG_UP] = {[TERMINAL_OVER] = true},
};

struct terminal {
	struct list node;
	struct loop *loop;
	struct loop_io io;
	int master;
	pid_t pid;
	struct child child;
	enum terminal_state state; /* changed by terminal_move alone */
	int wstatus;
	char *ring;
	uint64_t end;	 /* offset behind the newest byte */
	uint64_t fed;	 /* what was `end` when the viewers were last fed, */
	uint64_t fed_ms; /* and when that was */
	struct loop_timer feed;
	struct buf input;
	bool input_full;
	struct list viewers;
	size_t viewers_n;
	struct loop_timer grace;
	struct loop_task free_task;
	void (*on_over)(void *arg);
	void *arg;
};

static struct list terminals = {&terminals, &terminals};

static bool is_open(const struct terminal *t)
{
	return t->state == TERMINAL_OPEN || t->state == TERMINAL_EXITED;
}

static bool has_program(const struct terminal *t)
{
	return t->state == TERMINAL_OPEN || t->state == TERMINAL_HUNG_UP;
}

static void terminal_move(struct terminal *t, enum terminal_state to)
{
	INVARIANT(allowed[t->state][to]);
	t->state = to;
	INVARIANT(has_program(t) == (t->child.pid != 0));
	INVARIANT(is_open(t) == (t->master >= 0));
}

static struct terminal_viewer *viewer_of(struct list *node)
{
	return list_entry(node, struct terminal_viewer, node);
}

/* ---- output ---- */

static uint64_t oldest(const struct terminal *t)
{
	return t->end > TERMINAL_RING ? t->end - TERMINAL_RING : 0;
}

/* Sends the next piece: up to the newest byte, or up to where the ring turns. */
static void feed_once(struct terminal *t, struct terminal_viewer *v)
{
	size_t from = (size_t)(v->at % TERMINAL_RING);
	uint64_t n = t->end - v->at;
	if (n > TERMINAL_RING - from)
		n = TERMINAL_RING - from;
	if (n > HTTP_READ_CHUNK)
		n = HTTP_READ_CHUNK;
	v->at += n;
	v->full = !v->on_output(v, str_n(t->ring + from, (size_t)n));
}

static void feed_viewer(struct terminal *t, struct terminal_viewer *v)
{
	if (v->at < oldest(t))
		v->at = oldest(t);
	while (v->at < t->end && !v->full)
		feed_once(t, v);
}

/* Sends the content of the ring in one piece. */
static void feed_whole(struct terminal *t, struct terminal_viewer *v)
{
	uint64_t n = t->end - oldest(t);
	size_t from = (size_t)(oldest(t) % TERMINAL_RING), first = TERMINAL_RING - from;
	auto_free char *all = xmalloc(n + 1);
	if (first > n)
		first = (size_t)n;
	memcpy(all, t->ring + from, first);
	memcpy(all + first, t->ring, (size_t)n - first);
	v->at = t->end;
	v->full = n && !v->on_output(v, str_n(all, (size_t)n));
}

static void feed_all(struct terminal *t)
{
	loop_timer_stop(&t->feed);
	t->fed = t->end;
	t->fed_ms = loop_now(t->loop);
	list_each(it, &t->viewers) feed_viewer(t, viewer_of(it));
}

static bool wants_output(const struct terminal *t)
{
	if (list_empty(&t->viewers))
		return true;
	list_each(it, &t->viewers) if (!viewer_of(it)->full) return true;
	return false;
}

static void terminal_update(struct terminal *t)
{
	if (!t->io.loop)
		return;
	loop_set_events(&t->io, (wants_output(t) ? EPOLLIN : 0u) | (buf_size(&t->input) ? EPOLLOUT : 0u));
}

static void on_feed_due(struct loop_timer *timer)
{
	struct terminal *t = container_of(timer, struct terminal, feed);
	feed_all(t);
	terminal_update(t);
}

/* A read gives 4 KiB at most: in a flood, several become one piece. The first output after a pause goes out at once. */
static void feed_soon(struct terminal *t)
{
	if (t->end - t->fed >= TERMINAL_PIECE || loop_now(t->loop) - t->fed_ms >= TERMINAL_FEED_EVERY)
		feed_all(t);
	else if (!t->feed.pos)
		loop_timer_set(t->loop, &t->feed, TERMINAL_FEED_EVERY, on_feed_due);
}

static void put_ring(struct terminal *t, const char *p, size_t n)
{
	while (n) {
		size_t at = (size_t)(t->end % TERMINAL_RING), room = TERMINAL_RING - at;
		size_t part = n < room ? n : room;
		memcpy(t->ring + at, p, part);
		t->end += part;
		p += part;
		n -= part;
	}
}

/* ---- end ---- */

static void free_terminal(struct loop_task *task)
{
	struct terminal *t = container_of(task, struct terminal, free_task);
	list_del(&t->node);
	free(t->ring);
	buf_free(&t->input);
	free(t);
}

/* Both the program and its output have ended: viewers get the last bytes (at most the ring), then the news. */
static void terminal_finish(struct terminal *t)
{
	int sig = WIFSIGNALED(t->wstatus) ? WTERMSIG(t->wstatus) : 0;
	int code = sig ? 128 + sig : WEXITSTATUS(t->wstatus);
	loop_timer_stop(&t->grace);
	loop_timer_stop(&t->feed);
	t->on_over(t->arg);
	list_each(it, &t->viewers)
	{
		struct terminal_viewer *v = viewer_of(it);
		if (v->at < oldest(t))
			v->at = oldest(t);
		while (v->at < t->end)
			feed_once(t, v);
		list_del(&v->node);
		v->on_exit(v, code, sig);
	}
	loop_defer(t->loop, &t->free_task, free_terminal);
}

static void on_kill_due(struct loop_timer *timer)
{
	proctree_kill(container_of(timer, struct terminal, grace)->pid, SIGKILL);
}

void terminal_hangup(struct terminal *t)
{
	if (!has_program(t))
		return;
	proctree_kill(t->pid, SIGHUP);
	loop_timer_set(t->loop, &t->grace, CMD_HANGUP_GRACE, on_kill_due);
}

void terminals_stop(void)
{
	list_each(it, &terminals)
	{
		const struct terminal *t = list_entry(it, struct terminal, node);
		if (has_program(t))
			kill(t->pid, SIGHUP);
	}
}

static void on_hangup_due(struct loop_timer *timer)
{
	terminal_hangup(container_of(timer, struct terminal, grace));
}

static void hang_up(struct terminal *t)
{
	if (!is_open(t))
		return;
	loop_del(&t->io);
	fd_close(&t->master);
	terminal_move(t, has_program(t) ? TERMINAL_HUNG_UP : TERMINAL_OVER);
	if (t->state == TERMINAL_OVER)
		return terminal_finish(t);
	/* The program is ending, or it has let go of its terminal and runs on, where nobody can see it any more. */
	loop_timer_set(t->loop, &t->grace, CMD_HANGUP_GRACE, on_hangup_due);
}

static void read_master(struct terminal *t)
{
	char raw[16384];
	ssize_t n = read(t->master, raw, sizeof raw);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	/* EIO: the last process that had the terminal open is gone. */
	if (n <= 0)
		return hang_up(t);
	put_ring(t, raw, (size_t)n);
	feed_soon(t);
	terminal_update(t);
}

static void terminal_on_exit(struct child *c, int wstatus)
{
	struct terminal *t = container_of(c, struct terminal, child);
	t->wstatus = wstatus;
	terminal_move(t, is_open(t) ? TERMINAL_EXITED : TERMINAL_OVER);
	if (t->state == TERMINAL_OVER)
		return terminal_finish(t);
	/* The program's last output is in the queue by now. The output of background jobs is not waited for. */
	uint64_t before;
	int i = 0;
	do {
		before = t->end;
		read_master(t);
	} while (is_open(t) && t->end != before && ++i < LAST_READS);
	hang_up(t);
}

/* ---- input ---- */

/* Tells every viewer about a change. */
static void set_input_full(struct terminal *t, bool full)
{
	if (t->input_full == full)
		return;
	t->input_full = full;
	list_each(it, &t->viewers) viewer_of(it)->on_input_wanted(viewer_of(it), !full);
}

static void write_master(struct terminal *t)
{
	while (buf_size(&t->input)) {
		struct str s = buf_str(&t->input);
		ssize_t n = write(t->master, s.p, s.n);
		if (n < 0)
			break;
		buf_consume(&t->input, (size_t)n);
	}
	if (buf_size(&t->input) <= TERMINAL_INPUT_HIGH / 4)
		set_input_full(t, false);
}

void terminal_input(struct terminal *t, struct str bytes)
{
	if (!is_open(t))
		return;
	INVARIANT(!t->input_full && bytes.n <= WS_MESSAGE_MAX);
	buf_add_str(&t->input, bytes);
	write_master(t);
	if (buf_size(&t->input) > TERMINAL_INPUT_HIGH)
		set_input_full(t, true);
	terminal_update(t);
}

static void on_ready(struct loop_io *io, uint32_t events)
{
	struct terminal *t = container_of(io, struct terminal, io);
	if (events & EPOLLOUT)
		write_master(t);
	/* The kernel reports the end also while no event is wanted. The rest of the output is less than the ring then.
	 */
	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		return read_master(t);
	terminal_update(t);
}

/* ---- viewers ---- */

void terminal_attach(struct terminal *t, struct terminal_viewer *v)
{
	list_push(&t->viewers, &v->node);
	t->viewers_n++;
	feed_whole(t, v);
	if (t->input_full)
		v->on_input_wanted(v, false);
	terminal_update(t);
}

void terminal_detach(struct terminal *t, struct terminal_viewer *v)
{
	list_del(&v->node);
	t->viewers_n--;
	terminal_update(t);
}

int terminal_pid(const struct terminal *t)
{
	return t->pid;
}

size_t terminal_viewers(const struct terminal *t)
{
	return t->viewers_n;
}

void terminal_more(struct terminal *t, struct terminal_viewer *v)
{
	v->full = false;
	feed_viewer(t, v);
	terminal_update(t);
}

void terminal_resize(struct terminal *t, uint16_t cols, uint16_t rows)
{
	struct winsize ws = {.ws_col = cols, .ws_row = rows};
	if (t->master >= 0)
		ioctl(t->master, TIOCSWINSZ, &ws);
}

/* ---- start ---- */

static int open_pair(uint16_t cols, uint16_t rows, int *ret_master, int *ret_slave, struct err *e)
{
	auto_fd int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
	int unlock = 0, number;
	if (master < 0 || ioctl(master, TIOCSPTLCK, &unlock) < 0 || ioctl(master, TIOCGPTN, &number) < 0)
		return err_os(e, ERRC_COMMAND_EXECUTION_ERROR, errno, "open a terminal");
	char name[32];
	snprintf(name, sizeof name, "/dev/pts/%d", number);
	auto_fd int slave = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
	struct winsize ws = {.ws_col = cols, .ws_row = rows};
	if (slave < 0 || ioctl(slave, TIOCSWINSZ, &ws) < 0 || box_user_give_fd(slave) < 0)
		return err_os(e, ERRC_COMMAND_EXECUTION_ERROR, errno, "open terminal %s", name);
	*ret_master = take_fd(&master);
	*ret_slave = take_fd(&slave);
	return 0;
}

int terminal_start(struct loop *l, const struct terminal_spec *s, struct terminal **ret, struct err *e)
{
	auto_fd int master = -1, slave = -1;
	if (open_pair(s->cols, s->rows, &master, &slave, e) < 0)
		return -1;
	struct spawn_spec spec = {.path = s->path,
		.argv = s->argv,
		.envp = env_vector(s->env),
		.cwd = s->cwd,
		.fd = {slave, slave, slave},
		.terminal = true};
	struct terminal *t = xcalloc(1, sizeof *t);
	enum spawn_step step;
	if (spawn(&spec, &t->pid, &step, e) < 0) {
		free(t);
		return -1;
	}
	int r = loop_add(l, &t->io, master, EPOLLIN, on_ready);
	if (r < 0) {
		proctree_kill(t->pid, SIGKILL);
		free(t);
		return err_os(e, ERRC_INTERNAL_ERROR, -r, "watch a terminal");
	}
	t->loop = l;
	t->master = take_fd(&master);
	t->ring = xmalloc(TERMINAL_RING);
	t->input.max = TERMINAL_INPUT_HIGH + WS_MESSAGE_MAX;
	t->on_over = s->on_over;
	t->arg = s->arg;
	list_init(&t->viewers);
	list_push(&terminals, &t->node);
	child_watch(&t->child, t->pid, terminal_on_exit);
	*ret = t;
	return 0;
}
