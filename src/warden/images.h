/*
 * images.h - the image directory: takes the layers of boxes, keeps images and their names, collects what nothing uses.
 *
 * Requests are the records of proto/image.h. Each connection has one request under way. Whatever touches the disk for
 * longer than a moment runs in a child of the warden, which holds the directory's lock (several wardens may share the
 * directory), answers through a pipe and ends.
 *
 * Half-made things lie in making/ under the number of the child's process; the next start of a warden moves those
 * without a living owner to the trash. A rename into layers/ or meta/ is the moment from which a thing exists.
 */
#pragma once

#include "base/list.h"
#include "base/loop.h"
#include "cage/layers.h"
#include "proto/image.h"
#include "warden/staging.h"

struct warden;
struct box;

struct images {
	bool usable;	      /* false: the directory cannot be written; boxes of Atoll's own images work */
	int dir, meta, users; /* the directory, meta/, users/<instance>/ */
	int listen_fd;
	struct loop_io listen_io;
	struct staging staging;
	struct list conns;
	size_t conns_n;
};

/* Makes what is missing in the directory. Never fails: see `usable`. */
/* Before the host's files are out of reach: notes where our state is, and removes the notes of daemons that have ended
 * for good (notes.c). */
void notes_collect(const char *images, const char *instance, const char *data);
void images_prepare(struct warden *w, const char *instance);
int images_listen(struct warden *w, const char *path, gid_t group, struct err *e);

/* Notes that a sandbox of this warden uses the image, before it is looked up. */
void images_use(struct warden *w, const char *key);
/* A box has ended by itself. */
void images_box_died(struct warden *w, const char *id);
/* A box is ended because it fills the image directory. */
void images_box_starved(struct warden *w, const char *id);
