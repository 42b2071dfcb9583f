/*
 * proc.h - a box's /proc: read-only, with covers over files that a box must not see. This runs in the half-made box, on
 * a procfs that was just made and that no other process has touched: no name in it can be a trick. The box's own files,
 * which may be hostile when an old layer is started again, are mounted only afterwards.
 */
#pragma once

#include "proto/errc.h"

/* A new procfs of the caller's pid namespace, detached. */
int proc_make(struct err *e);
/* Covers and protects /proc. Lowers the limits of the box's network namespace (queues) and of its user namespace (no
 * namespaces inside it, its share of inotify instances). `proc` and `dev` are attached mounts; `empty` an empty
 * directory on an attached mount. */
int proc_protect(int proc, int dev, int empty, struct err *e);
