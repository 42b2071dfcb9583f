#include "warden/fuse/fuse.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "cage/fs.h"
#include "warden/control.h"
#include "warden/limits.h"
#include "warden/warden.h"

enum { FUSE_MAJOR = 10, FUSE_MINOR = 229 };

/* ---- the host ---- */

/* A node of our own, on a mount that no box sees. Open for all: the kernel wants it opened by a user of the box. */
static int make_node(struct err *e)
{
	const struct fs_option options[] = {{"mode", "0700"}, {"size", "64k"}};
	auto_fd int dir = fs_make("tmpfs", options, ARRAY_LEN(options), MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC,
		"mount the directory of /dev/fuse", e);
	if (dir < 0)
		return -1;
	mode_t mask = umask(0);
	int made = mknodat(dir, "fuse", S_IFCHR | 0666, makedev(FUSE_MAJOR, FUSE_MINOR));
	umask(mask);
	/* Opened once for real: a host without the module, or one that denies the device, is found out now. */
	auto_fd int probe = made < 0 ? -1 : openat(dir, "fuse", O_RDWR | O_CLOEXEC);
	if (probe < 0)
		return err_os(e, ERRC_HOST_UNSUPPORTED, errno, "open /dev/fuse");
	return openat(dir, "fuse", O_PATH | O_NOFOLLOW | O_CLOEXEC);
}

void fuse_prepare(struct warden *w)
{
	struct err e;
	w->fuse.node = make_node(&e);
	w->fuse.proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	w->fuse.control = -1;
	if (w->fuse.node < 0) {
		log_event(LOG_WARN, "no FUSE mounts in boxes", "reason=%s", LOG_Q(e.msg));
		return;
	}
	w->fuse.control = fs_make(
		"fusectl", NULL, 0, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC, "mount fusectl", &e);
	if (w->fuse.control < 0)
		log_event(LOG_WARN, "FUSE connections cannot be aborted", "reason=%s", LOG_Q(e.msg));
}

void fuse_slot_init(struct warden_slot *c)
{
	c->fuse.joiner = -1;
}

/* ---- the joiner ---- */

static void start_joiner(struct warden_slot *c);

static void on_joiner_exit(struct loop_io *io, uint32_t events)
{
	(void)events;
	struct slot_fuse *f = container_of(io, struct slot_fuse, exit_io);
	struct warden_slot *c = container_of(f, struct warden_slot, fuse);
	waitid(P_PIDFD, (id_t)f->joiner, &(siginfo_t){0}, WEXITED | WNOHANG);
	loop_del(io);
	loop_timer_stop(&f->timer);
	fd_close(&f->joiner);
	if (f->rung)
		fuse_ring(c);
}

/* While the box is frozen, so is its joiner. */
static void on_joiner_late(struct loop_timer *t)
{
	struct slot_fuse *f = container_of(t, struct slot_fuse, timer);
	struct warden_slot *c = container_of(f, struct warden_slot, fuse);
	if (c->box && (c->box->stage == STAGE_FROZEN || c->box->stage == STAGE_FREEZING))
		loop_timer_set(c->w->loop, t, FUSE_JOINER_MAX, on_joiner_late);
	else
		sys_pidfd_signal(f->joiner, SIGKILL);
}

/* The child is born into the box's cgroups, so that its work is counted there and ends with the box. */
static int spawn(struct warden_slot *c, struct err *e)
{
	struct warden *w = c->w;
	int ends[2], pidfd = -1;
	auto_fd int cgroup = cgroup_open_v2(&w->cgroups, c->slot.number, e);
	if (cgroup < 0)
		return -1;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, errno, "make the joiner's socket");
	auto_fd int its_end = ends[0];
	auto_fd int our_end = ends[1];
	struct clone_args a = {.flags = CLONE_PIDFD | CLONE_INTO_CGROUP,
		.pidfd = (uint64_t)(uintptr_t)&pidfd,
		.exit_signal = SIGCHLD,
		.cgroup = (uint64_t)cgroup};
	const char *refusal = w->fuse.node < 0	     ? "the host has no /dev/fuse for sandboxes"
			      : c->box->info.no_fuse ? "FUSE is turned off for this sandbox"
						     : NULL;
	const struct fuse_join j = {w->fuse.node < 0 ? w->fuse.proc : w->fuse.node, w->fuse.proc, c->slot.pidfd,
		its_end, c->slot.pid, getpid(), refusal};
	pid_t pid = sys_clone3(&a);
	if (pid == 0)
		fuse_join(&j);
	if (pid < 0)
		return err_os(e, ERRC_RESOURCE_BUSY, errno, "start the joiner");
	c->fuse.joiner = pidfd;
	if (cgroup_attach(&w->cgroups, c->slot.number, pid, e) < 0 || send(our_end, "g", 1, MSG_NOSIGNAL) != 1)
		sys_pidfd_signal(pidfd, SIGKILL);
	return 0;
}

static void start_joiner(struct warden_slot *c)
{
	struct err e;
	if (spawn(c, &e) < 0) {
		log_limited(LOG_WARN, "cannot start a joiner", "slot=%u error=%s", c->slot.number, LOG_Q(e.msg));
		return;
	}
	if (loop_add(c->w->loop, &c->fuse.exit_io, c->fuse.joiner, EPOLLIN, on_joiner_exit) < 0) {
		sys_pidfd_signal(c->fuse.joiner, SIGKILL);
		fd_close(&c->fuse.joiner);
		return;
	}
	loop_timer_set(c->w->loop, &c->fuse.timer, FUSE_JOINER_MAX, on_joiner_late);
}

/* A bucket of FUSE_BURST joiners that fills at FUSE_RATE a second; counted in thousandths. */
static bool within_rate(struct slot_fuse *f)
{
	uint64_t now = clock_ms(), full = FUSE_BURST * 1000;
	uint64_t have = f->rung_ms ? f->tokens + (now - f->rung_ms) * FUSE_RATE : full;
	f->tokens = have < full ? have : full;
	f->rung_ms = now;
	if (f->tokens < 1000)
		return false;
	f->tokens -= 1000;
	return true;
}

static void on_pause_over(struct loop_timer *t)
{
	struct slot_fuse *f = container_of(t, struct slot_fuse, timer);
	fuse_ring(container_of(f, struct warden_slot, fuse));
}

void fuse_ring(struct warden_slot *c)
{
	struct warden *w = c->w;
	struct slot_fuse *f = &c->fuse;
	bool runs = c->box && c->box->stage == STAGE_RUNNING;
	f->rung = f->joiner >= 0;
	if (f->rung || !runs || c->slot.pidfd < 0)
		return;
	if (!within_rate(f)) {
		loop_timer_set(w->loop, &f->timer, FUSE_PAUSE, on_pause_over);
		return;
	}
	start_joiner(c);
}

/* ---- the end ---- */

static void abort_one(int dir, uint32_t base)
{
	struct stat st;
	if (fstat(dir, &st) == 0 && st.st_uid >= base && st.st_uid - base < BOX_UID_RANGE)
		fd_write_file(dir, "abort", STR("1"));
}

/* Every connection whose user is one of the box's. Asks no file system anything. */
void fuse_abort(struct warden *w, uint32_t slot)
{
	const uint32_t base = ids_base(slot);
	int list = w->fuse.control < 0 ? -1 : openat(w->fuse.control, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = list < 0 ? NULL : fdopendir(list);
	if (!d) {
		fd_close(&list);
		return;
	}
	for (struct dirent *it; (it = readdir(d));) {
		auto_fd int dir = it->d_name[0] == '.'
					  ? -1
					  : openat(list, it->d_name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (dir >= 0)
			abort_one(dir, base);
	}
	closedir(d);
}

void fuse_end(struct warden_slot *c)
{
	struct slot_fuse *f = &c->fuse;
	f->rung = false;
	loop_timer_stop(&f->timer);
	if (f->joiner >= 0) /* on_joiner_exit reaps it; the slot waits for that */
		sys_pidfd_signal(f->joiner, SIGKILL);
	fuse_abort(c->w, c->slot.number);
}

void fuse_allow(struct warden *w, const struct warden_request *rq, struct warden_asker who)
{
	struct err e;
	struct box *b = control_living(w, rq, &who);
	if (!b)
		return;
	b->info.no_fuse = !!(rq->flags & WARDEN_NO_FUSE);
	int n = box_write_record(b, RECORD_RUNNING);
	if (n < 0)
		err_os(&e, ERRC_INTERNAL_ERROR, -n, "write the sandbox's record");
	server_reply(w, &who, n < 0 ? &e : NULL, n < 0 ? NULL : b);
}
