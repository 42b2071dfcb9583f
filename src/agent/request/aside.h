/*
 * aside.h - file operations that may wait for a FUSE server (mounts.h), beside the loop.
 *
 * Such a request is served by a helper: a fork of the agent with one connection, to which the request is passed as to
 * any server. The helper runs the route's own handler in its own loop and ends with the answer. It may sleep as long as
 * the FUSE server likes; the agent goes on. The client gets an error after ASIDE_WAIT (ASIDE_LONG for writes and
 * moves; ASIDE_WAIT more than a clone may take). A helper whose client is gone is killed after ASIDE_GRACE; it counts
 * among ASIDE_MAX until it has ended, a watch among ASIDE_WATCHES, which a FUSE server can put off until its mount is
 * aborted.
 *
 * The helper has the agent's memory as it was, and none of its descriptors: routes that use state of the agent beyond
 * sessions' directories (watch/check) do not belong here.
 */
#pragma once

#include "agent/request/route.h"

/* Whether there are FUSE mounts, and requests must be asked for their paths. */
bool aside_asks(void);
/* The path of the request that may wait for a FUSE server; NULL: none, or it is in a body that has not been read. On
 * the heap. */
char *aside_path(const struct agent_request *r);
/* Serves the request in a helper. `text` is its body if that has been read. */
void aside_run(const struct agent_request *r, struct str text, const char *path);
