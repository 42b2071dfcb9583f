#include "warden/storage/storage.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "cage/trash.h"
#include "proto/id.h"
#include "warden/record.h"
#include "warden/warden.h"

static bool is_counted(const struct pool *p)
{
	return p->quota != BTRFS_QUOTA_FULL || !btrfs_groups_are_inconsistent(p->groups);
}

void storage_note_counting(struct warden *w, int os)
{
	if (is_counted(&w->pool))
		os = 0;
	else if (!os) /* the kernel has given up again since */
		os = EUCLEAN;
	if (os == w->uncounted)
		return;
	w->uncounted = os;
	if (!os)
		log_event(LOG_INFO, "disk limits hold again", "quota=%s", "full");
	else if (os == EINPROGRESS)
		log_event(LOG_WARN, "disk limits do not hold until the quotas of the pool are counted anew", "why=%s",
			LOG_Q("the kernel has marked them inconsistent"));
	else
		log_event(LOG_ERROR, "disk limits do not hold: the quotas of the pool cannot be counted", "error=%s",
			LOG_Q(strerror(os)));
}

static const char *setting(const char *name)
{
	const char *v = getenv(name);
	return v && *v ? v : NULL;
}

int storage_open(struct warden *w, const char *data, struct err *e)
{
	if (pool_open(&w->pool, data, setting("ATOLL_POOL"), setting("ATOLL_POOL_SIZE"), e) < 0)
		return -1;
	if (w->pool.kind == POOL_PLAIN)
		log_event(LOG_WARN, "sandboxes have no disk limits and no snapshots", "why=%s", LOG_Q(w->pool.why));
	else
		storage_note_counting(w, EINPROGRESS);
	return 0;
}

static int open_plain(const char *path, int *ret, struct err *e)
{
	*ret = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return *ret < 0 ? err_os(e, ERRC_HOST_UNSUPPORTED, errno, "open %s", path) : 0;
}

int storage_enter(struct warden *w, struct err *e)
{
	struct pool *p = &w->pool;
	w->host.pool = p;
	if (open_plain("/data/boxes", &w->plain_boxes, e) < 0 || open_plain("/data/trash", &w->plain_trash, e) < 0)
		return -1;
	if (p->kind == POOL_PLAIN) {
		w->boxes_dir = w->plain_boxes;
		w->host.trash = w->plain_trash;
		return open_plain("/data/slots", &w->host.layers, e);
	}
	if (pool_enter(p, "/pool", e) < 0)
		return -1;
	w->boxes_dir = p->boxes;
	w->host.trash = p->trash;
	w->host.layers = p->slots;
	return 0;
}

static bool in_dir(int dir, const char *name)
{
	struct stat st;
	return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT;
}

bool storage_is_staging(const struct warden *w, int dir)
{
	return w->images.usable && dir == w->images.staging.boxes;
}

bool storage_is_plain(const struct warden *w, int dir)
{
	return dir == w->plain_boxes || storage_is_staging(w, dir);
}

int storage_find(const struct warden *w, const char *name)
{
	if (in_dir(w->boxes_dir, name))
		return w->boxes_dir;
	if (w->plain_boxes != w->boxes_dir && in_dir(w->plain_boxes, name))
		return w->plain_boxes;
	return w->images.usable && in_dir(w->images.staging.boxes, name) ? w->images.staging.boxes : -1;
}

bool storage_has(const struct warden *w, const char *name)
{
	return storage_find(w, name) >= 0;
}

int storage_trash(const struct warden *w, int dir)
{
	if (storage_is_staging(w, dir))
		return w->images.staging.trash;
	return storage_is_plain(w, dir) ? w->plain_trash : w->host.trash;
}

static void drop_from(int dir, const char *name, int trash)
{
	int r = trash_put(dir, name, trash);
	if (r < 0 && r != -ENOENT)
		log_limited(LOG_ERROR, "files of a destroyed sandbox are left", "name=%s error=%s", LOG_Q(name),
			LOG_Q(strerror(-r)));
}

void storage_drop(struct warden *w, const char *name)
{
	drop_from(w->boxes_dir, name, w->host.trash);
	if (w->plain_boxes != w->boxes_dir)
		drop_from(w->plain_boxes, name, w->plain_trash);
	if (w->images.usable)
		drop_from(w->images.staging.boxes, name, w->images.staging.trash);
}

/* ---- limits and numbers ---- */

int storage_check_room(const struct warden *w, struct err *e)
{
	return !pool_is_full(&w->pool)
		       ? 0
		       : err_set(e, ERRC_NO_SPACE,
				 "the pool is full: no new sandbox or volume until files, snapshots or sandboxes "
				 "are deleted, or ATOLL_POOL_SIZE is larger");
}

int storage_limit(struct warden *w, const char *id, uint64_t bytes, struct err *e)
{
	char name[BOX_FILENAME_MAX];
	box_id_filename(str_of(id), name);
	int dir = storage_find(w, name);
	return dir < 0 || storage_is_plain(w, dir) ? 0 : pool_layer_limit(&w->pool, dir, name, bytes, e);
}

void storage_usage(struct warden *w, const char *id, struct box_info *info)
{
	char name[BOX_FILENAME_MAX];
	box_id_filename(str_of(id), name);
	int dir = storage_find(w, name);
	info->disk_used = 0;
	info->disk_known =
		dir >= 0 && !storage_is_plain(w, dir) && pool_layer_used(&w->pool, dir, name, &info->disk_used);
}

void storage_disk(struct warden *w, const struct warden_request *rq, struct warden_asker who)
{
	char name[BOX_FILENAME_MAX];
	struct err e;
	struct box b = {.w = w};
	box_id_filename(str_of(rq->id), name);
	if (!storage_has(w, name)) {
		err_set(&e, ERRC_SANDBOX_NOT_FOUND, "sandbox '%s' has no files", rq->id);
		return server_reply(w, &who, &e, NULL);
	}
	snprintf(b.info.id, sizeof b.info.id, "%s", rq->id);
	storage_usage(w, rq->id, &b.info);
	server_reply(w, &who, NULL, &b);
}

static void count_one(void *arg, const char *name)
{
	(void)name;
	++*(uint32_t *)arg;
}

void storage_offer(struct warden *w)
{
	struct warden_host *o = &w->offer;
	const struct pool *p = &w->pool;
	o->pool = p->kind == POOL_FILE	      ? WARDEN_POOL_FILE
		  : p->kind == POOL_DIRECTORY ? WARDEN_POOL_DIRECTORY
					      : WARDEN_POOL_PLAIN;
	o->quota = p->quota;
	o->pool_inconsistent = !is_counted(p);
	o->pool_direct = p->direct;
	o->plain_layers = 0;
	snprintf(o->pool_why, sizeof o->pool_why, "%s", p->why);
	pool_space(p, &o->pool_size, &o->pool_used);
	if (p->kind != POOL_PLAIN)
		record_each(w->plain_boxes, count_one, &o->plain_layers);
}

/* ---- recovery ---- */

struct sweep {
	struct warden *w;
	int dir;
};

static void sweep_one(void *arg, const char *name)
{
	const struct sweep *s = arg;
	trash_put(s->dir, name, s->w->host.trash);
}

static void sweep_rest(void *arg, const char *name)
{
	struct warden *w = arg;
	if (in_dir(w->boxes_dir, name))
		trash_put(w->plain_boxes, name, w->plain_trash);
}

void storage_recover(struct warden *w)
{
	if (w->pool.kind == POOL_PLAIN)
		return;
	record_each(w->pool.making, sweep_one, &(struct sweep){w, w->pool.making});
	record_each(w->plain_boxes, sweep_rest, w);
}
