#include "agent/request/fields.h"

#include <string.h>

/* The first name of a row that the route knows is the right one. */
static const char *const spellings[][8] = {
	{"command", "cmd", "commandLine", "command_line", "script"},
	{"code", "source", "script", "program"},
	{"timeoutMs", "timeout", "timeout_ms", "timeoutMillis", "timeoutMilliseconds"},
	{"timeout_ms", "timeout", "timeoutMs", "timeoutMillis"},
	{"commandTimeoutMs", "timeoutMs", "timeout", "commandTimeout"},
	{"cwd", "workdir", "workDir", "workingDir", "workingDirectory", "working_directory", "dir", "directory"},
	{"env", "envVars", "env_vars", "environment", "variables"},
	{"env_vars", "envVars", "env", "environment", "variables"},
	{"sessionId", "session", "session_id", "sessionID"},
	{"id", "sessionId", "session", "session_id", "sessionID"},
	{"processId", "process_id", "processID", "id", "name"},
	{"streamId", "stream_id", "streamID"},
	{"context_id", "contextId", "context", "contextID"},
	{"stdin", "input"},
	{"path", "file", "filePath", "file_path", "filename", "dir", "directory"},
	{"dir", "directory", "path"},
	{"archivePath", "archive_path", "archive"},
	{"recursive", "recurse"},
	{"includeHidden", "include_hidden", "hidden", "showHidden"},
	{"oldPath", "old_path", "from", "source", "sourcePath", "old"},
	{"newPath", "new_path", "to", "destination", "destinationPath", "new"},
	{"sourcePath", "source_path", "from", "source", "oldPath"},
	{"destinationPath", "destination_path", "to", "destination", "newPath", "dest"},
	{"language", "lang"},
	{"repoUrl", "url", "repo", "repository", "repo_url", "repoURL"},
	{"targetDir", "target_dir", "dir", "directory", "target", "path"},
	{"branch", "ref", "tag"},
	{"keepAlive", "keep_alive", "keepalive"},
	{"statusMin", "status_min"},
	{"statusMax", "status_max"},
};

static bool holds(const char *names, struct str name)
{
	for (struct str rest = str_of(names); rest.n;)
		if (str_eq(str_split(rest, ' ', &rest), name))
			return true;
	return false;
}

/* The route's own name for a member, or NULL. */
static const char *meant(const char *known, struct str name)
{
	for (size_t i = 0; i < ARRAY_LEN(spellings); i++) {
		if (!holds(known, str_of(spellings[i][0])))
			continue;
		for (size_t k = 1; k < ARRAY_LEN(spellings[i]) && spellings[i][k]; k++)
			if (str_eq_c(name, spellings[i][k]))
				return spellings[i][0];
	}
	return NULL;
}

static void warn(struct json_writer *w, struct str name, const char *right, bool taken)
{
	auto_free char *shown = str_dup(str_n(name.p, name.n < FIELD_SHOWN_MAX ? name.n : FIELD_SHOWN_MAX));
	auto_free char *text = taken   ? xasprintf("field '%s' was taken as '%s': write '%s'", shown, right, right)
			       : right ? xasprintf("field '%s' was ignored, because '%s' is there too", shown, right)
				       : xasprintf("field '%s' is not known here and was ignored", shown);
	json_cstr(w, text);
}

void fields_check(struct http_exchange *x, const struct route *route, struct json *body)
{
	const char *known = route->fields;
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	size_t n = 0;
	buf_add_c(&out, "\"warnings\":");
	json_array_begin(&w);
	for (struct json *it = known ? body->first : NULL; it; it = it->next) {
		if (holds(known, it->key))
			continue;
		const char *right = meant(known, it->key);
		bool taken = right && !json_get(body, right);
		if (n++ < FIELD_WARNINGS_MAX)
			warn(&w, it->key, right, taken);
		if (taken)
			it->key = str_of(right);
	}
	json_array_end(&w);
	if (n)
		http_respond_extra(x, buf_str(&out));
}

void fields_warn(struct http_exchange *x, const struct field_found *found, size_t n)
{
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	buf_add_c(&out, "\"warnings\":");
	json_array_begin(&w);
	for (size_t i = 0; i < n; i++)
		warn(&w, str_of(found[i].name), found[i].right, found[i].right != NULL);
	json_array_end(&w);
	http_respond_extra(x, buf_str(&out));
}
