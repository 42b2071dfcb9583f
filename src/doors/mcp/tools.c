/*
 * The table of tools. A tool with a `path` is one question to the API whose answer is the result; the others have a
 * function. Schemas are written out: they are what a model reads.
 */
#include <stdio.h>

#include "base/json.h"
#include "doors/mcp/call.h"

#define SANDBOX                                                                                                        \
	"\"sandbox\":{\"type\":\"string\",\"description\":\"The id of another sandbox than this session's own\"}"
#define TEXT(name, description) "\"" name "\":{\"type\":\"string\",\"description\":\"" description "\"}"
#define NUMBER(name, description)                                                                                      \
	"\"" name "\":{\"type\":\"integer\",\"minimum\":0,\"description\":\"" description "\"}"
#define FLAG(name, description) "\"" name "\":{\"type\":\"boolean\",\"description\":\"" description "\"}"

#define READS	"{\"readOnlyHint\":true,\"openWorldHint\":false}"
#define CHANGES "{\"readOnlyHint\":false,\"destructiveHint\":false,\"openWorldHint\":false}"
#define RUNS	"{\"readOnlyHint\":false,\"destructiveHint\":true,\"openWorldHint\":true}"
#define ENDS	"{\"readOnlyHint\":false,\"destructiveHint\":true,\"idempotentHint\":true,\"openWorldHint\":false}"

struct tool {
	const char *name, *title, *description;
	const char *properties, *required; /* of its JSON schema */
	const char *hints;
	void (*run)(struct mcp_call *c);
	/* One question: "{port}" and the like are arguments, "{}" is the sandbox's path. `body` names the arguments
	 * that go into the body, separated by blanks. */
	const char *method, *path, *body;
};

static const struct tool tools[] = {
	{"run_command", "Run a command",
		"Runs a shell command in the sandbox and answers with its output and exit code. Each command has a "
		"shell "
		"of its own that begins in /workspace.",
		TEXT("command", "A command line for bash") "," TEXT(
			"cwd", "Working directory of this command") "," NUMBER("timeout",
			"Seconds until it is killed; 120 by default, 3600 at most") "," SANDBOX,
		"\"command\"", RUNS, mcp_run_command, NULL, NULL, NULL},
	{"run_code", "Run code",
		"Runs Python, JavaScript or TypeScript in an interpreter that keeps its variables. Charts come back as "
		"images, tables as text and HTML; the value of the last expression is shown.",
		TEXT("code", "The program") ",\"language\":{\"type\":\"string\",\"enum\":[\"python\",\"javascript\","
					    "\"typescript\"],\"description\":\"python by default\"}," NUMBER("timeout",
						    "Seconds until it is interrupted; 120 by default") "," SANDBOX,
		"\"code\"", RUNS, mcp_run_code, NULL, NULL, NULL},
	{"read_output", "Read the rest of a long output",
		"Reads a part of an output that was too long to be shown. The result that was cut names the number.",
		NUMBER("output", "The number that the result named") "," NUMBER(
			"offset", "From this byte on") "," NUMBER("limit", "At most this many bytes"),
		"\"output\"", READS, mcp_read_output, NULL, NULL, NULL},
	{"read_file", "Read a file", "Reads a text file, or shows an image.",
		TEXT("path", "Absolute, or below /workspace") "," NUMBER("offset", "First line, from 1") "," NUMBER(
			"limit", "Number of lines") "," SANDBOX,
		"\"path\"", READS, mcp_read_file, NULL, NULL, NULL},
	{"write_file", "Write a file", "Writes a file whole. Directories above it are made.",
		TEXT("path", "Absolute, or below /workspace") "," TEXT("content", "The whole text") "," SANDBOX,
		"\"path\",\"content\"", CHANGES, mcp_write_file, NULL, NULL, NULL},
	{"edit_file", "Edit a file",
		"Replaces a piece of text in a file. The piece must occur exactly once, unless replace_all is true.",
		TEXT("path", "Absolute, or below /workspace") "," TEXT("old_text", "The text to replace") "," TEXT(
			"new_text", "The new text") "," FLAG("replace_all", "Replace every occurrence") "," SANDBOX,
		"\"path\",\"old_text\",\"new_text\"", CHANGES, mcp_edit_file, NULL, NULL, NULL},
	{"list_files", "List files", "Lists a directory.",
		TEXT("path", "/workspace by default") "," FLAG("recursive", "With everything below it") "," SANDBOX, "",
		READS, mcp_list_files, NULL, NULL, NULL},
	{"search_files", "Search in files", "Finds lines that match a regular expression (grep -E).",
		TEXT("pattern", "Extended regular expression") "," TEXT(
			"path", "Where; /workspace by default") "," TEXT("glob",
			"Only files with such names, as *.py") "," SANDBOX,
		"\"pattern\"", READS, mcp_search_files, NULL, NULL, NULL},
	{"start_process", "Start a background process", "Starts a command that goes on running, for example a server.",
		TEXT("command", "A command line for bash") "," TEXT("cwd", "Its working directory") "," TEXT(
			"processId", "A name for it") "," SANDBOX,
		"\"command\"", RUNS, NULL, "POST", "{}/api/process/start", "command cwd processId"},
	{"process_output", "Read or follow a process",
		"Answers with what a background process has printed. With follow_seconds it waits that long for more, "
		"or until the process ends or prints the text of until.",
		TEXT("process", "Its id") "," NUMBER("follow_seconds", "How long to follow; 0 by default") "," TEXT(
			"until", "Stop following when this text has been printed") "," SANDBOX,
		"\"process\"", READS, mcp_process_output, NULL, NULL, NULL},
	{"list_processes", "List background processes", "Lists the background processes of the sandbox.", SANDBOX, "",
		READS, NULL, "GET", "{}/api/process/list", NULL},
	{"stop_process", "Stop a process", "Ends a background process and its children.",
		TEXT("process", "Its id") "," SANDBOX, "\"process\"", ENDS, NULL, "DELETE", "{}/api/process/{process}",
		NULL},
	{"expose_port", "Expose a port", "Makes a server in the sandbox reachable and answers with its URL.",
		NUMBER("port", "Where the server listens") "," TEXT("name", "A name for people") "," SANDBOX,
		"\"port\"", CHANGES, NULL, "POST", "{}/ports/{port}", "name"},
	{"unexpose_port", "Close a port", "Ends the URL of a port.", NUMBER("port", "The exposed port") "," SANDBOX,
		"\"port\"", ENDS, NULL, "DELETE", "{}/ports/{port}", NULL},
	{"request_network", "Ask for network",
		"Tries to reach a host from the sandbox. Where the sandbox asks a person about unknown hosts, this "
		"waits "
		"for the answer. Says whether the host may be reached, and the policy.",
		TEXT("host", "A name or address") "," NUMBER("port", "443 by default") "," SANDBOX, "\"host\"", RUNS,
		mcp_request_network, NULL, NULL, NULL},
	{"create_sandbox", "Make a sandbox", "Makes another sandbox, or changes one. It stays until destroy_sandbox.",
		TEXT("sandbox", "Its id") "," TEXT(
			"image", "Its image") ",\"limits\":{\"type\":\"object\",\"description\":"
					      "\"memory (bytes), cpu (cores), pids, disk "
					      "(bytes)\"},\"env\":{\"type\":\"object\","
					      "\"description\":\"Variables\"}",
		"\"sandbox\"", CHANGES, NULL, "PUT", "{}", "image limits env"},
	{"list_sandboxes", "List sandboxes", "Lists all sandboxes of this daemon.", "", "", READS, NULL, "GET",
		"/v1/sandboxes", NULL},
	{"destroy_sandbox", "Destroy a sandbox", "Destroys a sandbox with its files.", TEXT("sandbox", "Its id"),
		"\"sandbox\"", ENDS, NULL, "DELETE", "{}", NULL},
	{"snapshot_sandbox", "Keep the files as they are", "Makes a snapshot of the sandbox's files.",
		TEXT("name", "A name for it") "," SANDBOX, "", CHANGES, NULL, "POST", "{}/snapshots", "name"},
	{"restore_snapshot", "Go back to a snapshot",
		"Puts the files of the sandbox back to a snapshot. Its processes end.",
		TEXT("snapshot", "Its id") "," SANDBOX, "\"snapshot\"", ENDS, NULL, "POST", "{}/restore", "snapshot"},
	{"fork_sandbox", "Fork a sandbox", "Makes copies of the sandbox and its files.",
		"\"ids\":{\"type\":\"array\",\"items\":{\"type\":\"string\"},\"description\":\"Ids of the "
		"copies\"}," NUMBER("count", "Or how many (default 1); they are named after the sandbox") "," SANDBOX,
		"", CHANGES, NULL, "POST", "{}/fork", "ids count=1"},
};

static const struct tool *find(struct str name)
{
	for (size_t i = 0; i < ARRAY_LEN(tools); i++)
		if (str_eq_c(name, tools[i].name))
			return &tools[i];
	return NULL;
}

static void tool_write(struct json_writer *w, const struct tool *t)
{
	auto_buf struct buf schema = {0};
	buf_printf(&schema, "{\"type\":\"object\",\"properties\":{%s}", t->properties);
	if (*t->required)
		buf_printf(&schema, ",\"required\":[%s]", t->required);
	buf_add_c(&schema, ",\"additionalProperties\":false}");
	json_object_begin(w);
	json_member_cstr(w, "name", t->name);
	json_member_cstr(w, "title", t->title);
	json_member_cstr(w, "description", t->description);
	json_key(w, "inputSchema");
	json_raw(w, buf_str(&schema));
	json_key(w, "annotations");
	json_raw(w, str_of(t->hints));
	json_object_end(w);
}

void mcp_tools_write(struct json_writer *w)
{
	json_key(w, "tools");
	json_array_begin(w);
	for (size_t i = 0; i < ARRAY_LEN(tools); i++)
		tool_write(w, &tools[i]);
	json_array_end(w);
}

bool mcp_tool_exists(struct str name)
{
	return find(name) != NULL;
}

int mcp_argument(const struct mcp_call *c, const char *name, bool needed, struct str *ret, struct err *e)
{
	*ret = STR_NULL;
	if (json_read_str(c->arguments, name, ret, e) < 0)
		return -1;
	if (needed && !ret->p)
		return err_field(e, name, "argument '%s' is missing", name);
	return 0;
}

/* ---- one question ---- */

/* The text of an argument that stands in a path. */
static int put_segment(struct buf *path, const struct mcp_call *c, struct str name, struct err *e)
{
	auto_free char *key = str_dup(name);
	const struct json *j = json_get(c->arguments, key);
	if (json_is_null(j) || (j->type != JSON_T_STRING && j->type != JSON_T_NUMBER) || !j->text.n)
		return err_field(e, key, "argument '%s' is missing", key);
	mcp_percent_encode(path, j->text);
	return 0;
}

static int put_path(struct buf *path, const struct mcp_call *c, const char *pattern, struct err *e)
{
	struct str rest = str_of(pattern);
	while (rest.n) {
		if (rest.p[0] != '{') {
			buf_add_byte(path, rest.p[0]);
			rest = str_skip(rest, 1);
			continue;
		}
		struct str name = str_split(str_skip(rest, 1), '}', &rest);
		if (!name.n)
			mcp_box_path(path, c, "");
		else if (put_segment(path, c, name, e) < 0)
			return -1;
	}
	return 0;
}

/* A name may have a default, as in "count=1": it is for the case that nothing before it was given either. */
static void put_body(struct buf *body, const struct mcp_call *c, const char *names)
{
	struct json_writer w = json_writer(body);
	struct str rest = str_of(names);
	json_object_begin(&w);
	bool any = false;
	while (rest.n) {
		struct str preset, word = str_split(str_split(rest, ' ', &rest), '=', &preset);
		auto_free char *name = str_dup(word);
		const struct json *j = json_get(c->arguments, name);
		auto_buf struct buf value = {0};
		if (json_is_null(j) && (any || !preset.n))
			continue;
		if (json_is_null(j))
			buf_add_str(&value, preset);
		else
			json_put_tree(&value, j);
		any = true;
		json_key(&w, name);
		json_raw(&w, buf_str(&value));
	}
	json_object_end(&w);
}

static void on_answer(struct mcp_call *c, int status, struct str body)
{
	if (status < 200 || status > 299)
		return mcp_call_fail_api(c, status, body);
	mcp_output(c, body.n ? body : STR("done"));
	mcp_show_output(c);
	mcp_call_finish(c);
}

/* An argument that a tool does not have is a mistake that the model can mend: ignored, it would look as if it worked.
 */
static int check_arguments(const struct mcp_call *c, const struct tool *t, struct err *e)
{
	auto_buf struct buf text = {0}, known = {0};
	buf_printf(&text, "{%s}", t->properties);
	auto_json struct json_doc *doc = json_parse(buf_str(&text), NULL);
	INVARIANT(doc);
	json_each(it, json_root(doc)) buf_printf(&known, "%s'%.*s'", buf_size(&known) ? ", " : "", STR_ARG(it->key));
	json_each(it, c->arguments)
	{
		auto_free char *name = str_dup(it->key);
		if (!json_get(json_root(doc), name))
			return err_field(e, name, "%s has no argument '%.60s'; it takes %s", t->name, name,
				buf_size(&known) ? buf_cstr(&known) : "none");
	}
	return 0;
}

void mcp_tool_run(struct mcp_call *c, struct str name)
{
	const struct tool *t = find(name);
	struct err e;
	auto_buf struct buf path = {0}, body = {0};
	if (check_arguments(c, t, &e) < 0)
		return mcp_call_fail(c, &e);
	if (t->run)
		return t->run(c);
	if (put_path(&path, c, t->path, &e) < 0)
		return mcp_call_fail(c, &e);
	if (t->body)
		put_body(&body, c, t->body);
	mcp_ask(c, t->method, buf_str(&path), buf_str(&body), on_answer);
}
