/*
 * The table of routes: every path that atolld answers, once. The more a path is asked for, the higher it stands.
 */
#include "daemon/route/handlers.h"
#include "daemon/route/route.h"

#define READ "GET, HEAD"

const struct route_row route_table[] = {
	[ROUTE_UNKNOWN] = {.label = "unknown", .may = MAY_CALLERS, .inside = true},
	[ROUTE_PREVIEW] = {.label = "preview", .may = MAY_ALL, .inside = true, .app = true},
	[ROUTE_DOCKER] = {.label = "docker", .may = MAY_PEER, .inside = true, .methods = {{NULL, handle_docker}}},

	/* ---- into boxes ---- */
	{"/v1/sandboxes/{id}/api/**", .label = "/v1/sandboxes/{id}/api", .may = MAY_CALLERS, .inside = true,
		.token = TOKEN_IN_SOCKETS, .methods = {{NULL, handle_agent, .makes = true}}},
	{"/v1/sandboxes/{id}/ws/**", "/v1/sandboxes/{id}/rpc", .label = "/v1/sandboxes/{id}/ws", .may = MAY_CALLERS,
		.inside = true, .token = TOKEN_IN_SOCKETS, .methods = {{NULL, handle_agent, .makes = true}}},
	{"/v1/sandboxes/{id}/proxy/{port}/**", "/v1/sandboxes/{id}/proxy", .label = "/v1/sandboxes/{id}/proxy/{port}",
		.may = MAY_CALLERS, .inside = true, .app = true, .token = TOKEN_IN_SOCKETS,
		.methods = {{NULL, handle_proxy, .makes = true}}},

	/* ---- sandboxes ---- */
	{"/v1/sandboxes/{id}", .may = MAY_CALLERS,
		.methods = {{READ, handle_get}, {"PUT", handle_put, BODY_WHOLE, .makes = true},
			{"DELETE", handle_delete}}},
	{"/v1/sandboxes", .may = MAY_CALLERS, .methods = {{READ, handle_list}}},
	{"/v1/sandboxes/{id}/sleep", .may = MAY_CALLERS, .methods = {{"POST", handle_sleep}}},
	{"/v1/sandboxes/{id}/wake", .may = MAY_CALLERS, .methods = {{"POST", handle_wake}}},
	{"/v1/sandboxes/{id}/stop", .may = MAY_CALLERS, .methods = {{"POST", handle_stop}}},
	{"/v1/sandboxes/{id}/usage", .may = MAY_CALLERS, .methods = {{READ, handle_usage}}},

	/* ---- network ---- */
	{"/v1/sandboxes/{id}/network", .may = MAY_CALLERS,
		.methods = {{READ, handle_network_get}, {"PATCH", handle_network_patch, BODY_WHOLE}}},
	{"/v1/sandboxes/{id}/network/log", .may = MAY_CALLERS, .methods = {{READ, handle_network_log}}},
	{"/v1/sandboxes/{id}/hook", .may = MAY_CALLERS, .methods = {{"GET", handle_hook}}},
	{"/v1/approvals", .may = MAY_CALLERS, .methods = {{READ, handle_approvals}}},
	{"/v1/approvals/{approval}", .label = "/v1/approvals/{id}", .may = MAY_CALLERS,
		.methods = {{"POST", handle_approval_answer, BODY_WHOLE}, {"DELETE", handle_approval_forget}}},
	{"/v1/secrets", .may = MAY_CALLERS, .methods = {{READ, handle_secrets}}},
	{"/v1/secrets/{secret}", .label = "/v1/secrets/{name}", .may = MAY_CALLERS,
		.methods = {{READ, handle_secret_get}, {"PUT", handle_secret_put, BODY_SECRET},
			{"DELETE", handle_secret_delete}}},

	/* ---- ports ---- */
	{"/v1/sandboxes/{id}/ports", .may = MAY_CALLERS, .methods = {{READ, handle_ports}}},
	{"/v1/sandboxes/{id}/ports/{port}", .may = MAY_CALLERS,
		.methods = {{READ, handle_port_get}, {"POST", handle_port_expose, BODY_WHOLE, .makes = true},
			{"DELETE", handle_port_unexpose}}},
	{"/v1/sandboxes/{id}/ports/{port}/validate", .may = MAY_CALLERS,
		.methods = {{"POST", handle_port_validate, BODY_WHOLE}}},
	{"/v1/sandboxes/{id}/ports/{port}/requests", .may = MAY_CALLERS, .methods = {{READ, handle_port_requests}}},
	{"/v1/sandboxes/{id}/tunnels", .may = MAY_CALLERS,
		.methods = {{READ, handle_tunnels}, {"POST", handle_tunnel_open, BODY_WHOLE, .makes = true}}},
	{"/v1/sandboxes/{id}/tunnels/{port}", .may = MAY_CALLERS,
		.methods = {{READ, handle_tunnel_get}, {"DELETE", handle_tunnel_close}}},

	/* ---- files ---- */
	{"/v1/sandboxes/{id}/snapshots", .may = MAY_CALLERS,
		.methods = {{READ, handle_snapshots}, {"POST", handle_snapshot_take, BODY_WHOLE}}},
	{"/v1/sandboxes/{id}/snapshots/{snapshot}", .may = MAY_CALLERS,
		.methods = {{READ, handle_snapshot_get}, {"DELETE", handle_snapshot_drop}}},
	{"/v1/sandboxes/{id}/fork", .may = MAY_CALLERS, .methods = {{"POST", handle_fork, BODY_WHOLE}}},
	{"/v1/sandboxes/{id}/restore", .may = MAY_CALLERS, .methods = {{"POST", handle_restore, BODY_WHOLE}}},
	{"/v1/sandboxes/{id}/replace", .may = MAY_CALLERS, .methods = {{"POST", handle_replace, BODY_WHOLE}}},
	{"/v1/sandboxes/{id}/diff", .may = MAY_CALLERS, .methods = {{READ, handle_diff}}},
	{"/v1/sandboxes/{id}/backups", .may = MAY_CALLERS,
		.methods = {{READ, handle_box_backups}, {"POST", handle_backup_make, BODY_WHOLE}}},
	{"/v1/backups", .may = MAY_CALLERS, .methods = {{READ, handle_backups}}},
	{"/v1/backups/{backup}", .may = MAY_CALLERS,
		.methods = {{READ, handle_backup_get}, {"DELETE", handle_backup_delete}}},
	{"/v1/sandboxes/{id}/mounts", .may = MAY_CALLERS,
		.methods = {{READ, handle_mounts}, {"POST", handle_mount, BODY_WHOLE, .makes = true},
			{"DELETE", handle_unmount}}},
	{"/v1/volumes", .may = MAY_CALLERS, .methods = {{READ, handle_volumes}}},
	{"/v1/volumes/{volume}", .label = "/v1/volumes/{name}", .may = MAY_CALLERS,
		.methods = {{READ, handle_volume_get}, {"POST", handle_volume_put, BODY_WHOLE},
			{"DELETE", handle_volume_delete}}},
	{"/v1/images/**", .label = "/v1/images", .may = MAY_CALLERS, .methods = {{NULL, handle_images}}},

	/* ---- who may, and what happens ---- */
	{"/v1/tokens", .may = MAY_CALLERS, .methods = {{READ, handle_tokens}, {"POST", handle_token_make, BODY_WHOLE}}},
	{"/v1/tokens/{token}", .label = "/v1/tokens/{name}", .may = MAY_CALLERS,
		.methods = {{"DELETE", handle_token_revoke}}},
	{"/v1/tickets", .may = MAY_CALLERS, .methods = {{"POST", handle_tickets, BODY_WHOLE}}},
	{"/v1/console/links", .may = MAY_CALLERS, .methods = {{"POST", handle_console_links}}},
	{"/v1/console/session", .may = MAY_ALL,
		.methods = {{READ, handle_console_session}, {"POST", handle_console_login, BODY_WHOLE},
			{"DELETE", handle_console_logout}}},
	{"/v1/console/sessions", .may = MAY_CALLERS,
		.methods = {{READ, handle_console_sessions}, {"DELETE", handle_console_end_all}}},
	{"/v1/console/sessions/{session}", .may = MAY_CALLERS, .methods = {{"DELETE", handle_console_end}}},
	{"/v1/audit", .may = MAY_CALLERS, .methods = {{READ, handle_audit}}},
	{"/v1/events", .may = MAY_CALLERS, .methods = {{READ, handle_events}}},
	{"/v1/health", .may = MAY_ALL, .methods = {{READ, handle_health}}},
	{"/metrics", .may = MAY_CALLERS, .methods = {{READ, handle_metrics}}},
	{"/v1/doctor", .may = MAY_CALLERS, .methods = {{"GET", handle_doctor}}},
	{"/v1/selftest", .may = MAY_CALLERS, .methods = {{"POST", handle_selftest}}},
	{"/openapi.json", .may = MAY_CALLERS, .methods = {{READ, handle_openapi}}},
	{"/", .may = MAY_ALL, .methods = {{READ, handle_root}}},
	{"/assets/**", .label = "/assets/{name}", .may = MAY_ALL, .methods = {{READ, handle_asset}}},

	/* ---- doors, which read the rest of their paths themselves ---- */
	{"/mcp", .may = MAY_CALLERS, .inside = true, .door = DOOR_MCP,
		.methods = {{"POST", handle_mcp}, {"DELETE", handle_mcp}}},
	{"/v1/sandbox/**", "/v1/pool/** /v1/openapi.json /v1/openapi.html /v1/openapi", .label = "/v1/sandbox",
		.may = MAY_CALLERS, .inside = true, .token = TOKEN_IN_DOOR, .door = DOOR_BRIDGE,
		.methods = {{NULL, handle_bridge}}},
	{"/health", .may = MAY_ALL, .methods = {{READ, handle_bridge_health}}},
};

const size_t route_rows = sizeof route_table / sizeof *route_table;
_Static_assert(sizeof route_table / sizeof *route_table <= ROUTES_MAX, "ROUTES_MAX is too small");
