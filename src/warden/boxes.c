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
#include "warden/record.h"
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

static void free_box(struct loop_task *t)
{
	free(container_of(t, struct box, free_task));
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

static int write_record(struct box *b, enum record_state state, struct err *e)
{
	struct record r = {.state = state,
		.start_time = b->cell->slot.start_time,
		.fresh = b->fresh,
		.keep_files = b->keep_files,
		.info = b->info};
	int n = record_write(b->w->records_dir, &r);
	return n < 0 ? err_os(e, ERRC_BOX_CREATE_FAILED, -n, "write the sandbox's record") : 0;
}

/* Moves the box's layer to the trash. */
static void drop_layer(struct warden *w, const char *id)
{
	char name[BOX_FILENAME_MAX];
	box_id_filename(str_of(id), name);
	trash_put(w->boxes_dir, name, w->host.trash);
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
	old->keep_files = true;
	finish_end(old);
}

static int check_create(
	struct warden *w, const struct warden_request *rq, struct box_limits *l, struct image *image, struct err *e)
{
	struct box *old = box_find(w, rq->id);
	if (old && old->stage != STAGE_DEAD)
		return err_set(e, ERRC_INVALID_STATE, "sandbox '%s' exists already", rq->id);
	if (w->boxes.count >= WARDEN_BOXES_MAX)
		return err_set(e, ERRC_LIMIT_REACHED, "there are %u sandboxes, more are not allowed", WARDEN_BOXES_MAX);
	*l = rq->limits;
	return limits_check(&w->offer, l, e) < 0 ? -1 : image_find(w->host.images, rq->image, image, e);
}

void box_create(struct warden *w, const struct warden_request *rq, struct waiter who)
{
	struct err e;
	struct image image;
	struct box_limits limits;
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
	b->info.created_ms = clock_wall_ms();
	snprintf(b->info.image, sizeof b->info.image, "%s", image.key);
	/* The next ones will probably want the same. */
	snprintf(w->pool_image_name, sizeof w->pool_image_name, "%s", rq->image);
	if (!closing_wait(b))
		box_place(b);
}

void box_place(struct box *b)
{
	struct warden *w = b->w;
	struct cell *c = cell_take_ready(w);
	if (c)
		box_start(b, c);
	else
		list_push(&w->waiting, &b->node);
	pool_kick(w);
}

static bool same_image(const struct image *a, const struct image *b)
{
	return a->inode == b->inode && strcmp(a->key, b->key) == 0;
}

/* Takes the layer that was made ahead when the box has none yet: one rename. */
static int adopt_layer(struct box *b, const char *name)
{
	struct warden *w = b->w;
	char made[16];
	if (b->cell->slot.overlay < 0 || !same_image(&b->cell->slot.image, &b->image))
		return -1;
	snprintf(made, sizeof made, "%u", b->cell->slot.number);
	if (sys_rename_new(w->host.layers, made, w->boxes_dir, name) < 0)
		return -1;
	return take_fd(&b->cell->slot.overlay);
}

static int mount_layer(struct box *b, const char *name, struct err *e)
{
	struct warden *w = b->w;
	struct slot *s = &b->cell->slot;
	reaper_close(w, take_fd(&s->overlay), 0);
	b->layer_unused = true;
	if (layer_make(w->boxes_dir, name, e) < 0 &&
		(e->os != EEXIST || layer_reuse(w->boxes_dir, name, w->host.trash, e) < 0))
		return -1;
	return layer_mount(w->host.images, &b->image, w->boxes_dir, name, s->userns, ids_base(s->number), s->spent, e);
}

/* False also when nobody can tell: what may be somebody's files is kept. */
static bool has_no_layer(const struct box *b)
{
	char name[BOX_FILENAME_MAX];
	struct stat st;
	box_id_filename(str_of(b->info.id), name);
	return fstatat(b->w->boxes_dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT;
}

static int get_root(struct box *b, struct err *e)
{
	char name[BOX_FILENAME_MAX];
	box_id_filename(str_of(b->info.id), name);
	int fd = adopt_layer(b, name);
	return fd >= 0 ? fd : mount_layer(b, name, e);
}

static int set_limits(struct box *b, struct err *e)
{
	const struct box_limits *l = &b->info.limits;
	if (l->mem_bytes == BOX_MEM_DEFAULT && l->cpu_milli == BOX_CPU_DEFAULT && l->pids == BOX_PIDS_DEFAULT)
		return 0;
	return cgroup_limit(&b->w->cgroups, b->cell->slot.number, l, e);
}

static int launch(struct box *b, struct err *e)
{
	struct init_go go = {.limits = b->info.limits};
	memcpy(go.id, b->info.id, sizeof go.id);
	/* Before the layer is there, so that the record says it whenever we are killed. */
	b->fresh = has_no_layer(b);
	if (write_record(b, RECORD_CREATING, e) < 0 || set_limits(b, e) < 0)
		return -1;
	auto_fd int root = get_root(b, e);
	if (root < 0)
		return -1;
	return init_send_go(b->cell->slot.control, &go, root, e);
}

static void on_create_timeout(struct loop_timer *t)
{
	struct box *b = container_of(t, struct box, timer);
	struct err e;
	err_set(&e, ERRC_BOX_CREATE_FAILED, "the set-up did not finish within %d s", BOX_CREATE_TIMEOUT / 1000);
	box_fail(b, &e);
}

void box_start(struct box *b, struct cell *c)
{
	list_del(&b->node);
	b->cell = c;
	c->box = b;
	b->info.slot = c->slot.number;
	b->info.pid = c->slot.pid;
	b->info.uid_base = ids_base(c->slot.number);
	stage_move(b, STAGE_STARTING);
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
	/* One whose record says that it is being made would be undone, files and all, by the warden after us. */
	if (write_record(b, RECORD_RUNNING, &e) < 0)
		return box_fail(b, &e);
	stage_move(b, STAGE_RUNNING);
	server_reply(b->w, &b->waiter, NULL, b);
	zygote_listen(b->cell);
	zygote_want(b->w, &b->image);
	for (int i = 0; b->layer_unused && i < LAYER_SPENT; i++)
		reaper_close(b->w, take_fd(&b->cell->slot.spent[i]), 0);
	if (b->layer_unused)
		slot_drop_layer(&b->w->host, b->info.slot);
	reaper_wake(b->w);
	log_event(LOG_DEBUG, "box created", "id=%s slot=%u pid=%d", LOG_Q(b->info.id), b->info.slot, b->info.pid);
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
	cell_kill(b->cell);
}

static void finish_end(struct box *b)
{
	struct warden *w = b->w;
	struct waiter who = b->waiter;
	struct err failure = b->failure;
	struct cell *c = b->cell;
	if (!b->keep_files)
		drop_layer(w, b->info.id);
	else
		closing_begin(w, b->info.id, take_fd(&c->slot.mntns));
	remove_box(b);
	/* Nothing of it runs and its name is free; should we be killed now, its record says what is left to do. */
	server_reply(w, &who, failure.code ? &failure : NULL, NULL);
	cell_sweep(c);
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
		struct waiter who = b->waiter;
		struct err failure = b->failure;
		struct warden *w = b->w;
		remove_box(b);
		server_reply(w, &who, &failure, NULL);
		return;
	}
	b->keep_files = !b->fresh;
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
	closing_begin(w, b->info.id, take_fd(&b->cell->slot.mntns));
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
}

/* A box that is not here but whose files were kept. */
static void destroy_files(struct warden *w, const struct warden_request *rq, struct waiter *who)
{
	char name[BOX_FILENAME_MAX];
	struct stat st;
	struct err e;
	box_id_filename(str_of(rq->id), name);
	if (fstatat(w->boxes_dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		err_set(&e, ERRC_SANDBOX_NOT_FOUND, "there is no sandbox '%s'", rq->id);
		server_reply(w, who, &e, NULL);
		return;
	}
	if (!(rq->flags & WARDEN_KEEP_FILES))
		drop_layer(w, rq->id);
	server_reply(w, who, NULL, NULL);
	reaper_wake(w);
}

void box_destroy(struct warden *w, const struct warden_request *rq, struct waiter who)
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
	b->keep_files = rq->flags & WARDEN_KEEP_FILES;
	if (b->stage == STAGE_WAITING) {
		bool keep_files = b->keep_files;
		remove_box(b);
		if (!keep_files)
			drop_layer(w, rq->id);
		server_reply(w, &who, NULL, NULL);
		reaper_wake(w);
	} else if (b->stage == STAGE_DEAD) {
		finish_end(b);
	} else if (b->stage != STAGE_ENDING) {
		begin_end(b);
	}
}
