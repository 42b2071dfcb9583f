#include "agent/api.h"

const struct route routes[] = {
	{"GET", "/", ROUTE_NO_BODY, api_root, NULL},
	{"GET", "/api/ping", ROUTE_NO_BODY, api_ping, NULL},
	{"GET", "/api/version", ROUTE_NO_BODY, api_version, NULL},
	{"PUT", "/internal/env", ROUTE_JSON, api_env, NULL},
	{"GET", "/api/commands", ROUTE_NO_BODY, api_commands, NULL},
	{"POST", "/api/execute", ROUTE_JSON, api_execute, "command.execute"},
	{"POST", "/api/session/create", ROUTE_LENIENT, api_session_create, "session.create"},
	{"GET", "/api/session/list", ROUTE_NO_BODY, api_session_list, "session.list"},
	{"POST", "/api/session/delete", ROUTE_JSON, api_session_delete, "session.delete"},
	{"GET", "/ws/exec", ROUTE_NO_BODY, ws_exec, "command.execute"},

	{"POST", "/api/process/start", ROUTE_JSON, api_process_start, "process.start"},
	{"GET", "/api/process/list", ROUTE_NO_BODY, api_process_list, "process.list"},
	{"DELETE", "/api/process/kill-all", ROUTE_NO_BODY, api_process_kill_all, "process.kill"},
	{"POST", "/api/process/cleanup", ROUTE_NO_BODY, api_process_cleanup, "process.list"},
	{"GET", "/api/process/{id}", ROUTE_NO_BODY, api_process_get, "process.get"},
	{"DELETE", "/api/process/{id}", ROUTE_NO_BODY, api_process_kill, "process.kill"},
	{"GET", "/api/process/{id}/logs", ROUTE_NO_BODY, api_process_logs, "process.logs"},
	{"GET", "/api/process/{id}/stream", ROUTE_NO_BODY, api_process_stream, "process.logs"},
	{"POST", "/api/port-watch", ROUTE_JSON, api_port_watch, NULL},

	{"POST", "/api/exists", ROUTE_JSON, api_exists, "file.stat"},
	{"POST", "/api/mkdir", ROUTE_JSON, api_mkdir, "directory.create"},
	{"POST", "/api/delete", ROUTE_JSON, api_delete, "file.delete"},
	{"POST", "/api/rename", ROUTE_JSON, api_rename, "file.rename"},
	{"POST", "/api/move", ROUTE_JSON, api_move, "file.move"},
	{"POST", "/api/read", ROUTE_JSON, api_read, "file.read"},
	{"POST", "/api/read/stream", ROUTE_JSON, api_read_stream, "file.read"},
	{"POST", "/api/write", ROUTE_STREAM, api_write, "file.write"},
	{"POST", "/api/list-files", ROUTE_JSON, api_list_files, "directory.list"},
	{"GET", "/api/file", ROUTE_NO_BODY, api_file_get, "file.read"},
	{"PUT", "/api/file", ROUTE_STREAM, api_file_put, "file.write"},

	{"POST", "/api/watch", ROUTE_JSON, api_watch, NULL},
	{"POST", "/api/watch/check", ROUTE_JSON, api_watch_check, NULL},
	{"POST", "/api/git/checkout", ROUTE_JSON, api_git_checkout, "git.clone"},
	{"GET", "/ws/pty", ROUTE_NO_BODY, api_pty, NULL},
	{"GET", "/ws", ROUTE_NO_BODY, api_ws, NULL},
	{"GET", "/api/ws", ROUTE_NO_BODY, api_ws, NULL},
};
const size_t routes_n = sizeof routes / sizeof *routes;
