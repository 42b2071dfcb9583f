/*
 * spare.h - a Node worker that was started ahead.
 *
 * Node needs 30 ms and more until it can run code. A worker that waits for its first frame can still become any
 * JavaScript or TypeScript context. So once a box has had such a context, a spare worker is kept ready: it is started a
 * moment after a context was created, handed over to the next context, and ended when no context needs it for
 * CODE_SPARE_KEEP. The first spare of a box may be older than the box: the warden had it started in the box's slot
 * (warm.h). It is ended when no context needs it for CODE_WARM_KEEP.
 *
 * Some settings take effect only when a process starts (NODE_OPTIONS and the like, another PATH). The spare is used
 * only for a context with the same values of these. All other variables and the directory come with the first frame.
 * Thread: the loop's.
 */
#pragma once

#include "agent/code/worker_start.h"

/* Hands over the spare process and its descriptors. False: there is none, or it does not fit. */
bool spare_take(const struct worker_spec *s, struct worker_fds *ret, pid_t *ret_pid);
/* A context of this language was started: keeps a spare ready for the next. Tells the warden when it is the box's
 * first. */
void spare_want(enum language l);
/* Takes the socket from which a spare comes that was started before the box was made; -1: there is none. */
void spare_await(int fd);
/* Sends a worker that waits for its first frame the order to load the TypeScript compiler. */
void spare_load_compiler(int socket);
