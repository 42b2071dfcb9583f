/*
 * archive.c - PUT …/archive: a tar that is unpacked in a container, by the tar of its image.
 *
 * Before the start there is no box to unpack it in: it is kept in memory, and the start unpacks it or fails. The record
 * on disk says that there was one, so that a start after a restart of the daemon does not go on without it.
 */
#include <string.h>

#include "base/base64.h"
#include "base/json.h"
#include "daemon/bridge/bridge.h"
#include "daemon/docker/docker.h"

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

static void unpack(
	struct container *c, struct daemon_request *r, const char *path, const char *tar, docker_on_reply on_reply)
{
	auto_buf struct buf out = {0}, command = {0};
	struct json_writer w = json_writer(&out);
	buf_add_c(&command, "mkdir -p -- ");
	bridge_quote(&command, str_of(path));
	buf_add_c(&command, " && tar xf - -C ");
	bridge_quote(&command, str_of(path));
	json_object_begin(&w);
	json_member_str(&w, "command", buf_str(&command));
	json_member_cstr(&w, "sessionId", "__DISABLE_SESSION__");
	json_member_cstr(&w, "stdin", tar);
	json_member_cstr(&w, "stdinEncoding", "base64");
	json_object_end(&w);
	docker_ask(c, r, "POST", "/api/execute", buf_str(&out), on_reply);
}

void archive_unpack(struct container *c, struct daemon_request *r, docker_on_reply on_reply)
{
	unpack(c, r, c->archive_path, c->archive, on_reply);
}

void archive_drop(struct container *c)
{
	free(take_ptr(&c->archive));
	free(take_ptr(&c->archive_path));
}

static void on_unpacked(struct container *c, struct daemon_request *r, int status, struct str body)
{
	auto_buf struct buf why = {0};
	(void)c;
	if (!r)
		return;
	if (archive_failed(status, body, &why))
		docker_error(r, 500, "%s", buf_cstr(&why));
	else
		docker_no_content(r, 200);
}

void container_put_archive(struct daemon_request *r, struct container *c, struct str body)
{
	auto_buf struct buf path = {0}, text = {0};
	docker_query(r, "path", &path);
	if (buf_size(&path) < 1 || buf_str(&path).p[0] != '/' || memchr(buf_str(&path).p, 0, buf_size(&path)))
		return docker_error(r, 400, "path must be absolute");
	if (container_is_sidecar(c))
		return docker_error(r, 409, "container %s is a sidecar: it has no files", c->name);
	if (c->starting)
		return docker_error(r, 409, "container %s is being started; try again", c->name);
	base64_append(&text, body);
	if (c->state == CONTAINER_RUNNING)
		return unpack(c, r, buf_cstr(&path), buf_cstr(&text), on_unpacked);
	if (c->archive_path && !str_eq_c(buf_str(&path), c->archive_path))
		return docker_error(r, 409, "container %s has an archive for %s already; start it before the next one",
			c->name, c->archive_path);
	archive_drop(c);
	c->archive = str_dup(buf_str(&text));
	c->archive_path = str_dup(buf_str(&path));
	container_save_answer(c, r, 200);
}
