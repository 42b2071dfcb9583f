/*
 * limits.h - the limits of the bridge. Sizes are bytes, times are milliseconds.
 */
#pragma once

#include "base/limits.h"

#define BRIDGE_ID_MAX	   128	       /* of a sandbox's id, and of a session's */
#define BRIDGE_BODY_MAX	   (4u * MIB)  /* of a JSON request */
#define BRIDGE_UPLOAD_MAX  (32u * MIB) /* of a file or an archive that a client sends */
#define BRIDGE_ANSWER_MAX  (1u * MIB)  /* of an answer that is not passed on */
#define BRIDGE_EVENT_MAX   (2u * MIB)  /* of one event of a command */
#define BRIDGE_SAID_MAX	   (16u * KIB) /* of what a command of the bridge's own says on stderr */
#define BRIDGE_PATH_MAX	   4096	       /* of a file's path */
#define BRIDGE_ASK_TIMEOUT 120000      /* until an answer's head, of questions that run nothing for long */
#define BRIDGE_COUNT_MAX   1000000     /* WARM_POOL_… */
