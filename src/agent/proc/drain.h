/*
 * drain.h - pipes whose output nobody reads any more.
 *
 * A request has been answered, but a background job still holds its pipe. Closing the agent's end would kill the job
 * with SIGPIPE at its next line; a full pipe would block it for ever. So the drain empties the pipe and drops the bytes
 * until the last writer is gone. It reads at most once every DRAIN_PAUSE ms: a job that prints without end costs next
 * to nothing.
 */
#pragma once

#include "agent/limits.h"
#include "base/loop.h"

struct drain;

/* Owns fd (a non-blocking read end) from now on. `on_over` (may be NULL) is called from the loop when the last writer
 * has gone; the drain is freed then. */
struct drain *drain_adopt(struct loop *l, int fd, void (*on_over)(void *arg), void *arg);
/* on_over is not wanted any more; the drain goes on. */
void drain_forget(struct drain *d);
/* The number of pipes that are being emptied. */
size_t drain_count(void);
