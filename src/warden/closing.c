/*
 * Closings: layers whose last mount the closer (reaper.c) takes down. Two overlays on one layer at a time would spoil
 * it, and a box decides how long the end of its mounts takes. So a box that starts on such a layer waits here, and no
 * other box does.
 *
 * A layer has at most one closing: a box that died left it, and the next box on the layer starts when it is over.
 * Tickets grow, and the closer works in their order.
 */
#include <stdio.h>
#include <string.h>

#include "proto/limits.h"
#include "warden/closing.h"
#include "warden/warden.h"

struct closing {
	uint64_t ticket;
	char id[BOX_ID_MAX + 1];
	struct box *next; /* waits for it; may be NULL */
	struct list node; /* of warden.closings */
};

void closing_begin(struct warden *w, const char *id, int mntns)
{
	if (mntns < 0)
		return;
	struct closing *c = xcalloc(1, sizeof *c);
	c->ticket = ++w->last_ticket;
	snprintf(c->id, sizeof c->id, "%s", id);
	list_push(&w->closings, &c->node);
	reaper_close(w, mntns, c->ticket);
}

static struct closing *closing_find(struct warden *w, const char *id)
{
	list_each(it, &w->closings)
	{
		struct closing *c = list_entry(it, struct closing, node);
		if (strcmp(c->id, id) == 0)
			return c;
	}
	return NULL;
}

bool closing_is(struct warden *w, const char *id)
{
	return closing_find(w, id) != NULL;
}

bool closing_wait(struct box *b)
{
	struct closing *c = closing_find(b->w, b->info.id);
	if (!c)
		return false;
	c->next = b;
	b->after = c;
	return true;
}

void closing_leave(struct box *b)
{
	if (b->after)
		b->after->next = NULL;
	b->after = NULL;
}

static void closing_end(struct closing *c)
{
	struct box *b = c->next;
	list_del(&c->node);
	free(c);
	if (!b)
		return;
	b->after = NULL;
	box_place(b);
}

void closing_forget(struct warden *w, const char *id)
{
	struct closing *c = closing_find(w, id);
	if (c)
		closing_end(c);
}

void closing_done(struct warden *w, uint64_t ticket)
{
	list_each(it, &w->closings)
	{
		struct closing *c = list_entry(it, struct closing, node);
		if (c->ticket == ticket)
			return closing_end(c);
	}
}

void closing_done_upto(struct warden *w, uint64_t ticket)
{
	while (!list_empty(&w->closings)) {
		struct closing *c = list_entry(w->closings.next, struct closing, node);
		if (c->ticket > ticket)
			return;
		list_pop(&w->closings);
		closing_end(c);
	}
}
