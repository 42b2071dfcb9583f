/*
 * cat.h - whole files of a box; shared by `cat`, `write` and `cp` with "-".
 */
#pragma once

#include "cli/api.h"

/* Prints the file to stdout. */
int cat_file(struct client *cl, const char *id, const char *path, struct err *e);
/* Writes all of `in` into the file, whole or not at all. *ret gets the answer. */
int cat_write(struct client *cl, const char *id, const char *path, int in, struct buf *ret, struct err *e);
