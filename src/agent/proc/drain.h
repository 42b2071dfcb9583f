/*
 * drain.h - output that nobody waits for any more.
 *
 * A call has been answered, but a background job still holds the pipe. Closing our end would kill it with SIGPIPE at
 * its next line, leaving the pipe full would block it for ever. So the pipe is emptied into nothing until its last
 * writer is gone: at most once every DRAIN_PAUSE ms, so that a job that prints without end costs next to nothing.
 */
#pragma once

#include "agent/limits.h"
#include "base/loop.h"

struct drain;

/* Owns fd (a non-blocking read end) from now on. `on_over` (may be NULL) is called from the loop when the last writer
 * has gone; the drain is freed then. */
struct drain *drain_adopt(struct loop *l, int fd, void (*on_over)(void *arg), void *arg);
/* The one who asked to be told is going away. */
void drain_forget(struct drain *d);
/* How many pipes are being emptied. */
size_t drain_count(void);
