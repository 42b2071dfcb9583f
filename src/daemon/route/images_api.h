/*
 * images_api.h - the images that sandboxes name: references, near names, and what an image says about its commands.
 */
#pragma once

#include "daemon/route/request.h"

void handle_images(struct daemon_request *r); /* images_job.c */

/* Sets change.spec.image to the key of the image that the reference names. -1: IMAGE_NOT_FOUND with near names. */
int images_resolve(struct daemon *d, struct api_change *c, struct err *e);
/* The image of a new sandbox that names none: ATOLL_IMAGE. */
void images_default(struct daemon *d, struct api_spec *spec);
/* Pulls a reference; on_done may come from inside. */
typedef void (*images_on_pulled)(void *arg, const struct err *e);
void images_pull(struct daemon *d, const char *ref, images_on_pulled on_done, void *arg); /* images_pull.c */
/* Adds names that look alike to the warden's "there is no image". */
void images_explain(struct daemon *d, const char *image, struct err *e);
/* {"env": …, "workdir": …, "user": …, "entrypoint": … of the sandbox's image, under the sandbox's own variables and
 * settings, for the agent; the caller ends the object. False: neither the image nor the settings say anything.
 * images_says may be true without need. */
bool images_says(const struct api_spec *spec);
bool images_settings(struct daemon *d, const struct api_spec *spec, const char *env, struct buf *ret);
