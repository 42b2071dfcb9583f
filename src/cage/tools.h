/*
 * tools.h - programs of ours that every box has, whatever its image: a small tree that lies between the image and the
 * box's own layer (layers.h). Today that is usr/bin/fusermount3, and fusermount for programs with libfuse 2.
 *
 * The tree is named by its content: "<hash>/". A warden of another version makes another one, and boxes that run keep
 * the one they were started with.
 */
#pragma once

#include "proto/errc.h"

enum { TOOLS_NAME = 24 };

/* Makes the tree in `dir` from the program at `path`, if it is not there, and says its name. A tree that is half made
 * has another name. */
int tools_make(int dir, const char *path, char ret_name[TOOLS_NAME], struct err *e);
