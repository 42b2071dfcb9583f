/*
 * Resources: atoll://SANDBOX/files/PATH is a file, atoll://SANDBOX/processes/ID/log what a process printed. The list
 * has the files directly below /workspace of the session's own sandbox.
 */
#include <string.h>

#include "base/json.h"
#include "daemon/mcp/call.h"
#include "daemon/mcp/message.h"
#include "proto/id.h"

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

static void resource(struct json_writer *w, const struct mcp_call *c, const struct json *file)
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

static void on_files(struct mcp_call *c, int status, struct str body)
{
	auto_buf struct buf out = {0};
	auto_json struct json_doc *doc = json_parse(status == 200 ? body : STR("{}"), NULL);
	struct json_writer w = json_writer(&out);
	size_t n = 0;
	json_object_begin(&w);
	json_member_cstr(&w, "jsonrpc", "2.0");
	json_key(&w, "id");
	json_raw(&w, str_of(c->id));
	json_key(&w, "result");
	json_object_begin(&w);
	json_key(&w, "resources");
	json_array_begin(&w);
	json_each(it, doc ? json_get(json_root(doc), "files") : NULL)
	{
		if (n++ < MCP_LIST_MAX)
			resource(&w, c, it);
	}
	json_array_end(&w);
	json_object_end(&w);
	json_object_end(&w);
	mcp_call_answer(c, buf_str(&out));
}

/* A session without a sandbox has no files: it is not made for this. */
static void on_box(struct mcp_call *c, int status, struct str body)
{
	auto_buf struct buf target = {0};
	if (status != 200)
		return on_files(c, status, body);
	mcp_box_path(&target, c, "/api/list-files");
	mcp_ask(c, "POST", buf_str(&target), STR("{\"path\":\"/workspace\"}"), on_files);
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
	struct err e;
	struct str content = STR_NULL, mime = STR_NULL;
	bool binary = false;
	auto_json struct json_doc *doc = json_parse(body, &e);
	const struct json *file = doc ? json_root(doc) : NULL;
	json_read_str(file, "content", &content, NULL);
	json_read_str(file, "mimeType", &mime, NULL);
	json_read_bool(file, "isBinary", &binary, NULL);
	if (status != 200 || !content.p)
		return mcp_call_fail_api(c, status, body);
	auto_free char *type = mime.p ? str_dup(mime) : xstrdup("application/octet-stream");
	if (binary)
		mcp_image(c, content, type);
	else
		mcp_text(c, content);
	mcp_call_finish(c);
}

static void read_path(struct mcp_call *c, struct str path)
{
	struct err e;
	auto_buf struct buf target = {0}, body = {0}, decoded = {0};
	buf_add_byte(&decoded, '/');
	if (http_percent_decode(path, &decoded, &e) < 0)
		return mcp_call_fail(c, &e);
	struct json_writer w = json_writer(&body);
	json_object_begin(&w);
	json_member_str(&w, "path", buf_str(&decoded));
	json_object_end(&w);
	mcp_box_path(&target, c, "/api/read");
	mcp_ask(c, "POST", buf_str(&target), buf_str(&body), on_file);
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
