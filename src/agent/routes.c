#include "agent/api.h"

const struct route routes[] = {
	{"GET", "/", ROUTE_NO_BODY, api_root, NULL},
	{"GET", "/api/ping", ROUTE_NO_BODY, api_ping, NULL},
	{"GET", "/api/version", ROUTE_NO_BODY, api_version, NULL},
	{"POST", "/api/execute", ROUTE_JSON, api_execute, "command.execute"},
	{"GET", "/ws/exec", ROUTE_NO_BODY, ws_exec, "command.execute"},
};
const size_t routes_n = sizeof routes / sizeof *routes;
