#include "daemon/admit/caller.h"

const struct caller caller_daemon = {.by = BY_SOCKET, .door = DOOR_DAEMON, .uid = CALLER_NO_UID};

const char *caller_by_name(enum caller_by by)
{
	static const char *const names[] = {[BY_NOBODY] = "nobody",
		[BY_SOCKET] = "socket",
		[BY_TOKEN] = "token",
		[BY_CONSOLE] = "console",
		[BY_TICKET] = "ticket"};
	return names[by];
}

const char *caller_door_name(enum door door)
{
	static const char *const names[] = {[DOOR_API] = "api",
		[DOOR_BRIDGE] = "bridge",
		[DOOR_MCP] = "mcp",
		[DOOR_DOCKER] = "docker",
		[DOOR_IMAGES] = "images",
		[DOOR_DAEMON] = "daemon"};
	return names[door];
}
