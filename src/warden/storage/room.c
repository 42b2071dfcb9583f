#include "warden/storage/room.h"

#include <stdlib.h>

#include "proto/id.h"
#include "warden/limits.h"
#include "warden/storage/storage.h"
#include "warden/warden.h"

struct create {
	struct warden_request rq;
	struct warden_asker who;
	struct list node; /* of room_state.waiting */
};

void room_init(struct warden *w)
{
	list_init(&w->room.waiting);
}

static void on_tried(void *arg, int os)
{
	struct warden *w = arg;
	struct room_state *m = &w->room;
	(void)os; /* if the pool is still full, the create says so */
	m->asked = false;
	m->over = true;
	while (!list_empty(&m->waiting)) {
		struct create *c = list_entry(list_pop(&m->waiting), struct create, node);
		m->waiting_n--;
		if (c->who.conn == w->conn) /* else nobody would know of the box */
			box_create(w, &c->rq, c->who);
		free(c);
	}
	m->over = false;
}

bool room_defer(struct warden *w, const struct warden_request *rq, struct warden_asker who)
{
	struct room_state *m = &w->room;
	char name[BOX_FILENAME_MAX];
	box_id_filename(str_of(rq->id), name);
	if (m->over || m->waiting_n >= ROOM_WAITING_MAX || !pool_is_full(&w->pool) || storage_has(w, name))
		return false;
	struct create *c = xcalloc(1, sizeof *c);
	*c = (struct create){.rq = *rq, .who = who};
	list_push(&m->waiting, &c->node);
	m->waiting_n++;
	if (!m->asked)
		storer_ask(w, &(struct storer_job){.kind = STORER_ROOM}, -1, on_tried, w);
	m->asked = true;
	return true;
}
