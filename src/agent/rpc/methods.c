#include <ctype.h>

#include "agent/rpc/rpc.h"

#include "proto/errc.h"

/* The methods of `SandboxAPI` in @cloudflare/sandbox 0.12, as requests to the routes of the same operation. */

static const struct rpc_method methods[] = {
	{"commands.execute", "POST", "/api/execute", "0=command 1=sessionId 2=*", RPC_JSON, NULL},
	{"commands.executeStream", "POST", "/api/execute/stream", "0=command 1=sessionId 2=*", RPC_STREAM, NULL},

	{"files.readFile", "POST", "/api/read", "0=path 1=sessionId 2=*", RPC_JSON, NULL},
	{"files.readFileStream", "POST", "/api/read/stream", "0=path 1=sessionId", RPC_STREAM, NULL},
	{"files.writeFile", "POST", "/api/write", "0=path 2=sessionId 3=* 1=content", RPC_JSON, NULL},
	{"files.writeFileStream", "PUT", "/api/file?path={0}&sessionId={2}", "", RPC_UPLOAD, NULL},
	{"files.deleteFile", "POST", "/api/delete", "0=path 1=sessionId", RPC_JSON, NULL},
	{"files.renameFile", "POST", "/api/rename", "0=oldPath 1=newPath 2=sessionId", RPC_JSON, NULL},
	{"files.moveFile", "POST", "/api/move", "0=sourcePath 1=destinationPath 2=sessionId", RPC_JSON, NULL},
	{"files.mkdir", "POST", "/api/mkdir", "0=path 1=sessionId 2=*", RPC_JSON, NULL},
	{"files.listFiles", "POST", "/api/list-files", "0=path 1=sessionId 2=options", RPC_JSON, NULL},
	{"files.exists", "POST", "/api/exists", "0=path 1=sessionId", RPC_JSON, NULL},

	{"processes.startProcess", "POST", "/api/process/start", "0=command 1=sessionId 2=*", RPC_JSON, NULL},
	{"processes.listProcesses", "GET", "/api/process/list", "", RPC_JSON, NULL},
	{"processes.getProcess", "GET", "/api/process/{0}", "", RPC_JSON, NULL},
	{"processes.killProcess", "DELETE", "/api/process/{0}", "", RPC_JSON, NULL},
	{"processes.killAllProcesses", "DELETE", "/api/process/kill-all", "", RPC_JSON, NULL},
	{"processes.getProcessLogs", "GET", "/api/process/{0}/logs", "", RPC_JSON, NULL},
	{"processes.streamProcessLogs", "GET", "/api/process/{0}/stream", "", RPC_STREAM, NULL},

	{"ports.watchPort", "POST", "/api/port-watch", "0=*", RPC_STREAM, NULL},
	{"git.checkout", "POST", "/api/git/checkout", "0=repoUrl 1=sessionId 2=*", RPC_JSON, NULL},

	{"interpreter.createCodeContext", "POST", "/api/contexts", "0.language 0.cwd 0.envVars=env_vars", RPC_JSON,
		shape_context},
	{"interpreter.streamCode", "POST", "/api/execute/code", "0=context_id 1=code 2=language", RPC_STREAM, NULL},
	{"interpreter.runCodeStream", "POST", "/api/execute/code", "0=context_id 1=code 2=language 4=timeout_ms",
		RPC_CODE, NULL},
	{"interpreter.listCodeContexts", "GET", "/api/contexts", "", RPC_JSON, shape_contexts},
	{"interpreter.deleteCodeContext", "DELETE", "/api/contexts/{0}", "", RPC_JSON, shape_nothing},

	{"utils.ping", "GET", "/api/ping", "", RPC_JSON, shape_ping},
	{"utils.getVersion", "GET", "/api/version", "", RPC_JSON, shape_version},
	{"utils.getCommands", "GET", "/api/commands", "", RPC_JSON, NULL},
	{"utils.createSession", "POST", "/api/session/create", "0=*", RPC_JSON, shape_session},
	{"utils.deleteSession", "POST", "/api/session/delete", "0=sessionId", RPC_JSON, NULL},
	{"utils.listSessions", "GET", "/api/session/list", "", RPC_JSON, shape_sessions},

	{"backup.createArchive", "POST", "/api/backup/create", "0=dir 1=archivePath 2=sessionId 3=*", RPC_JSON, NULL},
	{"backup.restoreArchive", "POST", "/api/backup/restore", "0=dir 1=archivePath 2=sessionId", RPC_JSON, NULL},
	{"backup.uploadParts", "POST", "/api/backup/upload-parts", "0=*", RPC_JSON, NULL},

	{"watch.watch", "POST", "/api/watch", "0=*", RPC_STREAM, NULL},
	{"watch.checkChanges", "POST", "/api/watch/check", "0=*", RPC_JSON, NULL},
};

static const struct rpc_method read_none = {
	"files.readFile", "GET", "/api/file?path={0}&sessionId={1}", "", RPC_FILE, NULL};

const struct rpc_method *rpc_method_find(const char *name, const struct capnweb_call *call)
{
	struct str encoding = STR_NULL;
	for (size_t i = 0; i < ARRAY_LEN(methods); i++) {
		if (strcmp(methods[i].name, name) != 0)
			continue;
		if (strcmp(name, read_none.name) == 0)
			(void)json_read_str(capnweb_call_arg(call, 2), "encoding", &encoding, NULL);
		return str_eq_c(encoding, "none") ? &read_none : &methods[i];
	}
	return NULL;
}

bool rpc_has_object(void *arg, const char *path)
{
	size_t n = strlen(path);
	(void)arg;
	for (size_t i = 0; i < ARRAY_LEN(methods); i++)
		if (strncmp(methods[i].name, path, n) == 0 && methods[i].name[n] == '.')
			return true;
	return strcmp(path, "tunnels") == 0;
}

/* ---- requests ---- */

static void put_encoded(struct buf *out, struct str s)
{
	for (size_t i = 0; i < s.n; i++) {
		unsigned char c = (unsigned char)s.p[i];
		if (isalnum(c) || c == '-' || c == '_' || c == '.' || c == '~')
			buf_add_byte(out, (char)c);
		else
			buf_printf(out, "%%%02X", c);
	}
}

static int put_target(struct buf *out, const char *path, const struct capnweb_call *call, struct err *e)
{
	for (const char *p = path; *p; p++) {
		if (*p != '{') {
			buf_add_byte(out, *p);
			continue;
		}
		size_t i = (size_t)(p[1] - '0');
		const struct json *arg = capnweb_call_arg(call, i);
		p += 2;
		if (arg && arg->type != JSON_T_STRING)
			return err_set(e, ERRC_VALIDATION_FAILED, "argument %zu must be a string", i + 1);
		/* An empty segment of a path would name another route. */
		if (i == 0 && (!arg || !arg->text.n))
			return err_set(e, ERRC_VALIDATION_FAILED, "argument 1 is missing");
		/* "." and ".." are segments that clients resolve. */
		if (arg)
			put_encoded(out, arg->text);
	}
	return 0;
}

static void put_member(struct buf *out, struct str name, const struct json *value)
{
	if (!value)
		return;
	buf_add_byte(out, ',');
	json_put_str(out, name);
	buf_add_byte(out, ':');
	capnweb_plain(out, value);
}

/* "2=cwd", "2=*", "0.language", "0.envVars=env_vars" */
static void put_item(struct buf *out, struct str item, const struct capnweb_call *call)
{
	const struct json *arg = capnweb_call_arg(call, (size_t)(item.p[0] - '0'));
	struct str name = STR_NULL, member = str_split(str_skip(item, 2), '=', &name);
	if (item.p[1] == '.') {
		auto_free char *key = str_dup(member);
		const struct json *value = arg && arg->type == JSON_T_OBJECT ? json_get(arg, key) : NULL;
		put_member(out, name.n ? name : member, capnweb_is_undefined(value) ? NULL : value);
	} else if (str_eq_c(member, "*")) {
		capnweb_plain_members(out, arg);
	} else {
		put_member(out, member, arg);
	}
}

int rpc_request(const struct rpc_method *m, const struct capnweb_call *call, struct buf *target, struct buf *body,
	struct err *e)
{
	if (put_target(target, m->path, call, e) < 0)
		return -1;
	for (struct str rest = str_of(m->body); rest.n;)
		put_item(body, str_split(rest, ' ', &rest), call);
	if (*m->body && !buf_size(body))
		buf_add_byte(body, ',');
	/* The first comma becomes the brace. */
	if (buf_size(body)) {
		body->p[body->off] = '{';
		buf_add_byte(body, '}');
	}
	if (body->failed || buf_size(target) > HTTP_TARGET_MAX)
		return err_set(e, ERRC_VALIDATION_FAILED, "the arguments are too long");
	return 0;
}
