#include <stdlib.h>

#include "agent/agent.h"
#include "agent/api.h"
#include "agent/limits.h"
#include "agent/rpc/control.h"
#include "http/ws/ws.h"

/*
 * GET /ws/terminal?terminalId=&cursor=&cols=&rows=&runtimeIncarnationID=: a terminal for a browser.
 *
 * Out: {"type":"ready","cursor"?}, then {"type":"chunk","cursor","byteLength"} and a binary message of that length for
 * each piece of output, {"type":"truncated","cursor"} where output was dropped, {"type":"exit","cursor","exit"} at the
 * end, {"type":"error","message"}. In: binary messages are input, text is {"type":"resize","cols","rows"},
 * {"type":"interrupt"} or {"type":"terminate"}. A client that comes back with its last cursor loses nothing.
 */

struct viewer {
	struct process_follower follower;
	struct ws *ws;
	struct control_terminal *terminal; /* NULL: the socket is closing */
	struct control_reader reader;
	struct loop_task task;
	bool full;
};

static void put_begin(struct json_writer *w, const char *type, const char *cursor)
{
	json_object_begin(w);
	json_member_cstr(w, "type", type);
	if (cursor)
		json_member_cstr(w, "cursor", cursor);
}

static bool send_text(struct ws *ws, struct buf *b, struct json_writer *w)
{
	json_object_end(w);
	return ws_send(ws, buf_str(b), true);
}

static void send_error(struct ws *ws, const char *message)
{
	auto_buf struct buf b = {0};
	struct json_writer w = json_writer(&b);
	put_begin(&w, "error", NULL);
	json_member_cstr(&w, "message", message);
	(void)send_text(ws, &b, &w);
}

static void leave(struct viewer *v)
{
	if (v->terminal)
		control_terminal_unfollow(v->terminal, &v->follower);
	v->terminal = NULL;
	list_del(&v->task.node);
}

static void send_exit(struct viewer *v, const char *cursor)
{
	auto_buf struct buf b = {0};
	struct json_writer w = json_writer(&b);
	put_begin(&w, "exit", cursor);
	v->reader.log.put_end(&w, v->reader.log.owner);
	(void)send_text(v->ws, &b, &w);
	leave(v);
	ws_close(v->ws, WS_CLOSE_NORMAL, STR("Terminal exited"));
}

static bool send_event(struct viewer *v, enum control_event ev)
{
	char cursor[CONTROL_CURSOR_LEN];
	auto_buf struct buf b = {0};
	struct json_writer w = json_writer(&b);
	control_reader_cursor(&v->reader, ev, cursor);
	put_begin(&w, ev == EVENT_OUTPUT ? "chunk" : "truncated", cursor);
	if (ev == EVENT_OUTPUT)
		json_member_u64(&w, "byteLength", v->reader.record.n);
	bool room = send_text(v->ws, &b, &w);
	if (ev == EVENT_OUTPUT)
		room = ws_send(v->ws, str_n(v->reader.record.bytes, v->reader.record.n), false);
	return room;
}

static void pour(struct viewer *v)
{
	while (v->terminal && !v->full) {
		enum control_event ev = control_reader_next(&v->reader);
		char cursor[CONTROL_CURSOR_LEN];
		if (ev == EVENT_NONE)
			return;
		control_reader_cursor(&v->reader, EVENT_TERMINAL, cursor);
		if (ev == EVENT_TERMINAL || ev == EVENT_END)
			return send_exit(v, cursor);
		v->full = !send_event(v, ev);
	}
}

static void run_task(struct loop_task *task)
{
	pour(container_of(task, struct viewer, task));
}

static void on_news(struct process_follower *f)
{
	struct viewer *v = container_of(f, struct viewer, follower);
	loop_defer(agent.loop, &v->task, run_task);
}

/* ---- from the client ---- */

static bool read_sizes(const struct json *root, uint64_t *cols, uint64_t *rows)
{
	struct err e;
	return json_read_u64(root, "cols", 1, TERMINAL_SIZE_MAX, cols, &e) == 0 && *cols &&
	       json_read_u64(root, "rows", 1, TERMINAL_SIZE_MAX, rows, &e) == 0 && *rows;
}

static void control(struct viewer *v, struct str message)
{
	struct err e;
	auto_json struct json_doc *doc = json_parse(message, &e);
	const struct json *root = doc ? json_root(doc) : NULL;
	struct str type = STR_NULL;
	uint64_t cols = 0, rows = 0;
	if (root && root->type == JSON_T_OBJECT)
		(void)json_read_str(root, "type", &type, &e);
	if (str_eq_c(type, "interrupt") || str_eq_c(type, "terminate"))
		control_terminal_signal(v->terminal, str_eq_c(type, "terminate"));
	else if (str_eq_c(type, "resize") && read_sizes(root, &cols, &rows))
		control_terminal_size(v->terminal, (uint16_t)cols, (uint16_t)rows);
	else
		send_error(v->ws, "Invalid control message");
}

static void on_message(struct ws *ws, struct str message, bool text)
{
	struct viewer *v = ws_arg(ws);
	if (!v->terminal)
		return;
	if (text)
		control(v, message);
	else if (!control_terminal_input(v->terminal, message))
		send_error(ws, "the program does not read its input; this input was dropped");
}

static void on_writable(struct ws *ws)
{
	struct viewer *v = ws_arg(ws);
	v->full = false;
	pour(v);
}

static void on_close(struct ws *ws, int code, struct str reason)
{
	(void)code;
	(void)reason;
	struct viewer *v = ws_arg(ws);
	leave(v);
	free(v);
}

/* ---- connecting ---- */

static uint16_t size_of(const struct agent_request *r, struct str name)
{
	auto_buf struct buf mem = {0};
	uint64_t n = 0;
	return str_to_u64(agent_request_query(r, name, &mem), TERMINAL_SIZE_MAX, &n) ? (uint16_t)n : 0;
}

static void refuse(struct viewer *v, const char *why)
{
	send_error(v->ws, why);
	ws_close(v->ws, WS_CLOSE_POLICY, str_of(why));
}

static void begin(struct viewer *v, const struct agent_request *r, struct control_terminal *t)
{
	auto_buf struct buf mem = {0}, b = {0};
	struct str cursor = agent_request_query(r, STR("cursor"), &mem);
	auto_free char *since = cursor.n ? str_dup(cursor) : NULL;
	uint16_t cols = size_of(r, STR("cols")), rows = size_of(r, STR("rows"));
	const char *why = NULL;
	v->reader.log = control_terminal_log(t);
	v->reader.follow = v->reader.wants_end = true;
	if (control_reader_since(&v->reader, cursor, &why) < 0)
		return refuse(v, why);
	if (cols && rows)
		control_terminal_size(t, cols, rows);
	v->terminal = t;
	control_terminal_follow(t, &v->follower);
	struct json_writer w = json_writer(&b);
	put_begin(&w, "ready", since);
	v->full = !send_text(v->ws, &b, &w);
	pour(v);
}

void api_ws_terminal(struct agent_request *r)
{
	static const struct ws_ops ops = {.on_message = on_message, .on_writable = on_writable, .on_close = on_close};
	auto_buf struct buf mem = {0}, mem2 = {0};
	struct ws_options options = {.ping_ms = WS_EXEC_PING};
	struct str runtime = agent_request_query(r, STR("runtimeIncarnationID"), &mem2);
	struct control_terminal *t = control_terminal_find(agent_request_query(r, STR("terminalId"), &mem));
	struct viewer *v = xcalloc(1, sizeof *v);
	struct err e;
	v->follower.on_news = on_news;
	if (ws_accept(r->x, &options, &ops, v, &v->ws, &e) < 0) {
		free(v);
		return http_respond_error(r->x, &e);
	}
	if (runtime.n && !str_eq_c(runtime, control_runtime()))
		refuse(v, "Runtime incarnation does not match");
	else if (!t)
		refuse(v, "Terminal not found");
	else
		begin(v, r, t);
}
