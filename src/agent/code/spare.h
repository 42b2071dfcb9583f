/*
 * spare.h - a Node worker that was started ahead.
 *
 * Node needs 30 ms and more until it can run code. A worker that waits for its first frame can still become any
 * JavaScript or TypeScript context. So once a box has had such a context, a spare worker is kept ready: it is started a
 * moment after a context was created, handed over to the next context, and ended when no context needs it for
 * CODE_SPARE_KEEP.
 *
 * Some settings take effect only when a process starts (NODE_OPTIONS and the like, another PATH). The spare is used
 * only for a context with the same values of these. All other variables and the directory come with the first frame.
 * Thread: the loop's.
 */
#pragma once

#include "agent/code/worker_start.h"

/* Hands over the spare process and its descriptors. False: there is none, or it does not fit. */
bool spare_take(const struct worker_spec *s, struct worker_fds *ret, pid_t *ret_pid);
/* A context of this language was started: keeps a spare ready for the next. */
void spare_want(enum language l);
