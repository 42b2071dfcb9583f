/*
 * limits.h - the limits of the machinery of a box: quantities that a client, a box or the network can drive, by name.
 *
 * Sizes are bytes, times are milliseconds. tools/check-limits finds limits that nothing uses. A limit that a request
 * can exceed is tested at the limit and one past it.
 */
#pragma once

#include "base/limits.h"

/* The warden */
#define WARDEN_PIDS_PERCENT    75u	   /* of the machine's process numbers, for all sandboxes together */
#define WARDEN_SOCKETS_PERCENT 50u	   /* of the bytes that TCP may have, for all sandboxes together (cgroup v1) */
#define WARDEN_AGENT_MAX       (64u * MIB) /* size of the agent's program */

#define TREE_DEPTH_MAX 512 /* directories in each other that are copied with a layer */
/* Certificates that a box trusts */
#define TRUST_BUNDLE_MAX (2 * 1024 * 1024) /* of the image */
