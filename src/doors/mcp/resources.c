/*
 * Resources: atoll://SANDBOX/files/PATH is a file, atoll://SANDBOX/processes/ID/log what a process printed. The list
 * has the logs of running processes of the session's own sandbox and the files directly below its /workspace.
 */
#include <string.h>

#include "base/json.h"
#include "doors/mcp/call.h"
#include "doors/mcp/message.h"
#include "proto/id.h"

enum { TITLE_MAX = 120 };

static const struct str scheme = {"atoll://", 8};

void mcp_resource_templates(struct json_writer *w)
{
	json_key(w, "resourceTemplates");
	json_raw(w,
		STR("[{\"uriTemplate\":\"atoll://{sandbox}/files/{+path}\",\"name\":\"file\",\"title\":\"A file of a "
		    "sandbox\"},{\"uriTemplate\":\"atoll://{sandbox}/processes/{process}/log\",\"name\":\"log\","
		    "\"title\":\"What a background process printed\",\"mimeType\":\"text/plain\"}]"));
}

/* ---- list ---- */

static void add_file(struct json_writer *w, const struct mcp_call *c, const struct json *file)
{
	struct str name = STR_NULL, path = STR_NULL, type = STR_NULL;
	uint64_t size = 0;
	auto_buf struct buf uri = {0};
	json_read_str(file, "name", &name, NULL);
	json_read_str(file, "absolutePath", &path, NULL);
	json_read_str(file, "type", &type, NULL);
	json_read_u64(file, "size", 0, UINT64_MAX, &size, NULL);
	if (!name.p || !path.p || !type.p || !str_eq_c(type, "file"))
		return;
	buf_printf(&uri, "atoll://%s/files", c->box);
	while (path.n) {
		struct str segment = str_split(str_skip(path, 1), '/', &path);
		buf_add_byte(&uri, '/');
		mcp_percent_encode(&uri, segment);
		if (path.n) /* str_split took the slash */
			path = str_n(path.p - 1, path.n + 1);
	}
	json_object_begin(w);
	json_member_str(w, "uri", buf_str(&uri));
	json_member_str(w, "name", name);
	json_member_u64(w, "size", size);
	json_object_end(w);
}

static void add_log(struct json_writer *w, const struct mcp_call *c, const struct json *process)
{
	struct str id = STR_NULL, status = STR_NULL, command = STR_NULL;
	auto_buf struct buf uri = {0}, title = {0};
	json_read_str(process, "id", &id, NULL);
	json_read_str(process, "status", &status, NULL);
	json_read_str(process, "command", &command, NULL);
	if (!id.p || !status.p || (!str_eq_c(status, "running") && !str_eq_c(status, "starting")))
		return;
	buf_printf(&uri, "atoll://%s/processes/", c->box);
	mcp_percent_encode(&uri, id);
	buf_add_c(&uri, "/log");
	json_object_begin(w);
	json_member_str(w, "uri", buf_str(&uri));
	json_member_str(w, "name", id);
	if (command.n && command.n <= TITLE_MAX) {
		buf_printf(&title, "Log of %.*s", STR_ARG(command));
		json_member_str(w, "title", buf_str(&title));
	}
	json_member_cstr(w, "mimeType", "text/plain");
	json_object_end(w);
}

/* Appends the resources of one answer to those in c->content. */
static void gather(struct mcp_call *c, struct str body, const char *key,
	void (*add)(struct json_writer *w, const struct mcp_call *c, const struct json *one))
{
	auto_json struct json_doc *doc = json_parse(body, NULL);
	struct json_writer w = {.out = &c->content, .comma = buf_size(&c->content) > 0};
	size_t n = 0;
	json_each(it, doc ? json_get(json_root(doc), key) : NULL)
	{
		if (n++ < MCP_LIST_MAX)
			add(&w, c, it);
	}
}

static void on_files(struct mcp_call *c, int status, struct str body)
{
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	gather(c, status == 200 ? body : STR("{}"), "files", add_file);
	json_object_begin(&w);
	json_member_cstr(&w, "jsonrpc", "2.0");
	json_key(&w, "id");
	json_raw(&w, str_of(c->id));
	json_key(&w, "result");
	json_object_begin(&w);
	json_key(&w, "resources");
	buf_add_byte(&out, '[');
	buf_add_str(&out, buf_str(&c->content));
	w.comma = true;
	buf_add_byte(&out, ']');
	json_object_end(&w);
	json_object_end(&w);
	mcp_call_answer(c, buf_str(&out));
}

static void on_processes(struct mcp_call *c, int status, struct str body)
{
	auto_buf struct buf target = {0};
	gather(c, status == 200 ? body : STR("{}"), "processes", add_log);
	mcp_box_path(&target, c, "/api/list-files");
	mcp_ask(c, "POST", buf_str(&target), STR("{\"path\":\"/workspace\"}"), on_files);
}

/* A session without a sandbox has no files: it is not made for this. */
static void on_box(struct mcp_call *c, int status, struct str body)
{
	auto_buf struct buf target = {0};
	if (status != 200)
		return on_files(c, status, body);
	mcp_box_path(&target, c, "/api/process/list");
	mcp_ask(c, "GET", buf_str(&target), STR(""), on_processes);
}

void mcp_resource_list(struct mcp_call *c)
{
	auto_buf struct buf target = {0};
	mcp_box_path(&target, c, "");
	mcp_ask(c, "GET", buf_str(&target), STR(""), on_box);
}

/* ---- read ---- */

static void on_log(struct mcp_call *c, int status, struct str body)
{
	struct err e;
	struct str out = STR_NULL, errors = STR_NULL;
	auto_json struct json_doc *doc = json_parse(body, &e);
	json_read_str(doc ? json_root(doc) : NULL, "stdout", &out, NULL);
	json_read_str(doc ? json_root(doc) : NULL, "stderr", &errors, NULL);
	if (status != 200)
		return mcp_call_fail_api(c, status, body);
	mcp_output(c, out.p ? out : STR(""));
	mcp_output(c, errors.p ? errors : STR(""));
	mcp_text(c, buf_str(&c->out));
	mcp_call_finish(c);
}

static void on_file(struct mcp_call *c, int status, struct str body)
{
	struct mcp_file file;
	auto_json struct json_doc *doc = mcp_file_of(status, body, &file);
	if (!doc)
		return mcp_call_fail_api(c, status, body);
	auto_free char *type = file.mime.p ? str_dup(file.mime) : xstrdup("application/octet-stream");
	if (file.binary)
		mcp_image(c, file.content, type);
	else
		mcp_text(c, file.content);
	mcp_call_finish(c);
}

static void read_path(struct mcp_call *c, struct str path)
{
	struct err e;
	auto_buf struct buf decoded = {0};
	buf_add_byte(&decoded, '/');
	if (http_percent_decode(path, &decoded, &e) < 0)
		return mcp_call_fail(c, &e);
	mcp_ask_file(c, buf_str(&decoded), on_file);
}

static void on_there(struct mcp_call *c, int status, struct str body)
{
	struct err e;
	auto_buf struct buf target = {0};
	struct str rest;
	if (status != 200)
		return mcp_call_fail_api(c, status, body);
	str_split(str_skip(str_of(c->path), scheme.n), '/', &rest);
	if (str_starts(rest, STR("files/")))
		return read_path(c, str_skip(rest, 6));
	if (str_starts(rest, STR("processes/")) && str_ends(rest, STR("/log")) && rest.n > 14) {
		mcp_box_path(&target, c, "/api/process/");
		mcp_percent_encode(&target, str_n(rest.p + 10, rest.n - 14));
		buf_add_c(&target, "/logs");
		return mcp_ask(c, "GET", buf_str(&target), STR(""), on_log);
	}
	err_set(&e, ERRC_NOT_FOUND, "there is no such resource; resources/templates/list shows the forms");
	mcp_call_fail(c, &e);
}

/* Reading makes no sandbox: it is asked for first. */
void mcp_resource_read(struct mcp_call *c)
{
	struct err e;
	auto_buf struct buf target = {0}, box = {0};
	struct str uri = str_of(c->path), rest;
	if (!str_starts(uri, scheme)) {
		err_set(&e, ERRC_NOT_FOUND, "the address of a resource begins with atoll://");
		return mcp_call_fail(c, &e);
	}
	if (http_percent_decode(str_split(str_skip(uri, scheme.n), '/', &rest), &box, &e) < 0 ||
		box_id_check(buf_str(&box), &e) < 0)
		return mcp_call_fail(c, &e);
	memcpy(c->box, buf_cstr(&box), buf_size(&box) + 1);
	mcp_box_path(&target, c, "");
	mcp_ask(c, "GET", buf_str(&target), STR(""), on_there);
}
