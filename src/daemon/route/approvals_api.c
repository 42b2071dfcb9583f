/*
 * GET /v1/approvals, POST and DELETE of /v1/approvals/{id}. */
#include "daemon/network/approvals.h"
#include "daemon/route/handlers.h"

#include <stdio.h>

#include "daemon/network/network.h"
#include "daemon/route/pieces.h"

/* ---- the answer ---- */

static int read_word(const struct json *o, const char *key, const char *const *words, int *ret, struct err *e)
{
	struct str given = STR_NULL;
	if (json_read_str(o, key, &given, e) < 0)
		return err_about(e, key);
	if (!given.p)
		return 0;
	for (int i = 0; words[i]; i++)
		if (str_eq_c(given, words[i])) {
			*ret = i;
			return 0;
		}
	return err_field(e, key, "field '%s' must be one of %s, %s%s%s", key, words[0], words[1], words[2] ? ", " : "",
		words[2] ? words[2] : "");
}

static const char *const decisions[] = {"allow", "deny", NULL};
static const char *const memories[] = {
	[REMEMBER_ONCE] = "once", [REMEMBER_SANDBOX] = "sandbox", [REMEMBER_ALWAYS] = "always", NULL};

static int read_answer(struct str body, struct approval_answer *a, struct err *e)
{
	int decision = -1, remember = REMEMBER_ONCE;
	auto_json struct json_doc *doc = json_parse(body, e);
	const struct json *o = doc ? json_root(doc) : NULL;
	if (!o)
		return -1;
	if (o->type != JSON_T_OBJECT)
		return err_set(e, ERRC_VALIDATION_FAILED, "the body must be a JSON object");
	if (read_word(o, "decision", decisions, &decision, e) < 0 ||
		read_word(o, "remember", memories, &remember, e) < 0)
		return -1;
	if (decision < 0)
		return err_field(e, "decision", "field 'decision' is needed: allow or deny");
	a->allow = decision == 0;
	a->remember = (enum approval_remember)remember;
	return 0;
}

static void on_answered(void *arg, const struct op_result *result)
{
	struct daemon_request *r = daemon_request_done(arg);
	const struct approval_answer *a = r->extra;
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	if (result->err)
		return daemon_request_error(r, result->err);
	json_object_begin(&w);
	json_member_cstr(&w, "id", a->id);
	json_member_cstr(&w, "sandbox", a->sandbox);
	json_member_cstr(&w, "decision", decisions[!a->allow]);
	json_member_cstr(&w, "remember", memories[a->remember]);
	json_member_cstr(&w, "rule", a->remember == REMEMBER_ONCE ? NULL : a->rule);
	json_object_end(&w);
	daemon_request_json(r, 200, buf_str(&out));
}

void handle_approval_answer(struct daemon_request *r)
{
	struct err e;
	struct approval_answer *answer = r->extra = xcalloc(1, sizeof *answer);
	if (read_answer(r->body, answer, &e) < 0)
		return daemon_request_error(r, &e);
	const struct op_call call = daemon_request_call(r, on_answered);
	r->op = op_approve(&call, r->match.id, answer, answer);
}

static void on_forgotten(void *arg, const struct err *e)
{
	struct daemon_request *r = arg;
	if (r->x && e)
		daemon_request_error(r, e);
	else if (r->x)
		daemon_request_empty(r);
	daemon_request_release(r);
}

void handle_approval_forget(struct daemon_request *r)
{
	struct err e;
	daemon_request_hold(r);
	if (approvals_forget(r->daemon, r->match.id, on_forgotten, r, &e) == 0)
		return;
	daemon_request_error(r, &e);
	daemon_request_release(r);
}

static void write_listed(struct json_writer *w, const struct daemon_request *r, void *arg, const char *id)
{
	(void)arg;
	approvals_write(r->daemon, id, caller_is_own(&r->caller), w);
}

static void write_always(struct json_writer *w, const struct daemon_request *r)
{
	approvals_write_always(r->daemon, w);
}

static void add_id(void *list, const char *id)
{
	pieces_list_add(list, id);
}

void handle_approvals(struct daemon_request *r)
{
	struct err e;
	struct pieces_list l = {.key = "approvals", .write = write_listed, .tail = write_always};
	if (daemon_request_follows(r)) {
		struct follow how = daemon_request_follow(r);
		if (approvals_follow(r->daemon, &how, &e) < 0)
			return daemon_request_error(r, &e);
		return daemon_request_answered(r, 200);
	}
	approvals_ids(r->daemon, add_id, &l);
	pieces_list(r, &l);
}
