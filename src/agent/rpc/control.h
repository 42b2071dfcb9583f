/*
 * control.h - the second table of methods: what `@cloudflare/sandbox` 0.13.0-next.751.1, the preview of upstream's 1.0,
 * calls over /rpc (docs/design/025-control.md).
 *
 * A client of the preview asks utils.getRuntimeMetadata on one socket, and on the next names the runtime that it
 * expects with utils.activateControlSession. From then on that session uses this table; every other session uses the one
 * of 0.12. There are no sessions of a shell: processes.start runs exactly the words it is given.
 *
 *	control.c		activation, the table of routes, the methods without a route
 *	control_sub.c		subscriptions: objects with stream() and cancel()
 *	control_log.c		logs of processes and terminals as events with cursors
 *	control_process.c	processes
 *	control_terminal.c	terminals; control_ws.c their WebSocket, /ws/terminal
 *	control_script.c	mounts, workspace archives and the rest of backups: programs of the box
 *	control_code.c		extensions: the interpreter's sidecar is the agent itself
 *
 * A subscription belongs to the client that holds it: letting go of it, or the end of the session, ends its source.
 * Processes and terminals belong to the box. Thread: the loop's.
 */
#pragma once

#include "agent/process/process.h"
#include "agent/rpc/rpc.h"

#define CONTROL_VERSION "0.13.0-next.751.1"
/* Where upstream's server listens in a container. The agent of a box listens on no port, and answers for this one. */
#define CONTROL_PORT "3000"

/* control.c */
extern const struct rpc_table control_table;
/* True: the method has no route, and the call is taken. */
bool control_start(struct rpc *r, struct capnweb_call *call, const char *name);
bool control_has_object(const char *path);
/* The session is over: calls that wait have nobody to answer. */
void control_leave(struct rpc *r);
/* The agent stops: subscriptions to watches, which have no end of their own, end now. */
void control_stop(struct rpc *r);
/* A tunnel has ended: {id, port, runId?, exitCode}. */
void control_tell_exit(struct rpc *r, const struct json *end, capnweb_on_reply on_reply);
/* Names this life of the box. */
const char *control_runtime(void);
/* The body of ports.openWatch(port, options). */
void control_watch_body(struct buf *body, const struct capnweb_call *call);

/* A member of an options argument; NULL: missing or undefined. */
const struct json *control_option(const struct json *options, const char *name);
/* The words of a command. NULL, and the call is rejected with INVALID_COMMAND: they are none. Free both. */
const char **control_argv(struct capnweb_call *call, const struct json *words, char **ret_text);
/* Members of an error's details, pairs of name and value up to a NULL name; a NULL value leaves its member out. */
void control_reject(struct capnweb_call *call, const char *code, const char *message, const char *const *details);

/* A call that something of the box answers later. */
struct control_wait {
	struct list node;
	struct rpc *rpc;
	struct capnweb_call *call; /* NULL: the session is over */
};
void control_wait_add(struct control_wait *w, struct rpc *r, struct capnweb_call *call);
/* The call to answer, or NULL. */
struct capnweb_call *control_wait_take(struct control_wait *w);

/* control_sub.c */
struct control_source {
	void (*on_ready)(void *arg);  /* write until control_sub_put says no */
	void (*on_cancel)(void *arg); /* nobody wants it any more; the subscription is gone */
};
/* Answers the call with a subscription, which is in *ret before the client can use it. -1: the call is rejected, the
 * client holds too many. The subscription may be over when it returns. */
int control_sub_open(struct rpc *r, struct capnweb_call *call, const struct control_source *source, void *arg,
	struct control_sub **ret);
bool control_sub_put(struct control_sub *s, struct str expression);
bool control_sub_write(struct control_sub *s, struct str bytes);
/* The source is over; with a message the stream breaks off. */
void control_sub_end(struct control_sub *s, const char *error);
/* ports.openWatch of the port that the agent itself stands for. */
void control_watch_self(struct rpc *r, struct capnweb_call *call);
/* Of a call whose answer is a stream of HTTP. */
void control_call_head(struct rpc_call *c);
void control_call_body(struct rpc_call *c, struct str chunk);
void control_call_close(struct rpc_call *c, const struct http_failure *failure);

/* control_log.c: a log with an end, of a process or a terminal */
struct control_log {
	const char *id;
	const struct proclog *log;
	void *owner;
	bool (*is_over)(const void *owner);
	/* state, and exit or error */
	void (*put_end)(struct json_writer *w, const void *owner);
	int64_t (*end_ms)(const void *owner);
	bool terminal;
};

enum control_event { EVENT_NONE, EVENT_OUTPUT, EVENT_TRUNCATED, EVENT_TERMINAL, EVENT_END };

struct control_reader {
	struct control_log log;
	struct proclog_at at;
	uint64_t until; /* a reader that does not follow ends here */
	bool follow, wants_end, has_record;
	struct proclog_record record;
};
enum { CONTROL_CURSOR_LEN = PROCESS_ID_MAX + 24 };

/* From `since` on, {replay, follow} as upstream's; `why` is set when the cursor is none of this log. */
int control_reader_open(struct control_reader *rd, const struct json *options, const char **why);
/* After this cursor. Empty: from the beginning. */
int control_reader_since(struct control_reader *rd, struct str cursor, const char **why);
/* EVENT_NONE: nothing for now. The record is in rd->record. */
enum control_event control_reader_next(struct control_reader *rd);
/* The cursor of the event that came last. */
void control_reader_cursor(const struct control_reader *rd, enum control_event ev, char ret[CONTROL_CURSOR_LEN]);
void control_put_exit(struct json_writer *w, int code, int signal, bool timed_out);

/* Answers log.open(id, options) with a subscription. Its follower is in `followers` until `unfollow`. */
void control_log_open(struct rpc *r, struct capnweb_call *call, const struct control_log *log, struct list *followers,
	void (*unfollow)(void *owner, struct process_follower *f));

/* control_process.c */
void control_process_start(struct rpc *r, struct capnweb_call *call);
void control_process_get(struct rpc *r, struct capnweb_call *call);
void control_process_list(struct rpc *r, struct capnweb_call *call);
void control_process_logs(struct rpc *r, struct capnweb_call *call);
void control_process_kill(struct rpc *r, struct capnweb_call *call);
void control_process_active(struct rpc *r, struct capnweb_call *call);

/* control_terminal.c */
struct control_terminal;
void control_terminal_create(struct rpc *r, struct capnweb_call *call);
void control_terminal_get(struct rpc *r, struct capnweb_call *call);
void control_terminal_list(struct rpc *r, struct capnweb_call *call);
void control_terminal_output(struct rpc *r, struct capnweb_call *call);
void control_terminal_write(struct rpc *r, struct capnweb_call *call);
void control_terminal_resize(struct rpc *r, struct capnweb_call *call);
void control_terminal_interrupt(struct rpc *r, struct capnweb_call *call);
void control_terminal_terminate(struct rpc *r, struct capnweb_call *call);
void control_terminal_active(struct rpc *r, struct capnweb_call *call);
/* For control_ws.c. */
struct control_terminal *control_terminal_find(struct str id);
struct control_log control_terminal_log(struct control_terminal *t);
void control_terminal_follow(struct control_terminal *t, struct process_follower *f);
void control_terminal_unfollow(void *terminal, struct process_follower *f);
/* False: more input waits than a terminal takes. */
bool control_terminal_input(struct control_terminal *t, struct str bytes);
void control_terminal_size(struct control_terminal *t, uint16_t cols, uint16_t rows);
void control_terminal_signal(struct control_terminal *t, bool terminate);

/* control_script.c */
bool control_script_start(struct rpc *r, struct capnweb_call *call, const char *name);

/* control_code.c */
void control_extension_connect(struct rpc *r, struct capnweb_call *call);
void control_extension_health(struct rpc *r, struct capnweb_call *call);
void control_extension_stop(struct rpc *r, struct capnweb_call *call);
