#include "warden/storage/carry.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "proto/id.h"
#include "warden/closing.h"
#include "warden/limits.h"
#include "warden/record.h"
#include "warden/storage/storage.h"
#include "warden/warden.h"

static void look(struct loop_timer *t);

static void cancel(struct warden *w)
{
	struct storer_job j = {.kind = STORER_CANCEL, .other = w->carry.ticket};
	storer_ask(w, &j, -1, NULL, NULL);
}

static void on_carried(void *arg, int os)
{
	struct warden *w = arg;
	struct carry_state *c = &w->carry;
	char name[BOX_FILENAME_MAX];
	struct warden_asker who = c->who;
	c->ticket = 0;
	c->who = (struct warden_asker){0};
	if (c->dropped) {
		box_id_filename(str_of(c->id), name);
		storage_drop(w, name);
	} else if (!os) {
		c->moved++;
		log_event(LOG_INFO, "files moved into the pool", "id=%s ms=%llu moved=%u", LOG_Q(c->id),
			(unsigned long long)(clock_ms() - c->since), c->moved);
	} else if (os != ECANCELED) {
		log_event(LOG_WARN, "files not moved into the pool; they stay in a plain directory", "id=%s error=%s",
			LOG_Q(c->id), LOG_Q(strerror(os)));
		map_put(&c->failed, str_of(c->id), w);
	}
	reaper_wake(w);
	loop_timer_set(w->loop, &c->timer, CARRY_PAUSE, look);
	if (who.waiting)
		box_create(w, &c->rq, who);
}

/* The limit comes with the next start of its box. */
static void begin(struct warden *w, const char *id, const char *name)
{
	struct carry_state *c = &w->carry;
	struct storer_job j = {.kind = STORER_CARRY, .limit = BOX_DISK_DEFAULT};
	snprintf(j.layer, sizeof j.layer, "%s", name);
	snprintf(c->id, sizeof c->id, "%s", id);
	c->dropped = false;
	c->since = clock_ms();
	c->ticket = storer_ask(w, &j, -1, on_carried, w);
}

struct choice {
	struct warden *w;
	char id[BOX_ID_MAX + 1], name[BOX_FILENAME_MAX];
	unsigned left;
};

static void consider(void *arg, const char *name)
{
	struct choice *c = arg;
	char id[BOX_ID_MAX + 1];
	if (!box_id_from_filename(str_of(name), id) || map_get(&c->w->carry.failed, str_of(id)))
		return;
	c->left++;
	if (*c->id || box_find(c->w, id) || closing_is(c->w, id))
		return;
	snprintf(c->id, sizeof c->id, "%s", id);
	snprintf(c->name, sizeof c->name, "%s", name);
}

static void look(struct loop_timer *t)
{
	struct warden *w = container_of(t, struct warden, carry.timer);
	struct choice c = {.w = w};
	record_each(w->plain_boxes, consider, &c);
	if (*c.id && !w->carry.ticket)
		begin(w, c.id, c.name);
	else if (c.left)
		loop_timer_set(w->loop, t, CARRY_LOOK, look);
}

void carry_start(struct warden *w)
{
	if (w->pool.kind != POOL_PLAIN)
		loop_timer_set(w->loop, &w->carry.timer, CARRY_PAUSE, look);
}

bool carry_defer(struct warden *w, const struct warden_request *rq, struct warden_asker who)
{
	struct carry_state *c = &w->carry;
	struct err e;
	if (!c->ticket || strcmp(c->id, rq->id) != 0)
		return false;
	if (c->who.waiting) {
		err_set(&e, ERRC_INVALID_STATE, "sandbox '%s' exists already", rq->id);
		server_reply(w, &who, &e, NULL);
		return true;
	}
	c->rq = *rq;
	c->who = who;
	cancel(w);
	return true;
}

void carry_drop(struct warden *w, const char *id)
{
	struct carry_state *c = &w->carry;
	struct err e;
	if (!c->ticket || strcmp(c->id, id) != 0)
		return;
	c->dropped = true;
	if (c->who.waiting) {
		err_set(&e, ERRC_INVALID_STATE, "sandbox '%s' is being destroyed", id);
		server_reply(w, &c->who, &e, NULL);
	}
	cancel(w);
}
