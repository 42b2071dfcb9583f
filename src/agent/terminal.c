#include "agent/terminal.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>

#include "agent/children.h"
#include "agent/proctree.h"
#include "agent/spawn.h"
#include "base/limits.h"

struct terminal {
	struct loop *loop;
	struct loop_io io;
	int master;
	pid_t pid;
	struct child child;
	bool exited, hung_up; /* the program's end, and the end of its output: the terminal is over after both */
	int wstatus;
	char *ring;
	uint64_t end; /* offset behind the newest byte */
	struct buf input;
	bool input_full;
	struct list viewers;
	struct loop_task free_task;
	void (*on_over)(void *arg);
	void *arg;
};

/* ---- output ---- */

static uint64_t oldest(const struct terminal *t)
{
	return t->end > TERMINAL_RING ? t->end - TERMINAL_RING : 0;
}

/* Sends from the viewer's offset on, in at most two pieces per turn of the ring. */
static void feed_viewer(struct terminal *t, struct terminal_viewer *v)
{
	if (v->at < oldest(t))
		v->at = oldest(t);
	while (v->at < t->end && !v->full) {
		size_t from = (size_t)(v->at % TERMINAL_RING);
		uint64_t n = t->end - v->at;
		if (n > TERMINAL_RING - from)
			n = TERMINAL_RING - from;
		if (n > HTTP_READ_CHUNK)
			n = HTTP_READ_CHUNK;
		v->at += n;
		v->full = !v->on_output(v, str_n(t->ring + from, (size_t)n));
	}
}

static bool wants_output(const struct terminal *t)
{
	if (list_empty(&t->viewers))
		return true;
	list_each(it, &t->viewers) if (!list_entry(it, struct terminal_viewer, node)->full) return true;
	return false;
}

static void update(struct terminal *t)
{
	if (!t->io.loop)
		return;
	loop_set_events(&t->io, (wants_output(t) ? EPOLLIN : 0u) | (buf_size(&t->input) ? EPOLLOUT : 0u));
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
	t->on_over(t->arg);
	free(t->ring);
	buf_free(&t->input);
	free(t);
}

/* Both the program and its output have ended: viewers get the last bytes, then the news. */
static void finish_if_over(struct terminal *t)
{
	if (!t->exited || !t->hung_up)
		return;
	int sig = WIFSIGNALED(t->wstatus) ? WTERMSIG(t->wstatus) : 0;
	int code = sig ? 128 + sig : WEXITSTATUS(t->wstatus);
	list_each(it, &t->viewers)
	{
		struct terminal_viewer *v = list_entry(it, struct terminal_viewer, node);
		v->full = false;
		feed_viewer(t, v);
		list_del(&v->node);
		v->on_exit(v, code, sig);
	}
	loop_defer(t->loop, &t->free_task, free_terminal);
}

static void hang_up(struct terminal *t)
{
	if (t->hung_up)
		return;
	t->hung_up = true;
	loop_del(&t->io);
	fd_close(&t->master);
	finish_if_over(t);
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
	list_each(it, &t->viewers) feed_viewer(t, list_entry(it, struct terminal_viewer, node));
	update(t);
}

static void on_child_exit(struct child *c, int wstatus)
{
	struct terminal *t = container_of(c, struct terminal, child);
	t->exited = true;
	t->wstatus = wstatus;
	/* A background job may keep the terminal open for ever; the shell's last words are in the queue by now. */
	for (int i = 0; i < 64 && !t->hung_up; i++) {
		struct loop_io *io = &t->io;
		uint64_t before = t->end;
		if (io->loop)
			read_master(t);
		if (t->end == before)
			break;
	}
	if (!t->hung_up)
		return hang_up(t);
	finish_if_over(t);
}

/* ---- input ---- */

static void write_master(struct terminal *t)
{
	while (buf_size(&t->input)) {
		struct str s = buf_str(&t->input);
		ssize_t n = write(t->master, s.p, s.n);
		if (n < 0)
			break;
		buf_consume(&t->input, (size_t)n);
	}
	if (!t->input_full || buf_size(&t->input) > TERMINAL_INPUT_HIGH / 4)
		return;
	t->input_full = false;
	list_each(it, &t->viewers)
	{
		struct terminal_viewer *v = list_entry(it, struct terminal_viewer, node);
		v->on_input_low(v);
	}
}

bool terminal_input(struct terminal *t, struct str bytes)
{
	if (t->hung_up)
		return true;
	buf_add_str(&t->input, bytes);
	write_master(t);
	t->input_full = buf_size(&t->input) > TERMINAL_INPUT_HIGH;
	update(t);
	return !t->input_full;
}

static void on_ready(struct loop_io *io, uint32_t events)
{
	struct terminal *t = container_of(io, struct terminal, io);
	if (events & EPOLLOUT)
		write_master(t);
	if (events & EPOLLIN)
		return read_master(t);
	/* Hung up while every viewer is stalled: what is left in the queue is read when one goes on. */
	if (events & (EPOLLHUP | EPOLLERR))
		return read_master(t);
	update(t);
}

/* ---- viewers ---- */

void terminal_attach(struct terminal *t, struct terminal_viewer *v)
{
	v->full = false;
	v->at = oldest(t);
	list_push(&t->viewers, &v->node);
	feed_viewer(t, v);
	update(t);
}

void terminal_detach(struct terminal *t, struct terminal_viewer *v)
{
	list_del(&v->node);
	update(t);
}

void terminal_more(struct terminal *t, struct terminal_viewer *v)
{
	v->full = false;
	feed_viewer(t, v);
	update(t);
}

void terminal_resize(struct terminal *t, uint16_t cols, uint16_t rows)
{
	struct winsize ws = {.ws_col = cols, .ws_row = rows};
	if (t->master >= 0)
		ioctl(t->master, TIOCSWINSZ, &ws);
}

void terminal_hangup(struct terminal *t)
{
	proctree_kill(t->pid, SIGHUP);
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
	if (slave < 0 || ioctl(slave, TIOCSWINSZ, &ws) < 0)
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
	child_watch(&t->child, t->pid, on_child_exit);
	*ret = t;
	return 0;
}
