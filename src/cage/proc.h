/*
 * proc.h - a box's /proc: read-only, and what must not be seen is covered. Runs in the
 * half-made box, on a procfs that was just made and that nobody else has touched: no name in it can be a trick. The
 * box's own files (which may be hostile when an old layer is started again) come into play only afterwards.
 */
#pragma once

#include "proto/errc.h"

/* A new procfs of the caller's pid namespace, detached. */
int proc_make(struct err *e);
/* Covers and protects; lowers what the box's network namespace may queue and what its user namespace may have: no
 * namespaces inside it, its share of inotify instances. `proc` and `dev` are attached mounts; `empty` an empty
 * directory on an attached mount. */
int proc_protect(int proc, int dev, int empty, struct err *e);
