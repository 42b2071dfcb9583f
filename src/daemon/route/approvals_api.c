/*
 * GET /v1/approvals, POST and DELETE of /v1/approvals/{id}. An answer is kept first (a rule of the sandbox, or of all),
 * then sent to the gate; the client is answered when the gate has acted on it.
 */
#include "daemon/network/approvals.h"
#include "daemon/route/handlers.h"

#include <stdio.h>

#include "daemon/network/network.h"
#include "daemon/route/request.h"

enum { BUSY_RETRY = 5, BUSY_MAX = 1000 };

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

static void on_told(struct gate_ack *ack)
{
	struct daemon_request *r = container_of(ack, struct daemon_request, ack);
	const struct approval_answer *a = r->approval;
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	json_object_begin(&w);
	json_member_cstr(&w, "id", a->id);
	json_member_cstr(&w, "sandbox", a->sandbox);
	json_member_cstr(&w, "decision", decisions[!a->allow]);
	json_member_cstr(&w, "remember", memories[a->remember]);
	json_member_cstr(&w, "rule", a->remember == REMEMBER_ONCE ? NULL : a->rule);
	json_object_end(&w);
	if (r->x)
		daemon_request_json(r, 200, buf_str(&out));
	daemon_request_release(r);
}

void daemon_request_approved(struct daemon_request *r)
{
	daemon_request_hold(r);
	approvals_done(r->daemon, r->approval);
	r->ack.on_done = on_told;
	gate_client_answer(r->daemon->gate, r->approval->id, r->approval->allow, &r->ack);
}

static void fail(struct daemon_request *r, const struct err *e)
{
	approvals_put_back(r->daemon, r->approval->id);
	if (r->x)
		daemon_request_error(r, e);
}

void daemon_request_not_approved(struct daemon_request *r)
{
	approvals_put_back(r->daemon, r->approval->id);
}

/* ---- a rule of the sandbox ---- */

static void keep_for_sandbox(struct daemon_request *r);

static void on_retry(struct loop_timer *t)
{
	struct daemon_request *r = container_of(t, struct daemon_request, timer);
	keep_for_sandbox(r);
	daemon_request_release(r);
}

static void keep_for_sandbox(struct daemon_request *r)
{
	struct err e;
	struct sandbox *s = sandbox_find(r->daemon, r->approval->sandbox);
	if (!r->x)
		return daemon_request_not_approved(r); /* the client went while it waited for another answer */
	if (!s) {
		err_set(&e, ERRC_SANDBOX_NOT_FOUND, "there is no sandbox '%s'", r->approval->sandbox);
		return fail(r, &e);
	}
	/* Another answer for this sandbox is being kept. */
	if (s->changing && r->tries++ < BUSY_MAX) {
		daemon_request_hold(r);
		return loop_timer_set(r->daemon->loop, &r->timer, BUSY_RETRY, on_retry);
	}
	if (network_add_rule(s->spec.network, r->approval->allow ? "allow" : "deny", r->approval->rule,
		    &r->change.spec.network, &e) < 0)
		return fail(r, &e);
	daemon_request_change(r, s);
}

/* ---- a rule for all sandboxes ---- */

static void on_kept(void *arg, const struct err *e)
{
	struct daemon_request *r = arg;
	if (e)
		fail(r, e);
	else
		daemon_request_approved(r);
	daemon_request_release(r);
}

static void keep_for_all(struct daemon_request *r)
{
	struct err e;
	daemon_request_hold(r);
	if (approvals_keep(r->daemon, r->approval, on_kept, r, &e) == 0)
		return;
	fail(r, &e);
	daemon_request_release(r);
}

void handle_approval_answer(struct daemon_request *r)
{
	struct err e;
	r->approval = xcalloc(1, sizeof *r->approval);
	if (read_answer(r->body, r->approval, &e) < 0 || approvals_take(r->daemon, r->match.id, r->approval, &e) < 0)
		return daemon_request_error(r, &e);
	if (r->approval->remember == REMEMBER_SANDBOX)
		keep_for_sandbox(r);
	else if (r->approval->remember == REMEMBER_ALWAYS)
		keep_for_all(r);
	else
		daemon_request_approved(r);
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

void handle_approvals(struct daemon_request *r)
{
	struct err e;
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	if (daemon_request_follows(r)) {
		struct follow how = daemon_request_follow(r);
		if (approvals_follow(r->daemon, &how, &e) < 0)
			return daemon_request_error(r, &e);
		return daemon_request_answered(r, 200);
	}
	json_object_begin(&w);
	approvals_write(r->daemon, &w);
	json_object_end(&w);
	daemon_request_json(r, 200, buf_str(&out));
}
