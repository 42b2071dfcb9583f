/*
 * After a restart: follows up the records of the warden before us, before the first request is taken. Then sweeps
 * cgroups, sockets and layers that have no record.
 *
 *	POOL      half-made, its process ended or is ended now
 *	CREATING  the daemon was not told that it exists: undone; a layer that was there before stays
 *	RUNNING   lives: adopted, nothing in it notices. Gone: reported as dead
 *	ENDING    its destroy is finished
 *	DEAD      still to be reported
 */
#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "cage/trash.h"
#include "proto/id.h"
#include "warden/record.h"
#include "warden/recover.h"
#include "warden/warden.h"

enum { KILL_WAIT = 5000 };

struct recovery {
	struct warden *w;
	unsigned adopted, dead, undone;
};

/* A descriptor of the process that the record means; -1 when it is gone. */
static int find_process(struct warden *w, const struct record *r)
{
	if (r->info.pid <= 0)
		return -1;
	auto_fd int fd = sys_pidfd_open(r->info.pid);
	if (fd < 0 || slot_start_time(r->info.pid) != r->start_time ||
		!cgroup_has_pid(&w->cgroups, r->info.slot, r->info.pid))
		return -1;
	return take_fd(&fd);
}

/* Kills all processes in the slot's cgroup. */
static void kill_slot(struct warden *w, uint32_t slot, int pidfd)
{
	cgroup_kill(&w->cgroups, slot);
	fuse_abort(w, slot);
	if (pidfd >= 0) {
		sys_pidfd_signal(pidfd, SIGKILL);
		poll(&(struct pollfd){.fd = pidfd, .events = POLLIN}, 1, KILL_WAIT);
	}
}

static struct warden_slot *restore_slot(struct warden *w, const struct record *r, int pidfd)
{
	struct warden_slot *c = warden_slot_new(w, pidfd >= 0 ? SLOT_TAKEN : SLOT_ENDED);
	c->slot.number = r->info.slot;
	c->slot.pid = r->info.pid;
	c->slot.pidfd = pidfd;
	c->slot.mntns = pidfd >= 0 ? slot_open_ns(r->info.pid, "mnt") : -1;
	c->slot.ask = pidfd >= 0 ? slot_open_ask(&w->host, r->info.slot) : -1;
	c->slot.start_time = r->start_time;
	return c;
}

static void undo_slot(struct recovery *v, const struct record *r, int pidfd, bool keep_files)
{
	struct warden *w = v->w;
	kill_slot(w, r->info.slot, pidfd);
	if (!keep_files && box_id_check(str_of(r->info.id), NULL) == 0)
		box_drop_layer(w, r->info.id);
	fd_close(&pidfd);
	warden_slot_sweep(restore_slot(w, r, -1));
	v->undone += r->state != RECORD_POOL;
}

static void adopt(struct recovery *v, const struct record *r, int pidfd)
{
	if (r->held)
		cgroup_freeze(&v->w->cgroups, r->info.slot, false, NULL);
	bool frozen = !r->held && cgroup_is_frozen(&v->w->cgroups, r->info.slot);
	struct box *b = box_restore(restore_slot(v->w, r, pidfd), &r->info, frozen ? STAGE_FROZEN : STAGE_RUNNING);
	struct err e;
	b->volume_bytes = r->volume_bytes;
	b->volumes_n = BOX_VOLUMES_MAX; /* nobody knows: new contexts are as in a box with several */
	network_adopt(b->place);
	b->info.no_network = !b->place->network.steered;
	zygote_listen(b->place); /* for FUSE mounts; its connection to a zygote is gone */
	if (warden_slot_watch(b->place, &e) < 0)
		log_event(LOG_ERROR, "cannot watch a box", "id=%s error=%s", LOG_Q(b->info.id), LOG_Q(e.msg));
	v->adopted++;
}

static void report_dead(struct recovery *v, const struct record *r)
{
	struct box *b = box_restore(restore_slot(v->w, r, -1), &r->info, STAGE_DEAD);
	b->info.pid = 0;
	if (r->state != RECORD_DEAD) {
		b->info.exit_known = 0;
		b->info.exit_code = -1;
		b->info.exit_signal = 0;
		box_write_record(b, RECORD_DEAD);
	}
	v->dead++;
}

static void follow_up(struct recovery *v, const struct record *r)
{
	auto_fd int pidfd = find_process(v->w, r);
	bool named = box_id_check(str_of(r->info.id), NULL) == 0 && !box_find(v->w, r->info.id);
	if (r->state == RECORD_RUNNING && named && pidfd >= 0)
		adopt(v, r, take_fd(&pidfd));
	else if ((r->state == RECORD_RUNNING || r->state == RECORD_DEAD) && named)
		report_dead(v, r);
	else if (r->state == RECORD_ENDING)
		undo_slot(v, r, take_fd(&pidfd), r->keep_files);
	else
		undo_slot(v, r, take_fd(&pidfd), !r->fresh);
}

static void on_record(void *arg, const char *name)
{
	struct recovery *v = arg;
	struct warden *w = v->w;
	uint64_t slot;
	struct record r;
	if (!str_to_u64(str_of(name), IDS_BLOCKS * IDS_BLOCK - 1, &slot) ||
		record_read(w->records_dir, (uint32_t)slot, &r) < 0) {
		unlinkat(w->records_dir, name, 0);
		return;
	}
	/* Our blocks carry our name, unless the directory was emptied meanwhile. */
	if (!ids_take(&w->ids, (uint32_t)slot / IDS_BLOCK))
		log_event(LOG_WARN, "a box's user ids belong to another warden", "slot=%u", (unsigned)slot);
	follow_up(v, &r);
}

/* ---- remains without a record ---- */

static bool in_use(struct warden *w, uint32_t slot)
{
	list_each(it, &w->slots) if (list_entry(it, struct warden_slot, node)->slot.number == slot) return true;
	return false;
}

static void sweep_cgroup(void *arg, uint32_t slot)
{
	struct warden *w = arg;
	if (in_use(w, slot))
		return;
	struct record r = {.state = RECORD_POOL};
	r.info.slot = slot;
	cgroup_kill(&w->cgroups, slot);
	warden_slot_sweep(restore_slot(w, &r, -1));
}

static void sweep_socket(void *arg, const char *name)
{
	struct warden *w = arg;
	struct str rest;
	uint64_t slot;
	if (!str_to_u64(str_split(str_of(name), '.', &rest), UINT32_MAX, &slot) || !in_use(w, (uint32_t)slot))
		unlinkat(w->host.sockets, name, 0);
}

static void sweep_layer(void *arg, const char *name)
{
	struct warden *w = arg;
	trash_put(w->host.layers, name, w->host.trash);
}

void recover(struct warden *w)
{
	struct recovery v = {.w = w};
	ids_reclaim(&w->ids);
	record_each(w->records_dir, on_record, &v);
	cgroup_each(&w->cgroups, sweep_cgroup, w);
	record_each(w->host.sockets, sweep_socket, w);
	record_each(w->host.layers, sweep_layer, w);
	numbers_init(w);
	if (v.adopted || v.dead || v.undone)
		log_event(LOG_INFO, "found boxes again", "living=%u dead=%u undone=%u", v.adopted, v.dead, v.undone);
}
