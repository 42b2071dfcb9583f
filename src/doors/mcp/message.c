#include "doors/mcp/message.h"

#include <string.h>

#include "base/json.h"
#include "doors/mcp/call.h"
#include "proto/id.h"

/* The revisions that this daemon speaks, newest first. They differ in nothing that it does. */
static const char *const revisions[] = {"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"};

static const char instructions[] = "Atoll runs commands and code in an isolated Linux sandbox. Every tool works in "
				   "this session's own sandbox unless "
				   "'sandbox' names another. Files live in /workspace. run_code keeps variables "
				   "between calls. Long output is cut: "
				   "read_output reads the rest.";

void mcp_error_write(struct buf *out, struct str id, enum mcp_error code, const char *text)
{
	struct json_writer w = json_writer(out);
	json_object_begin(&w);
	json_member_cstr(&w, "jsonrpc", "2.0");
	json_key(&w, "id");
	json_raw(&w, id.n ? id : STR("null"));
	json_key(&w, "error");
	json_object_begin(&w);
	json_member_i64(&w, "code", code);
	json_member_cstr(&w, "message", text);
	json_object_end(&w);
	json_object_end(&w);
}

/* One message and what is being done with it. */
struct message {
	struct mcp *mcp;
	struct mcp_session *session;
	struct daemon_request *request;
	struct json_doc *doc; /* owned until a call takes it */
	const struct json *params;
	struct str method;
	struct buf id; /* as JSON text; empty: a notification */
};

static void refuse(struct message *m, int status, enum mcp_error code, const char *text)
{
	auto_buf struct buf out = {0};
	mcp_error_write(&out, buf_str(&m->id), code, text);
	daemon_request_json(m->request, status, buf_str(&out));
}

static struct json_writer result_begin(const struct message *m, struct buf *out)
{
	struct json_writer w = json_writer(out);
	json_object_begin(&w);
	json_member_cstr(&w, "jsonrpc", "2.0");
	json_key(&w, "id");
	json_raw(&w, buf_str(&m->id));
	json_key(&w, "result");
	json_object_begin(&w);
	return w;
}

static void result_end(struct message *m, struct json_writer *w)
{
	json_object_end(w);
	json_object_end(w);
	daemon_request_json(m->request, 200, buf_str(w->out));
}

/* ---- initialize ---- */

static const char *choose_revision(const struct json *params)
{
	struct str wanted = STR_NULL;
	json_read_str(params, "protocolVersion", &wanted, NULL);
	for (size_t i = 0; wanted.p && i < ARRAY_LEN(revisions); i++)
		if (str_eq_c(wanted, revisions[i]))
			return revisions[i];
	return revisions[0];
}

static void write_server(struct json_writer *w, const char *revision)
{
	json_member_cstr(w, "protocolVersion", revision);
	json_key(w, "capabilities");
	json_raw(w, STR("{\"tools\":{},\"resources\":{}}"));
	json_key(w, "serverInfo");
	json_object_begin(w);
	json_member_cstr(w, "name", "atoll");
	json_member_cstr(w, "title", "Atoll sandboxes");
	json_member_cstr(w, "version", ATOLL_VERSION);
	json_object_end(w);
	json_member_cstr(w, "instructions", instructions);
}

/* The answer to initialize, while the session is being written. */
struct greeting {
	struct daemon_request *request; /* held */
	char id[MCP_SESSION_ID_LEN + 1];
	char *text; /* owned */
};

static void on_session(void *arg, const struct err *e)
{
	struct greeting *g = arg;
	struct daemon_request *r = g->request;
	if (r->x && e) {
		daemon_request_error(r, e);
	} else if (r->x) {
		http_respond_header(r->x, STR("Mcp-Session-Id"), str_of(g->id));
		daemon_request_json(r, 200, str_of(g->text));
	}
	daemon_request_release(r);
	free(g->text);
	free(g);
}

static void initialize(struct message *m)
{
	struct err e;
	auto_buf struct buf out = {0}, box = {0};
	int given = http_query_get(http_request(m->request->x)->query, STR("sandbox"), &box, &e);
	if (given < 0 || (given && box_id_check(buf_str(&box), &e) < 0))
		return refuse(m, 400, MCP_INVALID_PARAMS, e.msg);
	struct greeting *g = xcalloc(1, sizeof *g);
	struct mcp_session *s = mcp_session_new(m->mcp, buf_cstr(&box), m->request->caller.token, on_session, g, &e);
	if (!s) {
		free(g);
		return refuse(m, 429, MCP_INVALID_REQUEST, e.msg);
	}
	struct json_writer w = result_begin(m, &out);
	write_server(&w, choose_revision(m->params));
	json_object_end(&w);
	json_object_end(&w);
	memcpy(g->id, s->id, sizeof g->id);
	g->text = str_dup(buf_str(&out));
	g->request = m->request;
	daemon_request_hold(g->request);
}

/* ---- calls ---- */

static void on_tick(struct loop_timer *t)
{
	struct mcp_call *c = container_of(t, struct mcp_call, tick);
	if (c->request->x)
		sse_comment(c->request->x);
	loop_timer_set(c->session->mcp->daemon->loop, t, MCP_KEEP_ALIVE, on_tick);
}

static void begin_stream(struct mcp_call *c)
{
	const struct http_headers *h = &http_request(c->request->x)->headers;
	if (!http_header_has_token(h, STR("accept"), STR("text/event-stream")))
		return;
	c->stream = true;
	sse_begin(c->request->x);
	loop_timer_set(c->session->mcp->daemon->loop, &c->tick, MCP_KEEP_ALIVE, on_tick);
}

static struct mcp_call *call_new(struct message *m)
{
	struct mcp_call *c = xcalloc(1, sizeof *c);
	auto_buf struct buf token = {0};
	const struct json *t = json_get(json_get(m->params, "_meta"), "progressToken");
	c->session = m->session;
	c->session->refs++;
	c->session->calls_n++;
	list_push(&c->session->calls, &c->node);
	c->request = m->request;
	daemon_request_hold(c->request);
	c->message = m->doc;
	m->doc = NULL;
	c->id = str_dup(buf_str(&m->id));
	c->out.max = MCP_OUTPUT_KEPT_MAX + 1;
	memcpy(c->box, c->session->box, sizeof c->box);
	if (!json_is_null(t)) {
		json_put_tree(&token, t);
		c->progress_token = str_dup(buf_str(&token));
	}
	return c;
}

/* The sandbox that the call names, else the session's own. */
static int choose_box(struct mcp_call *c, struct err *e)
{
	struct str box = STR_NULL;
	if (json_read_str(c->arguments, "sandbox", &box, e) < 0)
		return -1;
	if (!box.p)
		return 0;
	if (box_id_check(box, e) < 0)
		return -1;
	memcpy(c->box, box.p, box.n);
	c->box[box.n] = 0;
	return 0;
}

static void tools_call(struct message *m)
{
	struct err e;
	struct str name = STR_NULL;
	const struct json *arguments = json_get(m->params, "arguments");
	if (json_read_str(m->params, "name", &name, &e) < 0 || !name.p)
		return refuse(m, 200, MCP_INVALID_PARAMS, "params.name must be the name of a tool");
	if (!json_is_null(arguments) && arguments->type != JSON_T_OBJECT)
		return refuse(m, 200, MCP_INVALID_PARAMS, "params.arguments must be an object");
	if (m->session->calls_n >= MCP_CALLS_MAX)
		return refuse(m, 200, MCP_INVALID_REQUEST, "too many calls of this session are under way");
	if (!mcp_tool_exists(name))
		return refuse(m, 200, MCP_INVALID_PARAMS, "there is no tool of this name; tools/list shows all");
	struct mcp_call *c = call_new(m);
	c->arguments = arguments;
	begin_stream(c);
	if (choose_box(c, &e) < 0)
		return mcp_call_fail(c, &e);
	mcp_tool_run(c, name);
}

static void resources_read(struct message *m)
{
	struct err e;
	struct str uri = STR_NULL;
	if (json_read_str(m->params, "uri", &uri, &e) < 0 || !uri.p)
		return refuse(m, 200, MCP_INVALID_PARAMS, "params.uri must be the address of a resource");
	struct mcp_call *c = call_new(m);
	c->arguments = m->params;
	c->resource = true;
	c->path = str_dup(uri);
	mcp_resource_read(c);
}

static void resources_list(struct message *m)
{
	struct mcp_call *c = call_new(m);
	mcp_resource_list(c);
}

static void cancel(struct message *m)
{
	const struct json *id = json_get(m->params, "requestId");
	auto_buf struct buf text = {0};
	if (!id)
		return;
	json_put_tree(&text, id);
	list_each(it, &m->session->calls)
	{
		struct mcp_call *c = list_entry(it, struct mcp_call, node);
		if (str_eq(str_of(c->id), buf_str(&text)))
			return mcp_call_cancel(c);
	}
}

/* ---- dispatch ---- */

static void list_tools(struct message *m)
{
	auto_buf struct buf out = {0};
	struct json_writer w = result_begin(m, &out);
	mcp_tools_write(&w);
	result_end(m, &w);
}

static void list_templates(struct message *m)
{
	auto_buf struct buf out = {0};
	struct json_writer w = result_begin(m, &out);
	mcp_resource_templates(&w);
	result_end(m, &w);
}

static void ping(struct message *m)
{
	auto_buf struct buf out = {0};
	struct json_writer w = result_begin(m, &out);
	result_end(m, &w);
}

static const struct {
	const char *method;
	void (*run)(struct message *m);
} methods[] = {
	{"ping", ping},
	{"tools/list", list_tools},
	{"tools/call", tools_call},
	{"resources/list", resources_list},
	{"resources/templates/list", list_templates},
	{"resources/read", resources_read},
};

static void request_run(struct message *m)
{
	if (str_eq_c(m->method, "initialize"))
		return initialize(m);
	if (!m->session)
		return refuse(m, 400, MCP_INVALID_REQUEST, "begin with 'initialize', then send its Mcp-Session-Id");
	for (size_t i = 0; i < ARRAY_LEN(methods); i++)
		if (str_eq_c(m->method, methods[i].method))
			return methods[i].run(m);
	refuse(m, 200, MCP_METHOD_NOT_FOUND, "this server does not know the method");
}

/* Notifications, and answers to requests that we never sent. */
static void notice(struct message *m)
{
	if (m->session && str_eq_c(m->method, "notifications/cancelled"))
		cancel(m);
	daemon_request_json(m->request, 202, STR(""));
}

static bool read_id(struct message *m, const struct json *root)
{
	const struct json *id = json_get(root, "id");
	if (!id)
		return true;
	json_put_tree(&m->id, id);
	return id->type == JSON_T_STRING || id->type == JSON_T_NUMBER;
}

static void take(struct message *m)
{
	const struct json *root = json_root(m->doc);
	struct str version = STR_NULL;
	if (root->type != JSON_T_OBJECT)
		return refuse(m, 400, MCP_INVALID_REQUEST, "a message is one JSON object; batches are not supported");
	json_read_str(root, "jsonrpc", &version, NULL);
	json_read_str(root, "method", &m->method, NULL);
	m->params = json_get(root, "params");
	bool result = json_get(root, "result") || json_get(root, "error");
	if (!version.p || !str_eq_c(version, "2.0") || !read_id(m, root) || (!m->method.p && !result))
		return refuse(m, 400, MCP_INVALID_REQUEST, "this is not a JSON-RPC 2.0 message");
	if (!m->method.p || !buf_size(&m->id))
		return notice(m);
	request_run(m);
}

void mcp_message(struct mcp *mcp, struct mcp_session *s, struct daemon_request *r, struct str text)
{
	struct err e;
	struct message m = {.mcp = mcp, .session = s, .request = r, .doc = json_parse(text, &e)};
	if (m.doc)
		take(&m);
	else
		refuse(&m, 400, MCP_PARSE_ERROR, e.msg);
	json_free(m.doc);
	buf_free(&m.id);
}
