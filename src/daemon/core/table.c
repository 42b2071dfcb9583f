#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/turn.h"
#include "daemon/core/dial.h"
#include "daemon/core/settings.h"
#include "daemon/core/uses.h"
#include "daemon/limits.h"
#include "daemon/network/gate_client.h"
#include "daemon/network/hooks.h"
#include "daemon/ports/ports.h"
#include "daemon/ports/tunnels.h"
#include "daemon/route/images_api.h"
#include "daemon/serve/events.h"
#include "doors/docker/docker.h"

struct sandbox *sandbox_find(struct daemon *d, const char *id)
{
	return map_get(&d->boxes, str_of(id));
}

static void note_running(struct sandbox *s)
{
	list_del(&s->running);
	if (s->state == SB_RUNNING)
		list_push(&s->daemon->running, &s->running);
}

struct sandbox *sandbox_add(struct daemon *d, const char *id, enum sandbox_state state, struct err *e)
{
	if (d->boxes.count >= BOX_TABLE_MAX) {
		err_set(e, ERRC_LIMIT_REACHED, "there are %d sandboxes, more are not kept", BOX_TABLE_MAX);
		return NULL;
	}
	struct sandbox *s = xcalloc(1, sizeof *s);
	s->daemon = d;
	snprintf(s->id, sizeof s->id, "%s", id);
	s->state = state;
	s->has_files = state != SB_CREATING && state != SB_FAILED;
	s->created_ms = clock_wall_ms();
	s->last_used = loop_now(d->loop);
	s->party = turn_party_new(d->loop);
	s->party->owner = s;
	list_init(&s->waiters);
	list_init(&s->ports);
	list_init(&s->tunnel_hosts);
	api_spec_default(&s->spec);
	images_default(d, &s->spec);
	struct sandbox *old = map_put(&d->boxes, str_of(s->id), s);
	INVARIANT(!old);
	d->by_state[state]++;
	note_running(s);
	return s;
}

/* Boxes of builds are counted apart: the numbers of states are for clients. */
static void count(const struct sandbox *s, bool in)
{
	size_t *n = s->work ? &s->daemon->work_n : &s->daemon->by_state[s->state];
	*n += in ? 1 : (size_t)-1;
}

void sandbox_set_work(struct sandbox *s, bool work)
{
	count(s, false);
	s->work = work;
	count(s, true);
}

bool sandbox_settings_work(const char *settings)
{
	return settings && settings_bool(settings, SANDBOX_WORK, false);
}

static void sandbox_free(struct sandbox *s)
{
	INVARIANT(list_empty(&s->waiters));
	loop_timer_stop(&s->idle);
	loop_timer_stop(&s->retry);
	dial_free(s);
	net_log_free(s->net_log);
	hooks_free(s->hook);
	usage_free(s->usage);
	api_spec_free(&s->spec);
	s->party->owner = NULL; /* connections may keep it */
	turn_party_unref(s->party);
	free(s);
}

void sandbox_ref(struct sandbox *s)
{
	s->refs++;
}

void sandbox_unref(struct sandbox *s)
{
	INVARIANT(s->refs > 0);
	if (--s->refs == 0 && !sandbox_exists(s))
		sandbox_free(s);
}

/* Creates and destroys are asked for by a client with the token; the end of a box and its sleep come from its inside,
 * or from visitors of a preview. */
static void log_move(const struct sandbox *s, enum sandbox_state to, const char *reason)
{
	const char *key = reason ? " reason=" : "", *value = reason ? LOG_Q(reason) : "";
	const char *from = state_name(s->state);
	if (to == SB_STOPPED)
		log_limited(
			LOG_WARN, "sandbox", "id=%s from=%s to=%s%s%s", LOG_Q(s->id), from, state_name(to), key, value);
	else if (to == SB_ASLEEP || s->state == SB_ASLEEP)
		log_limited(
			LOG_INFO, "sandbox", "id=%s from=%s to=%s%s%s", LOG_Q(s->id), from, state_name(to), key, value);
	else
		log_event(
			LOG_INFO, "sandbox", "id=%s from=%s to=%s%s%s", LOG_Q(s->id), from, state_name(to), key, value);
}

/* The invariants of state, operation and view; called on every move of one of them. */
static void sandbox_check(const struct sandbox *s)
{
	bool was_made = s->state == SB_RUNNING || s->state == SB_ASLEEP || s->state == SB_STOPPED;
	INVARIANT(!was_made || s->has_files);
	INVARIANT(s->view != VIEW_REMAINS || s->state == SB_STOPPED);
	INVARIANT(s->op != OP_CREATE || s->state == SB_CREATING);
	INVARIANT(s->op == OP_CREATE || (s->box == PART_NONE && s->env == PART_NONE));
}

void sandbox_op_begin(struct sandbox *s, enum sandbox_op op)
{
	INVARIANT(s->op == OP_NONE && state_op_allowed(s->state, op));
	s->op = op;
	sandbox_check(s);
}

void sandbox_op_end(struct sandbox *s)
{
	INVARIANT(s->op != OP_NONE);
	s->op = OP_NONE;
	sandbox_check(s);
}

void sandbox_set_view(struct sandbox *s, enum warden_view view)
{
	s->view = view;
	sandbox_check(s);
}

void sandbox_write_state(const struct sandbox *s)
{
	store_set_state(s->daemon->store, s->id, state_name(s->state), s->reason, false, NULL, NULL);
}

void sandbox_move(struct sandbox *s, enum sandbox_state to, const char *reason)
{
	struct daemon *d = s->daemon;
	INVARIANT(state_move_allowed(s->state, to));
	count(s, false);
	if (s->state == SB_RUNNING) {
		http_client_forget(d->client, &s->agent);
		dial_drop(s);
	}
	log_move(s, to, reason);
	events_move(s, to, reason);
	s->state = to;
	note_running(s);
	s->has_files |= to == SB_RUNNING;
	s->filling = false;
	if (to == SB_DESTROYED)
		s->view = VIEW_CLEAR;
	sandbox_check(s);
	if (to == SB_STOPPED || to == SB_DESTROYED) {
		gate_client_forget(d->gate, s->id);
		tunnels_clear(s);
	}
	snprintf(s->reason, sizeof s->reason, "%s", reason ? reason : "");
	if (d->docker)
		docker_box_moved(d->docker, s);
	if (to == SB_DESTROYED) {
		map_del(&d->boxes, str_of(s->id));
		ports_clear(s);
		uses_drop(s);
		/* Callers hold a reference; dropping the last one frees the sandbox. */
		INVARIANT(s->refs > 0);
		return;
	}
	count(s, true);
	if (to == SB_RUNNING)
		s->last_used = loop_now(d->loop);
	sandbox_set_idle(s);
}

static int by_id(const void *a, const void *b)
{
	return strcmp((*(struct sandbox *const *)a)->id, (*(struct sandbox *const *)b)->id);
}

struct sandbox **sandbox_sorted(struct daemon *d, size_t *ret_n)
{
	struct sandbox **v = xmalloc((d->boxes.count + 1) * sizeof(struct sandbox *));
	size_t n = 0, it = 0;
	void *value;
	while (map_next(&d->boxes, &it, &(struct str){0}, &value))
		v[n++] = value;
	qsort(v, n, sizeof *v, by_id);
	*ret_n = n;
	return v;
}

/* The last one of a heap in which each is behind its children takes its place. */
static void sift_down(struct sandbox **heap, size_t n, size_t at)
{
	for (size_t child; (child = 2 * at + 1) < n; at = child) {
		if (child + 1 < n && by_id(&heap[child], &heap[child + 1]) < 0)
			child++;
		if (by_id(&heap[at], &heap[child]) >= 0)
			return;
		struct sandbox *s = heap[at];
		heap[at] = heap[child];
		heap[child] = s;
	}
}

/* A heap of the smallest ids so far, the greatest of them on top: most sandboxes cost one comparison. */
struct sandbox **sandbox_page(struct daemon *d, const struct sandbox_page *p, size_t *ret_n)
{
	struct sandbox **v = xmalloc((p->limit + 1) * sizeof(struct sandbox *));
	size_t n = 0, it = 0;
	void *value;
	while (map_next(&d->boxes, &it, &(struct str){0}, &value)) {
		struct sandbox *s = value;
		if (strcmp(s->id, p->after) <= 0 || (n == p->limit && by_id(&s, &v[0]) > 0) || !p->pick(p->arg, s))
			continue;
		if (n < p->limit) {
			v[n++] = s;
			for (size_t i = n / 2; n == p->limit && i-- > 0;)
				sift_down(v, n, i);
			continue;
		}
		v[0] = s;
		sift_down(v, n, 0);
	}
	qsort(v, n, sizeof *v, by_id);
	*ret_n = n;
	return v;
}

/* After a loss of power files may be there whose row is lost. A request then makes the sandbox anew with the default
 * settings on these files, so only a row that says something else has to be on the disk before a client is answered. */
void sandbox_row(const struct sandbox *s, struct store_row *ret)
{
	*ret = (struct store_row){
		.limits = s->spec.limits,
		.created_ms = s->created_ms,
		.sleep_after_ms = s->spec.sleep_after_ms,
		.keep_alive = s->spec.keep_alive,
		.filling = s->filling,
		.durable = !api_spec_is_default(&s->spec),
		.env = s->spec.env,
		.labels = s->spec.labels,
		.network = s->spec.network,
		.settings = s->spec.settings,
	};
	memcpy(ret->id, s->id, sizeof ret->id);
	memcpy(ret->image, s->spec.image, sizeof ret->image);
	memcpy(ret->reason, s->reason, sizeof ret->reason);
	snprintf(ret->state, sizeof ret->state, "%s", state_name(s->state));
}
