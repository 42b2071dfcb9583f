/* Files of the box: read, write, edit, list, search. */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "doors/mcp/call.h"

/* A question about one path, with members that the caller adds. */
static struct json_writer body_begin(struct buf *body, struct str path)
{
	struct json_writer w = json_writer(body);
	json_object_begin(&w);
	json_member_str(&w, "path", path);
	return w;
}

static void ask_file(struct mcp_call *c, const char *route, struct str body, mcp_on_reply on_reply)
{
	auto_buf struct buf target = {0};
	mcp_box_path(&target, c, route);
	mcp_ask(c, "POST", buf_str(&target), body, on_reply);
}

void mcp_ask_file(struct mcp_call *c, struct str path, mcp_on_reply on_reply)
{
	auto_buf struct buf body = {0};
	struct json_writer w = body_begin(&body, path);
	json_object_end(&w);
	ask_file(c, "/api/read", buf_str(&body), on_reply);
}

struct json_doc *mcp_file_of(int status, struct str body, struct mcp_file *ret)
{
	*ret = (struct mcp_file){0};
	struct json_doc *doc = status == 200 ? json_parse(body, NULL) : NULL;
	const struct json *file = doc ? json_root(doc) : NULL;
	json_read_str(file, "content", &ret->content, NULL);
	json_read_str(file, "mimeType", &ret->mime, NULL);
	json_read_bool(file, "isBinary", &ret->binary, NULL);
	if (ret->content.p)
		return doc;
	json_free(doc);
	return NULL;
}

/* ---- read_file ---- */

/* The lines `first` (from 1) to first + count - 1. */
static struct str lines_of(struct str text, uint64_t first, uint64_t count)
{
	while (first > 1 && text.n) {
		str_split(text, '\n', &text);
		first--;
	}
	struct str rest = text;
	while (count > 0 && rest.n) {
		str_split(rest, '\n', &rest);
		count--;
	}
	return str_n(text.p, text.n - rest.n);
}

static void on_read(struct mcp_call *c, int status, struct str body)
{
	struct mcp_file file;
	uint64_t first = 1, count = UINT64_MAX;
	auto_json struct json_doc *doc = mcp_file_of(status, body, &file);
	if (!doc)
		return mcp_call_fail_api(c, status, body);
	json_read_u64(c->arguments, "offset", 1, UINT32_MAX, &first, NULL);
	json_read_u64(c->arguments, "limit", 1, UINT32_MAX, &count, NULL);
	if (file.binary && str_starts(file.mime, STR("image/"))) {
		auto_free char *type = str_dup(file.mime);
		mcp_image(c, file.content, type);
	} else if (file.binary) {
		mcp_printf(c, "[a binary file, about %zu bytes, %.*s]", file.content.n / 4 * 3, STR_ARG(file.mime));
	} else {
		mcp_output(c, lines_of(file.content, first, count));
		mcp_show_output(c);
	}
	if (!buf_size(&c->content))
		mcp_text(c, STR(""));
	mcp_call_finish(c);
}

void mcp_read_file(struct mcp_call *c)
{
	struct err e;
	struct str path;
	if (mcp_argument(c, "path", true, &path, &e) < 0)
		return mcp_call_fail(c, &e);
	mcp_ask_file(c, path, on_read);
}

/* ---- write_file ---- */

static void on_written(struct mcp_call *c, int status, struct str body)
{
	if (status != 200)
		return mcp_call_fail_api(c, status, body);
	mcp_printf(c, "%s was written", c->path);
	mcp_call_finish(c);
}

static void write_content(struct mcp_call *c, struct str content)
{
	auto_buf struct buf body = {.max = MCP_ANSWER_MAX};
	struct json_writer w = body_begin(&body, str_of(c->path));
	json_member_str(&w, "content", content);
	json_object_end(&w);
	ask_file(c, "/api/write", buf_str(&body), on_written);
}

/* The directory is there, or the write will say what is wrong. */
static void on_directory(struct mcp_call *c, int status, struct str body)
{
	struct err e;
	struct str content;
	(void)status;
	(void)body;
	if (mcp_argument(c, "content", true, &content, &e) < 0)
		return mcp_call_fail(c, &e);
	write_content(c, content);
}

void mcp_write_file(struct mcp_call *c)
{
	struct err e;
	struct str path, content;
	auto_buf struct buf body = {0};
	if (mcp_argument(c, "path", true, &path, &e) < 0 || mcp_argument(c, "content", true, &content, &e) < 0)
		return mcp_call_fail(c, &e);
	c->path = str_dup(path);
	const char *slash = strrchr(c->path, '/');
	if (!slash || slash == c->path)
		return write_content(c, content);
	struct json_writer w = body_begin(&body, str_n(c->path, (size_t)(slash - c->path)));
	json_member_bool(&w, "recursive", true);
	json_object_end(&w);
	ask_file(c, "/api/mkdir", buf_str(&body), on_directory);
}

/* ---- edit_file ---- */

/* How often `old` is in `text`; the text with all of them replaced. */
static size_t replace(struct buf *out, struct str text, struct str old, struct str with)
{
	size_t n = 0;
	for (;;) {
		const char *at = memmem(text.p, text.n, old.p, old.n);
		if (!at)
			break;
		buf_add(out, text.p, (size_t)(at - text.p));
		buf_add_str(out, with);
		text = str_skip(text, (size_t)(at - text.p) + old.n);
		n++;
	}
	buf_add_str(out, text);
	return n;
}

static void on_edit_read(struct mcp_call *c, int status, struct str body)
{
	struct err e;
	struct mcp_file file;
	struct str old, with;
	bool all = false;
	auto_buf struct buf out = {.max = MCP_ANSWER_MAX};
	auto_json struct json_doc *doc = mcp_file_of(status, body, &file);
	if (!doc)
		return mcp_call_fail_api(c, status, body);
	if (mcp_argument(c, "old_text", true, &old, &e) < 0 || mcp_argument(c, "new_text", true, &with, &e) < 0 ||
		json_read_bool(c->arguments, "replace_all", &all, &e) < 0)
		return mcp_call_fail(c, &e);
	size_t n = file.binary || !old.n ? 0 : replace(&out, file.content, old, with);
	if (file.binary)
		err_set(&e, ERRC_VALIDATION_FAILED, "%s is a binary file: it cannot be edited as text", c->path);
	else if (n == 0)
		err_field(&e, "old_text", "old_text is not in %s; read the file to see what is", c->path);
	else if (n > 1 && !all)
		err_field(&e, "old_text", "old_text is %zu times in %s; give more of its surroundings, or replace_all",
			n, c->path);
	else
		return write_content(c, buf_str(&out));
	mcp_call_fail(c, &e);
}

void mcp_edit_file(struct mcp_call *c)
{
	struct err e;
	struct str path;
	if (mcp_argument(c, "path", true, &path, &e) < 0)
		return mcp_call_fail(c, &e);
	c->path = str_dup(path);
	mcp_ask_file(c, path, on_edit_read);
}

/* ---- list_files ---- */

static void on_list(struct mcp_call *c, int status, struct str body)
{
	struct err e;
	size_t n = 0;
	auto_json struct json_doc *doc = json_parse(body, &e);
	const struct json *files = doc ? json_get(json_root(doc), "files") : NULL;
	if (status != 200 || !files)
		return mcp_call_fail_api(c, status, body);
	auto_buf struct buf text = {0};
	json_each(it, files)
	{
		struct str name = STR_NULL, type = STR_NULL;
		uint64_t size = 0;
		json_read_str(it, "relativePath", &name, NULL);
		json_read_str(it, "type", &type, NULL);
		json_read_u64(it, "size", 0, UINT64_MAX, &size, NULL);
		if (!name.p || !type.p || n++ >= MCP_LIST_MAX)
			continue;
		buf_add_str(&text, name);
		if (str_eq_c(type, "directory"))
			buf_add_byte(&text, '/');
		else
			buf_printf(&text, "  %llu", (unsigned long long)size);
		buf_add_byte(&text, '\n');
	}
	if (n > MCP_LIST_MAX)
		buf_printf(&text, "[… and %zu more]\n", n - MCP_LIST_MAX);
	mcp_text(c, n ? buf_str(&text) : STR("[empty]"));
	mcp_call_finish(c);
}

void mcp_list_files(struct mcp_call *c)
{
	struct err e;
	struct str path;
	bool recursive = false;
	auto_buf struct buf body = {0};
	if (mcp_argument(c, "path", false, &path, &e) < 0 ||
		json_read_bool(c->arguments, "recursive", &recursive, &e) < 0)
		return mcp_call_fail(c, &e);
	struct json_writer w = body_begin(&body, path.p ? path : STR("/workspace"));
	json_key(&w, "options");
	json_object_begin(&w);
	json_member_bool(&w, "recursive", recursive);
	json_member_bool(&w, "includeHidden", true);
	json_object_end(&w);
	json_object_end(&w);
	ask_file(c, "/api/list-files", buf_str(&body), on_list);
}

/* ---- search_files ---- */

/* For a POSIX shell: in quotes, each of its own taken out. */
static void put_quoted(struct buf *out, struct str text)
{
	buf_add_byte(out, '\'');
	for (size_t i = 0; i < text.n; i++)
		if (text.p[i] == '\'')
			buf_add_c(out, "'\\''");
		else if (text.p[i])
			buf_add_byte(out, text.p[i]);
	buf_add_byte(out, '\'');
}

static void on_search(struct mcp_call *c, int status, struct str body)
{
	struct err e;
	double code = 0;
	struct str out = STR_NULL, errors = STR_NULL;
	auto_json struct json_doc *doc = json_parse(body, &e);
	const struct json *root = doc ? json_root(doc) : NULL;
	json_read_str(root, "stdout", &out, NULL);
	json_read_str(root, "stderr", &errors, NULL);
	json_read_double(root, "exitCode", &code, NULL);
	if (status != 200 || !out.p)
		return mcp_call_fail_api(c, status, body);
	mcp_output(c, out);
	mcp_show_output(c);
	if (code > 1 && errors.p && errors.n) {
		mcp_text(c, errors);
		c->is_error = !out.n;
	} else if (!out.n) {
		mcp_text(c, STR("[no line matches]"));
	}
	mcp_call_finish(c);
}

void mcp_search_files(struct mcp_call *c)
{
	struct err e;
	struct str pattern, path, glob;
	auto_buf struct buf command = {0}, body = {0};
	if (mcp_argument(c, "pattern", true, &pattern, &e) < 0 || mcp_argument(c, "path", false, &path, &e) < 0 ||
		mcp_argument(c, "glob", false, &glob, &e) < 0)
		return mcp_call_fail(c, &e);
	buf_add_c(&command, "set -o pipefail; grep -rnIE --exclude-dir=.git --exclude-dir=node_modules ");
	if (glob.p) {
		buf_add_c(&command, "--include=");
		put_quoted(&command, glob);
		buf_add_byte(&command, ' ');
	}
	buf_add_c(&command, "-e ");
	put_quoted(&command, pattern);
	buf_add_c(&command, " -- ");
	put_quoted(&command, path.p ? path : STR("/workspace"));
	buf_printf(&command, " | head -n %d", MCP_LIST_MAX);
	struct json_writer w = json_writer(&body);
	auto_buf struct buf line = {0};
	buf_add_c(&line, "bash -c ");
	put_quoted(&line, buf_str(&command));
	json_object_begin(&w);
	json_member_str(&w, "command", buf_str(&line));
	json_member_u64(&w, "timeoutMs", MCP_TIMEOUT_DEFAULT * 1000);
	json_object_end(&w);
	ask_file(c, "/api/execute", buf_str(&body), on_search);
}
