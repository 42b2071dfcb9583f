#include "daemon/route/paths.h"

#include <stdio.h>

#include "daemon/admit/tokens.h"
#include "daemon/network/secrets.h"
#include "proto/id.h"
#include "proto/limits.h"

static const struct {
	const char *label, *allow;
} routes[] = {
#define X(name, label, allow) [ROUTE_##name] = {label, allow},
	API_ROUTES(X)
#undef X
};

static const struct {
	const char *path;
	enum api_route route;
} fixed[] = {
	{"/", ROUTE_ROOT},
	{"/v1/health", ROUTE_HEALTH},
	{"/metrics", ROUTE_METRICS},
	{"/openapi.json", ROUTE_OPENAPI},
	{"/v1/sandboxes", ROUTE_LIST},
	{"/v1/secrets", ROUTE_SECRETS},
	{"/v1/approvals", ROUTE_APPROVALS},
	{"/v1/volumes", ROUTE_VOLUMES},
	{"/v1/backups", ROUTE_BACKUPS},
	{"/mcp", ROUTE_MCP},
	{"/health", ROUTE_BRIDGE_HEALTH},
	{"/v1/sandbox", ROUTE_BRIDGE},
	{"/v1/openapi.json", ROUTE_BRIDGE},
	{"/v1/openapi.html", ROUTE_BRIDGE},
	{"/v1/openapi", ROUTE_BRIDGE},
	{"/v1/events", ROUTE_EVENTS},
	{"/v1/tickets", ROUTE_TICKETS},
	{"/v1/console/links", ROUTE_CONSOLE_LINKS},
	{"/v1/console/session", ROUTE_CONSOLE_SESSION},
	{"/v1/console/sessions", ROUTE_CONSOLE_SESSIONS},
	{"/v1/tokens", ROUTE_TOKENS},
	{"/v1/audit", ROUTE_AUDIT},
	{"/v1/doctor", ROUTE_DOCTOR},
	{"/v1/selftest", ROUTE_SELFTEST},
};

const char *api_route_label(enum api_route route)
{
	return routes[route].label;
}

const char *api_route_allow(enum api_route route)
{
	return routes[route].allow;
}

bool api_route_allows(enum api_route route, struct str method)
{
	if (!routes[route].allow)
		return true;
	struct str rest = str_of(routes[route].allow);
	while (rest.n)
		if (str_eq(str_trim(str_split(rest, ',', &rest)), method))
			return true;
	return false;
}

static int not_found(struct str path, struct err *e)
{
	return err_set(e, ERRC_NOT_FOUND, "no route %.*s", (int)(path.n < 120 ? path.n : 120), path.p);
}

/* An id of BOX_ID_MAX bytes takes three times as many when all of it is escaped. */
static int decode_id(struct str segment, char ret[BOX_ID_MAX + 1], struct err *e)
{
	auto_buf struct buf id = {0};
	if (segment.n > 3 * BOX_ID_MAX)
		return err_set(
			e, ERRC_INVALID_SANDBOX_ID_LENGTH, "sandbox id must be 1-%d characters long", BOX_ID_MAX);
	if (http_percent_decode(segment, &id, e) < 0)
		return err_set(e, ERRC_INVALID_SANDBOX_ID_CHARACTERS,
			"sandbox id '%.*s' is not percent-encoded correctly", STR_ARG(segment));
	struct str s = buf_str(&id);
	if (box_id_check(s, e) < 0)
		return -1;
	memcpy(ret, s.p, s.n);
	ret[s.n] = 0;
	return 0;
}

static bool is_or_below(struct str rest, struct str prefix)
{
	return str_starts(rest, prefix) && (rest.n == prefix.n || rest.p[prefix.n] == '/');
}

/* One to five digits without a leading zero, 1 to 65535. */
static int parse_port(struct str text, struct api_match *ret, struct err *e)
{
	uint64_t port;
	if (!text.n || text.p[0] == '0' || !str_to_u64(text, 65535, &port))
		return err_set(e, ERRC_INVALID_PORT_NUMBER, "'%.*s' is not a port number",
			(int)(text.n < 20 ? text.n : 20), text.p);
	ret->port = (uint16_t)port;
	return 0;
}

/* "/8080", and what may follow it. */
static int match_port(struct str path, struct str rest, struct api_match *ret, struct err *e)
{
	struct str tail, text = str_split(str_skip(rest, 1), '/', &tail);
	bool more = text.n + 1 < rest.n;
	if (!more)
		ret->route = ROUTE_PORT;
	else if (str_eq_c(tail, "validate"))
		ret->route = ROUTE_PORT_VALIDATE;
	else if (str_eq_c(tail, "requests"))
		ret->route = ROUTE_PORT_REQUESTS;
	else
		return not_found(path, e);
	return parse_port(text, ret, e);
}

/* "/8080/index.html", "/8080" */
static int match_proxy(struct str rest, struct api_match *ret, struct err *e)
{
	ret->route = ROUTE_PROXY;
	rest = str_skip(rest, rest.n ? 1 : 0);
	ssize_t slash = str_index(rest, '/');
	struct str text = slash < 0 ? rest : str_n(rest.p, (size_t)slash);
	ret->rest = text.n < rest.n ? str_skip(rest, text.n) : STR("/");
	return parse_port(text, ret, e);
}

static int match_tunnel(struct str text, struct api_match *ret, struct err *e)
{
	ret->route = ROUTE_TUNNEL;
	return parse_port(text, ret, e);
}

static int match_snapshot(struct str path, struct str id, struct api_match *ret, struct err *e)
{
	if (!snapshot_name_ok(id))
		return not_found(path, e);
	ret->route = str_starts(path, STR("/v1/backups/")) ? ROUTE_BACKUP : ROUTE_SNAPSHOT;
	snprintf(ret->snapshot, sizeof ret->snapshot, "%.*s", STR_ARG(id));
	return 0;
}

static int match_sandbox(struct str path, struct str tail, struct api_match *ret, struct err *e)
{
	ssize_t slash = str_index(tail, '/');
	struct str id = slash < 0 ? tail : str_n(tail.p, (size_t)slash);
	struct str rest = ret->rest = str_skip(tail, id.n);
	if (rest.n == 0)
		ret->route = ROUTE_SANDBOX;
	else if (is_or_below(rest, STR("/api")))
		ret->route = ROUTE_AGENT;
	else if (is_or_below(rest, STR("/ws")) || str_eq_c(rest, "/rpc"))
		ret->route = ROUTE_AGENT_WS;
	else if (str_eq_c(rest, "/network"))
		ret->route = ROUTE_NETWORK;
	else if (str_eq_c(rest, "/hook"))
		ret->route = ROUTE_HOOK;
	else if (str_eq_c(rest, "/network/log"))
		ret->route = ROUTE_NETWORK_LOG;
	else if (str_eq_c(rest, "/snapshots"))
		ret->route = ROUTE_SNAPSHOTS;
	else if (str_starts(rest, STR("/snapshots/")) && match_snapshot(path, str_skip(rest, 11), ret, e) < 0)
		return -1;
	else if (str_eq_c(rest, "/mounts"))
		ret->route = ROUTE_MOUNTS;
	else if (str_eq_c(rest, "/backups"))
		ret->route = ROUTE_BOX_BACKUPS;
	else if (str_eq_c(rest, "/restore"))
		ret->route = ROUTE_RESTORE;
	else if (str_eq_c(rest, "/replace"))
		ret->route = ROUTE_REPLACE;
	else if (str_eq_c(rest, "/fork"))
		ret->route = ROUTE_FORK;
	else if (str_eq_c(rest, "/diff"))
		ret->route = ROUTE_DIFF;
	else if (str_eq_c(rest, "/usage"))
		ret->route = ROUTE_USAGE;
	else if (str_eq_c(rest, "/sleep"))
		ret->route = ROUTE_SLEEP;
	else if (str_eq_c(rest, "/wake"))
		ret->route = ROUTE_WAKE;
	else if (str_eq_c(rest, "/stop"))
		ret->route = ROUTE_STOP;
	else if (str_eq_c(rest, "/ports"))
		ret->route = ROUTE_PORTS;
	else if (str_eq_c(rest, "/tunnels"))
		ret->route = ROUTE_TUNNELS;
	else if (str_starts(rest, STR("/tunnels/")) && match_tunnel(str_skip(rest, 9), ret, e) < 0)
		return -1;
	else if (is_or_below(rest, STR("/proxy")) && match_proxy(str_skip(rest, 6), ret, e) < 0)
		return -1;
	else if (str_starts(rest, STR("/ports/")) && match_port(path, str_skip(rest, 6), ret, e) < 0)
		return -1;
	if (ret->route == ROUTE_NONE)
		return not_found(path, e);
	return decode_id(id, ret->id, e);
}

static int match_secret(struct str name, struct api_match *ret, struct err *e)
{
	ret->route = ROUTE_SECRET;
	if (!secrets_name_ok(name)) {
		err_set(e, ERRC_VALIDATION_FAILED,
			"the name of a secret is 1 to %d letters, digits, '.', '_' and '-', and begins with a letter "
			"or digit",
			SECRET_NAME_MAX);
		return err_about(e, "name");
	}
	memcpy(ret->secret, name.p, name.n);
	return 0;
}

static int match_token(struct str name, struct api_match *ret, struct err *e)
{
	ret->route = ROUTE_TOKEN;
	if (!token_name_ok(name)) {
		err_set(e, ERRC_VALIDATION_FAILED,
			"the name of a token is 1 to %d letters, digits, '.', '_' and '-', and begins with a letter or "
			"digit",
			TOKEN_NAME_MAX);
		return err_about(e, "name");
	}
	memcpy(ret->token, name.p, name.n);
	return 0;
}

static int match_volume(struct str name, struct api_match *ret, struct err *e)
{
	ret->route = ROUTE_VOLUME;
	if (!volume_name_ok(name)) {
		err_set(e, ERRC_VALIDATION_FAILED,
			"the name of a volume is 1 to %d of a-z, 0-9, '.', '_' and '-', and begins with a letter or "
			"digit",
			VOLUME_NAME_MAX);
		return err_about(e, "name");
	}
	memcpy(ret->volume, name.p, name.n);
	return 0;
}

/* Ids are the gate's: letters and digits. */
static int match_approval(struct str path, struct str id, struct api_match *ret, struct err *e)
{
	if (!id.n || id.n > BOX_ID_MAX || memchr(id.p, '/', id.n) || memchr(id.p, '%', id.n))
		return not_found(path, e);
	ret->route = ROUTE_APPROVAL;
	snprintf(ret->id, sizeof ret->id, "%.*s", STR_ARG(id));
	return 0;
}

int api_route_match(struct str path, struct api_match *ret, struct err *e)
{
	static const struct str prefix = {"/v1/sandboxes/", 14};
	*ret = (struct api_match){.route = ROUTE_NONE};
	if (str_starts(path, prefix))
		return match_sandbox(path, str_skip(path, prefix.n), ret, e);
	if (str_starts(path, STR("/assets/"))) {
		ret->route = ROUTE_ASSET;
		return 0;
	}
	/* The bridge reads the rest of its paths itself. */
	if (str_starts(path, STR("/v1/sandbox/")) || str_starts(path, STR("/v1/pool/"))) {
		ret->route = ROUTE_BRIDGE;
		return 0;
	}
	if (is_or_below(path, STR("/v1/images"))) {
		ret->route = ROUTE_IMAGES;
		return 0;
	}
	if (str_starts(path, STR("/v1/secrets/")) && str_index(str_skip(path, 12), '/') < 0)
		return match_secret(str_skip(path, 12), ret, e);
	if (str_starts(path, STR("/v1/tokens/")) && str_index(str_skip(path, 11), '/') < 0)
		return match_token(str_skip(path, 11), ret, e);
	if (str_starts(path, STR("/v1/volumes/")) && str_index(str_skip(path, 12), '/') < 0)
		return match_volume(str_skip(path, 12), ret, e);
	if (str_starts(path, STR("/v1/backups/")))
		return match_snapshot(path, str_skip(path, 12), ret, e);
	if (str_starts(path, STR("/v1/console/sessions/"))) {
		ret->route = ROUTE_CONSOLE_REVOKE;
		ret->rest = str_skip(path, 21);
		return 0;
	}
	if (str_starts(path, STR("/v1/approvals/")))
		return match_approval(path, str_skip(path, 14), ret, e);
	for (size_t i = 0; i < ARRAY_LEN(fixed); i++)
		if (str_eq_c(path, fixed[i].path)) {
			ret->route = fixed[i].route;
			return 0;
		}
	return not_found(path, e);
}

void api_query_put(struct buf *target, struct str query, api_query_drops drops, const void *arg)
{
	char before = '?';
	while (query.n) {
		struct str parameter = str_split(query, '&', &query);
		if (drops && drops(arg, parameter))
			continue;
		buf_add_byte(target, before);
		buf_add_str(target, parameter);
		before = '&';
	}
}
