/*
 * spare.h - a Node worker that was started ahead.
 *
 * Node needs 30 ms and more until it can run anything. A worker that waits for its first frame can still become any
 * JavaScript or TypeScript context, so once a box has had one, the next is kept ready: started a moment after a context
 * was created, handed over when another is asked for, ended when nobody has asked for SPARE_KEEP.
 *
 * What a process can only be told when it starts (NODE_OPTIONS and the like, another PATH) must be what it was started
 * with; then it gets its directory and environment with the first frame. Thread: the loop's.
 */
#pragma once

#include "agent/code/worker_start.h"

/* A process that waits for its first frame, when there is one that fits: it and its descriptors are the caller's. */
bool spare_take(const struct worker_spec *s, struct worker_fds *ret, pid_t *ret_pid);
/* A context of this language was started: keep one ready for the next. */
void spare_want(enum language l);
