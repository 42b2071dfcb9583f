/*
 * limits.h - the limits of rows and the queue of the database: quantities that a client, a box or the network can
 * drive, by name.
 *
 * Sizes are bytes, times are milliseconds. tools/check-limits finds limits that nothing uses. A limit that a request
 * can exceed is tested at the limit and one past it.
 */
#pragma once

#include "base/limits.h"

/* Exposed ports and previews */
#define PORT_TOKEN_MAX 16
#define PORT_NAME_MAX  100 /* bytes */

/* Items */
#define ITEM_NAME_MAX  255     /* bytes of a kind, a key or a sandbox's id */
#define ITEM_VALUE_MAX 1048576 /* bytes */

/* Daemon */
#define STORE_QUEUE_MAX 65536 /* changes that wait for the disk */
#define STORE_SOON_MS	100   /* a change without a callback */
