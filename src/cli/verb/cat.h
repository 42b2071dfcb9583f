/*
 * cat.h - whole files of a box: what `cat`, `write` and `cp` with "-" share.
 */
#pragma once

#include "cli/api.h"

/* The file's bytes to stdout. */
int cat_file(struct client *cl, const char *id, const char *path, struct err *e);
/* All of `in` into the file, whole or not at all. *ret gets the answer. */
int cat_write(struct client *cl, const char *id, const char *path, int in, struct buf *ret, struct err *e);
