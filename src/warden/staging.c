#include "warden/staging.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/log.h"
#include "cage/layers.h"
#include "cage/trash.h"
#include "proto/id.h"
#include "proto/image.h"
#include "warden/limits.h"
#include "warden/storage/storage.h"
#include "warden/warden.h"

enum { NAME = BOX_FILENAME_MAX + 8 };

static int make_dir(int dir, const char *name)
{
	if (mkdirat(dir, name, 0700) < 0 && errno != EEXIST)
		return -1;
	return openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

/* ---- the directory ---- */

/* A lock of the process: children of a killed warden, which have its descriptors for a moment, do not hold it. -1: it
 * is another's. */
static int lock_in(int dir, bool wait)
{
	const struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	auto_fd int fd = openat(dir, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	while (fd >= 0 && fcntl(fd, wait ? F_SETLKW : F_SETLK, &whole) < 0)
		if (errno != EINTR)
			return -1;
	return take_fd(&fd);
}

/* staging/INSTANCE, locked. A warden that starts at the same moment may have moved it away before: then it has no name
 * any more. */
static int open_own(struct staging *s, int all, const char *instance)
{
	for (;;) {
		struct stat mine, named;
		auto_fd int fd = make_dir(all, instance);
		s->lock = fd < 0 ? -1 : lock_in(fd, true);
		if (s->lock < 0 || fstat(fd, &mine) < 0)
			return -1;
		if (fstatat(all, instance, &named, AT_SYMLINK_NOFOLLOW) == 0 && named.st_ino == mine.st_ino)
			return take_fd(&fd);
		fd_close(&s->lock);
	}
}

struct others {
	int all, trash;
	const char *instance;
};

static void sweep_other(void *arg, const char *name)
{
	const struct others *o = arg;
	if (strcmp(name, o->instance) == 0)
		return;
	auto_fd int dir = openat(o->all, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	auto_fd int lock = dir < 0 ? -1 : lock_in(dir, false);
	if (lock >= 0)
		trash_put(o->all, name, o->trash);
}

int staging_open(struct warden *w, const char *instance)
{
	struct staging *s = &w->images.staging;
	auto_fd int all = make_dir(w->images.dir, "staging");
	auto_fd int own = all < 0 ? -1 : open_own(s, all, instance);
	s->boxes = own < 0 ? -1 : make_dir(own, "boxes");
	s->trash = s->boxes < 0 ? -1 : make_dir(own, "trash");
	if (s->trash < 0)
		return -errno;
	record_each(all, sweep_other, &(struct others){all, s->trash, instance});
	return 0;
}

/* By the name of its layer. */
static struct box *find_box(const struct warden *w, const char *name)
{
	list_each(it, &w->all)
	{
		struct box *b = list_entry(it, struct box, all);
		char own[BOX_FILENAME_MAX];
		box_id_filename(str_of(b->info.id), own);
		if (strcmp(own, name) == 0)
			return b;
	}
	return NULL;
}

static void sweep_own(void *arg, const char *name)
{
	struct warden *w = arg;
	if (!find_box(w, name))
		trash_put(w->images.staging.boxes, name, w->images.staging.trash);
}

static void watch_room(struct loop_timer *t);

void staging_recover(struct warden *w)
{
	if (!w->images.usable)
		return;
	record_each(w->images.staging.boxes, sweep_own, w);
	loop_timer_set(w->loop, &w->images.staging.timer, STAGING_LOOK, watch_room);
}

/* ---- room ---- */

struct look {
	struct warden *w;
	size_t n; /* layers that are there */
	bool full;
};

/* Noted on the disk, for the next warden. */
static void reads_path(const char *name, char ret[NAME])
{
	snprintf(ret, NAME, "%s/reads", name);
}

static void look_at(void *arg, const char *name)
{
	struct look *l = arg;
	struct box *b = l->full ? find_box(l->w, name) : NULL;
	char reads[NAME];
	l->n++;
	reads_path(name, reads);
	if (!b || b->stage != STAGE_RUNNING || faccessat(l->w->images.staging.boxes, reads, F_OK, 0) == 0)
		return;
	log_limited(LOG_WARN, "the image directory is full: a sandbox that unpacks a layer is ended", "id=%s",
		LOG_Q(b->info.id));
	images_box_starved(l->w, b->info.id);
	warden_slot_kill(b->place);
}

/* Runs while there are such layers. */
static void watch_room(struct loop_timer *t)
{
	struct warden *w = container_of(t, struct warden, images.staging.timer);
	struct look l = {.w = w, .full = !image_has_room(w->images.dir)};
	record_each(w->images.staging.boxes, look_at, &l);
	if (l.n)
		loop_timer_set(w->loop, t, STAGING_LOOK, watch_room);
}

/* ---- one layer ---- */

int staging_make(struct warden *w, const char *id, bool reads, struct err *e)
{
	char name[BOX_FILENAME_MAX], note[NAME];
	box_id_filename(str_of(id), name);
	reads_path(name, note);
	if (box_find(w, id) || storage_has(w, name))
		return err_set(e, ERRC_RESOURCE_BUSY, "sandbox '%s' exists already", id);
	if (!reads && !image_has_room(w->images.dir))
		return err_os(e, ERRC_NO_SPACE, ENOSPC, "unpack a layer in the image directory");
	int r = layer_make(w->images.staging.boxes, name, e);
	if (r == 0 && reads && mkdirat(w->images.staging.boxes, note, 0700) < 0)
		r = err_os(e, ERRC_FILESYSTEM_ERROR, errno, "make the sandbox's layer");
	if (r < 0) {
		trash_put(w->images.staging.boxes, name, w->images.staging.trash);
		if (e->os == ENOSPC || e->os == EDQUOT)
			e->code = ERRC_NO_SPACE;
		return -1;
	}
	loop_timer_set(w->loop, &w->images.staging.timer, STAGING_LOOK, watch_room);
	return 0;
}

void staging_leave(struct warden *w, const char *id)
{
	char name[BOX_FILENAME_MAX];
	box_id_filename(str_of(id), name);
	if (box_find(w, id) || trash_put(w->images.staging.boxes, name, w->images.staging.trash) < 0)
		return;
	reaper_wake(w);
}
