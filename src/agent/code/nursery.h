/*
 * nursery.h - a Python zygote inside the box, for images whose code is a user's (src/worker/python/nursery.py).
 *
 * The shared zygote holds a capability of the host and runs Atoll's own images only. In a box of another image the
 * first Python context starts plainly, and a nursery starts beside it: it imports what contexts use, once. Later
 * contexts are its forks. It runs as the box's user, without any privilege. It fits contexts with the same interpreter
 * and the same variables that count at the start of a process. Thread: the loop's.
 */
#pragma once

#include "agent/code/worker_start.h"

/* The daemon says that this box's image is not Atoll's own. */
void nursery_allow(void);
bool nursery_allowed(void);
/* A plain Python context was started with this environment: the next ones may come from a nursery. */
void nursery_want(const struct worker_spec *s);
/* Whether a nursery is ready, and a worker from it would be the same as a plainly started worker. */
bool nursery_fits(const struct worker_spec *s);
