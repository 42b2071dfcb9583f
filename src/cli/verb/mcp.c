/*
 * mcp.c - `atoll mcp`: the Model Context Protocol over stdin and stdout, for clients that start their servers.
 *
 * Every line of stdin is a message. It is sent to the daemon's /mcp, and the messages of the answer become lines of
 * stdout. Messages run side by side, so that a cancel overtakes the call that it means; only `initialize` is waited
 * for, since its answer names the session. At the end of stdin the calls under way are finished, then the session ends,
 * and with it the sandbox that was made for it. A signal, or a reader that went away, ends it at once.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "cli/api.h"
#include "cli/args.h"
#include "cli/verbs.h"
#include "http/sse.h"

enum { CLI_MCP_MESSAGE_MAX = 8 * 1024 * 1024 };

struct bridge {
	struct client *cl;
	const char *sandbox;
	char session[65]; /* "" before initialize was answered */
	struct buf in;	  /* the beginning of a line */
	struct loop_io io, out_io;
	struct loop_task read_task;
	bool ended; /* stdin */
	bool gone;  /* stdout has no reader */
	unsigned under_way;
	bool initializing;
};

/* One message on its way. */
struct post {
	struct bridge *b;
	char *id; /* JSON text; NULL: a notification */
	bool initialize;
	int status;
	bool is_stream;
	struct sse_reader events;
	struct buf body;
};

static void put_line(struct bridge *b, struct str message)
{
	auto_buf struct buf line = {0};
	struct err e;
	buf_add_str(&line, message);
	buf_add_byte(&line, '\n');
	if (cli_write(STDOUT_FILENO, buf_str(&line), &e) < 0)
		b->gone = true;
}

static void put_error(struct post *p, const char *text)
{
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	if (!p->id)
		return;
	json_object_begin(&w);
	json_member_cstr(&w, "jsonrpc", "2.0");
	json_key(&w, "id");
	json_raw(&w, str_of(p->id));
	json_key(&w, "error");
	json_object_begin(&w);
	json_member_i64(&w, "code", -32000);
	json_member_cstr(&w, "message", text);
	json_object_end(&w);
	json_object_end(&w);
	put_line(p->b, buf_str(&out));
}

/* ---- one message ---- */

static void on_event(void *arg, const struct sse_event *ev)
{
	struct post *p = arg;
	put_line(p->b, ev->data);
}

static void on_head(struct http_call *h, const struct http_response *r)
{
	struct post *p = http_call_arg(h);
	struct str session = http_header_value(&r->headers, STR("mcp-session-id"));
	struct str type = http_header_value(&r->headers, STR("content-type"));
	p->status = r->status;
	p->is_stream = type.p && str_starts(type, STR("text/event-stream"));
	if (p->initialize && session.p && session.n < sizeof p->b->session)
		snprintf(p->b->session, sizeof p->b->session, "%.*s", STR_ARG(session));
}

static void on_body(struct http_call *h, struct str chunk)
{
	struct post *p = http_call_arg(h);
	struct err e;
	if (p->is_stream ? sse_feed(&p->events, chunk, &e) < 0 : !buf_add_str(&p->body, chunk))
		http_call_cancel(h);
}

/* The daemon's own refusals are no messages of the protocol. */
static void tell_answer(struct post *p)
{
	struct err e;
	auto_json struct json_doc *doc = json_parse(buf_str(&p->body), &e);
	struct str text = STR_NULL;
	if (p->is_stream || !buf_size(&p->body))
		return;
	if (doc && json_get(json_root(doc), "jsonrpc"))
		return put_line(p->b, buf_str(&p->body));
	json_read_str(doc ? json_root(doc) : NULL, "message", &text, NULL);
	auto_free char *message = str_dup(text.p ? text : STR("the daemon's answer cannot be read"));
	put_error(p, message);
}

static void bridge_lines(struct bridge *b);

static void on_close(struct http_call *h, const struct http_failure *f)
{
	struct post *p = http_call_arg(h);
	struct bridge *b = p->b;
	struct err e = {0};
	if (f) {
		client_failure(b->cl, f, &e);
		const char *hint = b->cl->cli->hint;
		auto_free char *text = xasprintf("%s%s%s", e.msg, *hint ? ". " : "", hint);
		put_error(p, text);
	} else {
		tell_answer(p);
	}
	b->under_way--;
	b->initializing = b->initializing && !p->initialize;
	sse_reader_free(&p->events);
	buf_free(&p->body);
	free(p->id);
	free(p);
	bridge_lines(b);
}

static void send_message(struct bridge *b, struct post *p, struct str line)
{
	static const struct http_call_ops ops = {.on_head = on_head, .on_body = on_body, .on_close = on_close};
	struct http_header room[6];
	auto_buf struct buf target = {0};
	buf_add_c(&target, "/mcp");
	if (p->initialize && b->sandbox)
		api_query(&target, "sandbox", b->sandbox);
	struct http_call_options o = client_options(b->cl, "POST", buf_str(&target), room);
	room[o.headers_n++] = (struct http_header){STR("Content-Type"), STR("application/json")};
	room[o.headers_n++] = (struct http_header){STR("Accept"), STR("application/json, text/event-stream")};
	if (*b->session)
		room[o.headers_n++] = (struct http_header){STR("Mcp-Session-Id"), str_of(b->session)};
	o.content_length = (int64_t)line.n;
	b->under_way++;
	struct http_call *h = http_call_start(b->cl->http, &b->cl->endpoint, &o, &ops, p);
	http_call_write(h, line);
	http_call_end(h);
}

static void take_line(struct bridge *b, struct str line)
{
	struct err e;
	auto_json struct json_doc *doc = json_parse(line, &e);
	const struct json *root = doc ? json_root(doc) : NULL, *id = json_get(root, "id");
	struct str method = STR_NULL;
	struct post *p = xcalloc(1, sizeof *p);
	auto_buf struct buf text = {0};
	p->b = b;
	p->body.max = CLI_MCP_MESSAGE_MAX;
	sse_reader_init(&p->events, on_event, p);
	p->events.max = CLI_MCP_MESSAGE_MAX;
	json_read_str(root, "method", &method, NULL);
	if (id)
		json_put_tree(&text, id);
	if (id || !doc)
		p->id = id ? str_dup(buf_str(&text)) : xstrdup("null");
	p->initialize = method.p && str_eq_c(method, "initialize");
	b->initializing = b->initializing || p->initialize;
	send_message(b, p, line);
}

/* ---- stdin ---- */

static void bridge_lines(struct bridge *b)
{
	while (!b->initializing) {
		struct str all = buf_str(&b->in);
		ssize_t at = str_index(all, '\n');
		if (at < 0 && !(b->ended && all.n))
			return;
		struct str line = str_trim(str_n(all.p, at < 0 ? all.n : (size_t)at));
		if (line.n)
			take_line(b, line);
		buf_consume(&b->in, at < 0 ? all.n : (size_t)at + 1);
	}
}

/* False: nothing more can be read now. */
static bool read_some(struct bridge *b)
{
	char *room = buf_room(&b->in, 65536);
	ssize_t n = room ? read(STDIN_FILENO, room, 65536) : -1;
	if (n > 0)
		buf_commit(&b->in, (size_t)n);
	else if (n == 0 || !room || (errno != EAGAIN && errno != EINTR))
		b->ended = true;
	bridge_lines(b);
	return n > 0;
}

static void on_input(struct loop_io *io, uint32_t events)
{
	struct bridge *b = container_of(io, struct bridge, io);
	(void)events;
	read_some(b);
	if (b->ended)
		loop_del(io);
}

static void read_file(struct loop_task *t)
{
	struct bridge *b = container_of(t, struct bridge, read_task);
	if (read_some(b))
		loop_defer(b->cl->loop, t, read_file);
}

static void on_output(struct loop_io *io, uint32_t events)
{
	struct bridge *b = container_of(io, struct bridge, out_io);
	if (events & (EPOLLERR | EPOLLHUP))
		b->gone = true;
}

static void session_end(struct bridge *b)
{
	struct http_header room[4];
	struct http_call_options o = client_options(b->cl, "DELETE", STR("/mcp"), room);
	static const struct http_call_ops ops = {.on_close = on_close};
	if (!*b->session)
		return;
	struct post *p = xcalloc(1, sizeof *p);
	p->b = b;
	sse_reader_init(&p->events, on_event, p);
	room[o.headers_n++] = (struct http_header){STR("Mcp-Session-Id"), str_of(b->session)};
	b->under_way++;
	struct http_call *h = http_call_start(b->cl->http, &b->cl->endpoint, &o, &ops, p);
	http_call_end(h);
	for (unsigned before = b->under_way; b->under_way >= before;)
		loop_turn(b->cl->loop, -1);
}

int verb_mcp(struct cli *c, int argc, char **argv)
{
	struct bridge b = {.in = {.max = CLI_MCP_MESSAGE_MAX}};
	const struct arg table[] = {
		{"sandbox", "ID", "use this box, and keep it", ARG_TEXT, &b.sandbox},
		ARG_TABLE_END,
	};
	struct args a = {.command_after = ARGS_NO_COMMAND};
	struct err e;
	int code;
	if (!args_parse(c, table, argc, argv, &a, &code))
		return code;
	if (a.n)
		return cli_usage(c, "'%s' is one word too many", a.words[0]);
	auto_client struct client cl = {0};
	if (client_open(c, &cl, &e) < 0 || client_catch_signals(&cl, &e) < 0)
		return cli_fail(c, &e);
	b.cl = &cl;
	fcntl(STDIN_FILENO, F_SETFL, fcntl(STDIN_FILENO, F_GETFL) | O_NONBLOCK);
	if (loop_add(cl.loop, &b.io, STDIN_FILENO, EPOLLIN, on_input) < 0)
		loop_defer(cl.loop, &b.read_task, read_file);
	loop_add(cl.loop, &b.out_io, STDOUT_FILENO, 0, on_output);
	while (!cl.interrupted && !b.gone && !(b.ended && !b.under_way))
		loop_turn(cl.loop, -1);
	loop_del(&b.io);
	loop_del(&b.out_io);
	b.ended = true;
	buf_free(&b.in);
	session_end(&b);
	return cl.interrupted ? 128 + cl.interrupted : 0;
}
