/*
 * After a restart: what the warden before us left. Its records say which slots were in use and for what; each is
 * followed up here, before the first request is taken. Then whatever has no record is swept.
 *
 *	POOL      half-made, its process ended or is ended now
 *	CREATING  nobody was told that it exists: undone; a layer that was there before stays
 *	RUNNING   lives: adopted, nothing in it notices. Gone: reported as dead
 *	ENDING    destroyed for good
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
#include "warden/warden.h"

enum { KILL_WAIT = 5000 };

struct recovery {
	struct warden *w;
	unsigned adopted, dead, undone;
};

/* A descriptor of the process that the record means; -1 when that one is gone. */
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

/* All that is in the slot's cgroup ends, now. */
static void kill_slot(struct warden *w, uint32_t slot, int pidfd)
{
	cgroup_kill(&w->cgroups, slot);
	if (pidfd >= 0) {
		sys_pidfd_signal(pidfd, SIGKILL);
		poll(&(struct pollfd){.fd = pidfd, .events = POLLIN}, 1, KILL_WAIT);
	}
}

static void drop_layer(struct warden *w, const char *id)
{
	char name[BOX_FILENAME_MAX];
	if (box_id_check(str_of(id), NULL) < 0)
		return;
	box_id_filename(str_of(id), name);
	trash_put(w->boxes_dir, name, w->host.trash);
}

static struct cell *new_cell(struct warden *w, const struct record *r, int pidfd)
{
	struct cell *c = cell_new(w);
	c->adopted = true;
	c->slot.number = r->info.slot;
	c->slot.pid = r->info.pid;
	c->slot.pidfd = pidfd;
	c->slot.mntns = pidfd >= 0 ? slot_open_ns(r->info.pid, "mnt") : -1;
	c->slot.start_time = r->start_time;
	c->dead = pidfd < 0;
	return c;
}

static void undo(struct recovery *v, const struct record *r, int pidfd, bool keep_files)
{
	struct warden *w = v->w;
	kill_slot(w, r->info.slot, pidfd);
	if (!keep_files && *r->info.id)
		drop_layer(w, r->info.id);
	fd_close(&pidfd);
	cell_sweep(new_cell(w, r, -1));
	v->undone += r->state != RECORD_POOL;
}

static struct box *restore_box(struct recovery *v, const struct record *r, int pidfd)
{
	struct warden *w = v->w;
	struct box *b = box_new(w, r->info.id);
	b->info = r->info;
	b->cell = new_cell(w, r, pidfd);
	b->cell->box = b;
	return b;
}

static void adopt(struct recovery *v, const struct record *r, int pidfd)
{
	struct box *b = restore_box(v, r, pidfd);
	struct err e;
	network_adopt(b->cell);
	b->stage = cgroup_is_frozen(&v->w->cgroups, r->info.slot) ? STAGE_FROZEN : STAGE_RUNNING;
	b->info.state = b->stage == STAGE_FROZEN ? BOX_FROZEN : BOX_RUNNING;
	if (cell_watch(b->cell, &e) < 0)
		log_event(LOG_ERROR, "cannot watch a box", "id=%s error=%s", LOG_Q(b->info.id), LOG_Q(e.msg));
	v->adopted++;
}

static void report_dead(struct recovery *v, const struct record *r)
{
	struct box *b = restore_box(v, r, -1);
	b->stage = STAGE_DEAD;
	b->info.state = BOX_DEAD;
	b->info.pid = 0;
	if (r->state != RECORD_DEAD) {
		b->info.exit_known = 0;
		b->info.exit_code = -1;
		b->info.exit_signal = 0;
		struct record dead = {.state = RECORD_DEAD, .start_time = r->start_time, .info = b->info};
		record_write(v->w->records_dir, &dead);
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
		undo(v, r, take_fd(&pidfd), r->keep_files);
	else
		undo(v, r, take_fd(&pidfd), !r->fresh);
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
	/* Our blocks carry our name, unless somebody emptied the directory meanwhile. */
	if (!ids_take(&w->ids, (uint32_t)slot / IDS_BLOCK))
		log_event(LOG_WARN, "a box's user ids belong to another warden", "slot=%u", (unsigned)slot);
	follow_up(v, &r);
}

/* ---- what has no record ---- */

static bool in_use(struct warden *w, uint32_t slot)
{
	list_each(it, &w->cells) if (list_entry(it, struct cell, node)->slot.number == slot) return true;
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
	cell_sweep(new_cell(w, &r, -1));
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
