/*
 * GET and PUT …/file/{path}: one file of /workspace; POST …/persist and …/hydrate: /workspace as a tar archive.
 */
#include <stdio.h>
#include <sys/random.h>

#include "base/json.h"
#include "doors/bridge/bridge.h"

static void file_target(struct buf *ret, const char *path)
{
	buf_add_c(ret, "/api/file?path=");
	bridge_percent_encode(ret, str_of(path));
}

/* False: it has been refused. */
static bool read_path(struct bridge_call *b)
{
	auto_buf struct buf path = {0};
	struct err e;
	buf_add_byte(&path, '/');
	if (!b->rest.n) {
		bridge_fail(b, 400, "invalid_request", "file path must not be empty");
		return false;
	}
	if (http_percent_decode(b->rest, &path, &e) < 0) {
		bridge_fail(b, 400, "invalid_request", "%s", e.msg);
		return false;
	}
	b->path = bridge_workspace_path(buf_str(&path));
	if (!b->path)
		bridge_fail(b, 403, "invalid_request", "path must resolve to a location within /workspace");
	return b->path != NULL;
}

/* A body that began and did not end must not look complete. */
static void end_pass(struct bridge_call *b, int status)
{
	if (b->r->x && status == 200) {
		http_respond_end(b->r->x);
		daemon_request_answered(b->r, 200);
	} else if (b->r->x) {
		http_abort(b->r->x);
	}
}

static void on_read(struct bridge_call *b, int status, struct str body)
{
	auto_buf struct buf why = {0};
	if (b->r->x && http_respond_begun(b->r->x)) {
		end_pass(b, status);
		return bridge_done(b);
	}
	if (bridge_fail_pool(b, status, body))
		return;
	if (status == 404 || bridge_has_code(body, "NOT_DIRECTORY"))
		return bridge_fail(b, 404, "workspace_read_not_found", "File not found: %s", b->path);
	bridge_message(body, &why);
	bridge_fail(b, 502, "exec_transport_error", "read failed: %s", buf_cstr(&why));
}

void bridge_file_get(struct bridge_call *b)
{
	auto_buf struct buf target = {0};
	if (!read_path(b))
		return;
	file_target(&target, b->path);
	bridge_pass(b, buf_str(&target), on_read);
}

static void on_written(struct bridge_call *b, int status, struct str body)
{
	auto_buf struct buf why = {0};
	if (status == 200)
		return bridge_ok(b);
	if (bridge_fail_pool(b, status, body))
		return;
	bridge_message(body, &why);
	bridge_fail(b, 502, "workspace_archive_write_error", "write failed: %s", buf_cstr(&why));
}

static void file_too_long(struct bridge_call *b)
{
	bridge_fail(b, 413, "payload_too_large", "payload too large: more than the %u-byte limit", BRIDGE_UPLOAD_MAX);
}

void bridge_file_put(struct bridge_call *b)
{
	auto_buf struct buf target = {0};
	if (!read_path(b))
		return;
	file_target(&target, b->path);
	b->on_too_long = file_too_long;
	bridge_upload(b, buf_str(&target), on_written);
}

/* ---- archives ---- */

static bool name_archive(struct bridge_call *b, const char *what)
{
	unsigned char r[8] = {0};
	if (getrandom(r, sizeof r, 0) != (ssize_t)sizeof r) {
		bridge_fail(b, 502, "workspace_archive_read_error", "no random numbers");
		return false;
	}
	free(b->path);
	b->path = xasprintf("/tmp/sandbox-%s-%02x%02x%02x%02x%02x%02x%02x%02x.tar", what, r[0], r[1], r[2], r[3], r[4],
		r[5], r[6], r[7]);
	return true;
}

static void put_command(struct buf *ret, const char *command)
{
	struct json_writer w = json_writer(ret);
	json_object_begin(&w);
	json_member_cstr(&w, "command", command);
	json_member_cstr(&w, "sessionId", "__DISABLE_SESSION__");
	json_object_end(&w);
}

static void run(struct bridge_call *b, const char *command, bridge_on_reply on_reply)
{
	auto_buf struct buf out = {0};
	put_command(&out, command);
	bridge_ask(b, "POST", STR("/api/execute"), buf_str(&out), on_reply);
}

/* Whether the command ended with 0; else *ret says why not. */
static bool ran_well(int status, struct str body, struct buf *ret)
{
	auto_json struct json_doc *doc = json_parse(body, NULL);
	const struct json *root = doc ? json_root(doc) : NULL;
	struct str said = STR_NULL;
	double code = -1;
	if (status != 200 || !root || root->type != JSON_T_OBJECT) {
		bridge_message(body, ret);
		return false;
	}
	json_read_double(root, "exitCode", &code, NULL);
	json_read_str(root, "stderr", &said, NULL);
	buf_printf(ret, "tar failed (exit %d): %.*s", (int)code, STR_ARG(said));
	return code == 0;
}

/* The archive is gone before the client has its last byte. */
static void on_removed(struct bridge_call *b, int status, struct str body)
{
	(void)status;
	(void)body;
	b->archive = false;
	end_pass(b, 200);
	bridge_done(b);
}

static void on_archive_passed(struct bridge_call *b, int status, struct str body)
{
	auto_buf struct buf why = {0}, command = {0};
	if (b->r->x && http_respond_begun(b->r->x) && status == 200) {
		buf_printf(&command, "rm -f %s", b->path);
		return run(b, buf_cstr(&command), on_removed);
	}
	if (b->r->x && http_respond_begun(b->r->x)) {
		end_pass(b, status);
		return bridge_done(b);
	}
	bridge_message(body, &why);
	bridge_fail(b, 502, "workspace_archive_read_error", "persist failed: %s", buf_cstr(&why));
}

static void on_packing(struct bridge_call *b, const struct json *event)
{
	struct str type = STR_NULL, text = STR_NULL;
	double code = -1;
	json_read_str(event, "type", &type, NULL);
	if (str_eq_c(type, "complete") && json_read_double(event, "exitCode", &code, NULL) == 0)
		b->exit_code = (int)code;
	else if (str_eq_c(type, "stderr") && json_read_str(event, "data", &text, NULL) == 0)
		buf_add_str(&b->said, text);
}

static void on_archived(struct bridge_call *b, int status, struct str body)
{
	auto_buf struct buf why = {0}, target = {0};
	if (status != 200) {
		if (bridge_fail_pool(b, status, body))
			return;
		bridge_message(body, &why);
		return bridge_fail(b, 502, "workspace_archive_read_error", "persist failed: %s", buf_cstr(&why));
	}
	if (b->exit_code < 0)
		return bridge_fail(b, 502, "workspace_archive_read_error", "the result of tar did not arrive");
	if (b->exit_code)
		return bridge_fail(b, 502, "workspace_archive_read_error", "tar failed (exit %d): %s", b->exit_code,
			buf_cstr(&b->said));
	file_target(&target, b->path);
	bridge_pass(b, buf_str(&target), on_archive_passed);
}

/* "--exclude ./a --exclude ./b "; false when one of them leads out. */
static bool put_excludes(struct buf *command, struct str list)
{
	while (list.n) {
		struct str one = str_split(list, ',', &list);
		if (memmem(one.p, one.n, "..", 2) || memchr(one.p, 0, one.n))
			return false;
		if (!one.n)
			continue;
		auto_buf struct buf word = {0};
		buf_add_c(&word, str_starts(one, STR("./")) ? "" : "./");
		buf_add_str(&word, one);
		buf_add_c(command, "--exclude ");
		bridge_quote(command, buf_str(&word));
		buf_add_byte(command, ' ');
	}
	return true;
}

void bridge_persist(struct bridge_call *b)
{
	auto_buf struct buf command = {0}, excludes = {0}, body = {0};
	struct err e;
	if (!name_archive(b, "persist"))
		return;
	http_query_get(http_request(b->r->x)->query, STR("excludes"), &excludes, &e);
	/* The shell outlives the tar that the hang-up ends, and removes its archive. */
	buf_printf(&command, "trap 'rm -f %s; exit 129' HUP; mkdir -p /workspace; tar cf %s ", b->path, b->path);
	if (!put_excludes(&command, buf_str(&excludes)))
		return bridge_fail(b, 400, "invalid_request", "exclude paths must not contain \"..\"");
	buf_printf(&command, "-C /workspace . || { code=$?; rm -f %s; exit $code; }", b->path);
	b->archive = true;
	put_command(&body, buf_cstr(&command));
	bridge_follow_own(b, buf_str(&body), on_packing, on_archived);
}

static void on_extracted(struct bridge_call *b, int status, struct str body)
{
	auto_buf struct buf why = {0};
	b->archive = status == 0;
	if (ran_well(status, body, &why))
		return bridge_ok(b);
	bridge_fail(b, 502, "workspace_archive_write_error", "%s", buf_cstr(&why));
}

static void on_sent(struct bridge_call *b, int status, struct str body)
{
	auto_buf struct buf why = {0}, command = {0};
	if (status != 200) {
		if (bridge_fail_pool(b, status, body))
			return;
		bridge_message(body, &why);
		return bridge_fail(b, 502, "workspace_archive_write_error", "hydrate failed: %s", buf_cstr(&why));
	}
	b->archive = true;
	if (b->taken == 0)
		return bridge_fail(b, 400, "invalid_request", "Empty tar payload");
	buf_printf(&command, "mkdir -p /workspace; tar xf %s -C /workspace; code=$?; rm -f %s; exit $code", b->path,
		b->path);
	run(b, buf_cstr(&command), on_extracted);
}

static void archive_too_long(struct bridge_call *b)
{
	bridge_fail(b, 400, "invalid_request", "tar payload too large: more than the %u-byte limit", BRIDGE_UPLOAD_MAX);
}

void bridge_hydrate(struct bridge_call *b)
{
	auto_buf struct buf target = {0};
	if (http_body_ended(b->r->x))
		return bridge_fail(b, 400, "invalid_request", "Empty tar payload");
	if (!name_archive(b, "hydrate"))
		return;
	file_target(&target, b->path);
	b->on_too_long = archive_too_long;
	bridge_upload(b, buf_str(&target), on_sent);
}
