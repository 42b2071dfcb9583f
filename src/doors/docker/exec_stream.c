/*
 * exec_stream.c - the two connections of a command: the client's, which has left HTTP, and the WebSocket to /ws/exec.
 * Neither is read faster than the other takes.
 */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "doors/docker/exec.h"

/* ---- to the client ---- */

static bool put(struct docker_exec *x, int stream, struct str bytes)
{
	const char head[8] = {(char)stream, 0, 0, 0, (char)(bytes.n >> 24), (char)(bytes.n >> 16), (char)(bytes.n >> 8),
		(char)bytes.n};
	if (!x->r || !x->r->x || !bytes.n || (!x->tty && !x->streams[stream]))
		return true;
	if (x->tty)
		return http_respond_write(x->r->x, bytes);
	return http_respond_write_framed(x->r->x, str_n(head, sizeof head), bytes, STR_NULL);
}

static void on_client_writable(struct http_exchange *hx)
{
	struct daemon_request *r = http_exchange_arg(hx);
	if (r->docker_exec && r->docker_exec->ws)
		ws_resume(r->docker_exec->ws);
}

/* ---- from the client ---- */

static void on_client_bytes(struct http_exchange *hx, struct str bytes)
{
	struct daemon_request *r = http_exchange_arg(hx);
	struct docker_exec *x = r->docker_exec;
	if (x && x->open && x->has_input && !ws_send(x->ws, bytes, false))
		http_pause(hx);
}

static void end_input(struct docker_exec *x)
{
	x->input_ended = true;
	if (x->open && !x->tty)
		ws_send(x->ws, STR("{\"type\":\"eof\"}"), true);
}

static void on_client_end(struct http_exchange *hx)
{
	struct daemon_request *r = http_exchange_arg(hx);
	if (r->docker_exec)
		end_input(r->docker_exec);
}

static void on_client_close(struct http_exchange *hx, bool complete)
{
	struct daemon_request *r = http_exchange_arg(hx);
	struct docker_exec *x = take_ptr(&r->docker_exec);
	if (x) {
		x->r = NULL;
		if (!x->input_ended)
			end_input(x);
		if (x->ws)
			ws_resume(x->ws);
		exec_release(x);
	}
	daemon_request_closed(hx, complete);
}

/* ---- the command ---- */

void exec_send_size(struct docker_exec *x, uint16_t cols, uint16_t rows)
{
	char text[80];
	snprintf(text, sizeof text, "{\"type\":\"resize\",\"cols\":%u,\"rows\":%u}", cols, rows);
	x->cols = cols;
	x->rows = rows;
	if (x->open)
		ws_send(x->ws, str_of(text), true);
}

static void on_open(struct ws *ws)
{
	struct docker_exec *x = ws_arg(ws);
	auto_buf struct buf first = {0};
	buf_add_c(&first, x->request);
	if (x->tty)
		buf_printf(
			&first, ",\"tty\":{\"cols\":%u,\"rows\":%u}", x->cols ? x->cols : 80, x->rows ? x->rows : 24);
	buf_add_c(&first, "}");
	ws_send(ws, buf_str(&first), true);
	x->open = true;
	if (x->input_ended || !x->has_input)
		end_input(x);
	if (x->r && x->r->x)
		http_resume(x->r->x);
}

static void on_control(struct docker_exec *x, struct str text)
{
	auto_json struct json_doc *doc = json_parse(text, NULL);
	const struct json *root = doc ? json_root(doc) : NULL;
	struct str type = STR_NULL, why = STR_NULL;
	double code = -1, pid = 0;
	if (!root || json_read_str(root, "type", &type, NULL) < 0)
		return;
	if (str_eq_c(type, "started") && json_read_double(root, "pid", &pid, NULL) == 0)
		x->pid = (int)pid;
	if (!str_eq_c(type, "exit") && !str_eq_c(type, "error"))
		return;
	if (json_read_double(root, "exitCode", &code, NULL) == 0)
		x->code = (int)code;
	x->state = EXEC_ENDED;
	if (json_read_str(root, "message", &why, NULL) == 0 && why.n) {
		put(x, x->tty ? 1 : 2, why);
		put(x, x->tty ? 1 : 2, STR("\n"));
	}
}

static void on_message(struct ws *ws, struct str message, bool text)
{
	struct docker_exec *x = ws_arg(ws);
	if (text)
		return on_control(x, message);
	int stream = message.n ? message.p[0] : 0;
	if ((stream == 1 || stream == 2) && !put(x, stream, str_skip(message, 1)))
		ws_pause(ws);
}

static void on_writable(struct ws *ws)
{
	struct docker_exec *x = ws_arg(ws);
	if (x->r && x->r->x)
		http_resume(x->r->x);
}

static void on_close(struct ws *ws, int code, struct str reason)
{
	struct docker_exec *x = ws_arg(ws);
	(void)code;
	(void)reason;
	x->ws = NULL;
	x->open = false;
	x->state = EXEC_ENDED;
	if (x->r && x->r->x) {
		http_resume(x->r->x);
		http_respond_end(x->r->x);
	}
	exec_release(x);
}

static void connect_command(struct docker_exec *x)
{
	static const struct ws_ops ops = {
		.on_open = on_open, .on_message = on_message, .on_writable = on_writable, .on_close = on_close};
	auto_free char *target = xasprintf("/v1/sandboxes/%s/ws/exec", x->box);
	const struct http_call_options call = {
		.method = STR("GET"), .target = str_of(target), .head_ms = DOCKER_ASK_TIMEOUT};
	const struct ws_options o = {0};
	x->state = EXEC_RUNNING;
	x->code = -1;
	exec_hold(x);
	x->ws = ws_connect(x->docker->daemon->client, &x->docker->api, &call, &o, &ops, x);
}

/* [rows, columns] */
static void read_size(struct docker_exec *x, const struct json *size)
{
	const struct json *h = size && size->type == JSON_T_ARRAY ? size->first : NULL, *w = h ? h->next : NULL;
	uint64_t rows = 0, cols = 0;
	if (!w || !str_to_u64(h->text, UINT16_MAX, &rows) || !str_to_u64(w->text, UINT16_MAX, &cols))
		return;
	x->rows = (uint16_t)rows;
	x->cols = (uint16_t)cols;
}

void exec_start(struct daemon_request *r, struct docker_exec *x, const struct json *root)
{
	static const struct http_exchange_ops ops = {.on_body = on_client_bytes,
		.on_body_end = on_client_end,
		.on_writable = on_client_writable,
		.on_close = on_client_close};
	const struct container *c = map_get(&x->docker->boxes, str_of(x->box));
	bool detach = false;
	if (root && json_read_bool(root, "Detach", &detach, NULL) < 0)
		return docker_error(r, 400, "Detach must be true or false");
	if (x->state != EXEC_CREATED)
		return docker_error(r, 409, "exec %s was started already", x->id);
	if (!c || c->state != CONTAINER_RUNNING || strcmp(c->id, x->container) != 0)
		return docker_error(r, 409, "the container of exec %s is not running", x->id);
	read_size(x, json_get(root, "ConsoleSize"));
	if (detach) {
		x->has_input = false;
		connect_command(x);
		return docker_no_content(r, 200);
	}
	const struct http_request *q = http_request(r->x);
	if (!q->upgrade && !q->upgrade_behind)
		return docker_error(
			r, 400, "a start that is not detached needs 'Connection: Upgrade' and 'Upgrade: tcp'");
	http_exchange_set(r->x, &ops, r);
	http_respond_header(r->x, STR("Content-Type"), STR("application/vnd.docker.raw-stream"));
	http_respond_header(r->x, STR("Upgrade"), STR("tcp"));
	http_upgrade(r->x);
	daemon_request_answered(r, 101);
	http_pause(r->x);
	exec_hold(x);
	x->r = r;
	r->docker_exec = x;
	connect_command(x);
}
