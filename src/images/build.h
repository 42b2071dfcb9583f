/*
 * build.h - builds an image from a Dockerfile (dockerfile.h) and a context.
 */
#pragma once

#include "images/images.h"

int do_build(struct order *o, struct store *s, struct err *e);
