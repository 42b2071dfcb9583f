#include "daemon/route/paths.h"

#include <stdio.h>
#include <string.h>

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

static const char *label(struct api_match m)
{
	return route_label(m.row);
}

TEST(fixed_paths_are_found_exactly)
{
	CHECK_CSTR(label(match("/", ERRC_OK)), "/");
	CHECK_CSTR(label(match("/v1/health", ERRC_OK)), "/v1/health");
	CHECK_CSTR(label(match("/metrics", ERRC_OK)), "/metrics");
	CHECK_CSTR(label(match("/openapi.json", ERRC_OK)), "/openapi.json");
	CHECK_CSTR(label(match("/v1/sandboxes", ERRC_OK)), "/v1/sandboxes");
	CHECK_CSTR(label(match("/v1/sandbox", ERRC_OK)), "/v1/sandbox");
	CHECK_CSTR(label(match("/v1/sandbox/a/exec", ERRC_OK)), "/v1/sandbox");
	CHECK_CSTR(label(match("/v1/pool/stats", ERRC_OK)), "/v1/sandbox");
	static const char *const none[] = {"", "*", "//", "/v1", "/v1/", "/v1/health/", "/V1/health", "/v1//health",
		"/v1/%68ealth", "/v1/sandboxesx", "/./metrics", "/metrics/.."};
	for (size_t i = 0; i < ARRAY_LEN(none); i++)
		CHECK_CSTR(label(match(none[i], ERRC_NOT_FOUND)), "unknown");
}

TEST(sandbox_paths_carry_their_id)
{
	struct api_match m = match("/v1/sandboxes/user-123", ERRC_OK);
	CHECK_CSTR(label(m), "/v1/sandboxes/{id}");
	CHECK_CSTR(m.id, "user-123");
	m = match("/v1/sandboxes/me%40example.org/api/execute/stream", ERRC_OK);
	CHECK_CSTR(label(m), "/v1/sandboxes/{id}/api");
	CHECK_CSTR(m.id, "me@example.org");
	CHECK_STR(m.rest, "/api/execute/stream");
	m = match("/v1/sandboxes/a/ws/pty", ERRC_OK);
	CHECK_CSTR(label(m), "/v1/sandboxes/{id}/ws");
	CHECK_STR(m.rest, "/ws/pty");
	m = match("/v1/sandboxes/a/rpc", ERRC_OK);
	CHECK_CSTR(label(m), "/v1/sandboxes/{id}/ws");
	CHECK_STR(m.rest, "/rpc");
	match("/v1/sandboxes/a/rpc/x", ERRC_NOT_FOUND);
	CHECK_STR(match("/v1/sandboxes/a/api", ERRC_OK).rest, "/api");
	CHECK_STR(match("/v1/sandboxes/a/api/%2e%2e/x", ERRC_OK).rest, "/api/%2e%2e/x");
}

TEST(ports_have_routes_of_their_own)
{
	CHECK_CSTR(label(match("/v1/sandboxes/a/ports", ERRC_OK)), "/v1/sandboxes/{id}/ports");
	struct api_match m = match("/v1/sandboxes/a/ports/8080", ERRC_OK);
	CHECK_CSTR(label(m), "/v1/sandboxes/{id}/ports/{port}");
	CHECK_INT(m.port, 8080);
	CHECK_CSTR(m.id, "a");
	CHECK_INT(match("/v1/sandboxes/a/ports/1", ERRC_OK).port, 1);
	CHECK_CSTR(label(match("/v1/sandboxes/a/ports/65535/validate", ERRC_OK)),
		"/v1/sandboxes/{id}/ports/{port}/validate");
	CHECK_CSTR(label(match("/v1/sandboxes/a/ports/65535/requests", ERRC_OK)),
		"/v1/sandboxes/{id}/ports/{port}/requests");
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
	CHECK_CSTR(label(m), "/v1/sandboxes/{id}/proxy/{port}");
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
		CHECK_CSTR(label(match(path, ERRC_INVALID_PORT_NUMBER)), "/v1/sandboxes/{id}/proxy/{port}");
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

static bool allows(const char *path, const char *method)
{
	return api_route_method(match(path, ERRC_OK).row, str_of(method)) != NULL;
}

TEST(methods_are_the_tables)
{
	CHECK(allows("/v1/sandboxes/a", "PUT"));
	CHECK(allows("/v1/sandboxes/a", "HEAD"));
	CHECK(!allows("/v1/sandboxes/a", "POST"));
	CHECK(!allows("/v1/sandboxes/a", "put"));
	CHECK(!allows("/v1/sandboxes/a", ""));
	CHECK(!allows("/v1/sandboxes/a", "GET, HEAD"));
	CHECK(allows("/v1/sandboxes/a/api/x", "PROPFIND"));
	auto_buf struct buf allow = {0};
	api_route_allow(match("/v1/sandboxes/a", ERRC_OK).row, &allow);
	CHECK_CSTR(buf_cstr(&allow), "GET, HEAD, PUT, DELETE");
}

/* A path of the row: its pattern with a value for each parameter. */
static void path_of(const struct route_row *row, struct buf *ret)
{
	for (const char *p = row->path; *p; p++) {
		if (strcmp(p, "/**") == 0)
			break;
		if (*p != '{') {
			buf_add_byte(ret, *p);
			continue;
		}
		buf_add_c(ret, strncmp(p, "{port}", 6) == 0 ? "8080" : "a");
		p = strchr(p, '}');
	}
}

TEST(every_row_says_who_may)
{
	for (size_t i = 0; i < route_rows; i++) {
		const struct route_row *row = &route_table[i];
		CHECK(row->may != MAY_NOT_SAID);
		CHECK(route_label(row));
		CHECK(i == ROUTE_UNKNOWN || i == ROUTE_PREVIEW || row->methods[0].handle);
		for (size_t other = 0; other < i; other++)
			CHECK(strcmp(route_label(row), route_label(&route_table[other])) != 0);
	}
}

TEST(without_a_token_these_rows_answer)
{
	static const char *const open[] = {
		"preview", "/v1/console/session", "/v1/health", "/", "/assets/{name}", "/health"};
	size_t n = 0;
	for (size_t i = 0; i < route_rows; i++) {
		if (route_table[i].may != MAY_ALL)
			continue;
		CHECK(n < ARRAY_LEN(open));
		CHECK_CSTR(route_label(&route_table[i]), open[n]);
		n++;
	}
	CHECK_INT(n, ARRAY_LEN(open));
}

TEST(every_row_is_found_by_its_own_path)
{
	for (size_t i = 0; i < route_rows; i++) {
		auto_buf struct buf path = {0};
		if (!route_table[i].path)
			continue;
		path_of(&route_table[i], &path);
		CHECK_CSTR(label(match(buf_cstr(&path), ERRC_OK)), route_label(&route_table[i]));
	}
}

TEST_MAIN()
