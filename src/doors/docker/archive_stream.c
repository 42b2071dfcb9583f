/*
 * archive_stream.c - GET, HEAD and PUT …/archive of a running container: the box's own tar, at /ws/exec of the daemon's
 * API. Bytes stream; neither side is read faster than the other takes. A tar that fails in the middle cuts the
 * connection, so that a client never takes half an archive for a whole one.
 */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/base64.h"
#include "base/clock.h"
#include "base/json.h"
#include "doors/bridge/bridge.h"
#include "doors/docker/docker.h"
#include "http/ws/ws.h"

struct archive_run {
	struct daemon_request *r; /* held; r->x is NULL when the client has gone */
	struct ws *ws;
	char *first; /* what /ws/exec is told */
	bool packs;  /* GET */
	bool open, ended;
	int code;
	struct buf why; /* what tar has said */
};

static void put(struct archive_run *a, struct str bytes)
{
	struct http_exchange *x = a->r->x;
	if (!x)
		return;
	if (!http_respond_begun(x))
		http_respond_begin(x, 200, HTTP_CHUNKED);
	if (!http_respond_write(x, bytes))
		ws_pause(a->ws);
}

static void note(struct archive_run *a, struct str text)
{
	if (buf_size(&a->why) < DOCKER_WHY_MAX)
		buf_add_str(&a->why, str_n(text.p, text.n < DOCKER_WHY_MAX ? text.n : DOCKER_WHY_MAX));
}

/* ---- the command's side ---- */

static void end_input(struct archive_run *a)
{
	a->ended = true;
	if (a->open)
		ws_send(a->ws, STR("{\"type\":\"eof\"}"), true);
}

static void on_open(struct ws *ws)
{
	struct archive_run *a = ws_arg(ws);
	a->open = true;
	ws_send(ws, str_of(a->first), true);
	if (a->ended || a->packs)
		end_input(a);
	else if (a->r->x)
		http_resume(a->r->x);
}

static void on_message(struct ws *ws, struct str message, bool text)
{
	struct archive_run *a = ws_arg(ws);
	auto_json struct json_doc *doc = text ? json_parse(message, NULL) : NULL;
	double code = -1;
	struct str why = STR_NULL;
	if (!text && message.n && message.p[0] == 1 && a->packs)
		return put(a, str_skip(message, 1));
	if (!text)
		return note(a, str_skip(message, 1));
	if (!doc || json_read_double(json_root(doc), "exitCode", &code, NULL) < 0)
		return;
	if (!json_is_null(json_get(json_root(doc), "exitCode")))
		a->code = (int)code;
	if (json_read_str(json_root(doc), "message", &why, NULL) == 0)
		note(a, why);
}

static void on_ws_writable(struct ws *ws)
{
	struct archive_run *a = ws_arg(ws);
	if (a->r->x)
		http_resume(a->r->x);
}

static void finish(struct archive_run *a)
{
	struct http_exchange *x = a->r->x;
	/* tar answers 1 for files that changed while they were read. */
	bool ok = a->code == 0 || (a->packs && a->code == 1);
	if (!ok && http_respond_begun(x))
		return http_abort(x);
	if (!ok)
		return docker_error(a->r, 500, "the archive was not %s: %s", a->packs ? "packed" : "unpacked",
			buf_size(&a->why) ? buf_cstr(&a->why) : "the container has ended");
	if (!a->packs)
		return docker_no_content(a->r, 200);
	put(a, STR_NULL);
	http_respond_end(x);
	daemon_request_answered(a->r, 200);
}

static void on_ws_close(struct ws *ws, int code, struct str reason)
{
	struct archive_run *a = ws_arg(ws);
	struct daemon_request *r = a->r;
	(void)code;
	(void)reason;
	r->docker_archive = NULL;
	if (r->x)
		finish(a);
	buf_free(&a->why);
	free(a->first);
	free(a);
	daemon_request_release(r);
}

/* ---- the client's side ---- */

static void on_body(struct http_exchange *x, struct str bytes)
{
	struct daemon_request *r = http_exchange_arg(x);
	if (r->docker_archive && !ws_send(r->docker_archive->ws, bytes, false))
		http_pause(x);
}

static void on_body_end(struct http_exchange *x)
{
	struct daemon_request *r = http_exchange_arg(x);
	if (r->docker_archive)
		end_input(r->docker_archive);
}

static void on_writable(struct http_exchange *x)
{
	struct daemon_request *r = http_exchange_arg(x);
	if (r->docker_archive)
		ws_resume(r->docker_archive->ws);
}

static void on_close(struct http_exchange *x, bool complete)
{
	struct daemon_request *r = http_exchange_arg(x);
	if (r->docker_archive)
		ws_abort(r->docker_archive->ws);
	daemon_request_closed(x, complete);
}

/* ---- starts ---- */

static void start(struct container *c, struct daemon_request *r, bool packs, const char *const *argv)
{
	static const struct ws_ops ops = {
		.on_open = on_open, .on_message = on_message, .on_writable = on_ws_writable, .on_close = on_ws_close};
	static const struct http_exchange_ops client = {
		.on_body = on_body, .on_body_end = on_body_end, .on_writable = on_writable, .on_close = on_close};
	auto_free char *target = xasprintf("/v1/sandboxes/%s/ws/exec", c->box);
	auto_buf struct buf first = {0};
	struct json_writer w = json_writer(&first);
	json_object_begin(&w);
	json_key(&w, "argv");
	json_array_begin(&w);
	for (; *argv; argv++)
		json_cstr(&w, *argv);
	json_array_end(&w);
	json_member_cstr(&w, "cwd", "/");
	json_object_end(&w);
	struct archive_run *a = xcalloc(1, sizeof *a);
	*a = (struct archive_run){.r = r, .first = str_dup(buf_str(&first)), .packs = packs, .code = -1};
	daemon_request_hold(r);
	r->docker_archive = a;
	http_exchange_set(r->x, &client, r);
	if (!packs)
		http_pause(r->x);
	const struct http_call_options call = {.target = str_of(target), .head_ms = DOCKER_ASK_TIMEOUT};
	a->ws = ws_connect(c->docker->daemon->client, &c->docker->api, &call, &(struct ws_options){0}, &ops, a);
}

void archive_unpack_stream(struct daemon_request *r, struct container *c, const char *path)
{
	const char *argv[] = {"/bin/sh", "-c", "mkdir -p -- \"$1\" && exec tar xf - -C \"$1\"", "sh", path, NULL};
	start(c, r, false, argv);
}

/* "/a/b" is packed as b, "/a/b/." as what is in it. */
static void pack(struct container *c, struct daemon_request *r, const char *path)
{
	auto_free char *whole = xstrdup(path);
	size_t n = strlen(whole);
	bool inside = n == 1 || (n > 1 && strcmp(whole + n - 2, "/.") == 0);
	if (inside && n > 2)
		whole[n - 2] = 0;
	while (!inside && n > 1 && whole[n - 1] == '/')
		whole[--n] = 0;
	char *slash = strrchr(whole, '/');
	const char *dir = inside ? whole : slash == whole ? "/" : whole, *name = inside ? "." : slash + 1;
	if (!inside && slash != whole)
		*slash = 0;
	const char *argv[] = {"tar", "cf", "-", "-C", dir, "--", name, NULL};
	http_respond_header(r->x, STR("Content-Type"), STR("application/x-tar"));
	start(c, r, true, argv);
}

/* "SIZE MODE-IN-HEX SECONDS" as docker cp reads it: a mode of Go. */
static void add_stat(struct daemon_request *r, struct str line, const char *path)
{
	auto_free char *text = str_dup(line);
	auto_buf struct buf json = {0}, coded = {0};
	struct json_writer w = json_writer(&json);
	unsigned long long size = 0, seconds = 0;
	unsigned mode = 0;
	char iso[CLOCK_ISO_LEN];
	if (sscanf(text, "%llu %x %llu", &size, &mode, &seconds) != 3)
		return;
	uint64_t go = (mode & 0777u) | (S_ISDIR(mode) ? 1u << 31 : 0) | (S_ISLNK(mode) ? 1u << 27 : 0);
	const char *slash = strrchr(path, '/');
	json_object_begin(&w);
	json_member_cstr(&w, "name", slash && slash[1] ? slash + 1 : "/");
	json_member_u64(&w, "size", size);
	json_member_u64(&w, "mode", go);
	json_member_cstr(&w, "mtime", clock_iso((int64_t)seconds * 1000, iso));
	json_member_cstr(&w, "linkTarget", "");
	json_object_end(&w);
	base64_append(&coded, buf_str(&json));
	http_respond_header(r->x, STR("X-Docker-Container-Path-Stat"), buf_str(&coded));
}

static void on_stat(struct container *c, struct daemon_request *r, int status, struct str body)
{
	auto_json struct json_doc *doc = status == 200 ? json_parse(body, NULL) : NULL;
	auto_buf struct buf path = {0};
	double code = -1;
	struct str out = STR_NULL;
	if (!r)
		return;
	docker_query(r, "path", &path);
	if (!doc || json_read_double(json_root(doc), "exitCode", &code, NULL) < 0)
		return docker_answer_failed(r, 500, body);
	if (code != 0)
		return docker_error(r, 404, "Could not find the file %s in container %s", buf_cstr(&path), c->name);
	if (json_read_str(json_root(doc), "stdout", &out, NULL) == 0)
		add_stat(r, out, buf_cstr(&path));
	if (http_request(r->x)->method == HTTP_M_HEAD)
		docker_no_content(r, 200);
	else
		pack(c, r, buf_cstr(&path));
}

void container_get_archive(struct daemon_request *r, struct container *c)
{
	auto_buf struct buf path = {0}, command = {0}, out = {0};
	struct json_writer w = json_writer(&out);
	docker_query(r, "path", &path);
	if (!archive_path_ok(buf_str(&path)))
		return docker_error(r, 400, "path must be absolute");
	if (container_is_sidecar(c) || c->state != CONTAINER_RUNNING)
		return docker_error(r, 409, "container %s is not running", c->name);
	buf_add_c(&command, "stat -c '%s %f %Y' -- ");
	bridge_quote(&command, buf_str(&path));
	json_object_begin(&w);
	json_member_str(&w, "command", buf_str(&command));
	json_member_cstr(&w, "sessionId", "__DISABLE_SESSION__");
	json_object_end(&w);
	docker_ask(c, r, "POST", "/api/execute", buf_str(&out), on_stat);
}
