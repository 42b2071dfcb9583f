/*
 * One change of a sandbox that is there. It is written to the store first and then made; if it cannot be made, the row
 * goes back. Only one change of a sandbox is under way at a time.
 */
#include <string.h>

#include "daemon/core/settings.h"
#include "daemon/core/uses.h"
#include "daemon/network/gate_client.h"
#include "daemon/network/network.h"
#include "daemon/network/secrets.h"
#include "daemon/op/change.h"
#include "daemon/storage/volumes.h"

struct changing {
	struct operation op;
	struct api_change change;
	struct api_spec before, after;
	struct gate_ack ack;
};

static void changing_free(struct operation *op)
{
	struct changing *c = container_of(op, struct changing, op);
	api_change_free(&c->change);
	api_spec_free(&c->before);
	api_spec_free(&c->after);
	free(c);
}

static bool has_box(const struct sandbox *s)
{
	return s->state == SB_RUNNING || s->state == SB_ASLEEP;
}

static void write_spec(struct changing *c, const struct api_spec *spec, store_on_done on_done)
{
	struct store_row row;
	sandbox_row(c->op.sandbox, &row);
	row.limits = spec->limits;
	row.sleep_after_ms = spec->sleep_after_ms;
	row.keep_alive = spec->keep_alive;
	row.env = spec->env;
	row.labels = spec->labels;
	row.network = spec->network;
	row.settings = spec->settings;
	row.durable = on_done;
	store_put(c->op.daemon->store, &row, on_done, on_done ? c : NULL);
}

/* The gate has acted on the new policy: what the client does next meets it. */
static void on_policy_told(struct gate_ack *a)
{
	op_succeed(&container_of(a, struct changing, ack)->op, false);
}

static void change_end(struct changing *c, const struct err *e)
{
	struct sandbox *s = c->op.sandbox;
	struct err gone;
	s->changing = false;
	if (!e && !sandbox_exists(s)) {
		err_set(&gone, ERRC_SANDBOX_NOT_FOUND, "sandbox '%s' was destroyed meanwhile", s->id);
		e = &gone;
	}
	if (e)
		return op_fail(&c->op, e);
	api_spec_free(&s->spec);
	s->spec = c->after;
	c->after = (struct api_spec){0};
	uses_note(s);
	sandbox_set_idle(s);
	if (strcmp(c->before.settings, s->spec.settings) != 0)
		gate_client_secrets(c->op.daemon->gate, s);
	c->ack.on_done = on_policy_told;
	gate_client_policy(c->op.daemon->gate, s, &c->ack);
}

/* Writes the row as it was. */
static void undo(struct changing *c, const struct err *e)
{
	if (sandbox_exists(c->op.sandbox))
		write_spec(c, &c->before, NULL);
	change_end(c, e);
}

/* ---- the steps, from the last to the first ---- */

static bool has_fuse(const struct api_spec *s)
{
	return settings_bool(s->settings, "fuse", true);
}

/* A box that ended meanwhile has it when it starts again. */
static void on_fuse_set(struct sandbox *s, const struct warden_answer *a, void *arg)
{
	if (a->err && has_box(s))
		undo(arg, a->err);
	else
		change_end(arg, NULL);
}

/* Whether the box may make FUSE mounts from now on. */
static void set_fuse(struct changing *c)
{
	struct warden_request q = {.op = WARDEN_FUSE, .flags = has_fuse(&c->after) ? 0 : WARDEN_NO_FUSE};
	bool same = has_fuse(&c->before) == has_fuse(&c->after);
	if (same || !has_box(c->op.sandbox))
		return change_end(c, NULL);
	sandbox_ask(c->op.sandbox, &q, on_fuse_set, c);
}

/* A box without a network has it when it starts again. */
static void on_network_set(struct sandbox *s, const struct warden_answer *a, void *arg)
{
	(void)s;
	(void)a;
	set_fuse(arg);
}

/* Sets which connections the kernel lets through to the gate. */
static void set_network(struct changing *c)
{
	struct sandbox *s = c->op.sandbox;
	const struct network_defaults *d = &c->op.daemon->network;
	struct warden_request q = {.op = WARDEN_NETWORK, .steer = network_steer(d, c->after.network)};
	bool same = strcmp(c->before.network, c->after.network) == 0;
	if (same || !has_box(s) || !warden_client_is_up(c->op.daemon->warden))
		return set_fuse(c);
	sandbox_ask(s, &q, on_network_set, c);
}

/* A box that ended meanwhile gets its new limits when it starts again. */
static void on_limits_set(struct sandbox *s, const struct warden_answer *a, void *arg)
{
	if (a->err && has_box(s))
		undo(arg, a->err);
	else
		set_network(arg);
}

static bool changes_limits(const struct changing *c)
{
	return memcmp(&c->before.limits, &c->after.limits, sizeof c->after.limits) != 0;
}

static void set_limits(struct changing *c)
{
	struct sandbox *s = c->op.sandbox;
	if (!changes_limits(c) || !has_box(s) || !warden_client_is_up(c->op.daemon->warden))
		return set_network(c);
	struct warden_request q = {.op = WARDEN_SET_LIMITS,
		.limits = c->after.limits,
		.volume_bytes = volumes_largest(s->daemon, c->after.settings)};
	sandbox_ask(s, &q, on_limits_set, c);
}

/* A box that ended meanwhile gets its variables when it starts again. */
static void on_env_sent(void *arg, const struct http_reply *reply, const struct http_failure *f)
{
	struct changing *c = arg;
	const struct sandbox *s = c->op.sandbox;
	struct err e;
	if ((reply && reply->status == 200) || s->state != SB_RUNNING)
		return set_limits(c);
	err_set(&e, ERRC_BAD_GATEWAY, "sandbox '%s' did not take its variables: %s", s->id,
		f ? f->err.msg : "its agent refused them");
	undo(c, &e);
}

/* The variables that change, with those of secrets. */
static void send_env(struct changing *c)
{
	struct sandbox *s = c->op.sandbox;
	auto_free char *changes =
		secrets_env_changes(s, c->after.env, c->before.settings, c->after.settings, c->change.env_changes);
	if (changes && s->state == SB_RUNNING)
		sandbox_send_env(s, changes, false, on_env_sent, c);
	else
		set_limits(c);
}

/* A box that ended meanwhile trusts the gate's authority when it starts again. */
static void on_trusted(struct sandbox *s, const struct warden_answer *a, void *arg)
{
	if (a->err && has_box(s))
		undo(arg, a->err);
	else
		send_env(arg);
}

static void on_row(void *arg, const struct err *e)
{
	struct changing *c = arg;
	struct sandbox *s = c->op.sandbox;
	if (e)
		return change_end(c, e);
	bool trusts = secrets_need_trust(s, c->after.env, c->after.settings);
	if (!trusts || !has_box(s) || strcmp(c->before.settings, c->after.settings) == 0)
		return send_env(c);
	sandbox_trust(s, on_trusted, c);
}

/* ---- whether it may begin ---- */

int change_check_settings(struct daemon *d, const char *settings, struct err *e)
{
	return secrets_check_known(d, settings, e) < 0 ? -1 : volumes_check_known(d, settings, e);
}

static int may_change(const struct changing *c, struct err *e)
{
	const struct sandbox *s = c->op.sandbox;
	bool away = !warden_client_is_up(c->op.daemon->warden);
	if (strcmp(c->before.image, c->after.image) != 0)
		return err_set(e, ERRC_INVALID_STATE,
			"sandbox '%s' has image '%s'; destroy it to make it anew with '%s'", s->id, c->before.image,
			c->after.image);
	if (strlen(c->after.env) > BOX_ENV_MAX)
		return err_set(e, ERRC_VALIDATION_FAILED, "the variables of sandbox '%s' would be larger than %u bytes",
			s->id, BOX_ENV_MAX);
	if (strcmp(c->before.settings, c->after.settings) != 0 &&
		change_check_settings(c->op.daemon, c->after.settings, e) < 0)
		return -1;
	if (has_box(s) && !volumes_same(c->before.settings, c->after.settings))
		return err_set(e, ERRC_INVALID_STATE,
			"the volumes of sandbox '%s' change only while it is stopped; stop it first", s->id);
	if (s->changing)
		return err_set(e, ERRC_INVALID_STATE, "another request is changing sandbox '%s'", s->id);
	if (changes_limits(c) && has_box(s) && away)
		return err_set(e, ERRC_CONTAINER_UNAVAILABLE,
			"the limits of sandbox '%s' cannot be changed now: the warden is not running", s->id);
	if (has_fuse(&c->before) != has_fuse(&c->after) && has_box(s) && away)
		return err_set(e, ERRC_CONTAINER_UNAVAILABLE,
			"fuse of sandbox '%s' cannot be changed now: the warden is not running", s->id);
	return 0;
}

static void begin(struct changing *c, struct sandbox *s)
{
	struct err e;
	op_use(&c->op, s);
	api_spec_copy(&c->before, &s->spec);
	api_spec_copy(&c->after, &s->spec);
	api_change_apply(&c->change, &c->after);
	/* Changed variables go to the box even when the row has them: it may not. */
	if (api_spec_equal(&c->before, &c->after) && !c->change.env_changes)
		return op_succeed(&c->op, false);
	if (may_change(c, &e) < 0)
		return op_fail(&c->op, &e);
	s->changing = true;
	write_spec(c, &c->after, on_row);
}

struct operation *change_begin(const struct op_call *call, const struct op_kind *kind, struct api_change *change)
{
	struct err e;
	struct changing *c = xcalloc(1, sizeof *c);
	op_begin(&c->op, call, kind);
	c->op.free = changing_free;
	c->change = *change;
	*change = (struct api_change){0};
	struct sandbox *s = op_find(c->op.daemon, &c->op.caller, c->op.id, &e);
	if (s)
		begin(c, s);
	else
		op_fail(&c->op, &e);
	return op_begun(&c->op);
}

struct operation *op_policy(const struct op_call *call, struct api_change *change)
{
	static const struct op_kind kind = {"PATCH", "/v1/sandboxes/{id}/network", 200, 200};
	return change_begin(call, &kind, change);
}
