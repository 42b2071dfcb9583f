/*
 * limits.h - the limits of events, tickets and console sessions: quantities that a client can drive, by name.
 *
 * Sizes are bytes, times are milliseconds.
 */
#pragma once

#include "base/limits.h"

#define EVENTS_MAX	     1000 /* kept for clients that come later */
#define EVENTS_FOLLOWERS_MAX 256
#define EVENTS_KEEP_ALIVE    15000
#define USAGE_LIVE_EVERY     2000  /* while somebody follows the events */
#define USAGE_KEPT_EVERY     60000 /* a sample of the last hour */
#define USAGE_SAMPLES	     60
#define AUDIT_MAX	     1000	  /* records of changes */
#define CHECKS_TEXT_MAX	     (256u * KIB) /* what `atoll doctor` prints */
#define TICKETS_MAX	     1024
#define TICKET_LIFE	     60000
#define TICKET_PATH_MAX	     4096
#define CONSOLE_SESSIONS_MAX 256
#define CONSOLE_CLIENT_MAX   160 /* of the User-Agent of a session */
#define CONSOLE_LINKS_MAX    64
#define CONSOLE_LINK_LIFE    300000   /* a link of `atoll console` */
#define CONSOLE_SESSION_IDLE 3600000  /* without a request */
#define CONSOLE_SESSION_LIFE 43200000 /* at all */
#define CONSOLE_RENEW_EVERY  300000   /* how often a use is written to the store */
