/*
 * The life of a box: create, start, end.
 *
 *	WAITING ─▶ STARTING ─▶ RUNNING ⇄ FREEZING ─▶ FROZEN ─▶ RUNNING
 *	   │           │           └──────┬──────────────┘
 *	   │           ▼                  ├─▶ DEAD (by itself) ─▶ GONE
 *	   └─▶ GONE  ENDING ◀─────────────┘ (destroyed)
 *	               └─▶ GONE
 */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/log.h"
#include "cage/init.h"
#include "cage/trash.h"
#include "proto/id.h"
#include "proto/limits.h"
#include "warden/boxes.h"
#include "warden/closing.h"
#include "warden/control.h"
#include "warden/filesize.h"
#include "warden/limits.h"
#include "warden/record.h"
#include "warden/storage/carry.h"
#include "warden/storage/room.h"
#include "warden/storage/snapshot.h"
#include "warden/storage/storage.h"
#include "warden/storage/volume.h"
#include "warden/warden.h"

#define TO(s) (1u << STAGE_##s)
static const unsigned allowed[STAGES] = {
	[STAGE_WAITING] = TO(STARTING) | TO(GONE),
	[STAGE_STARTING] = TO(RUNNING) | TO(ENDING),
	[STAGE_RUNNING] = TO(FREEZING) | TO(ENDING) | TO(DEAD),
	[STAGE_FREEZING] = TO(FROZEN) | TO(RUNNING) | TO(ENDING) | TO(DEAD),
	[STAGE_FROZEN] = TO(RUNNING) | TO(ENDING) | TO(DEAD),
	[STAGE_ENDING] = TO(GONE),
	[STAGE_DEAD] = TO(GONE),
};
#undef TO

#define TO(s) (1u << LAYER_##s)
static const unsigned layer_allowed[LAYERS] = {
	[LAYER_UNKNOWN] = TO(FOUND) | TO(MADE) | TO(KEPT) | TO(DROPPED),
	[LAYER_FOUND] = TO(KEPT) | TO(DROPPED),
	[LAYER_MADE] = TO(ADOPTED) | TO(KEPT) | TO(DROPPED),
	[LAYER_ADOPTED] = TO(KEPT) | TO(DROPPED),
	/* The destroy of a new connection may ask for something else. */
	[LAYER_KEPT] = TO(KEPT) | TO(DROPPED),
	[LAYER_DROPPED] = TO(KEPT) | TO(DROPPED),
};
#undef TO

static const uint32_t shown[STAGES] = {
	[STAGE_WAITING] = BOX_CREATING,
	[STAGE_STARTING] = BOX_CREATING,
	[STAGE_RUNNING] = BOX_RUNNING,
	[STAGE_FREEZING] = BOX_RUNNING,
	[STAGE_FROZEN] = BOX_FROZEN,
	[STAGE_ENDING] = BOX_DEAD,
	[STAGE_DEAD] = BOX_DEAD,
};

static bool is_busy(enum stage s)
{
	return s == STAGE_STARTING || s == STAGE_ENDING;
}

static bool layer_decided(const struct box *b)
{
	return b->layer == LAYER_KEPT || b->layer == LAYER_DROPPED;
}

static bool layer_is_new(const struct box *b)
{
	return b->layer == LAYER_MADE || b->layer == LAYER_ADOPTED;
}

/* A box has a slot from its start to its end, and an end knows where the layer goes. */
static void box_check(const struct box *b)
{
	if (b->stage == STAGE_GONE)
		return;
	INVARIANT((b->stage == STAGE_WAITING) == !b->place);
	INVARIANT(!b->after || b->stage == STAGE_WAITING);
	INVARIANT(layer_decided(b) == (b->stage == STAGE_ENDING));
}

static void layer_move(struct box *b, enum box_layer to)
{
	INVARIANT(layer_allowed[b->layer] >> to & 1);
	b->layer = to;
}

void stage_move(struct box *b, enum stage to)
{
	struct warden *w = b->w;
	INVARIANT(allowed[b->stage] >> to & 1);
	w->busy = w->busy + is_busy(to) - is_busy(b->stage);
	if (w->busy == 0)
		pool_kick(w);
	b->stage = to;
	if (to != STAGE_GONE)
		b->info.state = shown[to];
	box_check(b);
}

struct box *box_find(struct warden *w, const char *id)
{
	return map_get(&w->boxes, str_of(id));
}

struct box *box_new(struct warden *w, const char *id)
{
	struct box *b = xcalloc(1, sizeof *b);
	b->w = w;
	b->info.state = BOX_CREATING;
	snprintf(b->info.id, sizeof b->info.id, "%s", id);
	list_init(&b->node);
	list_push(&w->all, &b->all);
	map_put(&w->boxes, str_of(b->info.id), b);
	return b;
}

struct box *box_restore(struct warden_slot *c, const struct box_info *info, enum stage stage)
{
	struct box *b = box_new(c->w, info->id);
	b->info = *info;
	b->info.state = shown[stage];
	b->place = c;
	c->box = b;
	b->stage = stage;
	b->layer = LAYER_FOUND;
	b->may_swap = stage == STAGE_FROZEN;
	box_check(b);
	return b;
}

static void free_box(struct loop_task *t)
{
	struct box *b = container_of(t, struct box, free_task);
	free(b->volumes);
	free(b);
}

static void remove_box(struct box *b)
{
	stage_move(b, STAGE_GONE);
	loop_timer_stop(&b->timer);
	closing_leave(b);
	list_del(&b->node);
	list_del(&b->all);
	map_del(&b->w->boxes, str_of(b->info.id));
	loop_defer(b->w->loop, &b->free_task, free_box);
}

int box_write_record(const struct box *b, enum record_state state)
{
	struct record r = {.state = state,
		.start_time = b->place->slot.start_time,
		.fresh = state == RECORD_CREATING && layer_is_new(b),
		.keep_files = b->layer == LAYER_KEPT,
		.held = b->held && b->stage == STAGE_RUNNING,
		.info = b->info,
		.volume_bytes = b->volume_bytes};
	return record_write(b->w->records_dir, &r);
}

static int write_record(struct box *b, enum record_state state, struct err *e)
{
	int n = box_write_record(b, state);
	return n < 0 ? err_os(e, ERRC_BOX_CREATE_FAILED, -n, "write the sandbox's record") : 0;
}

void box_drop_layer(struct warden *w, const char *id)
{
	char name[BOX_FILENAME_MAX];
	box_id_filename(str_of(id), name);
	storage_drop(w, name);
	closing_forget(w, id);
}

/* ---- create ---- */

static void finish_end(struct box *b);

/* A box that died by itself makes room for its successor, which takes over its files. */
static void forget_dead(struct warden *w, const char *id)
{
	struct box *old = box_find(w, id);
	if (!old)
		return;
	layer_move(old, LAYER_KEPT);
	finish_end(old);
}

static int check_create(
	struct warden *w, const struct warden_request *rq, struct box_limits *l, struct image *image, struct err *e)
{
	struct box *old = box_find(w, rq->id);
	if (old && old->stage != STAGE_DEAD)
		return err_set(e, ERRC_INVALID_STATE, "sandbox '%s' exists already", rq->id);
	if (snapshot_busy(w, rq->id))
		return err_set(e, ERRC_INVALID_STATE, "the files of sandbox '%s' are being made", rq->id);
	if (w->boxes.count >= WARDEN_BOXES_MAX)
		return err_set(e, ERRC_LIMIT_REACHED, "there are %u sandboxes, more are not allowed", WARDEN_BOXES_MAX);
	*l = rq->limits;
	images_use(w, rq->image);
	return limits_check(&w->offer, l, e) < 0 ? -1 : image_find(w->host.images, rq->image, image, e);
}

void box_create(struct warden *w, const struct warden_request *rq, struct warden_asker who)
{
	struct err e;
	struct image image;
	struct box_limits limits;
	if (carry_defer(w, rq, who) || room_defer(w, rq, who))
		return;
	if (check_create(w, rq, &limits, &image, &e) < 0) {
		server_reply(w, &who, &e, NULL);
		return;
	}
	forget_dead(w, rq->id);
	struct box *b = box_new(w, rq->id);
	b->image = image;
	b->waiter = who;
	b->info.limits = limits;
	b->steer = rq->steer;
	b->volumes_n = rq->volumes_n;
	b->volume_bytes = rq->volume_bytes;
	if (rq->volumes_n)
		b->volumes = memcpy(
			xcalloc(rq->volumes_n, sizeof *b->volumes), rq->volumes, rq->volumes_n * sizeof *b->volumes);
	b->is_volatile = rq->flags & WARDEN_VOLATILE;
	b->info.no_fuse = !!(rq->flags & WARDEN_NO_FUSE);
	b->info.created_ms = clock_wall_ms();
	snprintf(b->info.image, sizeof b->info.image, "%s", image.key);
	lately_use(w, rq->image);
	if (!closing_wait(b))
		box_place(b);
}

void box_place(struct box *b)
{
	struct warden *w = b->w;
	struct warden_slot *c = warm_slot(b);
	if (!c)
		c = lately_slot(w, &b->image);
	if (c)
		box_start(b, c);
	else
		list_push(&w->waiting, &b->node);
	pool_kick(w);
}

/* Plain directories are on a file system of others: every unmount would sync it. */
static bool box_is_volatile(const struct box *b)
{
	return b->is_volatile || b->w->pool.kind == POOL_PLAIN;
}

static bool may_adopt(const struct box *b, const struct slot *s, const char *name)
{
	return s->overlay >= 0 && image_same(&s->image, &b->image) && s->is_volatile == box_is_volatile(b) &&
	       !storage_has(b->w, name);
}

bool box_may_adopt(const struct box *b, const struct warden_slot *c)
{
	char name[BOX_FILENAME_MAX];
	box_id_filename(str_of(b->info.id), name);
	return may_adopt(b, &c->slot, name);
}

/* Takes the layer that was made ahead when the box has none yet: one rename. */
static int adopt_layer(struct box *b, const char *name)
{
	struct warden *w = b->w;
	char made[16];
	if (!may_adopt(b, &b->place->slot, name))
		return -1;
	snprintf(made, sizeof made, "%u", b->place->slot.number);
	if (sys_rename_new(w->host.layers, made, w->boxes_dir, name) < 0)
		return -1;
	if (b->layer == LAYER_MADE)
		layer_move(b, LAYER_ADOPTED);
	return take_fd(&b->place->slot.overlay);
}

static int mount_layer(struct box *b, const char *name, struct err *e)
{
	struct warden *w = b->w;
	struct slot *s = &b->place->slot;
	int dir = storage_find(w, name);
	reaper_close(w, take_fd(&s->overlay), 0);
	if (dir < 0 && pool_layer_make(&w->pool, w->boxes_dir, name, b->info.limits.disk_bytes, e) < 0)
		return -1;
	const struct layer_mount_args a = {.images = w->host.images,
		.tools = dir >= 0 && storage_is_staging(w, dir) ? 0 : w->host.tools,
		.image = &b->image,
		.dir = dir < 0 ? w->boxes_dir : dir,
		.name = name,
		.userns = s->userns,
		.root = ids_base(s->number),
		.is_volatile = box_is_volatile(b) || (dir >= 0 && storage_is_plain(w, dir))};
	bool loose = dir >= 0 && !storage_is_plain(w, dir) && pool_layer_loosen(&w->pool, dir, name);
	int fd = dir < 0 || layer_reuse(dir, name, storage_trash(w, dir), e) == 0 ? layer_mount(&a, s->spent, e) : -1;
	if (loose)
		pool_layer_tighten(&w->pool, dir, name);
	return fd;
}

/* False also when it cannot be found out: files that may be a client's are kept. */
static bool has_no_layer(const struct box *b)
{
	char name[BOX_FILENAME_MAX];
	box_id_filename(str_of(b->info.id), name);
	return !storage_has(b->w, name);
}

static bool is_staged(const struct box *b)
{
	char name[BOX_FILENAME_MAX];
	box_id_filename(str_of(b->info.id), name);
	return storage_is_staging(b->w, storage_find(b->w, name));
}

static int get_root(struct box *b, struct err *e)
{
	char name[BOX_FILENAME_MAX];
	box_id_filename(str_of(b->info.id), name);
	/* One that has files may start, so that they can be deleted. */
	if (!storage_has(b->w, name) && storage_check_room(b->w, e) < 0)
		return -1;
	int fd = adopt_layer(b, name);
	if (fd < 0 && b->place->warm)
		return err_set(e, ERRC_BOX_CREATE_FAILED, "the files made ahead in its slot could not be taken");
	if (fd < 0)
		fd = mount_layer(b, name, e);
	/* Its own limit does not stop it (pool_layer_loosen), so the pool's metadata is full: a mount needs some. */
	if (fd < 0 && e->os == ENOSPC)
		return err_set(e, ERRC_NO_SPACE,
			"the pool is full: it keeps its files, and starts when enough snapshots, sandboxes or files of "
			"running ones are deleted, or ATOLL_POOL_SIZE is larger");
	return fd;
}

static int set_limits(struct box *b, struct err *e)
{
	const struct box_limits *l = &b->info.limits;
	if (l->mem_bytes == BOX_MEM_DEFAULT && l->cpu_milli == BOX_CPU_DEFAULT && l->pids == BOX_PIDS_DEFAULT)
		return 0;
	return cgroup_limit(&b->w->cgroups, b->place->slot.number, l, e);
}

static void close_mounts(int mounts[1 + BOX_VOLUMES_MAX])
{
	for (int i = 0; i < 1 + BOX_VOLUMES_MAX; i++)
		fd_close(&mounts[i]);
}

static int open_mounts(const struct box *b, struct init_go *go, int mounts[1 + BOX_VOLUMES_MAX], struct err *e)
{
	go->volumes_n = b->volumes_n;
	for (uint32_t i = 0; i < b->volumes_n; i++) {
		memcpy(go->volumes[i], b->volumes[i].path, sizeof go->volumes[i]);
		mounts[1 + i] = volume_open(b->w, &b->volumes[i], b->place->slot.userns, e);
		if (mounts[1 + i] < 0)
			return -1;
	}
	return 0;
}

static int launch(struct box *b, struct err *e)
{
	struct init_go go = {.order = INIT_GO, .limits = b->info.limits};
	int mounts[1 + BOX_VOLUMES_MAX];
	memset(mounts, -1, sizeof mounts);
	memcpy(go.id, b->info.id, sizeof go.id);
	go.file_max = filesize_of(b);
	go.bare = is_staged(b);
	/* Before the layer is made: the record must be right whenever we are killed. */
	layer_move(b, has_no_layer(b) ? LAYER_MADE : LAYER_FOUND);
	if (write_record(b, RECORD_CREATING, e) < 0 || set_limits(b, e) < 0)
		return -1;
	if (open_mounts(b, &go, mounts, e) == 0)
		mounts[0] = get_root(b, e);
	int r = mounts[0] < 0 || storage_limit(b->w, b->info.id, b->info.limits.disk_bytes, e) < 0
			? -1
			: init_send_go(b->place->slot.control, &go, mounts, e);
	close_mounts(mounts);
	return r;
}

static void on_create_timeout(struct loop_timer *t)
{
	struct box *b = container_of(t, struct box, timer);
	struct err e;
	err_set(&e, ERRC_BOX_CREATE_FAILED, "the set-up did not finish within %d s", BOX_CREATE_TIMEOUT / 1000);
	box_fail(b, &e);
}

void box_start(struct box *b, struct warden_slot *c)
{
	list_del(&b->node);
	b->place = c;
	c->box = b;
	warden_slot_move(c, SLOT_TAKEN);
	b->info.slot = c->slot.number;
	b->info.pid = c->slot.pid;
	b->info.uid_base = ids_base(c->slot.number);
	stage_move(b, STAGE_STARTING);
	b->info.no_network = !c->network.steered;
	network_name(c, b->steer);
	struct err e;
	if (launch(b, &e) < 0) {
		box_fail(b, &e);
		return;
	}
	loop_timer_set(b->w->loop, &b->timer, BOX_CREATE_TIMEOUT, on_create_timeout);
}

void box_started(struct box *b)
{
	struct err e;
	if (b->stage != STAGE_STARTING)
		return;
	loop_timer_stop(&b->timer);
	/* The next warden would undo a box whose record says CREATING, and delete its files. */
	if (write_record(b, RECORD_RUNNING, &e) < 0)
		return box_fail(b, &e);
	pool_rest(b->w);
	stage_move(b, STAGE_RUNNING);
	server_reply(b->w, &b->waiter, NULL, b);
	locks_box_started(b->w, &b->place->slot);
	zygote_listen(b->place);
	zygote_want(b->w, &b->image);
	warm_rest(b->w);
	if (b->layer != LAYER_ADOPTED) {
		warden_slot_close_spent(b->place);
		slot_drop_layer(&b->w->host, b->info.slot); /* the layer made ahead */
		reaper_wake(b->w);
	}
	log_event(LOG_DEBUG, "box created", "id=%s slot=%u pid=%d ahead=%d", LOG_Q(b->info.id), b->info.slot,
		b->info.pid, b->layer == LAYER_ADOPTED);
}

/* ---- end ---- */

static void begin_end(struct box *b)
{
	struct err e;
	loop_timer_stop(&b->timer);
	stage_move(b, STAGE_ENDING);
	b->info.pid = 0;
	if (write_record(b, RECORD_ENDING, &e) < 0)
		log_limited(LOG_ERROR, "record not written", "id=%s error=%s", LOG_Q(b->info.id), LOG_Q(e.msg));
	warden_slot_kill(b->place);
	fuse_end(b->place);
}

static void finish_end(struct box *b)
{
	struct warden *w = b->w;
	struct warden_asker who = b->waiter;
	struct err failure = b->failure;
	struct warden_slot *c = b->place;
	if (b->layer == LAYER_DROPPED)
		box_drop_layer(w, b->info.id);
	else
		closing_begin(w, b->info.id, take_fd(&c->slot.mntns));
	remove_box(b);
	/* Nothing of the box runs and its name is free. If we are killed now, its record tells the next warden the
	 * rest. */
	server_reply(w, &who, failure.code ? &failure : NULL, NULL);
	warden_slot_sweep(c);
}

void box_fail(struct box *b, const struct err *why)
{
	if (b->stage != STAGE_WAITING && b->stage != STAGE_STARTING)
		return;
	b->failure = *why;
	if (b->failure.code != ERRC_INVALID_STATE)
		err_wrap(&b->failure, "create sandbox '%s'", b->info.id);
	log_limited(LOG_WARN, "create failed", "id=%s error=%s", LOG_Q(b->info.id), LOG_Q(why->msg));
	if (b->stage == STAGE_WAITING) {
		struct warden_asker who = b->waiter;
		struct err failure = b->failure;
		struct warden *w = b->w;
		remove_box(b);
		server_reply(w, &who, &failure, NULL);
		return;
	}
	layer_move(b, layer_is_new(b) ? LAYER_DROPPED : LAYER_KEPT);
	begin_end(b);
}

void box_process_gone(struct box *b, bool known, int code, int signo)
{
	struct warden *w = b->w;
	if (b->stage == STAGE_STARTING) {
		struct err e;
		err_set(&e, ERRC_BOX_CREATE_FAILED, "its first process ended during the set-up");
		box_fail(b, &e);
	}
	if (b->stage == STAGE_ENDING) {
		finish_end(b);
		return;
	}
	struct err gone;
	err_set(&gone, ERRC_CONTAINER_LOST, "sandbox '%s' ended meanwhile", b->info.id);
	server_reply(w, &b->waiter, &gone, NULL);
	loop_timer_stop(&b->timer);
	cgroup_usage(&w->cgroups, b->info.slot, &b->info);
	stage_move(b, STAGE_DEAD);
	fuse_end(b->place);
	closing_begin(w, b->info.id, take_fd(&b->place->slot.mntns));
	b->info.pid = 0;
	b->info.exit_known = known;
	b->info.exit_code = known ? code : -1;
	b->info.exit_signal = known ? signo : 0;
	struct err e;
	if (write_record(b, RECORD_DEAD, &e) < 0)
		log_limited(LOG_ERROR, "record not written", "id=%s error=%s", LOG_Q(b->info.id), LOG_Q(e.msg));
	log_limited(
		LOG_INFO, "box died", "id=%s slot=%u code=%d signal=%d", LOG_Q(b->info.id), b->info.slot, code, signo);
	server_event_died(w, b);
	images_box_died(w, b->info.id);
}

/* Destroys a box that does not run but whose files were kept. */
static void destroy_files(struct warden *w, const struct warden_request *rq, struct warden_asker *who)
{
	char name[BOX_FILENAME_MAX];
	struct err e;
	box_id_filename(str_of(rq->id), name);
	bool cancelled = !(rq->flags & WARDEN_KEEP_FILES) && snapshot_cancel(w, rq->id);
	if (!storage_has(w, name) && !cancelled) {
		err_set(&e, ERRC_SANDBOX_NOT_FOUND, "there is no sandbox '%s'", rq->id);
		server_reply(w, who, &e, NULL);
		return;
	}
	if (!(rq->flags & WARDEN_KEEP_FILES)) {
		carry_drop(w, rq->id);
		box_drop_layer(w, rq->id);
	}
	server_reply(w, who, NULL, NULL);
	reaper_wake(w);
}

void box_destroy(struct warden *w, const struct warden_request *rq, struct warden_asker who)
{
	struct box *b = box_find(w, rq->id);
	struct err e;
	if (!b) {
		destroy_files(w, rq, &who);
		return;
	}
	err_set(&e, ERRC_INVALID_STATE, "sandbox '%s' is being destroyed", b->info.id);
	if (b->stage == STAGE_ENDING && b->waiter.waiting && b->waiter.conn == w->conn) {
		server_reply(w, &who, &e, NULL);
		return;
	}
	server_reply(w, &b->waiter, &e, NULL);
	b->waiter = who;
	b->failure = (struct err){0};
	layer_move(b, rq->flags & WARDEN_KEEP_FILES ? LAYER_KEPT : LAYER_DROPPED);
	if (b->stage == STAGE_WAITING) {
		remove_box(b);
		if (!(rq->flags & WARDEN_KEEP_FILES))
			box_drop_layer(w, rq->id);
		server_reply(w, &who, NULL, NULL);
		reaper_wake(w);
	} else if (b->stage == STAGE_DEAD) {
		finish_end(b);
	} else if (b->stage != STAGE_ENDING) {
		begin_end(b);
	}
}
