#include <stdlib.h>

#include "agent/limits.h"
#include "agent/rpc/rpc.h"

/*
 * interpreter.runCodeStream: every event of the run becomes a call of one of the client's callbacks, in order. While
 * RPC_CALLBACKS_MAX of them are not answered, the run is not read. The call is answered when the last one is.
 */

enum { ON_STDOUT, ON_STDERR, ON_RESULT, ON_ERROR, CALLBACKS };
static const char *const names[CALLBACKS] = {"onStdout", "onStderr", "onResult", "onError"};

struct rpc_code {
	struct rpc_call *c;
	int64_t stubs[CALLBACKS];
	struct sse_reader events;
	size_t waiting;
	bool paused, closed;
};

static void release(struct rpc_code *k)
{
	struct capnweb *session = k->c->rpc->session;
	for (size_t i = 0; session && i < CALLBACKS; i++)
		if (k->stubs[i])
			capnweb_release_stub(session, k->stubs[i]);
	sse_reader_free(&k->events);
	free(k);
}

static void on_reply(void *arg, bool ok, const struct json *value)
{
	struct rpc_code *k = arg;
	(void)ok;
	(void)value;
	k->waiting--;
	if (!k->closed) {
		if (k->paused && k->c->http)
			http_call_resume(k->c->http);
		k->paused = false;
		return;
	}
	if (k->waiting)
		return;
	struct rpc_call *c = k->c;
	release(k);
	rpc_call_done(c);
}

static void put_output(struct buf *out, const struct json *event)
{
	const struct json *time = json_get(event, "timestamp"), *text = json_get(event, "text");
	buf_add_c(out, "{\"text\":");
	json_put_str(out, text && text->type == JSON_T_STRING ? text->text : STR(""));
	buf_add_c(out, ",\"timestamp\":");
	if (time)
		json_put_tree(out, time);
	else
		buf_add_c(out, "0");
	buf_add_byte(out, '}');
}

static void put_error(struct buf *out, const struct json *event)
{
	struct str name = STR("Error"), message = STR("Unknown error");
	const struct json *trace = json_get(event, "traceback");
	auto_buf struct buf plain = {0};
	(void)json_read_str(event, "ename", &name, NULL);
	(void)json_read_str(event, "evalue", &message, NULL);
	if (trace)
		json_put_tree(&plain, trace);
	else
		buf_add_c(&plain, "[]");
	buf_add_c(out, "{\"name\":");
	json_put_str(out, name);
	buf_add_c(out, ",\"message\":");
	json_put_str(out, message);
	buf_add_c(out, ",\"traceback\":");
	capnweb_put_json(out, buf_str(&plain));
	buf_add_byte(out, '}');
}

static void call_back(struct rpc_code *k, size_t which, struct str arg)
{
	struct rpc_call *c = k->c;
	if (!k->stubs[which] || !c->rpc->session)
		return;
	k->waiting++;
	capnweb_call_peer(c->rpc->session, k->stubs[which], NULL, arg, on_reply, k);
	if (k->waiting < RPC_CALLBACKS_MAX || !c->http)
		return;
	k->paused = true;
	http_call_pause(c->http);
}

static void on_event(void *arg, const struct sse_event *ev)
{
	struct rpc_code *k = arg;
	struct str type = STR_NULL;
	auto_buf struct buf b = {0};
	struct json_doc *doc = json_parse(ev->data, NULL);
	const struct json *event = doc ? json_root(doc) : NULL;
	(void)json_read_str(event, "type", &type, NULL);
	if (str_eq_c(type, "stdout") || str_eq_c(type, "stderr")) {
		put_output(&b, event);
		call_back(k, str_eq_c(type, "stdout") ? ON_STDOUT : ON_STDERR, buf_str(&b));
	} else if (str_eq_c(type, "result")) {
		capnweb_put_json(&b, ev->data);
		call_back(k, ON_RESULT, buf_str(&b));
	} else if (str_eq_c(type, "error")) {
		put_error(&b, event);
		call_back(k, ON_ERROR, buf_str(&b));
	}
	json_free(doc);
}

void rpc_code_start(struct rpc_call *c)
{
	const struct json *callbacks = capnweb_call_arg(c->call, 3);
	struct rpc_code *k = c->code = xcalloc(1, sizeof *k);
	k->c = c;
	sse_reader_init(&k->events, on_event, k);
	k->events.max = CODE_FRAME_MAX;
	for (size_t i = 0; i < CALLBACKS; i++)
		k->stubs[i] = capnweb_take_stub(c->call, json_get(callbacks, names[i]));
}

void rpc_code_body(struct rpc_call *c, struct str chunk)
{
	struct err e;
	if (sse_feed(&c->code->events, chunk, &e) == 0)
		return;
	if (c->call)
		rpc_reject(take_ptr(&c->call), &e);
	http_call_cancel(c->http);
}

bool rpc_code_close(struct rpc_call *c)
{
	struct rpc_code *k = c->code;
	k->closed = true;
	/* The session ends every callback that waits. */
	if (k->waiting)
		return false;
	release(k);
	c->code = NULL;
	return true;
}
