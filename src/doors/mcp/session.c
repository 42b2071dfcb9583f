#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "doors/mcp/call.h"
#include "store/item.h"

static const char kind[] = "mcp-session";

static void on_idle(struct loop_timer *t)
{
	struct mcp_session *s = container_of(t, struct mcp_session, idle);
	if (s->calls_n)
		return mcp_session_touch(s);
	log_event(LOG_INFO, "an MCP session ended: its client was silent", "sandbox=%s", LOG_Q(s->box));
	mcp_session_end(s);
}

void mcp_session_touch(struct mcp_session *s)
{
	loop_timer_set(s->mcp->daemon->loop, &s->idle, MCP_SESSION_IDLE, on_idle);
}

static struct mcp_session *add(struct mcp *m, const char *id, const char *box)
{
	struct mcp_session *s = xcalloc(1, sizeof *s);
	s->mcp = m;
	s->refs = 1;
	snprintf(s->id, sizeof s->id, "%s", id);
	snprintf(s->box, sizeof s->box, "%s", box);
	list_init(&s->calls);
	list_push(&m->sessions, &s->node);
	m->sessions_n++;
	return s;
}

static void random_text(char *ret, size_t n)
{
	static const char letters[] = "abcdefghijkmnpqrstuvwxyz23456789";
	unsigned char bytes[MCP_SESSION_ID_LEN];
	INVARIANT(n <= sizeof bytes && getrandom(bytes, n, 0) == (ssize_t)n);
	for (size_t i = 0; i < n; i++)
		ret[i] = letters[bytes[i] % 32];
	ret[n] = 0;
}

static void write_row(struct mcp_session *s, store_on_done on_done, void *arg)
{
	auto_buf struct buf value = {0};
	struct json_writer w = json_writer(&value);
	json_object_begin(&w);
	json_member_bool(&w, "own", s->own_box);
	json_member_cstr(&w, "token", s->token);
	json_object_end(&w);
	const struct store_item item = {
		.kind = kind,
		.key = s->id,
		.sandbox = s->box,
		.created_ms = (int64_t)clock_wall_ms(),
		.value = buf_cstr(&value),
	};
	store_item_put(s->mcp->daemon->store, &item, on_done, arg);
}

struct mcp_session *mcp_session_new(
	struct mcp *m, const char *box, const char *token, store_on_done on_done, void *arg, struct err *e)
{
	char id[MCP_SESSION_ID_LEN + 1], name[BOX_ID_MAX + 1], tail[11];
	if (m->sessions_n >= MCP_SESSIONS_MAX) {
		err_set(e, ERRC_LIMIT_REACHED, "there are %d MCP sessions; end some of them", MCP_SESSIONS_MAX);
		return NULL;
	}
	random_text(id, MCP_SESSION_ID_LEN);
	random_text(tail, 10);
	snprintf(name, sizeof name, "mcp-%s", tail);
	struct mcp_session *s = add(m, id, *box ? box : name);
	s->own_box = !*box;
	snprintf(s->token, sizeof s->token, "%s", token);
	write_row(s, on_done, arg);
	mcp_session_touch(s);
	return s;
}

struct mcp_session *mcp_session_find(struct mcp *m, struct str id, const char *token)
{
	list_each(it, &m->sessions)
	{
		struct mcp_session *s = list_entry(it, struct mcp_session, node);
		if (str_eq_secret(str_of(s->id), id) && strcmp(s->token, token) == 0)
			return s;
	}
	return NULL;
}

static void session_free(struct mcp_session *s)
{
	loop_timer_stop(&s->idle);
	for (size_t i = 0; i < MCP_OUTPUTS_MAX; i++)
		buf_free(&s->outputs[i].text);
	free(s);
}

void mcp_session_unref(struct mcp_session *s)
{
	if (--s->refs == 0)
		session_free(s);
}

static void on_destroyed(void *arg, const struct http_reply *r, const struct http_failure *f)
{
	(void)arg;
	if (f || (r->status >= 300 && r->status != 404))
		log_limited(LOG_WARN, "the sandbox of an MCP session was not destroyed", "error=%s",
			LOG_Q(f ? f->err.msg : "the daemon refused"));
}

/* A session that made no call has no sandbox: 404 then. */
static void destroy_box(struct mcp_session *s)
{
	auto_buf struct buf target = {0};
	buf_printf(&target, "/v1/sandboxes/%s", s->box);
	const struct http_question q = {
		.options = {.method = STR("DELETE"), .target = buf_str(&target), .head_ms = MCP_ASK_TIMEOUT},
		.max = MCP_ANSWER_MAX,
		.on_reply = on_destroyed,
	};
	http_call_whole(s->mcp->daemon->client, &s->mcp->api, &q);
}

void mcp_session_end(struct mcp_session *s)
{
	store_item_delete(s->mcp->daemon->store, kind, s->id, NULL, NULL);
	if (s->own_box)
		destroy_box(s);
	while (!list_empty(&s->calls))
		mcp_call_cancel(list_entry(s->calls.next, struct mcp_call, node));
	s->ended = true;
	list_del(&s->node);
	s->mcp->sessions_n--;
	loop_timer_stop(&s->idle);
	mcp_session_unref(s);
}

void mcp_forget_token(struct mcp *m, const char *token)
{
	list_each(it, &m->sessions)
	{
		struct mcp_session *s = list_entry(it, struct mcp_session, node);
		if (strcmp(s->token, token) == 0)
			mcp_session_end(s);
	}
}

static int take_item(void *arg, const struct store_item *item, struct err *e)
{
	struct mcp *m = arg;
	(void)e;
	auto_json struct json_doc *doc = json_parse(str_of(item->value), NULL);
	if (strlen(item->key) != MCP_SESSION_ID_LEN || strlen(item->sandbox) > BOX_ID_MAX)
		return 0;
	struct mcp_session *s = add(m, item->key, item->sandbox);
	struct str token = STR("");
	json_read_bool(doc ? json_root(doc) : NULL, "own", &s->own_box, NULL);
	json_read_str(doc ? json_root(doc) : NULL, "token", &token, NULL);
	snprintf(s->token, sizeof s->token, "%.*s", STR_ARG(token));
	mcp_session_touch(s);
	return 0;
}

int mcp_load(struct mcp *m, struct err *e)
{
	return store_load_items(m->daemon->store, kind, take_item, m, e);
}

struct mcp *mcp_new(struct daemon *d)
{
	struct mcp *m = xcalloc(1, sizeof *m);
	struct err e;
	m->daemon = d;
	list_init(&m->sessions);
	INVARIANT(http_endpoint_unix(&m->api, str_of(d->config.api_sock), &e) == 0);
	return m;
}

uint64_t mcp_output_keep(struct mcp_session *s, struct buf *text)
{
	struct mcp_output *o = &s->outputs[s->outputs_made++ % MCP_OUTPUTS_MAX];
	buf_free(&o->text);
	o->number = s->outputs_made;
	o->text = *text;
	*text = (struct buf){.max = text->max};
	return o->number;
}

const struct mcp_output *mcp_output_find(const struct mcp_session *s, uint64_t number)
{
	const struct mcp_output *o = &s->outputs[(number - 1) % MCP_OUTPUTS_MAX];
	return number && o->number == number ? o : NULL;
}
