/*
 * helper.c - containers that workerd makes without a name to fill volumes: one gets an archive (PUT …/archive) and is
 * never started, the other copies one volume to another (cp as its command) and is waited for.
 *
 * They are of the sidecar's image (older workerds: of the app's). The sidecar's is not there: Atoll's default image
 * stands for it, which has the tools. The box has no network.
 */
#include <string.h>

#include "base/json.h"
#include "doors/bridge/bridge.h"
#include "doors/docker/docker.h"

/* ---- an archive ---- */

static void on_box(struct container *c, struct daemon_request *r, int status, struct str body)
{
	auto_buf struct buf path = {0};
	if (!r)
		return;
	if (status != 200 && status != 201)
		return docker_answer_failed(r, status, body);
	docker_query(r, "path", &path);
	archive_unpack_stream(r, c, buf_cstr(&path));
}

void helper_put_archive(struct daemon_request *r, struct container *c)
{
	auto_buf struct buf out = {0};
	container_spec(c, "default", &out);
	http_pause(r->x);
	docker_ask(c, r, "PUT", "", buf_str(&out), on_box);
}

/* ---- a command ---- */

static void on_ran(struct container *c, struct daemon_request *r, int status, struct str body)
{
	auto_json struct json_doc *doc = status == 200 ? json_parse(body, NULL) : NULL;
	double code = 125;
	(void)r;
	if (doc)
		json_read_double(json_root(doc), "exitCode", &code, NULL);
	if (!c->gone)
		container_ended(c, (int)code);
	docker_ask(c, NULL, "DELETE", "", STR_NULL, NULL);
}

void helper_run(struct container *c)
{
	auto_buf struct buf out = {0}, command = {0};
	auto_json struct json_doc *doc = json_parse(str_of(c->cmd ? c->cmd : "[]"), NULL);
	struct json_writer w = json_writer(&out);
	json_each(it, doc ? json_root(doc) : NULL)
	{
		if (buf_size(&command))
			buf_add_byte(&command, ' ');
		bridge_quote(&command, it->text);
	}
	json_object_begin(&w);
	json_member_str(&w, "command", buf_size(&command) ? buf_str(&command) : STR("true"));
	json_member_cstr(&w, "sessionId", "__DISABLE_SESSION__");
	json_object_end(&w);
	docker_ask(c, NULL, "POST", "/api/execute", buf_str(&out), on_ran);
}
