/*
 * GET /v1/sandboxes?limit=&after=&state=. A page is a snapshot of at most API_LIST_MAX references; its text is made as
 * the client takes it, so a reader that stalls holds one page of pointers and one output buffer, not megabytes.
 */
#include <stdio.h>

#include "base/json.h"
#include "daemon/limits.h"
#include "daemon/route/handlers.h"
#include "daemon/route/request.h"
#include "daemon/route/view.h"
#include "proto/limits.h"

struct query {
	char after[BOX_ID_MAX + 1];
	size_t limit;
	bool has_state;
	bool own; /* boxes of builds as well */
	enum sandbox_state state;
};

static int read_query(struct str text, struct query *q, struct err *e)
{
	auto_buf struct buf after = {0}, limit = {0}, state = {0};
	*q = (struct query){.limit = API_LIST_MAX};
	int has_after = http_query_get(text, STR("after"), &after, e);
	int has_limit = http_query_get(text, STR("limit"), &limit, e);
	int has_state = http_query_get(text, STR("state"), &state, e);
	if (has_after < 0 || has_limit < 0 || has_state < 0)
		return -1;
	uint64_t n = API_LIST_MAX;
	if (has_limit && (!str_to_u64(buf_str(&limit), API_LIST_MAX, &n) || n == 0))
		return err_set(e, ERRC_VALIDATION_FAILED, "limit must be 1 to %d", API_LIST_MAX);
	if (has_state && (!state_from_name(buf_str(&state), &q->state) || q->state == SB_DESTROYED))
		return err_set(e, ERRC_VALIDATION_FAILED, "state must be creating, running, asleep or stopped");
	if (buf_size(&after) > BOX_ID_MAX)
		return err_set(e, ERRC_VALIDATION_FAILED, "after must be a sandbox id");
	snprintf(q->after, sizeof q->after, "%.*s", STR_ARG(buf_str(&after)));
	q->limit = (size_t)n;
	q->has_state = has_state == 1;
	return 0;
}

static bool is_listed(const void *query, const struct sandbox *s)
{
	const struct query *q = query;
	return (q->own || !s->work) && (!q->has_state || s->state == q->state);
}

/* The first that is too many says that there are more. */
static void take_page(struct daemon_request *r, const struct query *q)
{
	const struct sandbox_page page = {.after = q->after, .limit = q->limit + 1, .pick = is_listed, .arg = q};
	r->list.v = sandbox_page(r->daemon, &page, &r->list.n);
	r->list.more = r->list.n > q->limit;
	if (r->list.more)
		r->list.n = q->limit;
	for (size_t i = 0; i < r->list.n; i++)
		sandbox_ref(r->list.v[i]);
}

static void write_end(struct daemon_request *r, const char *last)
{
	auto_buf struct buf out = {0};
	buf_add_c(&out, "],\"next\":");
	if (r->list.more && *last)
		json_put_cstr(&out, last);
	else
		buf_add_c(&out, "null");
	buf_printf(
		&out, ",\"total\":%zu}", r->daemon->boxes.count - (caller_is_own(&r->caller) ? 0 : r->daemon->work_n));
	http_respond_write(r->x, buf_str(&out));
	http_respond_end(r->x);
	daemon_request_answered(r, 200);
}

static bool write_one(struct daemon_request *r, const struct sandbox *s)
{
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	if (r->list.comma)
		buf_add_byte(&out, ',');
	r->list.comma = true;
	view_sandbox(&w, s, NULL);
	return http_respond_write(r->x, buf_str(&out));
}

static void write_more(struct daemon_request *r)
{
	char last[BOX_ID_MAX + 1] = "";
	bool room = true;
	while (room && r->list.at < r->list.n) {
		struct sandbox *s = r->list.v[r->list.at++];
		if (sandbox_exists(s))
			room = write_one(r, s);
		snprintf(last, sizeof last, "%s", s->id);
		sandbox_unref(s);
	}
	if (r->list.at == r->list.n)
		write_end(r, last);
}

static void on_writable(struct http_exchange *x)
{
	struct daemon_request *r = http_exchange_arg(x);
	if (!r->status)
		write_more(r);
}

void handle_list(struct daemon_request *r)
{
	static const struct http_exchange_ops ops = {.on_writable = on_writable, .on_close = daemon_request_closed};
	struct query q;
	struct err e;
	if (read_query(http_request(r->x)->query, &q, &e) < 0) {
		err_about(&e, "query");
		return daemon_request_error(r, &e);
	}
	q.own = caller_is_own(&r->caller);
	take_page(r, &q);
	http_exchange_set(r->x, &ops, r);
	http_respond_header(r->x, STR("Content-Type"), STR("application/json"));
	http_respond_begin(r->x, 200, HTTP_CHUNKED);
	http_respond_write(r->x, STR("{\"sandboxes\":["));
	write_more(r);
}
