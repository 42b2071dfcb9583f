/*
 * /v1/tokens: named tokens are made, listed and revoked. A value goes out once, when it is made. Every token may do
 * this, as it may do everything else.
 *
 * What ends with a token, at once: the tokens that were made with it, and theirs; its console sessions, links and
 * tickets, the hooks that it holds, and its requests that are under way, so event streams and terminals too.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "daemon/admit/login.h"
#include "daemon/admit/tickets.h"
#include "daemon/network/hooks.h"
#include "daemon/route/handlers.h"
#include "daemon/route/request.h"
#include "doors/mcp/mcp.h"

/* `but`: the request that asked for it, which is still to be answered. */
static void end_all_of(struct daemon *d, const char *name, const struct daemon_request *but)
{
	login_forget_token(d->login, name);
	tickets_forget_token(d->tickets, name);
	mcp_forget_token(d->mcp, name);
	hooks_forget_token(d, name);
	list_each(it, &d->token_requests)
	{
		struct daemon_request *r = list_entry(it, struct daemon_request, of_token);
		if (r != but && r->x && strcmp(r->caller.token, name) == 0)
			http_abort(r->x);
	}
}

/* The token, or one that was made with it, or with that one …, and that has made none itself. */
static void youngest_of(const struct tokens *t, const char *name, char ret[TOKEN_NAME_MAX + 1])
{
	const char *next = name;
	for (int i = 0; next && i <= TOKENS_MAX; i++, next = tokens_made_by(t, ret))
		snprintf(ret, TOKEN_NAME_MAX + 1, "%s", next);
}

/* Ends the tokens that were made with it first, so that a daemon that is killed here finds no token without the one
 * that made it. Adds the names to `gone`, which may be NULL. on_done comes when the store has forgotten the last. */
static void end_with_its_own(struct daemon *d, const char *name, const struct daemon_request *but,
	struct json_writer *gone, store_on_done on_done, void *arg)
{
	char at[TOKEN_NAME_MAX + 1];
	bool last;
	do {
		youngest_of(d->tokens, name, at);
		last = strcmp(at, name) == 0;
		end_all_of(d, at, but); /* written before the token goes: no session outlives it */
		tokens_remove(d->tokens, at, last ? on_done : NULL, last ? arg : NULL);
		if (gone)
			json_cstr(gone, at);
	} while (!last);
}

/* ---- tokens whose time is over ---- */

static void on_expiry(struct loop_timer *t)
{
	struct daemon *d = container_of(t, struct daemon, token_timer);
	char name[TOKEN_NAME_MAX + 1];
	const char *over;
	while ((over = tokens_expired(d->tokens))) {
		snprintf(name, sizeof name, "%s", over);
		end_with_its_own(d, name, NULL, NULL, NULL, NULL);
	}
	tokens_api_watch(d);
}

void tokens_api_watch(struct daemon *d)
{
	int64_t next = tokens_next_expiry(d->tokens), now = clock_wall_ms();
	if (!next)
		return loop_timer_stop(&d->token_timer);
	int64_t wait = next > now ? next - now : 0;
	loop_timer_set(d->loop, &d->token_timer, wait < TOKEN_LOOK ? (uint64_t)wait : TOKEN_LOOK, on_expiry);
}

/* ---- making ---- */

/* A token that is being written: it is not told before it would outlive the daemon. */
struct token_making {
	struct daemon_request *request; /* held */
	struct token_wish wish;
	char value[NAMED_TOKEN_LEN + 1];
};

static void making_free(struct token_making *m)
{
	daemon_request_release(m->request);
	explicit_bzero(m, sizeof *m);
	free(m);
}

static void on_made(void *arg, const struct err *e)
{
	struct token_making *m = arg;
	struct daemon_request *r = m->request;
	auto_buf struct buf out = {.wipe = true};
	struct json_writer w = json_writer(&out);
	if (e)
		tokens_remove(r->daemon->tokens, m->wish.name, NULL, NULL);
	if (r->x && e) {
		daemon_request_error(r, e);
	} else if (r->x) {
		json_object_begin(&w);
		tokens_show(r->daemon->tokens, m->wish.name, &w);
		json_member_cstr(&w, "token", m->value);
		json_object_end(&w);
		http_respond_header(r->x, STR("Cache-Control"), STR("no-store"));
		daemon_request_json(r, 201, buf_str(&out));
	}
	making_free(m);
}

void handle_token_make(struct daemon_request *r)
{
	struct token_making *m = xcalloc(1, sizeof *m);
	struct err e;
	m->request = r;
	daemon_request_hold(r);
	bool wish = token_wish_read(r->body, &m->wish, &e) == 0;
	snprintf(m->wish.made_by, sizeof m->wish.made_by, "%s", r->caller.token);
	if (!wish || tokens_make(r->daemon->tokens, &m->wish, m->value, on_made, m, &e) < 0) {
		daemon_request_error(r, &e);
		return making_free(m);
	}
	tokens_api_watch(r->daemon);
}

/* ---- the rest ---- */

void handle_tokens(struct daemon_request *r)
{
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	json_object_begin(&w);
	json_key(&w, "tokens");
	tokens_list(r->daemon->tokens, &w);
	json_object_end(&w);
	daemon_request_json(r, 200, buf_str(&out));
}

struct revoking {
	struct daemon_request *request; /* held */
	struct buf answer;
};

static void on_removed(void *arg, const struct err *e)
{
	struct revoking *v = arg;
	struct daemon_request *r = v->request;
	if (r->x && e)
		daemon_request_error(r, e);
	else if (r->x)
		daemon_request_json(r, 200, buf_str(&v->answer));
	daemon_request_release(r);
	buf_free(&v->answer);
	free(v);
}

void handle_token_revoke(struct daemon_request *r)
{
	struct daemon *d = r->daemon;
	struct err e;
	if (!tokens_has_name(d->tokens, r->match.token)) {
		err_set(&e, ERRC_NOT_FOUND, "there is no token '%s'", r->match.token);
		return daemon_request_error(r, &e);
	}
	struct revoking *v = xcalloc(1, sizeof *v);
	struct json_writer w = json_writer(&v->answer);
	daemon_request_hold(r);
	v->request = r;
	json_object_begin(&w);
	json_member_bool(&w, "success", true);
	json_key(&w, "revoked");
	json_array_begin(&w);
	end_with_its_own(d, r->match.token, r, &w, on_removed, v);
	json_array_end(&w);
	json_object_end(&w);
	tokens_api_watch(d);
}
