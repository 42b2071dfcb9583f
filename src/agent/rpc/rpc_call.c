#include "agent/agent.h"
#include "agent/limits.h"
#include "agent/request/local.h"
#include "agent/rpc/rpc.h"
#include "proto/errc.h"

/* A call: its request to the agent's own server, plain answers, and errors. */

/* ---- errors ---- */

bool rpc_is_own_code(struct str code)
{
	static const char *const own[] = {"APPROVAL_NOT_FOUND", "BAD_GATEWAY", "BOX_CREATE_FAILED",
		"BUCKET_MOUNT_FAILED", "CONTAINER_LOST", "EXPECTATION_FAILED", "FORBIDDEN", "GATEWAY_TIMEOUT",
		"HEADERS_TOO_LARGE", "HOST_UNSUPPORTED", "HTTP_VERSION_NOT_SUPPORTED", "IMAGE_NOT_FOUND",
		"INVALID_JSON", "INVALID_LIMITS", "INVALID_REQUEST", "INVALID_SANDBOX_ID_CHARACTERS",
		"INVALID_SANDBOX_ID_HYPHENS", "INVALID_SANDBOX_ID_LENGTH", "INVALID_STATE", "LIMIT_REACHED",
		"METHOD_NOT_ALLOWED", "MISDIRECTED_REQUEST", "NOT_FOUND", "NOT_IMPLEMENTED", "NOT_REGULAR_FILE",
		"PAYLOAD_TOO_LARGE", "REQUEST_TIMEOUT", "RESERVED_SANDBOX_ID", "SANDBOX_NOT_FOUND",
		"SNAPSHOT_NOT_FOUND", "TOKEN_ALREADY_EXISTS", "TUNNEL_NOT_FOUND", "TUNNEL_RUN_CONFLICT", "UNAUTHORIZED",
		"UPGRADE_REQUIRED", "URI_TOO_LONG"};
	for (size_t i = 0; i < ARRAY_LEN(own); i++)
		if (str_eq_c(code, own[i]))
			return true;
	return false;
}

/* An error has the properties `code` and `details`, from which the client makes its classes. It takes a code that it
 * does not know for a broken connection, whose outcome is unknown, but for one in a message that is JSON. */
void rpc_reject_with(struct capnweb_call *call, struct str message, struct str code, struct str details)
{
	auto_buf struct buf b = {0}, text = {0};
	struct json_writer w = json_writer(&b), t = json_writer(&text);
	struct str plain = details.n ? details : STR("{}");
	if (rpc_is_own_code(code)) {
		json_object_begin(&t);
		json_member_str(&t, "code", code);
		json_member_str(&t, "message", message);
		json_key(&t, "context");
		json_raw(&t, plain);
		json_object_end(&t);
		message = buf_str(&text);
	}
	json_object_begin(&w);
	json_member_str(&w, "code", code);
	json_key(&w, "details");
	capnweb_put_json(&b, plain);
	json_object_end(&w);
	capnweb_reject(call, "Error", message, buf_str(&b));
}

void rpc_reject(struct capnweb_call *call, const struct err *e)
{
	rpc_reject_with(call, str_of(e->msg), str_of(errc_info(e->code)->code), STR_NULL);
}

static void reject_unknown(struct capnweb_call *call, const char *name)
{
	auto_buf struct buf text = {0};
	buf_printf(&text, "'%s' is not a function.", name);
	capnweb_reject(call, "TypeError", buf_str(&text), STR_NULL);
}

/* The error of a route: {code, message, context}, or that of /api/execute/code: {code, error, details}. */
static void reject_answer(struct rpc_call *c)
{
	struct json_doc *doc = json_parse(buf_str(&c->answer), NULL);
	const struct json *root = doc ? json_root(doc) : NULL;
	struct str code = STR("UNKNOWN_ERROR"), message = STR("the request failed");
	auto_buf struct buf plain = {0};
	if (root) {
		(void)json_read_str(root, "code", &code, NULL);
		(void)json_read_str(root, "error", &message, NULL);
		(void)json_read_str(root, "message", &message, NULL);
		const struct json *context = json_get(root, json_get(root, "context") ? "context" : "details");
		if (context && context->type == JSON_T_OBJECT)
			json_put_tree(&plain, context);
	}
	rpc_reject_with(take_ptr(&c->call), message, code, buf_str(&plain));
	json_free(doc);
}

/* ---- answers ---- */

/* Rejects the call when the expression did not fit into its buffer. */
static void resolve(struct capnweb_call *call, const struct buf *expression)
{
	struct err e;
	if (!expression->failed)
		return capnweb_resolve(call, buf_str(expression));
	err_set(&e, ERRC_FILE_TOO_LARGE, "the answer is too long for this transport; use a stream");
	rpc_reject(call, &e);
}

static void resolve_answer(struct rpc_call *c)
{
	auto_buf struct buf out = {0};
	struct str text = buf_str(&c->answer);
	if (!c->method->shape && c->method->kind != RPC_UPLOAD) {
		capnweb_put_json(&out, text);
	} else if (c->method->kind == RPC_UPLOAD) {
		/* An object: the number goes before its end. */
		capnweb_put_json(&out, str_n(text.p, text.n ? text.n - 1 : 0));
		buf_printf(&out, ",\"bytesWritten\":%llu}", (unsigned long long)c->piped);
	} else {
		struct json_doc *doc = json_parse(text, NULL);
		c->method->shape(&out, doc ? json_root(doc) : NULL);
		json_free(doc);
	}
	resolve(take_ptr(&c->call), &out);
}

static void on_head(struct http_call *http, const struct http_response *r)
{
	struct rpc_call *c = http_call_arg(http);
	c->status = r->status;
	c->rpc->bodies -= c->body;
	c->body = 0;
	rpc_flow(c->rpc);
	bool streams = c->method->kind == RPC_STREAM || c->method->kind == RPC_FILE;
	if (r->status == 200 && streams && c->call)
		rpc_stream_head(c, r);
	else if (c->rpc->full || c->rpc->answers > RPC_ANSWERS_HIGH)
		rpc_gather(c->rpc);
}

static void on_body(struct http_call *http, struct str chunk)
{
	struct rpc_call *c = http_call_arg(http);
	if (c->stream)
		return rpc_stream_body(c, chunk);
	if (c->code && c->status == 200)
		return rpc_code_body(c, chunk);
	if (!c->call)
		return;
	bool below = c->rpc->answers <= RPC_ANSWERS_HIGH;
	c->rpc->answers += chunk.n;
	c->gathered += chunk.n;
	if (!buf_add_str(&c->answer, chunk)) {
		struct err e;
		err_set(&e, ERRC_FILE_TOO_LARGE, "the answer is too long for this transport; use a stream");
		rpc_reject(take_ptr(&c->call), &e);
		http_call_cancel(http);
	} else if (below && c->rpc->answers > RPC_ANSWERS_HIGH) {
		rpc_gather(c->rpc);
	}
}

void rpc_gather(struct rpc *r)
{
	bool first = true, above = r->answers > RPC_ANSWERS_HIGH;
	list_each(it, &r->calls)
	{
		struct rpc_call *c = list_entry(it, struct rpc_call, node);
		if (!c->http || !c->call || c->code)
			continue;
		bool hold = r->full || (above && !first);
		first = false;
		if (hold != c->held && hold)
			http_call_pause(c->http);
		else if (hold != c->held)
			http_call_resume(c->http);
		c->held = hold;
	}
}

static void on_writable(struct http_call *http)
{
	rpc_upload_writable(http_call_arg(http));
}

static void answer(struct rpc_call *c)
{
	if (c->failed)
		rpc_reject(take_ptr(&c->call), &c->error);
	else if (c->status >= 400)
		reject_answer(c);
	else if (c->method->kind == RPC_CODE)
		capnweb_resolve(take_ptr(&c->call), CAPNWEB_UNDEFINED);
	else
		resolve_answer(c);
}

void rpc_call_done(struct rpc_call *c)
{
	struct rpc *r = c->rpc;
	if (c->call)
		answer(c);
	list_del(&c->node);
	r->n--;
	bool above = r->answers > RPC_ANSWERS_HIGH;
	r->answers -= c->gathered;
	buf_free(&c->answer);
	free(c->path);
	free(c);
	if (above)
		rpc_gather(r);
	rpc_close_if_idle(r);
	rpc_free_if_done(r);
}

static void on_close(struct http_call *http, const struct http_failure *failure)
{
	struct rpc_call *c = http_call_arg(http);
	c->rpc->bodies -= c->body;
	c->body = 0;
	c->http = NULL;
	rpc_flow(c->rpc);
	if (failure && !c->failed) {
		c->failed = true;
		c->error = failure->err;
	}
	if (c->pipe)
		rpc_upload_close(c);
	if (c->stream)
		rpc_stream_close(c, failure);
	if (!c->code || rpc_code_close(c))
		rpc_call_done(c);
}

static const struct http_call_ops call_ops = {
	.on_head = on_head, .on_body = on_body, .on_writable = on_writable, .on_close = on_close};

/* ---- start ---- */

static int start(struct rpc_call *c, struct err *e)
{
	auto_buf struct buf target = {0}, body = {0};
	bool upload = c->method->kind == RPC_UPLOAD;
	if (rpc_request(c, &target, &body, e) < 0 || (upload && rpc_upload_start(c, e) < 0))
		return -1;
	struct http_header headers[] = {{STR("Content-Type"), STR("application/json")}};
	struct http_call_options o = {.method = str_of(c->route->method),
		.target = buf_str(&target),
		.headers = headers,
		.headers_n = upload ? 0 : 1,
		.content_length = upload ? HTTP_CALL_CHUNKED : (int64_t)buf_size(&body)};
	c->http = local_call(&o, &call_ops, c, e);
	if (!c->http)
		return -1;
	c->body = buf_size(&body);
	c->rpc->bodies += c->body;
	http_call_write(c->http, buf_str(&body));
	if (!upload)
		http_call_end(c->http);
	return 0;
}

void rpc_start(struct rpc *r, struct capnweb_call *call, const char *name)
{
	const struct route *route = NULL;
	const struct rpc_method *m = rpc_method_find(name, call, &route);
	struct err e;
	if (!m && strncmp(name, "tunnels.", 8) == 0 && rpc_tunnel_start(r, call, name))
		return;
	if (!m)
		return reject_unknown(call, name);
	if (r->n >= RPC_OPEN_MAX) {
		err_set(&e, ERRC_INVALID_REQUEST, "more than %d calls and streams are open on this socket",
			RPC_OPEN_MAX);
		return rpc_reject(call, &e);
	}
	struct rpc_call *c = xcalloc(1, sizeof *c);
	*c = (struct rpc_call){.rpc = r, .route = route, .method = m, .call = call};
	list_push(&r->calls, &c->node);
	r->n++;
	const struct json *path = m->kind == RPC_FILE ? capnweb_call_arg(call, 0) : NULL;
	if (path && path->type == JSON_T_STRING)
		c->path = str_dup(path->text);
	if (m->kind == RPC_CODE)
		rpc_code_start(c);
	if (start(c, &e) == 0) {
		if (c->pipe)
			rpc_upload_writable(c);
		return rpc_flow(r);
	}
	c->failed = true;
	c->error = e;
	if (c->pipe)
		rpc_upload_close(c);
	if (c->code)
		(void)rpc_code_close(c);
	rpc_call_done(c);
}

void rpc_call_leave(struct rpc_call *c)
{
	c->call = NULL;
	/* A command that nobody waits for runs on, as over HTTP; the route decides when its client goes away. */
	if (c->http)
		http_call_cancel(c->http);
}
