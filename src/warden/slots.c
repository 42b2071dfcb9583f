/*
 * Slots: making them ahead, watching their processes, sweeping up after them.
 *
 * The pool is filled one slot at a time, from a timer and only while nothing is under way, so that a request waits
 * for one at most. After a start it rests for a moment, so that the first command has the processors. When boxes wait
 * for a slot, slots are made for them at once. While the closer is far behind, no slots are made.
 */
#include <signal.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/log.h"
#include "cage/init.h"
#include "proto/limits.h"
#include "warden/limits.h"
#include "warden/record.h"
#include "warden/warden.h"

enum { POOL_PAUSE = 1000, POOL_REST = 5 /* ms */, WAITING_MAKE = 4 };

#define TO(s) (1u << SLOT_##s)
static const unsigned allowed[SLOT_STAGES] = {
	[SLOT_MAKING] = TO(READY) | TO(ENDED),
	[SLOT_READY] = TO(TAKEN) | TO(ENDED),
	[SLOT_TAKEN] = TO(ENDED),
	[SLOT_ENDED] = TO(SWEPT),
};
#undef TO

static void count(struct warden *w, enum slot_stage stage, int n)
{
	if (stage == SLOT_MAKING)
		w->making += (uint32_t)n;
	if (stage == SLOT_READY)
		w->ready += (uint32_t)n;
}

/* A box is in the slot exactly from TAKEN on; ENDED slots of the pool have none. */
static void slot_check(const struct warden_slot *c)
{
	INVARIANT(c->stage != SLOT_TAKEN || c->box);
	INVARIANT(!c->box || c->stage == SLOT_TAKEN || c->stage == SLOT_ENDED);
}

struct warden_slot *warden_slot_new(struct warden *w, enum slot_stage stage)
{
	struct warden_slot *c = xcalloc(1, sizeof *c);
	c->w = w;
	c->slot = SLOT_EMPTY;
	c->network.sockets = STEER_NO_SOCKETS;
	fuse_slot_init(c);
	c->stage = stage;
	count(w, stage, 1);
	list_push(&w->slots, &c->node);
	return c;
}

void warden_slot_move(struct warden_slot *c, enum slot_stage to)
{
	INVARIANT(allowed[c->stage] >> to & 1);
	count(c->w, c->stage, -1);
	c->stage = to;
	count(c->w, to, 1);
	slot_check(c);
}

static void free_slot(struct loop_task *t)
{
	struct warden_slot *c = container_of(t, struct warden_slot, free_task);
	list_del(&c->node);
	loop_timer_stop(&c->timer);
	free(c);
}

void warden_slot_drop_control(struct warden_slot *c)
{
	loop_del(&c->control_io);
	fd_close(&c->slot.control);
	reaper_close(c->w, take_fd(&c->slot.overlay), 0);
	fd_close(&c->slot.userns);
}

void warden_slot_close_spent(struct warden_slot *c)
{
	for (int i = 0; i < LAYER_SPENT; i++)
		reaper_close(c->w, take_fd(&c->slot.spent[i]), 0);
}

static void remove_cgroups(struct loop_timer *t)
{
	struct warden_slot *c = container_of(t, struct warden_slot, timer);
	struct warden *w = c->w;
	if (c->fuse.joiner >= 0 || cgroup_remove(&w->cgroups, c->slot.number) < 0) {
		cgroup_kill(&w->cgroups, c->slot.number);
		loop_timer_set(w->loop, &c->timer, WARDEN_RETRY, remove_cgroups);
		return;
	}
	numbers_give(w, c->slot.number);
	loop_defer(w->loop, &c->free_task, free_slot);
}

void warden_slot_sweep(struct warden_slot *c)
{
	struct warden *w = c->w;
	c->box = NULL;
	warden_slot_move(c, SLOT_SWEPT);
	warden_slot_drop_control(c);
	loop_del(&c->exit_io);
	loop_del(&c->ask_io);
	fuse_end(c);
	network_forget(c);
	slot_forget(&w->host, c->slot.number);
	record_remove(w->records_dir, c->slot.number);
	reaper_close(w, take_fd(&c->slot.mntns), 0);
	warden_slot_close_spent(c);
	reaper_wake(w);
	slot_close(&c->slot);
	loop_timer_set(w->loop, &c->timer, 0, remove_cgroups);
}

/* The end of the first process would end all others, but only when it gets to run, beside everything that they do. */
void warden_slot_kill(struct warden_slot *c)
{
	if (c->slot.pidfd < 0)
		return;
	sys_pidfd_signal(c->slot.pidfd, SIGKILL);
	cgroup_kill(&c->w->cgroups, c->slot.number);
}

static void on_exit_ready(struct loop_io *io, uint32_t events)
{
	(void)events;
	struct warden_slot *c = container_of(io, struct warden_slot, exit_io);
	struct warden *w = c->w;
	siginfo_t si = {0};
	bool known = waitid(P_PIDFD, (id_t)c->slot.pidfd, &si, WEXITED | WNOHANG) == 0 && si.si_pid != 0;
	loop_del(io);
	fd_close(&c->slot.pidfd);
	warden_slot_move(c, SLOT_ENDED);
	if (c->box) {
		locks_box_ended(w, &c->slot);
		bool exited = si.si_code == CLD_EXITED;
		box_process_gone(c->box, known, exited ? si.si_status : -1, exited ? 0 : si.si_status);
		return;
	}
	if (!c->unwanted) {
		log_limited(LOG_WARN, "a prepared slot ended", "slot=%u", c->slot.number);
		w->pool_pause_until = clock_ms() + POOL_PAUSE;
	}
	warden_slot_sweep(c);
	pool_kick(w);
}

static void fail_first_waiting(struct warden *w, const struct err *e)
{
	if (list_empty(&w->waiting))
		return;
	struct box *b = list_entry(w->waiting.next, struct box, node);
	box_fail(b, e);
}

static void on_ready(struct warden_slot *c)
{
	struct warden *w = c->w;
	loop_timer_stop(&c->timer);
	c->slot.mntns = slot_open_ns(c->slot.pid, "mnt");
	network_steer(c);
	warden_slot_move(c, SLOT_READY);
	log_event(LOG_DEBUG, "slot ready", "slot=%u image=%s", c->slot.number, LOG_Q(c->slot.image.key));
	if (!list_empty(&w->waiting)) {
		struct box *b = list_entry(w->waiting.next, struct box, node);
		box_start(b, lately_slot(w, &b->image));
	}
	pool_kick(w);
}

/* A slot that fails before it is ready also fails a waiting create, so that a client sees the reason. */
static void on_failed(struct warden_slot *c, const struct err *why)
{
	struct warden *w = c->w;
	warden_slot_drop_control(c);
	if (c->box) {
		box_fail(c->box, why);
		return;
	}
	log_limited(LOG_ERROR, "cannot prepare a slot", "slot=%u error=%s", c->slot.number, LOG_Q(why->msg));
	fail_first_waiting(w, why);
	warden_slot_kill(c);
}

static void on_control(struct loop_io *io, uint32_t events)
{
	(void)events;
	struct warden_slot *c = container_of(io, struct warden_slot, control_io);
	struct init_note note;
	int r = init_receive(io->fd, &note);
	if (r < 0 && errno == EAGAIN)
		return;
	if (r > 0 && note.kind == INIT_READY && c->stage != SLOT_MAKING) {
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
		warden_slot_drop_control(c);
		if (c->box)
			box_started(c->box);
	}
}

int warden_slot_watch(struct warden_slot *c, struct err *e)
{
	int r = loop_add(c->w->loop, &c->exit_io, c->slot.pidfd, EPOLLIN, on_exit_ready);
	if (r == 0 && c->slot.control >= 0)
		r = loop_add(c->w->loop, &c->control_io, c->slot.control, EPOLLIN, on_control);
	return r < 0 ? err_os(e, ERRC_INTERNAL_ERROR, -r, "watch the box's process") : 0;
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
	list_each(it, &w->slots)
	{
		uint32_t n = list_entry(it, struct warden_slot, node)->slot.number;
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
	struct warden_slot *c = container_of(t, struct warden_slot, timer);
	struct err e;
	err_set(&e, ERRC_BOX_CREATE_FAILED, "the preparation did not finish within %d s", BOX_CREATE_TIMEOUT / 1000);
	on_failed(c, &e);
}

static int make_slot(struct warden *w, const struct image *image, struct err *e)
{
	uint32_t number = 0;
	if (numbers_take(w, &number, e) < 0)
		return -1;
	struct slot slot;
	int made = slot_make(&w->host, number, image, &slot, e);
	reaper_wake(w); /* a layer that could not be mounted lies in the trash */
	if (made < 0) {
		numbers_give(w, number);
		return -1;
	}
	struct warden_slot *c = warden_slot_new(w, SLOT_MAKING);
	c->slot = slot;
	warden_slot_close_spent(c);
	struct record r = {.state = RECORD_POOL, .start_time = slot.start_time};
	r.info.slot = number;
	r.info.pid = slot.pid;
	int written = record_write(w->records_dir, &r);
	if (written < 0)
		err_os(e, ERRC_BOX_CREATE_FAILED, -written, "write the slot's record");
	if (written < 0 || warden_slot_watch(c, e) < 0) {
		warden_slot_kill(c);
		waitid(P_PIDFD, (id_t)c->slot.pidfd, &(siginfo_t){0}, WEXITED);
		warden_slot_move(c, SLOT_ENDED);
		warden_slot_sweep(c);
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

static void pool_fill(struct loop_timer *t)
{
	struct warden *w = container_of(t, struct warden, pool_timer);
	size_t waiting = waiting_count(w);
	if ((!waiting && w->busy) || reaper_behind(w))
		return;
	if (w->making >= (waiting ? (waiting < WAITING_MAKE ? waiting : WAITING_MAKE) : 1))
		return;
	if (!waiting && w->ready + w->making >= WARDEN_POOL) {
		if (lately_swap(w))
			pool_kick(w);
		return;
	}
	const struct image *image = waiting ? &list_entry(w->waiting.next, struct box, node)->image : lately_lacks(w);
	struct err e;
	if (make_slot(w, image, &e) < 0) {
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
	loop_timer_set(w->loop, &w->pool_timer, delay, pool_fill);
}

void pool_rest(struct warden *w)
{
	uint64_t until = clock_ms() + POOL_REST;
	if (w->ready >= WARDEN_POOL / 2 && w->pool_pause_until < until)
		w->pool_pause_until = until;
}

void pool_drain(struct warden *w)
{
	loop_timer_stop(&w->pool_timer);
	list_each(it, &w->slots)
	{
		struct warden_slot *c = list_entry(it, struct warden_slot, node);
		if (c->stage != SLOT_MAKING && c->stage != SLOT_READY)
			continue;
		warden_slot_kill(c);
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
