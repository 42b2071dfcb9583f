/*
 * Cells: making them ahead, watching their processes, sweeping up after them.
 *
 * The pool is filled one cell at a time, from a timer and only while nothing is under way, so that a request waits
 * for one at most. When boxes wait for a cell, cells are made for them at once. While the closer is far behind none
 * are.
 */
#include <signal.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/log.h"
#include "cage/init.h"
#include "warden/record.h"
#include "warden/warden.h"

enum { POOL_PAUSE = 1000, WAITING_MAKE = 4 };

struct cell *cell_new(struct warden *w)
{
	struct cell *c = xcalloc(1, sizeof *c);
	c->w = w;
	c->slot = SLOT_EMPTY;
	c->network.sockets = STEER_NO_SOCKETS;
	list_push(&w->cells, &c->node);
	return c;
}

static void free_cell(struct loop_task *t)
{
	struct cell *c = container_of(t, struct cell, free_task);
	list_del(&c->node);
	loop_timer_stop(&c->timer);
	free(c);
}

void cell_drop_control(struct cell *c)
{
	loop_del(&c->control_io);
	fd_close(&c->slot.control);
	reaper_close(c->w, take_fd(&c->slot.overlay), 0);
	fd_close(&c->slot.userns);
}

static void remove_cgroups(struct loop_timer *t)
{
	struct cell *c = container_of(t, struct cell, timer);
	struct warden *w = c->w;
	if (cgroup_remove(&w->cgroups, c->slot.number) < 0) {
		cgroup_kill(&w->cgroups, c->slot.number);
		loop_timer_set(w->loop, &c->timer, WARDEN_RETRY, remove_cgroups);
		return;
	}
	numbers_give(w, c->slot.number);
	loop_defer(w->loop, &c->free_task, free_cell);
}

void cell_sweep(struct cell *c)
{
	struct warden *w = c->w;
	c->box = NULL;
	cell_drop_control(c);
	loop_del(&c->exit_io);
	loop_del(&c->ask_io);
	network_forget(c);
	slot_forget(&w->host, c->slot.number);
	record_remove(w->records_dir, c->slot.number);
	reaper_close(w, take_fd(&c->slot.mntns), 0);
	for (int i = 0; i < LAYER_SPENT; i++)
		reaper_close(w, take_fd(&c->slot.spent[i]), 0);
	reaper_wake(w);
	slot_close(&c->slot);
	loop_timer_set(w->loop, &c->timer, 0, remove_cgroups);
}

void cell_kill(struct cell *c)
{
	if (c->slot.pidfd >= 0)
		sys_pidfd_signal(c->slot.pidfd, SIGKILL);
}

static void on_exit_ready(struct loop_io *io, uint32_t events)
{
	(void)events;
	struct cell *c = container_of(io, struct cell, exit_io);
	struct warden *w = c->w;
	siginfo_t si = {0};
	bool known = waitid(P_PIDFD, (id_t)c->slot.pidfd, &si, WEXITED | WNOHANG) == 0 && si.si_pid != 0;
	loop_del(io);
	fd_close(&c->slot.pidfd);
	c->dead = true;
	if (c->box) {
		bool exited = si.si_code == CLD_EXITED;
		box_process_gone(c->box, known, exited ? si.si_status : -1, exited ? 0 : si.si_status);
		return;
	}
	if (c->ready)
		w->ready--;
	else
		w->making--;
	log_limited(LOG_WARN, "a prepared slot ended", "slot=%u", c->slot.number);
	cell_sweep(c);
	w->pool_pause_until = clock_ms() + POOL_PAUSE;
	pool_kick(w);
}

static void fail_first_waiting(struct warden *w, const struct err *e)
{
	if (list_empty(&w->waiting))
		return;
	struct box *b = list_entry(w->waiting.next, struct box, node);
	box_fail(b, e);
}

static void on_ready(struct cell *c)
{
	struct warden *w = c->w;
	loop_timer_stop(&c->timer);
	c->slot.mntns = slot_open_ns(c->slot.pid, "mnt");
	network_steer(c);
	w->making--;
	c->ready = true;
	w->ready++;
	if (!list_empty(&w->waiting)) {
		struct box *b = list_entry(w->waiting.next, struct box, node);
		box_start(b, cell_take_ready(w));
	}
	pool_kick(w);
}

/* Before it is ready a cell that fails takes a waiting create with it, so that its reason reaches somebody. */
static void on_failed(struct cell *c, const struct err *why)
{
	struct warden *w = c->w;
	cell_drop_control(c);
	if (c->box) {
		box_fail(c->box, why);
		return;
	}
	log_limited(LOG_ERROR, "cannot prepare a slot", "slot=%u error=%s", c->slot.number, LOG_Q(why->msg));
	fail_first_waiting(w, why);
	cell_kill(c);
}

static void on_control(struct loop_io *io, uint32_t events)
{
	(void)events;
	struct cell *c = container_of(io, struct cell, control_io);
	struct init_note note;
	int r = init_receive(io->fd, &note);
	if (r < 0 && errno == EAGAIN)
		return;
	if (r > 0 && note.kind == INIT_READY && c->ready) {
		r = -1; /* it has said so before, and is counted */
		errno = EPROTO;
	}
	if (r < 0)
		err_os(&note.err, ERRC_BOX_CREATE_FAILED, errno, "hear from the half-made box");
	if (r < 0 || (r > 0 && note.kind == INIT_FAILED)) {
		on_failed(c, &note.err);
	} else if (r > 0) {
		on_ready(c);
	} else {
		cell_drop_control(c);
		if (c->box)
			box_started(c->box);
	}
}

int cell_watch(struct cell *c, struct err *e)
{
	int r = loop_add(c->w->loop, &c->exit_io, c->slot.pidfd, EPOLLIN, on_exit_ready);
	if (r == 0 && c->slot.control >= 0)
		r = loop_add(c->w->loop, &c->control_io, c->slot.control, EPOLLIN, on_control);
	return r < 0 ? err_os(e, ERRC_INTERNAL_ERROR, -r, "watch the box's process") : 0;
}

struct cell *cell_take_ready(struct warden *w)
{
	list_each(it, &w->cells)
	{
		struct cell *c = list_entry(it, struct cell, node);
		if (c->ready && !c->box && !c->dead) {
			w->ready--;
			return c;
		}
	}
	return NULL;
}

int numbers_take(struct warden *w, uint32_t *ret, struct err *e)
{
	if (w->numbers_count == 0 && w->numbers_owned + IDS_BLOCK <= NUMBERS_MAX) {
		uint32_t block;
		if (ids_claim(&w->ids, &block, e) < 0)
			return -1;
		w->numbers_owned += IDS_BLOCK;
		for (uint32_t i = 0; i < IDS_BLOCK; i++)
			numbers_give(w, block * IDS_BLOCK + i);
	}
	if (w->numbers_count == 0)
		return err_set(e, ERRC_LIMIT_REACHED, "no free slot");
	*ret = w->numbers[w->numbers_head];
	w->numbers_head = (w->numbers_head + 1) % NUMBERS_MAX;
	w->numbers_count--;
	return 0;
}

void numbers_give(struct warden *w, uint32_t number)
{
	if (!ids_owns(&w->ids, number) || w->numbers_count == NUMBERS_MAX)
		return;
	w->numbers[(w->numbers_head + w->numbers_count++) % NUMBERS_MAX] = number;
}

void numbers_init(struct warden *w)
{
	auto_free bool *used = xcalloc(IDS_BLOCKS * IDS_BLOCK, sizeof *used);
	list_each(it, &w->cells)
	{
		uint32_t n = list_entry(it, struct cell, node)->slot.number;
		if (n < IDS_BLOCKS * IDS_BLOCK)
			used[n] = true;
	}
	for (uint32_t n = 0; n < IDS_BLOCKS * IDS_BLOCK; n++)
		if (ids_owns(&w->ids, n) && !used[n])
			numbers_give(w, n);
	for (uint32_t b = 0; b < IDS_BLOCKS; b++)
		w->numbers_owned += w->ids.locks[b] >= 0 ? IDS_BLOCK : 0;
}

static void on_make_timeout(struct loop_timer *t)
{
	struct cell *c = container_of(t, struct cell, timer);
	struct err e;
	err_set(&e, ERRC_BOX_CREATE_FAILED, "the preparation did not finish within %d s", BOX_CREATE_TIMEOUT / 1000);
	on_failed(c, &e);
}

static int make_cell(struct warden *w, struct err *e)
{
	uint32_t number = 0;
	if (numbers_take(w, &number, e) < 0)
		return -1;
	struct slot slot;
	int made = slot_make(&w->host, number, *w->pool_image.key ? &w->pool_image : NULL, &slot, e);
	reaper_wake(w); /* a layer that could not be mounted lies in the trash */
	if (made < 0) {
		numbers_give(w, number);
		return -1;
	}
	struct cell *c = cell_new(w);
	c->slot = slot;
	w->making++;
	for (int i = 0; i < LAYER_SPENT; i++)
		reaper_close(w, take_fd(&c->slot.spent[i]), 0);
	struct record r = {.state = RECORD_POOL, .start_time = slot.start_time};
	r.info.slot = number;
	r.info.pid = slot.pid;
	int written = record_write(w->records_dir, &r);
	if (written < 0)
		err_os(e, ERRC_BOX_CREATE_FAILED, -written, "write the slot's record");
	if (written < 0 || cell_watch(c, e) < 0) {
		cell_kill(c);
		waitid(P_PIDFD, (id_t)c->slot.pidfd, &(siginfo_t){0}, WEXITED);
		w->making--;
		cell_sweep(c);
		return -1;
	}
	loop_timer_set(w->loop, &c->timer, BOX_CREATE_TIMEOUT, on_make_timeout);
	return 0;
}

static size_t waiting_count(struct warden *w)
{
	size_t n = 0;
	list_each(it, &w->waiting) n++;
	return n;
}

static void fill(struct loop_timer *t)
{
	struct warden *w = container_of(t, struct warden, pool_timer);
	size_t waiting = waiting_count(w);
	if ((!waiting && w->busy) || reaper_behind(w))
		return;
	if (w->making >= (waiting ? (waiting < WAITING_MAKE ? waiting : WAITING_MAKE) : 1) ||
		(!waiting && w->ready + w->making >= WARDEN_POOL))
		return;
	struct err e;
	if (image_find(w->host.images, w->pool_image_name, &w->pool_image, NULL) < 0)
		w->pool_image = (struct image){0};
	if (make_cell(w, &e) < 0) {
		if (!waiting)
			log_limited(LOG_ERROR, "cannot prepare a slot", "error=%s", LOG_Q(e.msg));
		fail_first_waiting(w, &e);
		w->pool_pause_until = clock_ms() + POOL_PAUSE;
	}
	pool_kick(w);
}

void pool_kick(struct warden *w)
{
	uint64_t now = clock_ms();
	uint64_t delay = list_empty(&w->waiting) && w->pool_pause_until > now ? w->pool_pause_until - now : 0;
	loop_timer_set(w->loop, &w->pool_timer, delay, fill);
}

void pool_drain(struct warden *w)
{
	loop_timer_stop(&w->pool_timer);
	list_each(it, &w->cells)
	{
		struct cell *c = list_entry(it, struct cell, node);
		if (c->box || c->dead)
			continue;
		cell_kill(c);
		waitid(P_PIDFD, (id_t)c->slot.pidfd, &(siginfo_t){0}, WEXITED);
		loop_del(&c->control_io);
		loop_del(&c->exit_io);
		network_forget(c);
		slot_close(&c->slot);
		slot_forget(&w->host, c->slot.number);
		record_remove(w->records_dir, c->slot.number);
		cgroup_remove(&w->cgroups, c->slot.number);
	}
}
