/*
 * api.h - the handlers of every API area, for the table in routes.c. One file per area: api_NAME.c.
 */
#pragma once

#include "base/str.h"

struct agent_request;

/* api_misc.c */
void api_root(struct agent_request *r);
void api_ping(struct agent_request *r);
void api_version(struct agent_request *r);
void api_commands(struct agent_request *r);
/* Sets the variables that every command starts from. Only atolld can call it: it forwards no request to /internal. */
void api_env(struct agent_request *r);
/* Work that no connection shows: commands that run, processes that keep the box awake. For atolld, as above. */
void api_activity(struct agent_request *r);

/* api_execute.c */
void api_execute(struct agent_request *r);

/* api_stream.c */
void api_execute_stream(struct agent_request *r);
void api_execute_stream_resume(struct agent_request *r);
void api_execute_stream_cancel(struct agent_request *r);

/* api_session.c */
void api_session_create(struct agent_request *r);
void api_session_list(struct agent_request *r);
void api_session_delete(struct agent_request *r);
struct cmd_result;
/* Answers a start that failed. `key` and `value` are the context of the error, unless the session is the reason. */
void agent_request_fail_task(const struct agent_request *r, const struct cmd_result *f, const char *session,
	const char *key, struct str value);

/* ws_exec.c */
void ws_exec(struct agent_request *r);

/* api_files.c, api_move.c, api_read.c, api_write.c, api_file_put.c, api_list.c */
void api_exists(struct agent_request *r);
void api_mkdir(struct agent_request *r);
void api_delete(struct agent_request *r);
void api_rename(struct agent_request *r);
void api_move(struct agent_request *r);
void api_read(struct agent_request *r);
void api_read_stream(struct agent_request *r);
void api_file_get(struct agent_request *r);
void api_write(struct agent_request *r);
void api_file_put(struct agent_request *r);
void api_list_files(struct agent_request *r);

/* api_watch.c, api_watch_check.c, api_git.c, api_pty.c, api_ws.c */
void api_watch(struct agent_request *r);
void api_watch_check(struct agent_request *r);
void api_git_checkout(struct agent_request *r);
void api_pty(struct agent_request *r);
/* Hangs up the terminal of a session that is being deleted. */
void pty_end(struct str session);
void api_ws(struct agent_request *r);
/* The agent stops: closes each socket (1001) as soon as no request of it is under way. */
void ws_stop(void);

/* The agent stops: event streams that would never end by themselves end. */
void watch_stop(void);
void port_watch_stop(void);

/* rpc/api_rpc.c */
void api_rpc(struct agent_request *r);
/* The agent stops: closes the sockets that have no call. */
void rpc_stop(void);
/* rpc/rpc_tunnels.c: between atolld and the agent */
void api_tunnel_wants(struct agent_request *r);
void api_tunnel_told(struct agent_request *r);

/* api_process.c, api_process_stream.c, api_port_watch.c */
void api_process_start(struct agent_request *r);
void api_process_list(struct agent_request *r);
void api_process_get(struct agent_request *r);
void api_process_kill(struct agent_request *r);
void api_process_kill_all(struct agent_request *r);
void api_process_cleanup(struct agent_request *r);
void api_process_logs(struct agent_request *r);
void api_process_stream(struct agent_request *r);
void api_port_watch(struct agent_request *r);
struct process;
/* The process that {id} names. NULL: there is none, and the request has been answered. */
struct process *agent_request_process(struct agent_request *r);
/* Ends the commands whose output streams from a session which is being deleted. */
void stream_end_session(struct str session);
/* Ends the processes that were started in a session which is being deleted; answers the deletion when they are gone. */
void process_end_session(const struct agent_request *r, struct str session);

/* api_backup.c */
void api_backup_create(struct agent_request *r);
void api_backup_restore(struct agent_request *r);
void api_backup_upload(struct agent_request *r);

/* api_code.c, api_code_run.c */
void api_context_create(struct agent_request *r);
void api_context_list(struct agent_request *r);
void api_context_delete(struct agent_request *r);
void api_interpreter_health(struct agent_request *r);
void api_execute_code(struct agent_request *r);
