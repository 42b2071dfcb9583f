#include "warden/storage/volume.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "cage/fs.h"
#include "cage/trash.h"
#include "warden/storage/storage.h"
#include "warden/warden.h"

static bool is_there(const struct warden *w, const char *name)
{
	struct stat st;
	return w->pool.kind != POOL_PLAIN && fstatat(w->pool.volumes, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static void reply_usage(struct warden *w, const char *name, struct warden_asker *who)
{
	struct box shown = {.w = w};
	shown.info.disk_known = pool_layer_used(&w->pool, w->pool.volumes, name, &shown.info.disk_used);
	server_reply(w, who, NULL, &shown);
}

/* A name in volumes/ is complete: it is made elsewhere, and a kill leaves it there. */
static int make(struct warden *w, const char *name, uint64_t limit, struct err *e)
{
	const struct pool *p = &w->pool;
	if (storage_check_room(w, e) < 0 || pool_layer_make(&w->pool, p->making, name, limit, e) < 0)
		return -1;
	if (sys_rename_new(p->making, name, p->volumes, name) == 0)
		return 0;
	err_os(e, ERRC_INTERNAL_ERROR, errno, "put the volume into its place");
	trash_put(p->making, name, p->trash);
	return -1;
}

void volume_make(struct warden *w, const struct warden_request *rq, struct warden_asker who)
{
	const char *name = rq->volumes[0].name;
	uint64_t limit = rq->limits.disk_bytes;
	struct err e;
	int r;
	if (w->pool.kind == POOL_PLAIN)
		r = err_set(&e, ERRC_HOST_UNSUPPORTED, "volumes need a pool, and there is none: %s", w->pool.why);
	else if (limit < BOX_DISK_MIN || limit > BOX_DISK_MAX)
		r = err_set(&e, ERRC_INVALID_LIMITS, "the size of a volume is %llu to %llu bytes", BOX_DISK_MIN,
			BOX_DISK_MAX);
	else if (is_there(w, name))
		r = pool_layer_limit(&w->pool, w->pool.volumes, name, limit, &e);
	else
		r = make(w, name, limit, &e);
	if (r == 0)
		return reply_usage(w, name, &who);
	err_wrap(&e, "volume '%s'", name);
	server_reply(w, &who, &e, NULL);
}

void volume_disk(struct warden *w, const struct warden_request *rq, struct warden_asker who)
{
	const char *name = rq->volumes[0].name;
	struct err e;
	if (is_there(w, name))
		return reply_usage(w, name, &who);
	err_set(&e, ERRC_NOT_FOUND, "there is no volume '%s'", name);
	server_reply(w, &who, &e, NULL);
}

void volume_drop(struct warden *w, const struct warden_request *rq, struct warden_asker who)
{
	const char *name = rq->volumes[0].name;
	struct err e;
	int r = is_there(w, name) ? trash_put(w->pool.volumes, name, w->pool.trash) : 0;
	if (r < 0)
		err_os(&e, ERRC_INTERNAL_ERROR, -r, "delete volume '%s'", name);
	server_reply(w, &who, r < 0 ? &e : NULL, NULL);
	reaper_wake(w);
}

int volume_open(const struct warden *w, const struct warden_volume *v, int userns, struct err *e)
{
	unsigned attrs = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | (v->read_only ? MOUNT_ATTR_RDONLY : 0);
	if (!is_there(w, v->name))
		return err_set(e, ERRC_NOT_FOUND, "there is no volume '%s'", v->name);
	auto_fd int dir = openat(w->pool.volumes, v->name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0)
		return err_os(e, ERRC_BOX_CREATE_FAILED, errno, "open volume '%s'", v->name);
	auto_fd int mount = fs_clone(dir, "upper", AT_SYMLINK_NOFOLLOW, e);
	if (mount < 0 || fs_set(mount, attrs, userns, e) < 0)
		return err_wrap(e, "volume '%s'", v->name);
	return take_fd(&mount);
}
