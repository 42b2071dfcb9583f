/*
 * PUT /v1/sandboxes/{id}: makes a sandbox, or changes one that is there. A change is written to the store first
 * and then made; if it cannot be made, the row goes back. Only one change of a sandbox is under way at a time.
 */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "daemon/core/settings.h"
#include "daemon/limits.h"
#include "daemon/network/gate_client.h"
#include "daemon/network/network.h"
#include "daemon/network/secrets.h"
#include "daemon/route/handlers.h"
#include "daemon/route/images_api.h"
#include "daemon/storage/volumes.h"
#include "proto/image.h"

static bool has_box(const struct sandbox *s)
{
	return s->state == SB_RUNNING || s->state == SB_ASLEEP;
}

static void write_spec(struct daemon_request *r, const struct api_spec *spec, store_on_done on_done)
{
	struct store_row row;
	sandbox_row(r->sandbox, &row);
	row.limits = spec->limits;
	row.sleep_after_ms = spec->sleep_after_ms;
	row.keep_alive = spec->keep_alive;
	row.env = spec->env;
	row.labels = spec->labels;
	row.network = spec->network;
	row.settings = spec->settings;
	row.durable = on_done;
	store_put(r->daemon->store, &row, on_done, on_done ? r : NULL);
}

static void set_fuse(struct daemon_request *r);

static void answer(struct daemon_request *r)
{
	if (r->approval)
		daemon_request_approved(r);
	else if (r->mount)
		daemon_request_mount(r);
	else if (r->method->handle == handle_network_patch)
		daemon_request_network(r, r->sandbox);
	else
		daemon_request_view(r, 200, NULL);
}

/* The gate has acted on the new policy: what the client does next meets it. */
static void on_policy_told(struct gate_ack *a)
{
	struct daemon_request *r = container_of(a, struct daemon_request, ack);
	if (r->x || r->approval || r->mount)
		answer(r);
	daemon_request_release(r);
}

static void change_end(struct daemon_request *r, const struct err *e)
{
	struct sandbox *s = r->sandbox;
	struct err gone;
	s->changing = false;
	if (!e && !sandbox_exists(s)) {
		err_set(&gone, ERRC_SANDBOX_NOT_FOUND, "sandbox '%s' was destroyed meanwhile", s->id);
		e = &gone;
	}
	if (!e) {
		api_spec_free(&s->spec);
		s->spec = r->after;
		r->after = (struct api_spec){0};
		sandbox_set_idle(s);
		if (strcmp(r->before.settings, s->spec.settings) != 0)
			gate_client_secrets(r->daemon->gate, s);
		r->ack.on_done = on_policy_told;
		return gate_client_policy(r->daemon->gate, s, &r->ack);
	}
	if (r->approval)
		daemon_request_not_approved(r);
	if (r->x)
		daemon_request_error(r, e);
	daemon_request_release(r);
}

/* A box without a network has it when it starts again. */
static void on_network_set(struct sandbox *s, const struct warden_answer *a, void *arg)
{
	(void)s;
	(void)a;
	set_fuse(arg);
}

static bool has_fuse(const struct api_spec *s)
{
	return settings_bool(s->settings, "fuse", true);
}

/* A box that ended meanwhile has it when it starts again. */
static void on_fuse_set(struct sandbox *s, const struct warden_answer *a, void *arg)
{
	struct daemon_request *r = arg;
	bool done = !a->err || !has_box(s);
	if (!done && sandbox_exists(s))
		write_spec(r, &r->before, NULL);
	change_end(r, done ? NULL : a->err);
}

/* Whether the box may make FUSE mounts from now on. */
static void set_fuse(struct daemon_request *r)
{
	struct warden_request q = {.op = WARDEN_FUSE, .flags = has_fuse(&r->after) ? 0 : WARDEN_NO_FUSE};
	bool same = has_fuse(&r->before) == has_fuse(&r->after);
	if (same || !has_box(r->sandbox))
		return change_end(r, NULL);
	sandbox_ask(r->sandbox, &q, on_fuse_set, r);
}

/* Sets which connections the kernel lets through to the gate. */
static void set_network(struct daemon_request *r)
{
	struct sandbox *s = r->sandbox;
	const struct network_defaults *d = &r->daemon->network;
	struct warden_request q = {.op = WARDEN_NETWORK, .steer = network_steer(d, r->after.network)};
	bool same = strcmp(r->before.network, r->after.network) == 0;
	if (same || !has_box(s) || !warden_client_is_up(r->daemon->warden))
		return set_fuse(r);
	sandbox_ask(s, &q, on_network_set, r);
}

static void on_limits_set(struct sandbox *s, const struct warden_answer *a, void *arg)
{
	struct daemon_request *r = arg;
	/* A box that ended meanwhile gets its new limits when it starts again. */
	bool done = !a->err || !has_box(s);
	if (!done && sandbox_exists(s))
		write_spec(r, &r->before, NULL);
	if (done)
		set_network(r);
	else
		change_end(r, a->err);
}

static void set_limits(struct daemon_request *r)
{
	struct sandbox *s = r->sandbox;
	bool limits = memcmp(&r->before.limits, &r->after.limits, sizeof r->after.limits) != 0;
	if (!limits || !has_box(s) || !warden_client_is_up(r->daemon->warden))
		return set_network(r);
	struct warden_request q = {.op = WARDEN_SET_LIMITS, .limits = r->after.limits};
	sandbox_ask(s, &q, on_limits_set, r);
}

static void on_env_sent(void *arg, const struct http_reply *reply, const struct http_failure *f)
{
	struct daemon_request *r = arg;
	struct sandbox *s = r->sandbox;
	struct err e;
	/* A box that ended meanwhile gets its variables when it starts again. */
	if ((reply && reply->status == 200) || s->state != SB_RUNNING)
		return set_limits(r);
	if (sandbox_exists(s))
		write_spec(r, &r->before, NULL);
	err_set(&e, ERRC_BAD_GATEWAY, "sandbox '%s' did not take its variables: %s", s->id,
		f ? f->err.msg : "its agent refused them");
	change_end(r, &e);
}

/* The variables that change, with those of secrets. */
static void send_env(struct daemon_request *r)
{
	struct sandbox *s = r->sandbox;
	auto_free char *changes =
		secrets_env_changes(s, r->after.env, r->before.settings, r->after.settings, r->change.env_changes);
	if (changes && s->state == SB_RUNNING)
		sandbox_send_env(s, changes, false, on_env_sent, r);
	else
		set_limits(r);
}

static void undo(struct daemon_request *r, const struct err *e)
{
	if (sandbox_exists(r->sandbox))
		write_spec(r, &r->before, NULL);
	change_end(r, e);
}

static void on_trusted(struct sandbox *s, const struct warden_answer *a, void *arg)
{
	/* A box that ended meanwhile trusts it when it starts again. */
	if (a->err && has_box(s))
		undo(arg, a->err);
	else
		send_env(arg);
}

static void on_row(void *arg, const struct err *e)
{
	struct daemon_request *r = arg;
	struct sandbox *s = r->sandbox;
	if (e)
		return change_end(r, e);
	bool trusts = secrets_need_trust(s, r->after.env, r->after.settings);
	if (!trusts || !has_box(s) || strcmp(r->before.settings, r->after.settings) == 0)
		return send_env(r);
	sandbox_trust(s, on_trusted, r);
}

/* What the settings name must be there. */
static int check_settings(const struct daemon_request *r, const char *settings, struct err *e)
{
	return secrets_check_known(r->daemon, settings, e) < 0 ? -1 : volumes_check_known(r->daemon, settings, e);
}

static int may_change(struct daemon_request *r, struct sandbox *s, struct err *e)
{
	bool limits = memcmp(&r->before.limits, &r->after.limits, sizeof r->after.limits) != 0;
	if (strcmp(r->before.image, r->after.image) != 0)
		return err_set(e, ERRC_INVALID_STATE,
			"sandbox '%s' has image '%s'; destroy it to make it anew with '%s'", s->id, r->before.image,
			r->after.image);
	if (strlen(r->after.env) > BOX_ENV_MAX)
		return err_set(e, ERRC_VALIDATION_FAILED, "the variables of sandbox '%s' would be larger than %u bytes",
			s->id, BOX_ENV_MAX);
	if (strcmp(r->before.settings, r->after.settings) != 0 && check_settings(r, r->after.settings, e) < 0)
		return -1;
	if (has_box(s) && !volumes_same(r->before.settings, r->after.settings))
		return err_set(e, ERRC_INVALID_STATE,
			"the volumes of sandbox '%s' change only while it is stopped; stop it first", s->id);
	if (s->changing)
		return err_set(e, ERRC_INVALID_STATE, "another request is changing sandbox '%s'", s->id);
	if (limits && has_box(s) && !warden_client_is_up(r->daemon->warden))
		return err_set(e, ERRC_CONTAINER_UNAVAILABLE,
			"the limits of sandbox '%s' cannot be changed now: the warden is not running", s->id);
	if (has_fuse(&r->before) != has_fuse(&r->after) && has_box(s) && !warden_client_is_up(r->daemon->warden))
		return err_set(e, ERRC_CONTAINER_UNAVAILABLE,
			"fuse of sandbox '%s' cannot be changed now: the warden is not running", s->id);
	return 0;
}

void daemon_request_change(struct daemon_request *r, struct sandbox *s)
{
	struct err e;
	sandbox_ref(s);
	r->sandbox = s;
	api_spec_copy(&r->before, &s->spec);
	api_spec_copy(&r->after, &s->spec);
	api_change_apply(&r->change, &r->after);
	/* Changed variables go to the box even when the row has them: it may not. */
	if (api_spec_equal(&r->before, &r->after) && !r->change.env_changes)
		return answer(r);
	if (may_change(r, s, &e) < 0) {
		if (r->approval)
			daemon_request_not_approved(r);
		return daemon_request_error(r, &e);
	}
	s->changing = true;
	daemon_request_hold(r);
	write_spec(r, &r->after, on_row);
}

static void on_there(struct sandbox_waiter *w, struct sandbox *s, const struct err *e)
{
	struct daemon_request *r = container_of(w, struct daemon_request, waiter);
	if (e)
		return daemon_request_error(r, e);
	if (!w->made && r->change.no_image.code)
		return daemon_request_error(r, &r->change.no_image);
	if (!w->made)
		return daemon_request_change(r, s);
	sandbox_ref(s);
	r->sandbox = s;
	daemon_request_view(r, 201, NULL);
}

static void make_sandbox(struct daemon_request *r)
{
	struct err e;
	r->waiter = (struct sandbox_waiter){.goal = WAIT_RUNNING, .change = &r->change, .on_done = on_there};
	if (sandbox_wait_id(r->daemon, r->match.id, &r->waiter, &e) < 0)
		daemon_request_error(r, &e);
}

static int check_limits(struct daemon_request *r, struct err *e)
{
	const struct warden_host *host = warden_host(r->daemon->warden);
	struct box_limits l = {0};
	if (r->change.has_memory)
		l.mem_bytes = r->change.spec.limits.mem_bytes;
	if (r->change.has_cpu)
		l.cpu_milli = r->change.spec.limits.cpu_milli;
	if (r->change.has_pids)
		l.pids = r->change.spec.limits.pids;
	if (r->change.has_disk)
		l.disk_bytes = r->change.spec.limits.disk_bytes;
	if (!host || api_limits_check(&l, host, e) == 0)
		return 0;
	return r->change.instance ? err_wrap(e, "instance '%s' is too large", r->change.instance) : -1;
}

/* It is there, and neither on its way to be nor to be gone. */
static bool settled(const struct sandbox *s)
{
	return s && s->state != SB_CREATING && s->state != SB_FAILED && s->op != OP_CREATE && s->op != OP_DESTROY;
}

/* The change is well-formed, and its image is here. */
static void begin(struct daemon_request *r)
{
	if (r->change.has_from)
		return daemon_request_make_from(r);
	struct sandbox *s = sandbox_find(r->daemon, r->match.id);
	if (settled(s))
		daemon_request_change(r, s);
	else
		make_sandbox(r);
}

/* The image cannot be had. A new sandbox stays failed, so that none of another image is made in its place. The name is
 * kept for people; one that was cut has a colon, which no name of the warden's has. */
static void refuse_image(struct daemon_request *r, const struct err *e)
{
	struct api_change *c = &r->change;
	bool fits = strlen(c->image_ref) <= BOX_IMAGE_NAME_MAX;
	if (c->has_from || settled(sandbox_find(r->daemon, r->match.id)))
		return daemon_request_error(r, e);
	snprintf(c->spec.image, sizeof c->spec.image, "%.*s%s", fits ? BOX_IMAGE_NAME_MAX : BOX_IMAGE_NAME_MAX - 4,
		c->image_ref, fits ? "" : ":...");
	c->no_image = *e;
	make_sandbox(r);
}

static void on_pulled(struct daemon_request *r, const struct err *why)
{
	struct err e;
	if (why || images_resolve(r->daemon, &r->change, &e) < 0)
		return refuse_image(r, why ? why : &e);
	begin(r);
}

/* Boxes of the image service are noted as such, and have volumes of builds; other sandboxes keep those that they have.
 */
static int check_work(struct daemon_request *r, struct err *e)
{
	const struct sandbox *s = sandbox_find(r->daemon, r->match.id);
	char **changes = &r->change.settings_changes;
	if (caller_is_own(&r->caller) && str_starts(str_of(r->match.id), STR(IMAGE_BOX)))
		return settings_note(changes, SANDBOX_WORK, STR("true")), 0;
	if (caller_is_own(&r->caller) || !*changes || !volumes_of_builds(*changes) ||
		(s && volumes_of_builds(s->spec.settings)))
		return 0;
	return err_field(e, "volumes", "volumes whose names begin with 'atoll.build.' are for builds alone");
}

void handle_put(struct daemon_request *r)
{
	struct err e;
	if (api_change_parse(r->body, &r->change, &e) < 0 || check_limits(r, &e) < 0 || check_work(r, &e) < 0 ||
		(r->change.settings_changes && check_settings(r, r->change.settings_changes, &e) < 0))
		return daemon_request_error(r, &e);
	if (images_resolve(r->daemon, &r->change, &e) == 0)
		return begin(r);
	if (e.code != ERRC_IMAGE_NOT_FOUND)
		return daemon_request_error(r, &e);
	if (!r->daemon->config.pull_missing)
		return refuse_image(r, &e);
	images_pull(r, r->change.image_ref, on_pulled);
}
