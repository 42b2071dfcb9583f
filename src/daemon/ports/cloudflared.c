#include "daemon/ports/cloudflared.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "http/sse.h"

struct cloudflared {
	struct sandbox *sandbox; /* referenced */
	char id[sizeof "cloudflared-" + TUNNEL_LABEL_MAX];
	const struct cloudflared_ops *ops;
	void *arg;
	unsigned calls;		  /* to the agent, under way */
	struct http_call *stream; /* one of them: the output */
	struct sse_reader events;
	struct buf said; /* the end of the output, until the URL was found */
	struct loop_timer timer;
	bool started; /* the process may live */
	bool found;   /* the URL */
	bool over;    /* the owner has let go */
};

/* ---- the URL ---- */

static bool is_edge(char c)
{
	return c == ' ' || c == '|' || c == '\n' || c == '\r' || c == '\t';
}

/* "https://{label}.trycloudflare.com" and an edge, at the beginning of s. Cloudflare's own "api" is in messages. */
static bool take_url(struct str s, struct str *ret)
{
	static const struct str scheme = STR("https://"), domain = STR(".trycloudflare.com");
	struct str rest = str_skip(s, scheme.n);
	size_t n = 0;
	if (!str_starts(s, scheme))
		return false;
	while (n < rest.n && n <= TUNNEL_LABEL_MAX &&
		(islower((unsigned char)rest.p[n]) || isdigit((unsigned char)rest.p[n]) || rest.p[n] == '-'))
		n++;
	struct str after = str_skip(rest, n);
	if (!n || n > TUNNEL_LABEL_MAX || str_eq_c(str_n(rest.p, n), "api") || !str_starts(after, domain) ||
		after.n == domain.n || !is_edge(after.p[domain.n]))
		return false;
	*ret = str_n(s.p, scheme.n + n + domain.n);
	return true;
}

bool cloudflared_url(struct str said, struct str *ret)
{
	for (size_t i = 0; i < said.n; i++)
		if ((i == 0 || is_edge(said.p[i - 1])) && take_url(str_skip(said, i), ret))
			return true;
	return false;
}

/* ---- life ---- */

static void release(struct cloudflared *c)
{
	if (!c->over || c->calls)
		return;
	c->sandbox->cloudflareds--;
	sandbox_unref(c->sandbox);
	sse_reader_free(&c->events);
	buf_free(&c->said);
	free(c);
}

static void call_done(struct cloudflared *c)
{
	c->calls--;
	release(c);
}

static void ended(struct cloudflared *c, int code, const struct err *e)
{
	loop_timer_stop(&c->timer);
	if (!c->over)
		c->ops->on_end(c->arg, code, e);
}

static void on_killed(void *arg, const struct http_reply *r, const struct http_failure *failure)
{
	(void)r;
	(void)failure; /* a box that is gone has taken the process along */
	call_done(arg);
}

/* A box that sleeps ends the process when it wakes. */
static void end_process(struct cloudflared *c)
{
	struct sandbox *s = c->sandbox;
	uint32_t wait = s->state == SB_ASLEEP ? 0 : AGENT_ENV_TIMEOUT;
	auto_buf struct buf target = {0};
	if (!c->started || (s->state != SB_RUNNING && s->state != SB_ASLEEP))
		return;
	c->started = false;
	c->calls++;
	buf_printf(&target, "/api/process/%s", c->id);
	struct http_question q = {.options = {.method = STR("DELETE"),
					  .target = buf_str(&target),
					  .head_ms = wait,
					  .stall_ms = AGENT_ENV_TIMEOUT},
		.max = AGENT_ENV_REPLY_MAX,
		.on_reply = on_killed,
		.arg = c};
	http_call_whole(s->daemon->client, &s->agent, &q);
}

void cloudflared_end(struct cloudflared *c)
{
	c->over = true;
	loop_timer_stop(&c->timer);
	if (c->stream)
		http_call_cancel(c->stream);
	end_process(c);
	release(c);
}

/* ---- its output ---- */

static void take_output(struct cloudflared *c, struct str data)
{
	struct str url;
	if (c->found)
		return;
	buf_add_str(&c->said, data);
	if (buf_size(&c->said) > CLOUDFLARED_SAID)
		buf_consume(&c->said, buf_size(&c->said) - CLOUDFLARED_SAID);
	if (!cloudflared_url(buf_str(&c->said), &url))
		return;
	c->found = true;
	loop_timer_stop(&c->timer);
	c->ops->on_url(c->arg, url);
	buf_free(&c->said);
}

static void take_exit(struct cloudflared *c, const struct json *o)
{
	struct err e;
	uint64_t code = 0;
	(void)json_read_u64(o, "exitCode", 0, UINT8_MAX, &code, NULL);
	c->started = false;
	if (code == 127)
		err_set(&e, ERRC_COMMAND_NOT_FOUND,
			"the daemon's tunnels use cloudflared (ATOLL_TUNNELS), and sandbox '%s' does not have it: "
			"install "
			"cloudflared in its image",
			c->sandbox->id);
	else
		err_set(&e, ERRC_PROCESS_ERROR,
			"cloudflared ended with code %d; the log of process '%s' has its output", (int)code, c->id);
	ended(c, (int)code, &e);
}

static void on_event(void *arg, const struct sse_event *ev)
{
	struct cloudflared *c = arg;
	struct str type = STR_NULL, data = STR_NULL;
	auto_json struct json_doc *doc = json_parse(ev->data, NULL);
	const struct json *o = doc ? json_root(doc) : NULL;
	if (c->over || !o || o->type != JSON_T_OBJECT || json_read_str(o, "type", &type, NULL) < 0)
		return;
	(void)json_read_str(o, "data", &data, NULL);
	if (str_eq_c(type, "stdout") || str_eq_c(type, "stderr"))
		take_output(c, data);
	else if (str_eq_c(type, "exit"))
		take_exit(c, o);
}

static void on_body(struct http_call *call, struct str chunk)
{
	struct cloudflared *c = http_call_arg(call);
	if (sse_feed(&c->events, chunk, NULL) < 0)
		http_call_cancel(call);
}

static void on_close(struct http_call *call, const struct http_failure *failure)
{
	struct cloudflared *c = http_call_arg(call);
	struct err e;
	(void)failure;
	c->stream = NULL;
	err_set(&e, ERRC_PROCESS_ERROR, "the output of cloudflared in sandbox '%s' broke off", c->sandbox->id);
	ended(c, CLOUDFLARED_LOST, &e);
	call_done(c);
}

static void follow(struct cloudflared *c)
{
	static const struct http_call_ops ops = {.on_body = on_body, .on_close = on_close};
	auto_buf struct buf target = {0};
	buf_printf(&target, "/api/process/%s/stream", c->id);
	struct http_call_options o = {.target = buf_str(&target), .fresh = true};
	c->calls++;
	c->stream = http_call_start(c->sandbox->daemon->client, &c->sandbox->agent, &o, &ops, c);
}

/* ---- start ---- */

static void on_late(struct loop_timer *t)
{
	struct cloudflared *c = container_of(t, struct cloudflared, timer);
	struct err e;
	err_set(&e, ERRC_GATEWAY_TIMEOUT,
		"cloudflared gave no URL in %d s; the log of process '%s' has its output, and the sandbox's network "
		"policy must allow it to reach Cloudflare",
		CLOUDFLARED_WAIT / 1000, c->id);
	ended(c, CLOUDFLARED_LOST, &e);
}

static void on_started(void *arg, const struct http_reply *r, const struct http_failure *failure)
{
	struct cloudflared *c = arg;
	struct err e;
	if (c->over) {
		end_process(c);
	} else if (failure) {
		ended(c, CLOUDFLARED_LOST, &failure->err);
	} else if (r->status != 200) {
		c->started = false;
		err_set(&e, ERRC_PROCESS_ERROR, "cloudflared could not be started in sandbox '%s': %.*s",
			c->sandbox->id, (int)(r->body.n < 100 ? r->body.n : 100), r->body.p);
		ended(c, CLOUDFLARED_LOST, &e);
	} else {
		follow(c);
	}
	call_done(c);
}

static struct cloudflared *make(
	struct sandbox *s, const char *label, const struct cloudflared_ops *ops, void *arg, struct err *e)
{
	if (s->cloudflareds >= TUNNELS_MAX) {
		err_set(e, ERRC_LIMIT_REACHED, "sandbox '%s' runs cloudflared %d times, or is ending some", s->id,
			TUNNELS_MAX);
		return NULL;
	}
	struct cloudflared *c = xcalloc(1, sizeof *c);
	*c = (struct cloudflared){.sandbox = s, .ops = ops, .arg = arg, .started = true};
	snprintf(c->id, sizeof c->id, "cloudflared-%s", label);
	s->cloudflareds++;
	sandbox_ref(s);
	sse_reader_init(&c->events, on_event, c);
	return c;
}

struct cloudflared *cloudflared_start(struct sandbox *s, const char *label, uint16_t port,
	const struct cloudflared_ops *ops, void *arg, struct err *e)
{
	struct cloudflared *c = make(s, label, ops, arg, e);
	struct http_header type = {STR("Content-Type"), STR("application/json")};
	auto_buf struct buf body = {0};
	if (!c)
		return NULL;
	buf_printf(&body,
		"{\"command\":\"exec cloudflared tunnel --no-autoupdate --url "
		"http://localhost:%u\",\"processId\":\"%s\","
		"\"sessionId\":\"__DISABLE_SESSION__\",\"cwd\":\"/\"}",
		(unsigned)port, c->id);
	struct http_question q = {.options = {.method = STR("POST"),
					  .target = STR("/api/process/start"),
					  .headers = &type,
					  .headers_n = 1,
					  .head_ms = CLOUDFLARED_WAIT,
					  .stall_ms = CLOUDFLARED_WAIT},
		.body = buf_str(&body),
		.max = AGENT_ENV_REPLY_MAX,
		.on_reply = on_started,
		.arg = c};
	c->calls++;
	loop_timer_set(s->daemon->loop, &c->timer, CLOUDFLARED_WAIT, on_late);
	http_call_whole(s->daemon->client, &s->agent, &q);
	return c;
}

struct cloudflared *cloudflared_find(
	struct sandbox *s, const char *label, const struct cloudflared_ops *ops, void *arg, struct err *e)
{
	struct cloudflared *c = make(s, label, ops, arg, e);
	if (!c)
		return NULL;
	c->found = true;
	follow(c);
	return c;
}
