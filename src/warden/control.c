/*
 * Requests to a living box: signal, freeze, thaw, inspect, new limits.
 */
#include <signal.h>

#include "base/clock.h"
#include "base/log.h"
#include "cage/trust.h"
#include "proto/limits.h"
#include "warden/control.h"
#include "warden/filesize.h"
#include "warden/storage/storage.h"
#include "warden/warden.h"

enum { FREEZE_POLL = 1 };

struct box *control_living(struct warden *w, const struct warden_request *rq, struct warden_asker *who)
{
	struct box *b = box_find(w, rq->id);
	struct err e;
	if (!b)
		err_set(&e, ERRC_SANDBOX_NOT_FOUND, "there is no sandbox '%s'", rq->id);
	else if (b->stage == STAGE_RUNNING || b->stage == STAGE_FROZEN)
		return b;
	else
		err_set(&e, ERRC_INVALID_STATE, "sandbox '%s' is %s", rq->id,
			b->stage == STAGE_DEAD	     ? "dead"
			: b->stage == STAGE_ENDING   ? "being destroyed"
			: b->stage == STAGE_FREEZING ? "being frozen"
						     : "being created");
	server_reply(w, who, &e, NULL);
	return NULL;
}

void control_signal(struct warden *w, const struct warden_request *rq, struct warden_asker who)
{
	struct err e = {0};
	struct box *b = control_living(w, rq, &who);
	if (!b)
		return;
	if (rq->signal < 1 || rq->signal > 64)
		err_set(&e, ERRC_INVALID_REQUEST, "there is no signal %d", rq->signal);
	else if (sys_pidfd_signal(b->place->slot.pidfd, rq->signal) < 0)
		err_os(&e, ERRC_INTERNAL_ERROR, errno, "signal sandbox '%s'", b->info.id);
	server_reply(w, &who, &e, e.code ? NULL : b);
}

/* The kernel rate-limits the notice that a group is frozen (10 ms); looking is faster than waiting for it. */
static void poll_frozen(struct loop_timer *t)
{
	struct box *b = container_of(t, struct box, timer);
	struct warden *w = b->w;
	struct err e;
	if (cgroup_is_frozen(&w->cgroups, b->info.slot)) {
		stage_move(b, STAGE_FROZEN);
		server_reply(w, &b->waiter, NULL, b);
	} else if (clock_ms() < b->freeze_until) {
		loop_timer_set(w->loop, t, FREEZE_POLL, poll_frozen);
	} else {
		cgroup_freeze(&w->cgroups, b->info.slot, false, NULL);
		stage_move(b, STAGE_RUNNING);
		err_set(&e, ERRC_INVALID_STATE,
			"sandbox '%s' runs on: a process of it could not be paused within %d ms, because the kernel "
			"was busy for it",
			b->info.id, WARDEN_FREEZE_MAX);
		server_reply(w, &b->waiter, &e, NULL);
	}
}

void control_freeze(struct warden *w, const struct warden_request *rq, struct warden_asker who)
{
	struct err e;
	struct box *b = control_living(w, rq, &who);
	if (!b)
		return;
	if (b->stage == STAGE_FROZEN) {
		server_reply(w, &who, NULL, b);
		return;
	}
	if (cgroup_freeze(&w->cgroups, b->info.slot, true, &e) < 0) {
		server_reply(w, &who, &e, NULL);
		return;
	}
	stage_move(b, STAGE_FREEZING);
	b->waiter = who;
	b->freeze_until = clock_ms() + WARDEN_FREEZE_MAX;
	poll_frozen(&b->timer);
}

void control_thaw(struct warden *w, const struct warden_request *rq, struct warden_asker who)
{
	struct err e;
	struct box *b = control_living(w, rq, &who);
	if (!b)
		return;
	/* No swap while a box is awake. What is out there comes back page by page. */
	if (b->may_swap && cgroup_allow_swap(&w->cgroups, b->info.slot, false, &e) < 0)
		log_limited(LOG_WARN, "swap not forbidden", "id=%s error=%s", LOG_Q(b->info.id), LOG_Q(e.msg));
	b->may_swap = false;
	/* A box that is held for a snapshot goes on when that is made. */
	if (b->stage == STAGE_FROZEN && !b->held && cgroup_freeze(&w->cgroups, b->info.slot, false, &e) < 0) {
		server_reply(w, &who, &e, NULL);
		return;
	}
	if (b->stage == STAGE_FROZEN)
		stage_move(b, STAGE_RUNNING);
	server_reply(w, &who, NULL, b);
}

void control_inspect(struct warden *w, const struct warden_request *rq, struct warden_asker who)
{
	struct box *b = box_find(w, rq->id);
	struct err e;
	if (!b) {
		err_set(&e, ERRC_SANDBOX_NOT_FOUND, "there is no sandbox '%s'", rq->id);
		server_reply(w, &who, &e, NULL);
		return;
	}
	if (b->place && b->stage != STAGE_DEAD)
		cgroup_usage(&w->cgroups, b->info.slot, &b->info);
	storage_usage(w, b->info.id, &b->info);
	server_reply(w, &who, NULL, b);
}

int limits_check(const struct warden_host *offer, struct box_limits *l, struct err *e)
{
	if (!l->mem_bytes)
		l->mem_bytes = BOX_MEM_DEFAULT;
	if (!l->cpu_milli)
		l->cpu_milli = BOX_CPU_DEFAULT;
	if (!l->pids)
		l->pids = BOX_PIDS_DEFAULT;
	if (!l->disk_bytes)
		l->disk_bytes = BOX_DISK_DEFAULT;
	if (l->disk_bytes < BOX_DISK_MIN || l->disk_bytes > BOX_DISK_MAX)
		return err_set(e, ERRC_INVALID_LIMITS, "disk must be %llu to %llu bytes, not %llu",
			(unsigned long long)BOX_DISK_MIN, (unsigned long long)BOX_DISK_MAX,
			(unsigned long long)l->disk_bytes);
	if (l->mem_bytes < BOX_MEM_MIN || l->mem_bytes > offer->mem_total)
		return err_set(e, ERRC_INVALID_LIMITS,
			"memory must be %llu to %llu bytes (what the host has), not %llu",
			(unsigned long long)BOX_MEM_MIN, (unsigned long long)offer->mem_total,
			(unsigned long long)l->mem_bytes);
	if (l->cpu_milli < BOX_CPU_MIN || l->cpu_milli > offer->cpus_milli)
		return err_set(e, ERRC_INVALID_LIMITS, "cpu must be %u to %u thousandths (what the host has), not %u",
			BOX_CPU_MIN, offer->cpus_milli, l->cpu_milli);
	if (l->pids < BOX_PIDS_MIN || l->pids > offer->pids_max)
		return err_set(e, ERRC_INVALID_LIMITS, "processes must be %u to %u (what the host has), not %u",
			BOX_PIDS_MIN, offer->pids_max, l->pids);
	return 0;
}

void control_limits(struct warden *w, const struct warden_request *rq, struct warden_asker who)
{
	struct err e;
	struct box *b = control_living(w, rq, &who);
	if (!b)
		return;
	struct box_limits l = rq->flags & WARDEN_ONLY_FILES ? b->info.limits : rq->limits;
	if (limits_check(&w->offer, &l, &e) < 0) {
		server_reply(w, &who, &e, NULL);
		return;
	}
	if (cgroup_limit(&w->cgroups, b->info.slot, &l, &e) < 0 || storage_limit(w, b->info.id, l.disk_bytes, &e) < 0) {
		/* Some limits may have been set: restore all. */
		cgroup_limit(&w->cgroups, b->info.slot, &b->info.limits, NULL);
		storage_limit(w, b->info.id, b->info.limits.disk_bytes, NULL);
		server_reply(w, &who, &e, NULL);
		return;
	}
	uint64_t length = filesize_of(b);
	b->info.limits = l;
	b->volume_bytes = rq->volume_bytes;
	if (filesize_of(b) != length)
		filesize_set(b);
	int n = box_write_record(b, RECORD_RUNNING);
	if (n < 0)
		err_os(&e, ERRC_INTERNAL_ERROR, -n, "write the sandbox's record");
	server_reply(w, &who, n < 0 ? &e : NULL, n < 0 ? NULL : b);
}

void control_network(struct warden *w, const struct warden_request *rq, struct warden_asker who)
{
	struct err e;
	struct box *b = control_living(w, rq, &who);
	if (!b)
		return;
	bool ok = network_flags(b->place, rq->steer, &e) == 0;
	b->steer = ok ? rq->steer : b->steer;
	server_reply(w, &who, ok ? NULL : &e, ok ? b : NULL);
}

void control_trust(struct warden *w, const struct warden_request *rq, struct warden_asker who)
{
	struct err e = {0};
	struct box *b = control_living(w, rq, &who);
	if (!b)
		return;
	if (!*rq->pem)
		err_set(&e, ERRC_INVALID_REQUEST, "a certificate is needed");
	else
		trust_mount(b->place->slot.pidfd, w->own_mounts, str_of(rq->pem), &e);
	server_reply(w, &who, &e, e.code ? NULL : b);
}
