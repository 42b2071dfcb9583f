/* Commands, code, background processes: what runs in the box, told as it goes. */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "doors/mcp/call.h"

/* Seconds, 0 when it is not given. */
static int read_seconds(const struct mcp_call *c, const char *name, uint64_t *ret, struct err *e)
{
	return json_read_u64(c->arguments, name, 0, MCP_TIMEOUT_MAX, ret, e);
}

static void member(struct json_writer *w, const char *name, struct str value)
{
	if (value.p)
		json_member_str(w, name, value);
}

/* The last line that was printed, for the progress. */
static struct str last_line(struct str text)
{
	while (text.n && text.p[text.n - 1] == '\n')
		text.n--;
	size_t at = text.n;
	while (at > 0 && text.p[at - 1] != '\n' && text.n - at < 200)
		at--;
	return str_skip(text, at);
}

static void printed(struct mcp_call *c, struct str text)
{
	mcp_output(c, text);
	mcp_progress(c, last_line(text));
}

/* ---- run_command ---- */

static void on_command_event(struct mcp_call *c, const struct json *ev)
{
	struct str type = STR_NULL, data = STR_NULL, outcome = STR_NULL;
	double code = 0;
	json_read_str(ev, "type", &type, NULL);
	json_read_str(ev, "data", &data, NULL);
	if (!type.p)
		return;
	if (str_eq_c(type, "stdout") || str_eq_c(type, "stderr"))
		return printed(c, data.p ? data : STR(""));
	if (str_eq_c(type, "error")) {
		json_read_str(ev, "error", &data, NULL);
		json_read_str(ev, "message", &data, NULL);
		auto_buf struct buf text = {0};
		buf_printf(&text, "[failed: %.*s]", (int)data.n, data.p ? data.p : "");
		c->path = c->path ? c->path : str_dup(buf_str(&text));
	}
	if (!str_eq_c(type, "complete"))
		return;
	json_read_double(ev, "exitCode", &code, NULL);
	json_read_str(ev, "outcome", &outcome, NULL);
	auto_buf struct buf text = {0};
	if (outcome.p && !str_eq_c(outcome, "exited"))
		buf_printf(&text, "[%.*s, exit code %d]", STR_ARG(outcome), (int)code);
	else
		buf_printf(&text, "[exit code %d]", (int)code);
	free(c->path);
	c->path = str_dup(buf_str(&text));
}

/* c->path is how it ended. */
static void on_command_end(struct mcp_call *c, int status, struct str body)
{
	if (status != 200 && !c->path)
		return mcp_call_fail_api(c, status, body);
	mcp_show_output(c);
	mcp_text(c, str_of(c->path ? c->path : "[how it ended is not known: the stream was cut]"));
	c->is_error = !c->path || strstr(c->path, "[failed") == c->path;
	mcp_call_finish(c);
}

void mcp_run_command(struct mcp_call *c)
{
	struct err e;
	struct str command, cwd;
	uint64_t seconds = MCP_TIMEOUT_DEFAULT;
	auto_buf struct buf target = {0}, body = {0};
	if (mcp_argument(c, "command", true, &command, &e) < 0 || mcp_argument(c, "cwd", false, &cwd, &e) < 0 ||
		read_seconds(c, "timeout", &seconds, &e) < 0)
		return mcp_call_fail(c, &e);
	struct json_writer w = json_writer(&body);
	json_object_begin(&w);
	json_member_str(&w, "command", command);
	member(&w, "cwd", cwd);
	json_member_u64(&w, "timeoutMs", (seconds ? seconds : MCP_TIMEOUT_DEFAULT) * 1000);
	json_object_end(&w);
	mcp_box_path(&target, c, "/api/execute/stream");
	mcp_follow(c, "POST", buf_str(&target), buf_str(&body), on_command_event, on_command_end);
}

/* ---- run_code ---- */

static struct mcp_context *context_find(const struct mcp_call *c)
{
	for (size_t i = 0; i < MCP_CONTEXTS_MAX; i++) {
		struct mcp_context *x = &c->session->contexts[i];
		if (strcmp(x->box, c->box) == 0 && strcmp(x->language, c->language) == 0)
			return x;
	}
	return NULL;
}

static void show_result(struct mcp_call *c, const struct json *ev)
{
	static const struct {
		const char *key, *mime;
	} images[] = {{"png", "image/png"}, {"jpeg", "image/jpeg"}};
	struct str value = STR_NULL;
	bool shown = false;
	mcp_show_output(c); /* what was printed before comes before */
	c->out_bytes = 0;
	buf_clear(&c->out);
	for (size_t i = 0; i < ARRAY_LEN(images); i++) {
		json_read_str(ev, images[i].key, &value, NULL);
		if (value.p && !shown) {
			mcp_image(c, value, images[i].mime);
			shown = true;
		}
	}
	value = STR_NULL;
	json_read_str(ev, "text", &value, NULL);
	if (value.p && !shown)
		mcp_output(c, value), mcp_show_output(c), buf_clear(&c->out), c->out_bytes = 0;
	value = STR_NULL;
	json_read_str(ev, "html", &value, NULL);
	if (value.p && !shown)
		mcp_page(c, value);
	value = STR_NULL;
	json_read_str(ev, "svg", &value, NULL);
	if (value.p && !shown)
		mcp_text(c, value);
}

static void show_error(struct mcp_call *c, const struct json *ev)
{
	struct str name = STR_NULL, value = STR_NULL;
	json_read_str(ev, "ename", &name, NULL);
	json_read_str(ev, "evalue", &value, NULL);
	c->is_error = true;
	mcp_output(c, STR("\n"));
	const struct json *lines = json_get(ev, "traceback");
	json_each(it, lines)
	{
		mcp_output(c, it->text);
		mcp_output(c, STR("\n"));
	}
	if (!lines || !lines->count) {
		mcp_output(c, name.p ? name : STR("Error"));
		mcp_output(c, STR(": "));
		mcp_output(c, value.p ? value : STR(""));
	}
}

static void on_code_event(struct mcp_call *c, const struct json *ev)
{
	struct str type = STR_NULL, text = STR_NULL;
	json_read_str(ev, "type", &type, NULL);
	json_read_str(ev, "text", &text, NULL);
	if (!type.p)
		return;
	if (str_eq_c(type, "stdout") || str_eq_c(type, "stderr"))
		printed(c, text.p ? text : STR(""));
	else if (str_eq_c(type, "result"))
		show_result(c, ev);
	else if (str_eq_c(type, "error"))
		show_error(c, ev);
}

static void code_new_context(struct mcp_call *c);

static void on_code_end(struct mcp_call *c, int status, struct str body)
{
	struct mcp_context *x = context_find(c);
	/* The sandbox was made anew since: so is the context, once. */
	if (status == 404 && x && !c->number) {
		c->number = 1;
		*x = (struct mcp_context){0};
		return code_new_context(c);
	}
	if (status != 200)
		return mcp_call_fail_api(c, status, body);
	mcp_show_output(c);
	if (!buf_size(&c->content))
		mcp_text(c, STR("[no output]"));
	mcp_call_finish(c);
}

static void code_send(struct mcp_call *c)
{
	struct err e;
	struct str code;
	uint64_t seconds = MCP_TIMEOUT_DEFAULT;
	auto_buf struct buf target = {0}, body = {0};
	if (mcp_argument(c, "code", true, &code, &e) < 0 || read_seconds(c, "timeout", &seconds, &e) < 0)
		return mcp_call_fail(c, &e);
	struct json_writer w = json_writer(&body);
	json_object_begin(&w);
	json_member_str(&w, "code", code);
	json_member_cstr(&w, "context_id", context_find(c)->id);
	json_member_u64(&w, "timeout_ms", (seconds ? seconds : MCP_TIMEOUT_DEFAULT) * 1000);
	json_object_end(&w);
	mcp_box_path(&target, c, "/api/execute/code");
	mcp_follow(c, "POST", buf_str(&target), buf_str(&body), on_code_event, on_code_end);
}

static void on_context(struct mcp_call *c, int status, struct str body)
{
	struct err e;
	struct mcp_context *all = c->session->contexts;
	struct str id = STR_NULL;
	auto_json struct json_doc *doc = json_parse(body, &e);
	json_read_str(doc ? json_root(doc) : NULL, "contextId", &id, NULL);
	if (status < 200 || status > 299 || !id.p || id.n >= sizeof all->id)
		return mcp_call_fail_api(c, status, body);
	memmove(all + 1, all, (MCP_CONTEXTS_MAX - 1) * sizeof *all);
	all[0] = (struct mcp_context){0};
	memcpy(all[0].box, c->box, sizeof all[0].box);
	memcpy(all[0].language, c->language, sizeof all[0].language);
	memcpy(all[0].id, id.p, id.n);
	code_send(c);
}

static void code_new_context(struct mcp_call *c)
{
	auto_buf struct buf target = {0}, body = {0};
	buf_printf(&body, "{\"language\":\"%s\"}", c->language);
	mcp_box_path(&target, c, "/api/contexts");
	mcp_ask(c, "POST", buf_str(&target), buf_str(&body), on_context);
}

void mcp_run_code(struct mcp_call *c)
{
	static const char *const languages[] = {"python", "javascript", "typescript"};
	struct err e;
	struct str language;
	if (mcp_argument(c, "language", false, &language, &e) < 0)
		return mcp_call_fail(c, &e);
	if (!language.p)
		language = STR("python");
	for (size_t i = 0; i < ARRAY_LEN(languages); i++)
		if (str_eq_c(language, languages[i]))
			snprintf(c->language, sizeof c->language, "%s", languages[i]);
	if (!*c->language) {
		err_field(&e, "language", "argument 'language' must be python, javascript or typescript");
		return mcp_call_fail(c, &e);
	}
	if (context_find(c))
		code_send(c);
	else
		code_new_context(c);
}

/* ---- read_output ---- */

void mcp_read_output(struct mcp_call *c)
{
	struct err e;
	uint64_t number = 0, offset = 0, limit = MCP_SHOWN_HEAD;
	if (json_read_u64(c->arguments, "output", 1, UINT32_MAX, &number, &e) < 0 ||
		json_read_u64(c->arguments, "offset", 0, MCP_OUTPUT_KEPT_MAX, &offset, &e) < 0 ||
		json_read_u64(c->arguments, "limit", 1, MCP_SHOWN_HEAD, &limit, &e) < 0)
		return mcp_call_fail(c, &e);
	const struct mcp_output *o = mcp_output_find(c->session, number);
	if (!o) {
		err_set(&e, ERRC_NOT_FOUND, "there is no output %llu; the last %d are kept", (unsigned long long)number,
			MCP_OUTPUTS_MAX);
		return mcp_call_fail(c, &e);
	}
	struct str all = buf_str(&o->text), part = str_skip(all, offset);
	part.n = part.n < limit ? part.n : limit;
	uint64_t end = offset + part.n;
	mcp_text(c, part);
	mcp_printf(c, "[bytes %llu to %llu of %zu]", (unsigned long long)offset, (unsigned long long)end, all.n);
	mcp_call_finish(c);
}

/* ---- process_output ---- */

static void process_finish(struct mcp_call *c)
{
	mcp_show_output(c);
	mcp_text(c, str_of(c->path ? c->path : "[it still runs]"));
	mcp_call_finish(c);
}

static void on_follow_over(struct loop_timer *t)
{
	struct mcp_call *c = container_of(t, struct mcp_call, deadline);
	mcp_ask_stop(c);
	process_finish(c);
}

static void on_process_event(struct mcp_call *c, const struct json *ev)
{
	struct str type = STR_NULL, data = STR_NULL, until = STR_NULL;
	double code = 0;
	json_read_str(ev, "type", &type, NULL);
	json_read_str(ev, "data", &data, NULL);
	json_read_str(c->arguments, "until", &until, NULL);
	if (!type.p)
		return;
	if (str_eq_c(type, "stdout") || str_eq_c(type, "stderr"))
		printed(c, data.p ? data : STR(""));
	if (str_eq_c(type, "exit") || str_eq_c(type, "complete")) {
		auto_buf struct buf text = {0};
		json_read_double(ev, "exitCode", &code, NULL);
		buf_printf(&text, "[it has ended, exit code %d]", (int)code);
		free(c->path);
		c->path = str_dup(buf_str(&text));
	}
	struct str all = buf_str(&c->out);
	if (until.n && memmem(all.p, all.n, until.p, until.n))
		loop_timer_set(c->session->mcp->daemon->loop, &c->deadline, 0, on_follow_over);
}

static void on_process_end(struct mcp_call *c, int status, struct str body)
{
	loop_timer_stop(&c->deadline);
	if (status != 200)
		return mcp_call_fail_api(c, status, body);
	process_finish(c);
}

void mcp_process_output(struct mcp_call *c)
{
	struct err e;
	struct str process, until;
	uint64_t seconds = 0;
	auto_buf struct buf target = {0};
	if (mcp_argument(c, "process", true, &process, &e) < 0 || mcp_argument(c, "until", false, &until, &e) < 0 ||
		read_seconds(c, "follow_seconds", &seconds, &e) < 0)
		return mcp_call_fail(c, &e);
	mcp_box_path(&target, c, "/api/process/");
	mcp_percent_encode(&target, process);
	buf_add_c(&target, seconds ? "/stream" : "/stream?follow=false");
	if (seconds)
		loop_timer_set(c->session->mcp->daemon->loop, &c->deadline, seconds * 1000, on_follow_over);
	mcp_follow(c, "GET", buf_str(&target), STR(""), on_process_event, on_process_end);
}
