#include "agent/rpc/control.h"

#include <stdio.h>
#include <sys/random.h>

#include "agent/agent.h"
#include "base/clock.h"
#include "proto/errc.h"

/* Activation, the methods that are routes, and the methods that are not. */

static const struct rpc_method methods[] = {
	{"files.readFile", "POST", "/api/read", "0=path 1=*", RPC_JSON, NULL},
	{"files.readFileStream", "POST", "/api/read/stream", "0=path", RPC_STREAM, NULL},
	{"files.writeFile", "POST", "/api/write", "0=path 2=* 1=content", RPC_JSON, NULL},
	{"files.writeFileStream", "PUT", "/api/file?path={0}", "", RPC_UPLOAD, NULL},
	{"files.deleteFile", "POST", "/api/delete", "0=path", RPC_JSON, NULL},
	{"files.renameFile", "POST", "/api/rename", "0=oldPath 1=newPath", RPC_JSON, NULL},
	{"files.moveFile", "POST", "/api/move", "0=sourcePath 1=destinationPath", RPC_JSON, NULL},
	{"files.mkdir", "POST", "/api/mkdir", "0=path 1=*", RPC_JSON, NULL},
	{"files.listFiles", "POST", "/api/list-files", "0=path 1=options", RPC_JSON, NULL},
	{"files.exists", "POST", "/api/exists", "0=path", RPC_JSON, NULL},

	{"ports.openWatch", "POST", "/api/port-watch", "", RPC_EVENTS, NULL},
	{"watch.watch", "POST", "/api/watch", "0=*", RPC_SUB, NULL},
	{"watch.checkChanges", "POST", "/api/watch/check", "0=*", RPC_JSON, NULL},
	{"utils.ping", "GET", "/api/ping", "", RPC_JSON, shape_ping},

	{"backup.createArchive", "POST", "/api/backup/create", "0=dir 1=archivePath 2=*", RPC_JSON, NULL},
	{"backup.restoreArchive", "POST", "/api/backup/restore", "0=dir 1=archivePath", RPC_JSON, NULL},
	{"backup.uploadParts", "POST", "/api/backup/upload-parts", "0=*", RPC_JSON, NULL},

	/* Of the interpreter that extensions.connect answers with (control_code.c). */
	{"interpreter.createContext", "POST", "/api/contexts", "0.language 0.cwd", RPC_JSON, shape_context},
	{"interpreter.listContexts", "GET", "/api/contexts", "", RPC_JSON, shape_contexts},
	{"interpreter.deleteContext", "DELETE", "/api/contexts/{0}", "", RPC_JSON, shape_nothing},
	{"interpreter.runCode", "POST", "/api/execute/code", "0=context_id 1=code 2=language", RPC_CODE, NULL},
};
static const struct rpc_method read_none = {"files.readFile", "GET", "/api/file?path={0}", "", RPC_FILE, NULL};
const struct rpc_table control_table = {methods, ARRAY_LEN(methods), 1, &read_none};

/* ---- helpers of the methods without a route ---- */

const struct json *control_option(const struct json *options, const char *name)
{
	const struct json *value = options && options->type == JSON_T_OBJECT ? json_get(options, name) : NULL;
	return capnweb_is_undefined(value) ? NULL : value;
}

void control_reject(struct capnweb_call *call, const char *code, const char *message, const char *const *details)
{
	auto_buf struct buf b = {0};
	struct json_writer w = json_writer(&b);
	json_object_begin(&w);
	for (; details && details[0]; details += 2)
		if (details[1])
			json_member_cstr(&w, details[0], details[1]);
	json_object_end(&w);
	rpc_reject_with(call, str_of(message), str_of(code), buf_str(&b));
}

static const char *word_problem(const struct json *array)
{
	if (!array || !array->first)
		return "a command must be an array that begins with the name of a program";
	json_each(it, array)
	{
		if (it->type != JSON_T_STRING || (it == array->first && !it->text.n))
			return "the words of a command must be strings, and the first must not be empty";
		if (memchr(it->text.p, 0, it->text.n))
			return "the words of a command must not contain NUL bytes";
	}
	return NULL;
}

const char **control_argv(struct capnweb_call *call, const struct json *words, char **ret_text)
{
	const struct json *array = words ? capnweb_array(words) : NULL;
	const char *problem = word_problem(array);
	auto_buf struct buf all = {0}, text = {0};
	if (problem) {
		control_reject(call, "INVALID_COMMAND", problem, NULL);
		return NULL;
	}
	/* The words lie behind the vector, in one block. */
	json_each(it, array)
	{
		buf_printf(&text, "%s%.*s", it == array->first ? "" : " ", STR_ARG(it->text));
		buf_add_str(&all, it->text);
		buf_add_byte(&all, '\0');
	}
	const char **argv = xmalloc((array->count + 1) * sizeof *argv + buf_size(&all));
	char *at = (char *)(argv + array->count + 1);
	size_t n = 0;
	memcpy(at, buf_str(&all).p, buf_size(&all));
	json_each(it, array)
	{
		argv[n++] = at;
		at += it->text.n + 1;
	}
	argv[n] = NULL;
	*ret_text = str_dup(buf_str(&text));
	return argv;
}

static struct list waits = {&waits, &waits};

void control_wait_add(struct control_wait *w, struct rpc *r, struct capnweb_call *call)
{
	*w = (struct control_wait){.rpc = r, .call = call};
	list_push(&waits, &w->node);
}

struct capnweb_call *control_wait_take(struct control_wait *w)
{
	list_del(&w->node);
	return take_ptr(&w->call);
}

void control_leave(struct rpc *r)
{
	list_each(it, &waits)
	{
		struct control_wait *w = list_entry(it, struct control_wait, node);
		if (w->rpc == r)
			w->call = NULL;
	}
}

void control_tell_exit(struct rpc *r, const struct json *end, capnweb_on_reply on_reply)
{
	const struct json *id = json_get(end, "id"), *run = json_get(end, "runId"), *port = json_get(end, "port");
	auto_buf struct buf b = {0};
	uint64_t code = 0;
	(void)json_read_u64(end, "exitCode", 0, UINT8_MAX, &code, NULL);
	buf_printf(&b, "{\"mode\":\"quick\",\"exitCode\":%d,\"tunnelId\":", (int)code);
	json_put_tree(&b, id);
	buf_add_c(&b, ",\"runId\":");
	if (run)
		json_put_tree(&b, run);
	else
		buf_add_c(&b, "\"\"");
	buf_add_c(&b, ",\"port\":");
	json_put_tree(&b, port);
	buf_add_byte(&b, '}');
	capnweb_call_peer(r->session, 0, "onTunnelRunExit", buf_str(&b), on_reply, r);
}

void control_watch_body(struct buf *body, const struct capnweb_call *call)
{
	static const char *const same[] = {"mode", "path", "interval"};
	const struct json *port = capnweb_call_arg(call, 0), *options = capnweb_call_arg(call, 1);
	const struct json *status = control_option(options, "status");
	struct json_writer w = json_writer(body);
	json_object_begin(&w);
	json_key(&w, "port");
	capnweb_plain(body, port);
	w.comma = true;
	if (!control_option(options, "mode"))
		json_member_cstr(&w, "mode", "tcp");
	for (size_t i = 0; i < ARRAY_LEN(same); i++) {
		const struct json *value = control_option(options, same[i]);
		if (!value)
			continue;
		json_key(&w, same[i]);
		capnweb_plain(body, value);
		w.comma = true;
	}
	for (int i = 0; status && i < 2; i++) {
		const struct json *value =
			status->type == JSON_T_OBJECT ? control_option(status, i ? "max" : "min") : status;
		if (!value)
			continue;
		json_key(&w, i ? "statusMax" : "statusMin");
		capnweb_plain(body, value);
		w.comma = true;
	}
	json_object_end(&w);
}

/* ---- utils ---- */

const char *control_runtime(void)
{
	static char id[37];
	unsigned char b[16];
	if (*id)
		return id;
	if (getrandom(b, sizeof b, 0) != (ssize_t)sizeof b)
		memset(b, (int)clock_us(), sizeof b);
	b[6] = (unsigned char)((b[6] & 0x0f) | 0x40);
	b[8] = (unsigned char)((b[8] & 0x3f) | 0x80);
	for (size_t i = 0, n = 0; i < sizeof b; i++) {
		if (i == 4 || i == 6 || i == 8 || i == 10)
			id[n++] = '-';
		n += (size_t)snprintf(id + n, sizeof id - n, "%02x", b[i]);
	}
	return id;
}

static void answer_metadata(struct rpc *r, struct capnweb_call *call)
{
	auto_buf struct buf b = {0};
	struct json_writer w = json_writer(&b);
	(void)r;
	json_object_begin(&w);
	json_member_cstr(&w, "runtimeIncarnationID", control_runtime());
	json_member_cstr(&w, "sandboxVersion", CONTROL_VERSION);
	json_member_i64(&w, "controlProtocolVersion", 1);
	json_object_end(&w);
	capnweb_resolve(call, buf_str(&b));
}

static void activate(struct rpc *r, struct capnweb_call *call)
{
	const struct json *expected = capnweb_call_arg(call, 0);
	if (!expected || expected->type != JSON_T_STRING || !str_eq_c(expected->text, control_runtime()))
		return control_reject(
			call, "CONTROL_PROTOCOL_INCOMPATIBLE", "Runtime incarnation does not match", NULL);
	r->control = true;
	answer_metadata(r, call);
}

/* ---- the methods without a route ---- */

struct native {
	const char *name;
	void (*run)(struct rpc *r, struct capnweb_call *call);
};

/* The first two work before the activation too. */
enum { ALWAYS = 2 };
static const struct native natives[] = {
	{"utils.getRuntimeMetadata", answer_metadata},
	{"utils.activateControlSession", activate},
	{"processes.start", control_process_start},
	{"processes.get", control_process_get},
	{"processes.list", control_process_list},
	{"processes.openLogs", control_process_logs},
	{"processes.kill", control_process_kill},
	{"processes.hasActive", control_process_active},
	{"terminals.create", control_terminal_create},
	{"terminals.get", control_terminal_get},
	{"terminals.list", control_terminal_list},
	{"terminals.output", control_terminal_output},
	{"terminals.write", control_terminal_write},
	{"terminals.resize", control_terminal_resize},
	{"terminals.interrupt", control_terminal_interrupt},
	{"terminals.terminate", control_terminal_terminate},
	{"terminals.hasActive", control_terminal_active},
	{"extensions.connect", control_extension_connect},
	{"extensions.health", control_extension_health},
	{"extensions.stop", control_extension_stop},
};

static bool is_own_port(const struct capnweb_call *call)
{
	const struct json *port = capnweb_call_arg(call, 0);
	return port && port->type == JSON_T_NUMBER && str_eq_c(port->text, CONTROL_PORT);
}

bool control_start(struct rpc *r, struct capnweb_call *call, const char *name)
{
	if (r->control && strcmp(name, "ports.openWatch") == 0 && is_own_port(call)) {
		control_watch_self(r, call);
		return true;
	}
	for (size_t i = 0; i < (r->control ? ARRAY_LEN(natives) : ALWAYS); i++) {
		if (strcmp(natives[i].name, name) != 0)
			continue;
		natives[i].run(r, call);
		return true;
	}
	/* Only the object that extensions.connect answers with has them. */
	if (r->control && strncmp(name, "interpreter.", 12) == 0) {
		rpc_reject_unknown(call, name);
		return true;
	}
	return r->control && control_script_start(r, call, name);
}

bool control_has_object(const char *path)
{
	static const char *const domains[] = {"processes", "terminals", "extensions", "mounts", "workspace"};
	for (size_t i = 0; i < ARRAY_LEN(domains); i++)
		if (strcmp(path, domains[i]) == 0)
			return true;
	return false;
}
