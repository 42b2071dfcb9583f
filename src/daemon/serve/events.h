/*
 * events.h - what happens to sandboxes, told as it happens: GET /v1/events.
 *
 * An event is a JSON object with an `id` that grows, a `type`, the `sandbox` and the `time`:
 *
 *	created, started, slept, woke, stopped (reason), failed (reason), oom, destroyed
 *
 * The last EVENTS_MAX are kept, so that a client that was cut off goes on with Last-Event-ID. With ?follow=1 the answer
 * is an event stream, which has every USAGE_LIVE_EVERY one more type, `usage`, without an id: samples of all sandboxes
 * that run. Each running sandbox also keeps a sample for every minute of the last hour: GET …/{id}/usage. Thread: the
 * loop's.
 */
#pragma once

#include "daemon/core/sandbox.h"
#include "daemon/limits.h"

struct events;

struct events *events_new(struct daemon *d);
/* Called by sandbox_move, before the state changes. */
void events_move(const struct sandbox *s, enum sandbox_state to, const char *reason);
/* Told when a sample shows it. */
void events_oom(const struct sandbox *s);
/* An event without an id, for those that follow now. */
void events_pass(struct events *e, struct str json);
bool events_followed(const struct events *e);

/* The samples of the last hour, as one array. */
struct usage_ring;
void usage_write(struct json_writer *w, const struct usage_ring *ring);
void usage_free(struct usage_ring *ring);
/* usage.c: begins to take samples. */
void usage_start(struct daemon *d);
