/*
 * build.h - builds an image from a Dockerfile (dockerfile.h) and a context.
 */
#pragma once

#include "images/images.h"

/* POST /v1/images/build */
int do_build(struct conn *c, struct store *s, struct err *e);
