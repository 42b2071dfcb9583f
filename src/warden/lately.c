#include "warden/lately.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "warden/warden.h"

static ssize_t find_name(const struct lately *l, const char *name)
{
	for (size_t i = 0; i < l->n; i++)
		if (strcmp(l->images[i].name, name) == 0)
			return (ssize_t)i;
	return -1;
}

/* Moves the image up to place `to`, or in there; the last one makes way. */
static void move_up(struct lately *l, const char *name, size_t to)
{
	ssize_t found = find_name(l, name);
	size_t at = found >= 0 ? (size_t)found : l->n < WARDEN_POOL_IMAGES ? l->n++ : WARDEN_POOL_IMAGES - 1;
	struct lately_image mine = found >= 0 ? l->images[at] : (struct lately_image){0};
	if (at <= to && found >= 0)
		return;
	to = to < at ? to : at;
	snprintf(mine.name, sizeof mine.name, "%s", name);
	memmove(l->images + to + 1, l->images + to, (at - to) * sizeof *l->images);
	l->images[to] = mine;
}

void lately_name(struct warden *w, const char *name)
{
	move_up(&w->lately, name, 1);
}

void lately_use(struct warden *w, const char *name)
{
	struct lately *l = &w->lately;
	bool known = find_name(l, name) >= 0;
	for (size_t i = 0; i < WARDEN_POOL_IMAGES && !known; i++)
		known = strcmp(l->once[i], name) == 0;
	if (known)
		return move_up(l, name, 0);
	snprintf(l->once[l->once_next], sizeof l->once[0], "%s", name);
	l->once_next = (l->once_next + 1) % WARDEN_POOL_IMAGES;
}

static bool is_for(const struct warden_slot *c, const struct image *image)
{
	return c->slot.overlay >= 0 && image_same(&c->slot.image, image);
}

/* How many slots the image at place `i` should have. */
static uint32_t share(const struct lately *l, size_t i)
{
	return i ? WARDEN_POOL_SHARE : WARDEN_POOL - (uint32_t)(l->n - 1) * WARDEN_POOL_SHARE;
}

static struct lately_image *image_of(struct lately *l, const struct warden_slot *c)
{
	for (size_t i = 0; i < l->n; i++)
		if (is_for(c, &l->images[i].image))
			return &l->images[i];
	return NULL;
}

static bool is_among(const struct lately_image *images, size_t n, const struct image *image)
{
	for (size_t i = 0; i < n; i++)
		if (image_same(&images[i].image, image))
			return true;
	return false;
}

/* Of two names for one image the one used last stays: slots are counted for it alone, and the other would seem to lack
 * slots whatever it is given. */
static void look(struct warden *w)
{
	struct lately *l = &w->lately;
	size_t kept = 0;
	for (size_t i = 0; i < l->n; i++) {
		struct lately_image *it = &l->images[i];
		it->ready = 0;
		if (image_find(w->host.images, it->name, &it->image, NULL) == 0 &&
			!is_among(l->images, kept, &it->image))
			l->images[kept++] = *it;
	}
	l->n = kept;
	list_each(it, &w->slots)
	{
		struct warden_slot *c = list_entry(it, struct warden_slot, node);
		struct lately_image *mine = image_of(l, c);
		if (mine && (c->stage == SLOT_READY || c->stage == SLOT_MAKING))
			mine->ready++;
	}
}

static const struct lately_image *lacks(struct warden *w)
{
	const struct lately *l = &w->lately;
	const struct lately_image *ret = NULL;
	uint32_t most = 0;
	look(w);
	for (size_t i = 0; i < l->n; i++) {
		uint32_t want = share(l, i), have = l->images[i].ready;
		if (have < want && want - have > most) {
			most = want - have;
			ret = &l->images[i];
		}
	}
	return ret;
}

bool lately_wants(struct warden *w, const struct warden_slot *c)
{
	return image_of(&w->lately, c) != NULL;
}

const struct image *lately_lacks(struct warden *w)
{
	const struct lately_image *it = lacks(w);
	return it ? &it->image : NULL;
}

/* The slots that its image has past its share; the largest number for a slot without an image that is wanted. */
static uint32_t spare(struct lately *l, const struct warden_slot *c)
{
	const struct lately_image *mine = image_of(l, c);
	uint32_t want = mine ? share(l, (size_t)(mine - l->images)) : 0;
	if (!mine)
		return UINT32_MAX;
	return mine->ready > want ? mine->ready - want : 0;
}

struct warden_slot *lately_slot(struct warden *w, const struct image *image)
{
	struct warden_slot *best = NULL;
	uint32_t most = 0;
	list_each(it, &w->slots)
	{
		struct warden_slot *c = list_entry(it, struct warden_slot, node);
		if (c->stage != SLOT_READY || c->warm)
			continue;
		if (is_for(c, image))
			return c;
		uint32_t n = spare(&w->lately, c);
		if (!best || n > most) {
			best = c;
			most = n;
		}
	}
	return best;
}

/* Between images in use only a few slots change hands: boxes of two images in turn would move the whole pool. */
bool lately_swap(struct warden *w)
{
	const struct lately_image *to = lacks(w);
	warm_end_unwanted(w);
	struct warden_slot *c = to ? lately_slot(w, &(struct image){0}) : NULL;
	uint32_t n = c ? spare(&w->lately, c) : 0;
	if (!n || (n != UINT32_MAX && to->ready >= WARDEN_POOL_SHARE))
		return false;
	reaper_close(w, take_fd(&c->slot.overlay), 0);
	slot_drop_layer(&w->host, c->slot.number);
	slot_make_layer(&w->host, &c->slot, &to->image);
	warden_slot_close_spent(c);
	reaper_wake(w);
	log_event(LOG_DEBUG, "slot ready", "slot=%u image=%s", c->slot.number, LOG_Q(to->image.key));
	return c->slot.overlay >= 0;
}
