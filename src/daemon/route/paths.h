/*
 * paths.h - the paths of the public API, in one table: which route, which sandbox, which methods.
 *
 * Paths are compared as they were sent, but for the sandbox id, which is percent-decoded strictly and then checked.
 * Nothing is normalised ("//", "/./", "/../"): a path that is not in the table is not found. Pure functions.
 */
#pragma once

#include "base/buf.h"
#include "base/str.h"
#include "daemon/limits.h"
#include "http/http.h"
#include "proto/errc.h"
#include "proto/limits.h"

/* X(name, metric label, methods for Allow or NULL when the agent decides) */
#define API_ROUTES(X)                                                                                                  \
	X(NONE, "unknown", NULL)                                                                                       \
	X(PREVIEW, "preview", NULL)                                                                                    \
	X(ROOT, "/", "GET, HEAD")                                                                                      \
	X(ASSET, "/assets/{name}", "GET, HEAD")                                                                        \
	X(HEALTH, "/v1/health", "GET, HEAD")                                                                           \
	X(METRICS, "/metrics", "GET, HEAD")                                                                            \
	X(OPENAPI, "/openapi.json", "GET, HEAD")                                                                       \
	X(DOCKER, "docker", NULL)                                                                                      \
	X(BRIDGE, "/v1/sandbox", NULL)                                                                                 \
	X(BRIDGE_HEALTH, "/health", "GET, HEAD")                                                                       \
	X(SECRETS, "/v1/secrets", "GET, HEAD")                                                                         \
	X(SECRET, "/v1/secrets/{name}", "GET, HEAD, PUT, DELETE")                                                      \
	X(MCP, "/mcp", "POST, DELETE")                                                                                 \
	X(EVENTS, "/v1/events", "GET, HEAD")                                                                           \
	X(TICKETS, "/v1/tickets", "POST")                                                                              \
	X(CONSOLE_LINKS, "/v1/console/links", "POST")                                                                  \
	X(CONSOLE_SESSION, "/v1/console/session", "GET, HEAD, POST, DELETE")                                           \
	X(CONSOLE_SESSIONS, "/v1/console/sessions", "GET, HEAD, DELETE")                                               \
	X(CONSOLE_REVOKE, "/v1/console/sessions/{session}", "DELETE")                                                  \
	X(TOKENS, "/v1/tokens", "GET, HEAD, POST")                                                                     \
	X(TOKEN, "/v1/tokens/{name}", "DELETE")                                                                        \
	X(AUDIT, "/v1/audit", "GET, HEAD")                                                                             \
	X(DOCTOR, "/v1/doctor", "GET")                                                                                 \
	X(SELFTEST, "/v1/selftest", "POST")                                                                            \
	X(LIST, "/v1/sandboxes", "GET, HEAD")                                                                          \
	X(SANDBOX, "/v1/sandboxes/{id}", "GET, HEAD, PUT, DELETE")                                                     \
	X(IMAGES, "/v1/images", NULL)                                                                                  \
	X(NETWORK, "/v1/sandboxes/{id}/network", "GET, HEAD, PATCH")                                                   \
	X(HOOK, "/v1/sandboxes/{id}/hook", "GET")                                                                      \
	X(NETWORK_LOG, "/v1/sandboxes/{id}/network/log", "GET, HEAD")                                                  \
	X(SNAPSHOTS, "/v1/sandboxes/{id}/snapshots", "GET, HEAD, POST")                                                \
	X(SNAPSHOT, "/v1/sandboxes/{id}/snapshots/{snapshot}", "GET, HEAD, DELETE")                                    \
	X(VOLUMES, "/v1/volumes", "GET, HEAD")                                                                         \
	X(VOLUME, "/v1/volumes/{name}", "GET, HEAD, POST, DELETE")                                                     \
	X(MOUNTS, "/v1/sandboxes/{id}/mounts", "GET, HEAD, POST, DELETE")                                              \
	X(BACKUPS, "/v1/backups", "GET, HEAD")                                                                         \
	X(BACKUP, "/v1/backups/{backup}", "GET, HEAD, DELETE")                                                         \
	X(BOX_BACKUPS, "/v1/sandboxes/{id}/backups", "GET, HEAD, POST")                                                \
	X(RESTORE, "/v1/sandboxes/{id}/restore", "POST")                                                               \
	X(REPLACE, "/v1/sandboxes/{id}/replace", "POST")                                                               \
	X(FORK, "/v1/sandboxes/{id}/fork", "POST")                                                                     \
	X(DIFF, "/v1/sandboxes/{id}/diff", "GET, HEAD")                                                                \
	X(APPROVALS, "/v1/approvals", "GET, HEAD")                                                                     \
	X(APPROVAL, "/v1/approvals/{id}", "POST, DELETE")                                                              \
	X(USAGE, "/v1/sandboxes/{id}/usage", "GET, HEAD")                                                              \
	X(SLEEP, "/v1/sandboxes/{id}/sleep", "POST")                                                                   \
	X(WAKE, "/v1/sandboxes/{id}/wake", "POST")                                                                     \
	X(STOP, "/v1/sandboxes/{id}/stop", "POST")                                                                     \
	X(PORTS, "/v1/sandboxes/{id}/ports", "GET, HEAD")                                                              \
	X(PORT, "/v1/sandboxes/{id}/ports/{port}", "GET, HEAD, POST, DELETE")                                          \
	X(PORT_VALIDATE, "/v1/sandboxes/{id}/ports/{port}/validate", "POST")                                           \
	X(PORT_REQUESTS, "/v1/sandboxes/{id}/ports/{port}/requests", "GET, HEAD")                                      \
	X(TUNNELS, "/v1/sandboxes/{id}/tunnels", "GET, HEAD, POST")                                                    \
	X(TUNNEL, "/v1/sandboxes/{id}/tunnels/{port}", "GET, HEAD, DELETE")                                            \
	X(AGENT, "/v1/sandboxes/{id}/api", NULL)                                                                       \
	X(AGENT_WS, "/v1/sandboxes/{id}/ws", NULL)                                                                     \
	X(PROXY, "/v1/sandboxes/{id}/proxy/{port}", NULL)

enum api_route {
#define X(name, label, allow) ROUTE_##name,
	API_ROUTES(X)
#undef X
		ROUTE_COUNT
};

struct api_match {
	enum api_route route;
	char id[BOX_ID_MAX + 1]; /* routes of a sandbox; of an approval */
	char secret[SECRET_NAME_MAX + 1];
	char token[TOKEN_NAME_MAX + 1];
	char volume[VOLUME_NAME_MAX + 1];
	struct str rest; /* agent routes: from "/api" or "/ws" on; proxy: behind the port. Still percent-encoded. Of a
			    console session: its id */
	char snapshot[SNAPSHOT_NAME_MAX + 1]; /* ROUTE_SNAPSHOT, ROUTE_BACKUP: its id, or part of no id */
	uint16_t port;			      /* routes of a port: 1 to 65535 */
};

/* 0 with *ret filled, or -1: NOT_FOUND, or what is wrong with the sandbox id. ret->route is set in any case. */
int api_route_match(struct str path, struct api_match *ret, struct err *e);

const char *api_route_label(enum api_route route);
const char *api_route_allow(enum api_route route);
bool api_route_allows(enum api_route route, struct str method);

/* Appends "?a=1&b=2" to a target, without the parameters ("a=1", still encoded) for which `drops` is true. `drops` may
 * be NULL. */
typedef bool (*api_query_drops)(const void *arg, struct str parameter);
void api_query_put(struct buf *target, struct str query, api_query_drops drops, const void *arg);
