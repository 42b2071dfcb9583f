/*
 * caller.h - who asks: made once, when a request is admitted, and handed to every operation.
 *
 * A caller has shown itself by a token, a session of the console, a ticket, or as a user of this host at a unix socket.
 * `token` is the named token behind any of these. The door says which protocol it came through; what a door asks for its
 * client is asked as that client, never as the daemon.
 */
#pragma once

#include <sys/types.h>

#include "base/base.h"
#include "daemon/limits.h"

enum caller_by { BY_NOBODY, BY_SOCKET, BY_TOKEN, BY_CONSOLE, BY_TICKET };

enum door {
	DOOR_API,
	DOOR_BRIDGE,
	DOOR_MCP,
	DOOR_DOCKER,
	DOOR_IMAGES, /* jobs of images, as their callers; and own.sock */
	DOOR_DAEMON, /* the daemon by itself: schedules, ends of sessions */
};

#define CALLER_NO_UID ((uid_t)-1)
enum { CALLER_ADDRESS_MAX = 63 };

struct caller {
	enum caller_by by;
	enum door door;
	char token[TOKEN_NAME_MAX + 1];	      /* "": none that has a name */
	uid_t uid;			      /* at the other end of a unix socket, or CALLER_NO_UID */
	char address[CALLER_ADDRESS_MAX + 1]; /* of a TCP client, or "" */
};

/* "nobody", "socket", "token", "console", "ticket". */
const char *caller_by_name(enum caller_by by);
/* "api", "bridge", "mcp", "docker", "images", "daemon". */
const char *caller_door_name(enum door door);

/* It may use the API. */
static inline bool caller_is_admitted(const struct caller *c)
{
	return c->by != BY_NOBODY;
}

/* A program of Atoll itself that works on images: it alone sees and reaches the boxes of builds. */
static inline bool caller_is_own(const struct caller *c)
{
	return c->door == DOOR_IMAGES;
}

/* The daemon, for what no client asked for. */
extern const struct caller caller_daemon;
