/*
 * archive.c - PUT …/archive: a tar that is unpacked in a container, by the tar of its image. archive_stream.c does it
 * for a running one.
 *
 * Before the start there is no box to unpack it in: it is kept in memory, and the start unpacks it or fails. The record
 * on disk says that there was one, so that a start after a restart of the daemon does not go on without it.
 */
#include <string.h>

#include "base/base64.h"
#include "base/json.h"
#include "doors/bridge/bridge.h"
#include "doors/docker/docker.h"

bool archive_failed(int status, struct str body, struct buf *why)
{
	auto_json struct json_doc *doc = status == 200 ? json_parse(body, NULL) : NULL;
	const struct json *root = doc ? json_root(doc) : NULL;
	double code = -1;
	struct str text = STR_NULL;
	if (!root || json_read_double(root, "exitCode", &code, NULL) < 0) {
		bridge_message(body, why);
		return true;
	}
	if (code == 0)
		return false;
	if (json_read_str(root, "stderr", &text, NULL) < 0)
		text = STR_NULL;
	buf_printf(why, "the archive was not unpacked: %.*s", STR_ARG(str_trim(text)));
	return true;
}

void archive_unpack(struct container *c, struct daemon_request *r, docker_on_reply on_reply)
{
	auto_buf struct buf out = {0}, command = {0};
	struct json_writer w = json_writer(&out);
	buf_add_c(&command, "mkdir -p -- ");
	bridge_quote(&command, str_of(c->archive_path));
	buf_add_c(&command, " && tar xf - -C ");
	bridge_quote(&command, str_of(c->archive_path));
	json_object_begin(&w);
	json_member_str(&w, "command", buf_str(&command));
	json_member_cstr(&w, "sessionId", "__DISABLE_SESSION__");
	json_member_cstr(&w, "stdin", c->archive);
	json_member_cstr(&w, "stdinEncoding", "base64");
	json_object_end(&w);
	docker_ask(c, r, "POST", "/api/execute", buf_str(&out), on_reply);
}

void archive_drop(struct container *c)
{
	free(take_ptr(&c->archive));
	free(take_ptr(&c->archive_path));
}

bool archive_path_ok(struct str path)
{
	return path.n && path.p[0] == '/' && !memchr(path.p, 0, path.n);
}

/* ---- before the start ---- */

static void on_whole(struct http_exchange *x, struct str body)
{
	struct daemon_request *r = http_exchange_arg(x);
	struct container *c = docker_container_of(r);
	auto_buf struct buf path = {0}, text = {0};
	docker_query(r, "path", &path);
	if (!c)
		return;
	if (c->starting || c->state == CONTAINER_RUNNING)
		return docker_error(r, 409, "container %s was started meanwhile; try again", c->name);
	if (c->archive_path && !str_eq_c(buf_str(&path), c->archive_path))
		return docker_error(r, 409, "container %s has an archive for %s already; start it before the next one",
			c->name, c->archive_path);
	base64_append(&text, body);
	archive_drop(c);
	c->archive = str_dup(buf_str(&text));
	c->archive_path = str_dup(buf_str(&path));
	container_save_answer(c, r, 200);
}

void container_put_archive(struct daemon_request *r, struct container *c)
{
	static const struct http_exchange_ops whole = {.on_whole_body = on_whole, .on_close = daemon_request_closed};
	auto_buf struct buf path = {0};
	docker_query(r, "path", &path);
	if (!archive_path_ok(buf_str(&path)))
		return docker_error(r, 400, "path must be absolute");
	if (container_is_sidecar(c))
		return docker_error(r, 409, "container %s is a sidecar: it has no files", c->name);
	if (c->starting)
		return docker_error(r, 409, "container %s is being started; try again", c->name);
	if (c->state == CONTAINER_RUNNING)
		return archive_unpack_stream(r, c, buf_cstr(&path));
	if (c->helper)
		return helper_put_archive(r, c);
	http_exchange_set(r->x, &whole, r);
	http_collect(r->x, DOCKER_BODY_MAX);
}
