/*
 * limits.h - the limits of the Model Context Protocol: quantities that a client or a box can drive, by name.
 *
 * Sizes are bytes, times are milliseconds.
 */
#pragma once

#include "base/limits.h"

#define MCP_MESSAGE_MAX	    8388608  /* one message of a client */
#define MCP_ANSWER_MAX	    33554432 /* one answer of the API that a tool reads */
#define MCP_SESSIONS_MAX    1024
#define MCP_SESSION_IDLE    3600000 /* without a request */
#define MCP_CALLS_MAX	    64	    /* at once in one session */
#define MCP_OUTPUTS_MAX	    8	    /* long outputs that a session keeps */
#define MCP_OUTPUT_KEPT_MAX 4194304 /* of one output */
#define MCP_CONTEXTS_MAX    8	    /* interpreter contexts that a session uses again */
#define MCP_SHOWN_HEAD	    24576   /* of a long output, in a result: its beginning … */
#define MCP_SHOWN_TAIL	    8192    /* … and its end */
#define MCP_IMAGES_MAX	    8	    /* in one result */
#define MCP_IMAGE_MAX	    4194304 /* base64 */
#define MCP_TIMEOUT_DEFAULT 120	    /* seconds, of a command or code */
#define MCP_TIMEOUT_MAX	    3600
#define MCP_ASK_TIMEOUT	    90000 /* for the head of an answer of the API */
#define MCP_PROGRESS_EVERY  250
#define MCP_KEEP_ALIVE	    15000 /* between comments of an event stream */
#define MCP_LIST_MAX	    500	  /* files or matches in one result */
