#include "daemon/route/paths.h"

#include <stdio.h>

#include "proto/limits.h"
#include "test.h"

static struct api_match match(const char *path, enum errc want)
{
	struct err e = {0};
	struct api_match m;
	int r = api_route_match(str_of(path), &m, &e);
	CHECK_INT(r < 0 ? e.code : ERRC_OK, want);
	return m;
}

TEST(fixed_paths_are_found_exactly)
{
	CHECK_INT(match("/", ERRC_OK).route, ROUTE_ROOT);
	CHECK_INT(match("/v1/health", ERRC_OK).route, ROUTE_HEALTH);
	CHECK_INT(match("/metrics", ERRC_OK).route, ROUTE_METRICS);
	CHECK_INT(match("/openapi.json", ERRC_OK).route, ROUTE_OPENAPI);
	CHECK_INT(match("/v1/sandboxes", ERRC_OK).route, ROUTE_LIST);
	CHECK_INT(match("/v1/sandbox", ERRC_OK).route, ROUTE_BRIDGE);
	CHECK_INT(match("/v1/sandbox/a/exec", ERRC_OK).route, ROUTE_BRIDGE);
	CHECK_INT(match("/v1/pool/stats", ERRC_OK).route, ROUTE_BRIDGE);
	static const char *const none[] = {"", "*", "//", "/v1", "/v1/", "/v1/health/", "/V1/health", "/v1//health",
		"/v1/%68ealth", "/v1/sandboxesx", "/./metrics", "/metrics/.."};
	for (size_t i = 0; i < ARRAY_LEN(none); i++)
		CHECK_INT(match(none[i], ERRC_NOT_FOUND).route, ROUTE_NONE);
}

TEST(sandbox_paths_carry_their_id)
{
	struct api_match m = match("/v1/sandboxes/user-123", ERRC_OK);
	CHECK_INT(m.route, ROUTE_SANDBOX);
	CHECK_CSTR(m.id, "user-123");
	m = match("/v1/sandboxes/me%40example.org/api/execute/stream", ERRC_OK);
	CHECK_INT(m.route, ROUTE_AGENT);
	CHECK_CSTR(m.id, "me@example.org");
	CHECK_STR(m.rest, "/api/execute/stream");
	m = match("/v1/sandboxes/a/ws/pty", ERRC_OK);
	CHECK_INT(m.route, ROUTE_AGENT_WS);
	CHECK_STR(m.rest, "/ws/pty");
	m = match("/v1/sandboxes/a/rpc", ERRC_OK);
	CHECK_INT(m.route, ROUTE_AGENT_WS);
	CHECK_STR(m.rest, "/rpc");
	match("/v1/sandboxes/a/rpc/x", ERRC_NOT_FOUND);
	CHECK_STR(match("/v1/sandboxes/a/api", ERRC_OK).rest, "/api");
	CHECK_STR(match("/v1/sandboxes/a/api/%2e%2e/x", ERRC_OK).rest, "/api/%2e%2e/x");
}

TEST(ports_have_routes_of_their_own)
{
	CHECK_INT(match("/v1/sandboxes/a/ports", ERRC_OK).route, ROUTE_PORTS);
	struct api_match m = match("/v1/sandboxes/a/ports/8080", ERRC_OK);
	CHECK_INT(m.route, ROUTE_PORT);
	CHECK_INT(m.port, 8080);
	CHECK_CSTR(m.id, "a");
	CHECK_INT(match("/v1/sandboxes/a/ports/1", ERRC_OK).port, 1);
	CHECK_INT(match("/v1/sandboxes/a/ports/65535/validate", ERRC_OK).route, ROUTE_PORT_VALIDATE);
	CHECK_INT(match("/v1/sandboxes/a/ports/65535/requests", ERRC_OK).route, ROUTE_PORT_REQUESTS);
	match("/v1/sandboxes/-/ports/8080", ERRC_INVALID_SANDBOX_ID_HYPHENS);
	static const char *const none[] = {
		"", "0", "65536", "-1", "+1", "1a", "080", "8080%30", " 1", "18446744073709551617"};
	for (size_t i = 0; i < ARRAY_LEN(none); i++) {
		char path[80];
		snprintf(path, sizeof path, "/v1/sandboxes/a/ports/%s", none[i]);
		match(path, ERRC_INVALID_PORT_NUMBER);
	}
	match("/v1/sandboxes/a/ports/8080/", ERRC_NOT_FOUND);
	match("/v1/sandboxes/a/ports/8080/requests/", ERRC_NOT_FOUND);
	match("/v1/sandboxes/a/ports/8080/other", ERRC_NOT_FOUND);
	match("/v1/sandboxes/a/ports//requests", ERRC_INVALID_PORT_NUMBER);
	match("/v1/sandboxes/a/portsx", ERRC_NOT_FOUND);
}

TEST(a_proxied_path_carries_its_port)
{
	struct api_match m = match("/v1/sandboxes/a/proxy/8080/x/../y", ERRC_OK);
	CHECK_INT(m.route, ROUTE_PROXY);
	CHECK_CSTR(m.id, "a");
	CHECK_INT(m.port, 8080);
	CHECK_STR(m.rest, "/x/../y");
	CHECK_STR(match("/v1/sandboxes/a/proxy/1", ERRC_OK).rest, "/");
	CHECK_STR(match("/v1/sandboxes/a/proxy/1/", ERRC_OK).rest, "/");
	CHECK_STR(match("/v1/sandboxes/a/proxy/65535//", ERRC_OK).rest, "//");
	static const char *const bad[] = {"", "/", "/0", "/65536", "/080/x", "/+80", "/-1", "/80x", "/80%20", "/0x50",
		"/99999999999999999999", "//80", "/x/80"};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		char path[128];
		snprintf(path, sizeof path, "/v1/sandboxes/a/proxy%s", bad[i]);
		CHECK_INT(match(path, ERRC_INVALID_PORT_NUMBER).route, ROUTE_PROXY);
	}
	match("/v1/sandboxes/a/proxyx/80", ERRC_NOT_FOUND);
}

TEST(other_paths_below_a_sandbox_are_not_found)
{
	match("/v1/sandboxes/a/", ERRC_NOT_FOUND);
	match("/v1/sandboxes/a/apix", ERRC_NOT_FOUND);
	match("/v1/sandboxes/a/API/x", ERRC_NOT_FOUND);
	match("/v1/sandboxes/a/internal/env", ERRC_NOT_FOUND);
	match("/v1/sandboxes/a//api/x", ERRC_NOT_FOUND);
}

TEST(bad_ids_are_refused_by_their_rule)
{
	char path[512];
	match("/v1/sandboxes/", ERRC_INVALID_SANDBOX_ID_LENGTH);
	match("/v1/sandboxes//api/x", ERRC_INVALID_SANDBOX_ID_LENGTH);
	match("/v1/sandboxes/-a", ERRC_INVALID_SANDBOX_ID_HYPHENS);
	match("/v1/sandboxes/a-/api/x", ERRC_INVALID_SANDBOX_ID_HYPHENS);
	match("/v1/sandboxes/Root", ERRC_RESERVED_SANDBOX_ID);
	match("/v1/sandboxes/.", ERRC_INVALID_SANDBOX_ID_CHARACTERS);
	match("/v1/sandboxes/../api/x", ERRC_INVALID_SANDBOX_ID_CHARACTERS);
	match("/v1/sandboxes/%2e%2E/ports/8080", ERRC_INVALID_SANDBOX_ID_CHARACTERS);
	match("/v1/sandboxes/.../proxy/8080/", ERRC_INVALID_SANDBOX_ID_CHARACTERS);
	match("/v1/sandboxes/a%2Fb", ERRC_INVALID_SANDBOX_ID_CHARACTERS);
	match("/v1/sandboxes/a%20b", ERRC_INVALID_SANDBOX_ID_CHARACTERS);
	match("/v1/sandboxes/a%0ab", ERRC_INVALID_SANDBOX_ID_CHARACTERS);
	match("/v1/sandboxes/a%00", ERRC_INVALID_SANDBOX_ID_CHARACTERS);
	match("/v1/sandboxes/a%4", ERRC_INVALID_SANDBOX_ID_CHARACTERS);
	match("/v1/sandboxes/a%zz", ERRC_INVALID_SANDBOX_ID_CHARACTERS);
	match("/v1/sandboxes/a%c3%a4", ERRC_INVALID_SANDBOX_ID_CHARACTERS);
	snprintf(path, sizeof path, "/v1/sandboxes/%063d", 0);
	match(path, ERRC_OK);
	snprintf(path, sizeof path, "/v1/sandboxes/%064d", 0);
	match(path, ERRC_INVALID_SANDBOX_ID_LENGTH);
	snprintf(path, sizeof path, "/v1/sandboxes/%0190d", 0);
	match(path, ERRC_INVALID_SANDBOX_ID_LENGTH);
	/* All of the longest id escaped. */
	size_t n = (size_t)snprintf(path, sizeof path, "/v1/sandboxes/");
	for (int i = 0; i < BOX_ID_MAX; i++)
		n += (size_t)snprintf(path + n, sizeof path - n, "%%61");
	CHECK_INT(strlen(match(path, ERRC_OK).id), BOX_ID_MAX);
}

TEST(methods_are_the_tables)
{
	CHECK(api_route_allows(ROUTE_SANDBOX, STR("PUT")));
	CHECK(api_route_allows(ROUTE_SANDBOX, STR("HEAD")));
	CHECK(!api_route_allows(ROUTE_SANDBOX, STR("POST")));
	CHECK(!api_route_allows(ROUTE_SANDBOX, STR("put")));
	CHECK(!api_route_allows(ROUTE_SANDBOX, STR("")));
	CHECK(!api_route_allows(ROUTE_SANDBOX, STR("GET, HEAD")));
	CHECK(api_route_allows(ROUTE_AGENT, STR("PROPFIND")));
	for (int r = 0; r < ROUTE_COUNT; r++)
		CHECK(api_route_label((enum api_route)r));
}

TEST_MAIN()
