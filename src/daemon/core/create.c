/*
 * A create has parts that run at the same time: the row in the store, and the box at the warden. A box with variables
 * has a third part: they are sent to its agent. The sandbox runs when all parts are done; if one fails, the others are
 * undone. A sandbox that ran before has a row already, which says `stopped` until the box runs.
 */
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "daemon/core/sandbox.h"
#include "daemon/core/settings.h"
#include "daemon/limits.h"
#include "daemon/network/gate_client.h"
#include "daemon/network/network.h"
#include "daemon/network/secrets.h"
#include "daemon/route/images_api.h"
#include "daemon/storage/buckets.h"
#include "daemon/storage/volumes.h"
#include "proto/error_json.h"
#include "proto/image.h"

enum { LOOK_AGAIN_MS = 20 };

static void create_step(struct sandbox *s);

void sandbox_take_info(struct sandbox *s, const struct box_info *info)
{
	char path[128];
	struct err e;
	s->slot = info->slot;
	s->no_network = info->no_network;
	s->started_ms = info->created_ms;
	s->spec.limits = info->limits;
	snprintf(path, sizeof path, WARDEN_AGENT_SOCKET_FMT, s->daemon->config.run, info->slot);
	/* config.run is short enough for every slot's path. */
	INVARIANT(http_endpoint_unix(&s->agent, str_of(path), &e) == 0);
	s->agent.party = s->party;
}

static void create_end(struct sandbox *s)
{
	s->row = s->box = s->env = PART_NONE;
	sandbox_op_end(s);
	s->create_err = (struct err){0};
	loop_timer_stop(&s->retry);
}

static void create_ok(struct sandbox *s)
{
	struct daemon *d = s->daemon;
	uint64_t us = clock_us() - s->create_us;
	create_end(s);
	metrics_created(&d->metrics, us);
	log_event(LOG_DEBUG, "created", "id=%s slot=%u us=%llu", LOG_Q(s->id), s->slot, (unsigned long long)us);
	sandbox_move(s, SB_RUNNING, NULL);
	sandbox_write_state(s);
	sandbox_advance(s);
}

/* The code is kept in front of the sentence, for requests after a restart. */
static void write_failed(struct sandbox *s, const struct err *e, store_on_done on_done)
{
	struct store_row row;
	sandbox_row(s, &row);
	snprintf(row.state, sizeof row.state, "%s", state_name(SB_FAILED));
	snprintf(row.reason, sizeof row.reason, "%.40s: %.190s", errc_info((int)e->code)->code, e->msg);
	store_put(s->daemon->store, &row, on_done, on_done ? s : NULL);
	snprintf(s->reason, sizeof s->reason, "%s", row.reason);
}

void sandbox_set_failed(struct sandbox *s, const struct err *e)
{
	write_failed(s, e, NULL);
	auto_free char *reason = xstrdup(s->reason);
	sandbox_move(s, SB_FAILED, reason);
}

void sandbox_failure(const struct sandbox *s, struct err *ret)
{
	struct str why, code = str_split(str_of(s->reason), ':', &why);
	err_set(ret, errc_from_name(code), "%.*s", STR_ARG(str_trim(why)));
}

/* The requests are told only now: a daemon that is killed after that still knows that the sandbox failed. */
static void on_failed_row(void *arg, const struct err *not_written)
{
	struct sandbox *s = arg;
	struct err e = s->create_err;
	auto_free char *reason = xstrdup(s->reason);
	if (not_written)
		log_limited(LOG_WARN, "state not written", "id=%s error=%s", LOG_Q(s->id), LOG_Q(not_written->msg));
	create_end(s);
	sandbox_move(s, SB_FAILED, reason);
	sandbox_fail_waiters(s, WAIT_RUNNING, &e);
	sandbox_advance(s);
	sandbox_unref(s);
}

static void create_failed(struct sandbox *s)
{
	struct daemon *d = s->daemon;
	struct err e = s->create_err;
	bool row_there = s->row == PART_DONE;
	log_limited(LOG_WARN, "create failed", "id=%s error=%s", LOG_Q(s->id), LOG_Q(e.msg));
	d->metrics.create_failures++;
	if (!s->has_files && s->wished) {
		sandbox_ref(s);
		s->row = PART_ASKED;
		return write_failed(s, &e, on_failed_row);
	}
	create_end(s);
	if (s->has_files) {
		sandbox_move(s, SB_STOPPED, e.msg);
		sandbox_write_state(s);
	} else {
		/* If this cannot be written the row stays `creating`, and is dropped at the next start. */
		if (row_there)
			store_delete(d->store, s->id, NULL, NULL);
		sandbox_move(s, SB_DESTROYED, NULL);
	}
	sandbox_fail_waiters(s, WAIT_RUNNING, &e);
	sandbox_advance(s);
}

static void on_undone(struct sandbox *s, const struct warden_answer *a, void *arg)
{
	(void)arg;
	if (a->err)
		log_limited(LOG_WARN, "box left behind", "id=%s error=%s", LOG_Q(s->id), LOG_Q(a->err->msg));
	create_failed(s);
}

/* The box is there, its row is not. */
static void undo_box(struct sandbox *s)
{
	if (!warden_client_is_up(s->daemon->warden))
		return create_failed(s);
	s->box = PART_FAILED; /* ignore its death from here on */
	struct warden_request r = {.op = WARDEN_DESTROY, .flags = s->has_files ? WARDEN_KEEP_FILES : 0};
	sandbox_ask(s, &r, on_undone, NULL);
}

static void create_step(struct sandbox *s)
{
	if (s->op != OP_CREATE || s->row == PART_ASKED || s->box == PART_ASKED || s->env == PART_ASKED)
		return;
	if (s->box == PART_FAILED)
		create_failed(s);
	else if (s->create_err.code)
		undo_box(s);
	else
		create_ok(s);
}

static void on_env(void *arg, const struct http_reply *r, const struct http_failure *f)
{
	struct sandbox *s = arg;
	s->env = r && r->status == 200 ? PART_DONE : PART_FAILED;
	if (s->env == PART_FAILED && !s->create_err.code) {
		auto_buf struct buf why = {0};
		error_json_message(r ? r->body : STR_NULL, &why);
		err_set(&s->create_err, ERRC_BOX_CREATE_FAILED, "sandbox '%s' did not take its settings: %.160s", s->id,
			f ? f->err.msg : buf_cstr(&why));
	}
	create_step(s);
	sandbox_unref(s);
}

/* The agent may be hostile, even if it has just been started: bound its answer in size and time. */
void sandbox_send_env(struct sandbox *s, const char *env, bool start, http_on_reply on_reply, void *arg)
{
	auto_buf struct buf body = {0};
	if (s->env == PART_NONE || s->op != OP_CREATE || !images_settings(s->daemon, &s->spec, env, &body))
		buf_printf(&body, "{\"env\":%s", env);
	buf_printf(&body, ",\"services\":%s}", start ? "true" : "false");
	struct http_header type = {STR("Content-Type"), STR("application/json")};
	struct http_call_options o = {
		.method = STR("PUT"),
		.target = STR("/internal/env"),
		.headers = &type,
		.headers_n = 1,
		.head_ms = AGENT_ENV_TIMEOUT,
		.stall_ms = AGENT_ENV_TIMEOUT,
	};
	struct http_question q = {
		.options = o, .body = buf_str(&body), .max = AGENT_ENV_REPLY_MAX, .on_reply = on_reply, .arg = arg};
	http_call_whole(s->daemon->client, &s->agent, &q);
}

static void send_env(struct sandbox *s)
{
	auto_free char *env = secrets_env(s, s->spec.env, s->spec.settings);
	/* A layer that was there before may hold services; an image made here says more than variables. */
	if (strcmp(env, "{}") == 0 && !s->has_files && !images_says(&s->spec))
		return;
	s->env = PART_ASKED;
	sandbox_ref(s);
	sandbox_send_env(s, env, true, on_env, s);
}

static void on_mounted(void *arg, const struct err *e)
{
	struct sandbox *s = arg;
	s->env = PART_NONE;
	if (s->op == OP_CREATE) {
		if (e && !s->create_err.code)
			s->create_err = *e;
		if (s->box == PART_DONE && !s->create_err.code)
			send_env(s);
		create_step(s);
	}
	sandbox_unref(s);
}

/* Buckets are mounted before services and the image's program start. */
static void mount_and_send_env(struct sandbox *s)
{
	if (!buckets_any(s->spec.settings))
		return send_env(s);
	s->env = PART_ASKED;
	sandbox_ref(s);
	buckets_mount_all(s, on_mounted, s);
}

/* The gate tells its authority when it connects: a moment after either of us was started. */
struct trust_wait {
	struct sandbox *sandbox; /* referenced */
	struct loop_timer timer;
	int left; /* looks */
	sandbox_on_answer on_answer;
	void *arg;
};

static void ask_trust(struct loop_timer *t)
{
	struct trust_wait *w = container_of(t, struct trust_wait, timer);
	struct sandbox *s = w->sandbox;
	struct warden_request r = {.op = WARDEN_TRUST};
	const char *ca = gate_client_ca(s->daemon->gate);
	struct err e;
	if (!ca && w->left-- > 0)
		return loop_timer_set(s->daemon->loop, t, LOOK_AGAIN_MS, ask_trust);
	if (!ca || !warden_client_is_up(s->daemon->warden)) {
		err_set(&e, ERRC_CONTAINER_UNAVAILABLE,
			"sandbox '%s' cannot be given an authority to trust now: the %s is not running", s->id,
			ca ? "warden" : "gate");
		w->on_answer(s, &(struct warden_answer){.err = &e}, w->arg);
	} else {
		snprintf(r.pem, sizeof r.pem, "%s", ca);
		sandbox_ask(s, &r, w->on_answer, w->arg);
	}
	sandbox_unref(s);
	free(w);
}

void sandbox_trust(struct sandbox *s, sandbox_on_answer on_answer, void *arg)
{
	struct trust_wait *w = xcalloc(1, sizeof *w);
	*w = (struct trust_wait){.sandbox = s, .left = TRUST_WAIT / LOOK_AGAIN_MS, .on_answer = on_answer, .arg = arg};
	sandbox_ref(s);
	loop_timer_set(s->daemon->loop, &w->timer, 0, ask_trust);
}

/* Its programs trust the gate's authority before the first of them runs. */
static void on_trusted(struct sandbox *s, const struct warden_answer *a, void *arg)
{
	(void)arg;
	s->env = PART_NONE;
	if (s->op != OP_CREATE)
		return;
	if (a->lost || (a->err && !warden_client_is_up(s->daemon->warden))) {
		/* It goes on with the warden's next list. */
		s->box = PART_NONE;
		return sandbox_op_end(s);
	}
	if (a->err && !s->create_err.code)
		s->create_err = *a->err;
	if (s->box == PART_DONE && !s->create_err.code)
		mount_and_send_env(s);
	create_step(s);
}

static void trust_and_send_env(struct sandbox *s)
{
	if (!secrets_need_trust(s, s->spec.env, s->spec.settings))
		return mount_and_send_env(s);
	s->env = PART_ASKED;
	sandbox_trust(s, on_trusted, NULL);
}

static void box_made(struct sandbox *s, const struct box_info *info)
{
	sandbox_take_info(s, info);
	s->box = PART_DONE;
	trust_and_send_env(s);
	create_step(s);
}

static void on_row(void *arg, const struct err *e)
{
	struct sandbox *s = arg;
	s->row = e ? PART_FAILED : PART_DONE;
	if (e)
		s->create_err = *e;
	create_step(s);
	sandbox_unref(s);
}

static void fail_box(struct sandbox *s, const struct err *e)
{
	s->box = PART_FAILED;
	s->create_err = *e;
	create_step(s);
}

static void on_made(struct sandbox *s, const struct warden_answer *a, void *arg)
{
	(void)arg;
	INVARIANT(s->op == OP_CREATE);
	if (a->lost) {
		/* The warden's next list will show whether the box was made. */
		s->box = PART_NONE;
		sandbox_op_end(s);
	} else if (a->err || !a->info) {
		struct err none;
		err_set(&none, ERRC_BOX_CREATE_FAILED, "the warden's answer has no box");
		if (a->err)
			none = *a->err;
		images_explain(s->daemon, s->spec.image, &none);
		fail_box(s, &none);
	} else {
		box_made(s, a->info);
	}
}

static void write_row(struct sandbox *s)
{
	struct store_row row;
	if (s->row == PART_DONE || s->row == PART_ASKED)
		return;
	s->row = PART_ASKED;
	sandbox_row(s, &row);
	sandbox_ref(s);
	store_put(s->daemon->store, &row, on_row, s);
}

static void tell_no_network(const struct sandbox *s)
{
	const struct warden_host *host = warden_host(s->daemon->warden);
	if (host && !host->network && !str_eq_c(network_mode(&s->daemon->network, s->spec.network), "off"))
		log_limited(LOG_WARN,
			"a sandbox starts without a network: the host cannot steer connections; see atoll doctor",
			"id=%s", LOG_Q(s->id));
}

static void on_network(void *arg, const struct err *e)
{
	struct sandbox *s = arg;
	if (e)
		log_limited(LOG_WARN, "state not written", "id=%s error=%s", LOG_Q(s->id), LOG_Q(e->msg));
	sandbox_unref(s);
}

/* Nobody knows the policy of the box before; the new one begins with the daemon's. */
static void begin_network(struct sandbox *s)
{
	struct store_row row;
	if (s->state != SB_STOPPED || !network_is_unknown(s->spec.network))
		return;
	free(s->spec.network);
	s->spec.network = xstrdup("{}");
	sandbox_row(s, &row);
	sandbox_ref(s);
	store_put(s->daemon->store, &row, on_network, s);
}

void sandbox_create(struct sandbox *s)
{
	begin_network(s);
	if (s->state == SB_STOPPED || s->state == SB_FAILED)
		sandbox_move(s, SB_CREATING, NULL);
	sandbox_op_begin(s, OP_CREATE);
	s->create_us = clock_us();
	s->create_err = (struct err){0};
	if (s->has_files)
		s->row = PART_DONE;
	/* The gate knows the policy before anything in the box can connect. */
	gate_client_policy(s->daemon->gate, s, NULL);
	if (strcmp(s->spec.settings, "{}") != 0)
		gate_client_secrets(s->daemon->gate, s);
	tell_no_network(s);
	struct warden_request r = {.op = WARDEN_CREATE,
		.limits = s->spec.limits,
		.flags = (settings_bool(s->spec.settings, "fuse", true) ? 0 : WARDEN_NO_FUSE) |
			 (settings_bool(s->spec.settings, "durable", true) ? 0 : WARDEN_VOLATILE),
		.steer = network_steer(&s->daemon->network, s->spec.network)};
	/* Zeroes behind the text: the warden checks. */
	snprintf(r.image, sizeof r.image, "%s", s->spec.image);
	volumes_ask(s->daemon, s->spec.settings, &r);
	s->box = PART_ASKED;
	sandbox_ask(s, &r, on_made, NULL);
	write_row(s);
}

void sandbox_create_refused(struct sandbox *s, const struct err *why)
{
	if (s->state == SB_FAILED)
		sandbox_move(s, SB_CREATING, NULL);
	sandbox_op_begin(s, OP_CREATE);
	s->create_err = *why;
	create_failed(s);
}

/* ---- after the warden was away ---- */

static void look_again(struct loop_timer *t);

static void on_looked(struct sandbox *s, const struct warden_answer *a, void *arg)
{
	(void)arg;
	INVARIANT(s->op == OP_CREATE && s->box == PART_ASKED);
	s->box = PART_NONE;
	sandbox_op_end(s);
	if (!a->lost)
		sandbox_create_resume(s, a->err ? NULL : a->info);
}

static void look_again(struct loop_timer *t)
{
	struct sandbox *s = container_of(t, struct sandbox, retry);
	if (!warden_client_is_up(s->daemon->warden)) {
		s->box = PART_NONE;
		sandbox_op_end(s);
		return;
	}
	sandbox_ask(s, &(struct warden_request){.op = WARDEN_INSPECT}, on_looked, NULL);
}

static void drop_unmade(struct sandbox *s)
{
	sandbox_ref(s);
	s->row = PART_NONE;
	if (s->has_files) {
		sandbox_move(s, SB_STOPPED, "could not be started: the warden went away");
		sandbox_write_state(s);
	} else {
		/* Without a box there may be files: of a fork that was under way. */
		sandbox_ask(s, &(struct warden_request){.op = WARDEN_DESTROY}, NULL, NULL);
		store_delete(s->daemon->store, s->id, NULL, NULL);
		sandbox_move(s, SB_DESTROYED, NULL);
	}
	sandbox_unref(s);
}

void sandbox_create_resume(struct sandbox *s, const struct box_info *info)
{
	INVARIANT(s->state == SB_CREATING && s->op == OP_NONE);
	s->create_err = (struct err){0};
	if (info && info->state == BOX_CREATING) {
		sandbox_op_begin(s, OP_CREATE);
		s->box = PART_ASKED;
		loop_timer_set(s->daemon->loop, &s->retry, LOOK_AGAIN_MS, look_again);
	} else if (info && info->state != BOX_DEAD) {
		sandbox_op_begin(s, OP_CREATE);
		write_row(s);
		box_made(s, info);
	} else if (list_empty(&s->waiters)) {
		drop_unmade(s);
	} else {
		sandbox_advance(s);
	}
}

void sandbox_create_died(struct sandbox *s, const char *reason)
{
	if (s->op != OP_CREATE || s->box != PART_DONE)
		return;
	err_set(&s->create_err, ERRC_BOX_CREATE_FAILED, "sandbox '%s' ended as soon as it was made: %s", s->id, reason);
	create_step(s);
}
