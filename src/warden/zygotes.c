/*
 * Zygotes: one per image, started when the image is used, started again when they end. A request for a context goes
 * from a box's pipe, through here, to the zygote of its image.
 *
 * A box is known by its pipe. It sends a number that comes back in the answer, nothing else. A bucket per slot bounds
 * the requests; the contexts count among the box's processes. A box that is refused too often loses its pipe: refusing
 * costs the warden more than asking costs the box. Nothing here waits: when a zygote is missing, not ready or too slow
 * to take requests, the answer is "no", and the box's agent starts the context itself.
 *
 * A zygote answers every ask, in order. A zygote that answers nothing for ZYGOTE_STUCK is SILENT: all asks that wait,
 * and all that follow, are refused. After ZYGOTE_GIVEN_UP more it is killed, and another zygote is started.
 */
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/fd_pass.h"
#include "base/log.h"
#include "proto/fuse.h"
#include "proto/noshare.h"
#include "proto/warm.h"
#include "proto/zygote.h"
#include "warden/filesize.h"
#include "warden/limits.h"
#include "warden/warden.h"

enum { ASKS_AT_ONCE = 16 };

#define TO(s) (1u << ZYGOTE_##s)
static const unsigned allowed[ZYGOTE_STAGES] = {
	[ZYGOTE_UNUSED] = TO(PAUSING),
	[ZYGOTE_PAUSING] = TO(STARTING) | TO(PAUSING),
	[ZYGOTE_STARTING] = TO(READY) | TO(ENDING) | TO(SWEEPING) | TO(HOPELESS),
	[ZYGOTE_READY] = TO(SILENT) | TO(ENDING) | TO(SWEEPING) | TO(HOPELESS),
	[ZYGOTE_SILENT] = TO(READY) | TO(ENDING) | TO(SWEEPING) | TO(HOPELESS),
	[ZYGOTE_ENDING] = TO(SWEEPING) | TO(HOPELESS),
	[ZYGOTE_SWEEPING] = TO(PAUSING),
	[ZYGOTE_HOPELESS] = TO(PAUSING),
};
#undef TO

static void zygote_launch(struct loop_timer *t);

static bool zygote_lives(const struct zygote *z)
{
	return z->stage >= ZYGOTE_STARTING && z->stage <= ZYGOTE_ENDING;
}

static void zygote_check(const struct zygote *z)
{
	INVARIANT(*z->image.key);
	INVARIANT(zygote_lives(z) == (z->p.pidfd >= 0));
	INVARIANT(z->stage != ZYGOTE_SILENT || z->asked_n);
	INVARIANT(z->refused_n <= z->asked_n && (z->asked_n == 0 || zygote_lives(z)));
}

static void zygote_move(struct zygote *z, enum zygote_stage to)
{
	INVARIANT(allowed[z->stage] >> to & 1);
	z->stage = to;
	zygote_check(z);
}

/* on_zygote_exit follows. */
static void zygote_kill(struct zygote *z)
{
	if (z->stage != ZYGOTE_ENDING)
		zygote_move(z, ZYGOTE_ENDING);
	sys_pidfd_signal(z->p.pidfd, SIGKILL);
}

static struct zygote *zygote_of(struct warden *w, const struct image *image)
{
	for (size_t i = 0; i < ZYGOTES_MAX; i++)
		if (image_same(&w->zygotes[i].image, image))
			return &w->zygotes[i];
	return NULL;
}

/* ---- asks without an answer ---- */

static void refuse(struct warden_slot *c, uint32_t serial, int os)
{
	const struct zygote_reply r = {ZYGOTE_MAGIC, serial, os};
	send(c->slot.reply, &r, sizeof r, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* Another box may have the slot number by now: its agent ignores an answer that it did not ask for. */
static void refuse_all(struct zygote *z)
{
	for (size_t i = z->refused_n; i < z->asked_n; i++) {
		const struct zygote_asked *a = &z->asked[(z->asked_head + i) % ZYGOTE_ASKS_MAX];
		list_each(it, &z->w->slots)
		{
			struct warden_slot *c = list_entry(it, struct warden_slot, node);
			if (c->slot.number == a->slot)
				refuse(c, a->serial, EAGAIN);
		}
	}
	z->refused_n = z->asked_n;
}

static void on_given_up(struct loop_timer *t)
{
	struct zygote *z = container_of(t, struct zygote, watch);
	log_event(LOG_WARN, "a zygote is stuck and is replaced", "image=%s pid=%d", LOG_Q(z->image.key), z->p.pid);
	zygote_kill(z);
}

static void on_stuck(struct loop_timer *t)
{
	struct zygote *z = container_of(t, struct zygote, watch);
	if (z->stage == ZYGOTE_READY)
		zygote_move(z, ZYGOTE_SILENT);
	refuse_all(z);
	loop_timer_set(z->w->loop, &z->watch, ZYGOTE_GIVEN_UP, on_given_up);
}

static void asked(struct zygote *z, const struct warden_slot *c, uint32_t serial)
{
	z->asked[(z->asked_head + z->asked_n++) % ZYGOTE_ASKS_MAX] = (struct zygote_asked){c->slot.number, serial};
	if (z->asked_n == 1)
		loop_timer_set(z->w->loop, &z->watch, ZYGOTE_STUCK, on_stuck);
}

static void answered(struct zygote *z)
{
	if (!z->asked_n)
		return;
	z->asked_head = (z->asked_head + 1) % ZYGOTE_ASKS_MAX;
	z->asked_n--;
	z->refused_n -= z->refused_n > 0;
	if (z->stage == ZYGOTE_SILENT && !z->asked_n)
		zygote_move(z, ZYGOTE_READY);
	if (z->asked_n)
		loop_timer_set(z->w->loop, &z->watch, ZYGOTE_STUCK, on_stuck);
	else
		loop_timer_stop(&z->watch);
}

static void forget_asks(struct zygote *z)
{
	refuse_all(z);
	loop_timer_stop(&z->watch);
	z->asked_n = z->refused_n = 0;
}

/* ---- life ---- */

static void zygote_pause(struct zygote *z)
{
	z->retry_ms = !z->retry_ms				 ? ZYGOTE_RETRY_MIN
		      : clock_ms() - z->since > ZYGOTE_RETRY_MAX ? ZYGOTE_RETRY_MIN
		      : z->retry_ms < ZYGOTE_RETRY_MAX / 2	 ? z->retry_ms * 2
								 : ZYGOTE_RETRY_MAX;
	zygote_move(z, ZYGOTE_PAUSING);
	loop_timer_set(z->w->loop, &z->timer, z->retry_ms, zygote_launch);
}

static void zygote_begin(struct zygote *z, struct warden *w, const struct image *image)
{
	const struct image own = *image; /* it may lie in *z */
	*z = (struct zygote){.w = w, .image = own, .p = {.pidfd = -1, .control = -1}, .used = clock_ms()};
	zygote_move(z, ZYGOTE_PAUSING);
	loop_timer_set(w->loop, &z->timer, ZYGOTE_DELAY, zygote_launch);
}

static void zygote_sweep(struct loop_timer *t)
{
	struct zygote *z = container_of(t, struct zygote, timer);
	struct warden *w = z->w;
	cgroup_kill(&w->cgroups, z->slot);
	if (cgroup_remove(&w->cgroups, z->slot) < 0) {
		loop_timer_set(w->loop, &z->timer, WARDEN_RETRY, zygote_sweep);
		return;
	}
	numbers_give(w, z->slot);
	if (*z->next.key)
		zygote_begin(z, w, &z->next);
	else if (z->stage == ZYGOTE_SWEEPING)
		zygote_pause(z);
}

static void on_zygote_exit(struct loop_io *io, uint32_t events)
{
	(void)events;
	struct zygote *z = container_of(io, struct zygote, exit_io);
	siginfo_t si = {0};
	waitid(P_PIDFD, (id_t)z->p.pidfd, &si, WEXITED | WNOHANG);
	loop_del(&z->exit_io);
	loop_del(&z->control_io);
	fd_close(&z->p.pidfd);
	fd_close(&z->p.control);
	forget_asks(z);
	bool hopeless = si.si_code == CLD_EXITED && si.si_status == ZYGOTE_NO_PYTHON;
	zygote_move(z, hopeless ? ZYGOTE_HOPELESS : ZYGOTE_SWEEPING);
	log_event(hopeless ? LOG_INFO : LOG_WARN, hopeless ? "an image has no python3" : "a zygote ended",
		"image=%s status=%d signal=%d", LOG_Q(z->image.key), si.si_code == CLD_EXITED ? si.si_status : -1,
		si.si_code == CLD_EXITED ? 0 : si.si_status);
	loop_timer_set(z->w->loop, &z->timer, 0, zygote_sweep);
}

static void on_note(struct loop_io *io, uint32_t events)
{
	(void)events;
	struct zygote *z = container_of(io, struct zygote, control_io);
	union {
		struct zygote_note note;
		struct err err; /* of one that could not be started */
	} in;
	ssize_t got = recv(io->fd, &in, sizeof in, MSG_DONTWAIT);
	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (got == (ssize_t)sizeof in.err)
		log_event(LOG_ERROR, "cannot start a zygote", "image=%s error=%s", LOG_Q(z->image.key),
			LOG_Q((err_seal(&in.err), in.err.msg)));
	if (got != (ssize_t)sizeof in.note || in.note.magic != ZYGOTE_MAGIC) {
		loop_del(io);
		return;
	}
	const struct zygote_note n = in.note;
	if (n.serial) {
		answered(z);
		if (n.error)
			log_limited(LOG_WARN, "a zygote could not fork", "image=%s error=%s", LOG_Q(z->image.key),
				LOG_Q(strerror(n.error)));
		return;
	}
	if (z->stage != ZYGOTE_STARTING)
		return; /* it has said so before, or is being ended */
	loop_timer_stop(&z->timer);
	const struct sched_param normal = {0};
	syscall(SYS_sched_setscheduler, z->p.pid, SCHED_OTHER, &normal); /* musl has none */
	zygote_move(z, ZYGOTE_READY);
	log_event(LOG_INFO, "zygote ready", "image=%s pid=%d after_ms=%llu", LOG_Q(z->image.key), z->p.pid,
		(unsigned long long)(clock_ms() - z->since));
}

static void on_start_timeout(struct loop_timer *t)
{
	struct zygote *z = container_of(t, struct zygote, timer);
	log_event(LOG_WARN, "a zygote did not get ready", "image=%s", LOG_Q(z->image.key));
	zygote_kill(z);
}

static void zygote_launch(struct loop_timer *t)
{
	struct zygote *z = container_of(t, struct zygote, timer);
	struct warden *w = z->w;
	struct err e;
	struct zygote_process p;
	if (numbers_take(w, &z->slot, &e) < 0)
		return zygote_pause(z);
	z->since = clock_ms();
	if (zygote_spawn(&w->host, z->slot, &z->image, &p, &e) < 0) {
		log_event(LOG_ERROR, "cannot start a zygote", "image=%s error=%s", LOG_Q(z->image.key), LOG_Q(e.msg));
		numbers_give(w, z->slot);
		return zygote_pause(z);
	}
	z->p = p;
	zygote_move(z, ZYGOTE_STARTING);
	if (loop_add(w->loop, &z->exit_io, p.pidfd, EPOLLIN, on_zygote_exit) < 0 ||
		loop_add(w->loop, &z->control_io, p.control, EPOLLIN, on_note) < 0)
		log_event(LOG_ERROR, "cannot watch a zygote", "image=%s", LOG_Q(z->image.key));
	loop_timer_set(w->loop, &z->timer, ZYGOTE_START_MAX, on_start_timeout);
}

/* Contexts that it has forked live on. */
static void zygote_replace(struct zygote *z, const struct image *image)
{
	z->next = *image;
	if (zygote_lives(z))
		zygote_kill(z); /* sweep and begin follow */
	else if (!z->timer.pos)
		zygote_begin(z, z->w, &z->next);
}

void zygote_want(struct warden *w, const struct image *image)
{
	/* A zygote has a capability of the host: code of a user's image never runs in it. */
	if (w->zygotes_off || !*image->key || image->layered || zygote_of(w, image))
		return;
	struct zygote *oldest = NULL;
	for (size_t i = 0; i < ZYGOTES_MAX; i++) {
		struct zygote *z = &w->zygotes[i];
		if (z->stage == ZYGOTE_UNUSED)
			return zygote_begin(z, w, image);
		bool idle = z->stage == ZYGOTE_READY || z->stage == ZYGOTE_SILENT || z->stage == ZYGOTE_HOPELESS;
		if (!*z->next.key && idle && (!oldest || z->used < oldest->used))
			oldest = z;
	}
	if (oldest && clock_ms() - oldest->used > ZYGOTE_IDLE)
		zygote_replace(oldest, image);
}

void zygotes_end(struct warden *w)
{
	for (size_t i = 0; i < ZYGOTES_MAX; i++) {
		struct zygote *z = &w->zygotes[i];
		if (!zygote_lives(z))
			continue;
		sys_pidfd_signal(z->p.pidfd, SIGKILL);
		waitid(P_PIDFD, (id_t)z->p.pidfd, &(siginfo_t){0}, WEXITED);
		cgroup_remove(&w->cgroups, z->slot);
	}
}

/* ---- requests ---- */

/* A bucket of ZYGOTE_BURST that fills at ZYGOTE_RATE a second; counted in thousandths. */
static bool within_rate(struct warden_slot *c)
{
	uint64_t now = clock_ms(), full = ZYGOTE_BURST * 1000;
	uint64_t have = c->asked_ms ? c->tokens + (now - c->asked_ms) * ZYGOTE_RATE : full;
	c->tokens = have < full ? have : full;
	c->asked_ms = now;
	if (c->tokens < 1000)
		return false;
	c->tokens -= 1000;
	return true;
}

/* A bucket the other way round: every refusal fills it, and it empties at ZYGOTE_RATE a second. An honest agent that is
 * refused starts a context itself, which takes far longer than an ask. */
static bool asks_in_vain(struct warden_slot *c)
{
	uint64_t now = clock_ms(), drained = (now - c->refused_ms) * ZYGOTE_RATE;
	c->refusals = (c->refusals > drained ? c->refusals - drained : 0) + 1000;
	c->refused_ms = now;
	return c->refusals > ZYGOTE_REFUSALS * 1000ull;
}

static void stop_listening(struct warden_slot *c)
{
	loop_del(&c->ask_io);
	fd_close(&c->slot.ask);
}

static int open_namespaces(struct warden_slot *c, int fds[ZYGOTE_FDS_MAX])
{
	static const char *const names[] = {[ZYGOTE_FD_PIDNS] = "pid",
		[ZYGOTE_FD_USERNS] = "user",
		[ZYGOTE_FD_IPCNS] = "ipc",
		[ZYGOTE_FD_UTSNS] = "uts",
		[ZYGOTE_FD_NETNS] = "net",
		[ZYGOTE_FD_CGROUPNS] = "cgroup",
		[ZYGOTE_FD_MNTNS] = "mnt",
		[ZYGOTE_FD_TIMENS] = "time"};
	for (size_t i = ZYGOTE_FD_PIDNS; i < ARRAY_LEN(names); i++) {
		fds[i] = slot_open_ns(c->slot.pid, names[i]);
		if (fds[i] < 0 && i == ZYGOTE_FD_TIMENS && errno == ENOENT)
			fds[i] = slot_open_ns(c->slot.pid, names[ZYGOTE_FD_UTSNS]);
		if (fds[i] < 0)
			return -1;
	}
	/* The process still lives, so the namespaces that were opened by its number are its own. */
	return sys_pidfd_signal(c->slot.pidfd, 0);
}

static int pass_on(struct warden_slot *c, const struct zygote *z, uint32_t serial)
{
	int fds[ZYGOTE_FDS_MAX];
	memset(fds, -1, sizeof fds);
	fds[ZYGOTE_FD_REPLY] = c->slot.reply;
	int n = cgroup_open_procs(&c->w->cgroups, c->slot.number, &fds[ZYGOTE_FD_CGROUPS]);
	const struct zygote_ask ask = {.magic = ZYGOTE_MAGIC,
		.serial = serial,
		.cgroups = (uint32_t)n,
		.noshare = c->box->volumes_n >= NOSHARE_VOLUMES,
		.file_max = filesize_of(c->box)};
	ssize_t r;
	if (n < 0 || open_namespaces(c, fds) < 0)
		r = -errno;
	else
		r = fd_send(z->p.control, &ask, sizeof ask, fds, ZYGOTE_FD_CGROUPS + (size_t)n, MSG_DONTWAIT);
	for (size_t i = ZYGOTE_FD_PIDNS; i < ZYGOTE_FDS_MAX; i++)
		fd_close(&fds[i]);
	return r < 0 ? (int)r : 0;
}

static int zygote_answer(struct warden_slot *c, uint32_t serial)
{
	struct warden *w = c->w;
	struct box *b = c->box;
	struct zygote *z = b && b->stage == STAGE_RUNNING ? zygote_of(w, &b->image) : NULL;
	if (z)
		z->used = clock_ms();
	if (!serial)
		return -EINVAL; /* a note with it would say that the zygote is ready */
	if (!z || z->stage != ZYGOTE_READY)
		return -EAGAIN;
	if (z->asked_n == ZYGOTE_ASKS_MAX || !within_rate(c) ||
		cgroup_pids(&w->cgroups, c->slot.number) >= b->info.limits.pids)
		return -EBUSY;
	int r = pass_on(c, z, serial);
	if (r == 0)
		asked(z, c, serial);
	return r;
}

/* False: it was refused. */
static bool take_number(struct warden_slot *c, uint32_t number)
{
	if (number == WARM_JAVASCRIPT || number == WARM_TYPESCRIPT)
		return warm_note(c, number == WARM_TYPESCRIPT);
	int r = zygote_answer(c, number);
	if (r)
		refuse(c, number, -r);
	return r == 0;
}

static void on_ask(struct loop_io *io, uint32_t events)
{
	(void)events;
	struct warden_slot *c = container_of(io, struct warden_slot, ask_io);
	uint32_t serials[ASKS_AT_ONCE];
	ssize_t n = read(io->fd, serials, sizeof serials);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0 || n % (ssize_t)sizeof *serials) {
		stop_listening(c);
		return;
	}
	for (ssize_t i = 0; i < n / (ssize_t)sizeof *serials; i++) {
		if (serials[i] == FUSE_RING) {
			fuse_ring(c);
			continue;
		}
		if (take_number(c, serials[i]))
			continue;
		if (asks_in_vain(c)) {
			log_limited(LOG_WARN, "a box asks for contexts without end and is not heard any more",
				"slot=%u refusals=%u", c->slot.number, ZYGOTE_REFUSALS);
			return stop_listening(c);
		}
	}
}

void zygote_listen(struct warden_slot *c)
{
	if (c->slot.ask >= 0 && loop_add(c->w->loop, &c->ask_io, c->slot.ask, EPOLLIN, on_ask) < 0)
		fd_close(&c->slot.ask);
}
