/*
 * images_child.h - what a child of the warden does in the image directory for one request (images.h).
 */
#pragma once

#include "warden/images.h"

struct images_work {
	const struct image_request *rq;
	const struct images *images;
	int boxes; /* the directory that the box's layer is in; -1: there is none */
	const int *fds;
	size_t fds_n;
};

/* May take long. Leaves nothing half-made under a name that counts. */
void images_child(const struct images_work *w, struct image_reply *ret);

/* images_size.c, under the directory's lock: writes the sizes that are missing; the size of a layer, 0 when it is not
 * known; forgets a size. */
void images_measure(const struct images *i);
uint64_t images_size(const struct images *i, const char *name);
void images_size_forget(const struct images *i, const char *name);
