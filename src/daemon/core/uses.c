#include "daemon/core/uses.h"

#include <string.h>

#include "daemon/core/settings.h"

struct volume_users {
	struct list uses;
	size_t n;
	char *name;
};

struct volume_use {
	struct list node;
	struct sandbox *sandbox;
	struct volume_users *of;
};

static void leave(struct daemon *d, struct volume_use *u)
{
	struct volume_users *of = u->of;
	list_del(&u->node);
	if (--of->n)
		return;
	map_del(&d->volume_users, str_of(of->name));
	free(of->name);
	free(of);
}

void uses_drop(struct sandbox *s)
{
	for (size_t i = 0; i < s->uses_n; i++)
		leave(s->daemon, &s->uses[i]);
	free(s->uses);
	s->uses = NULL;
	s->uses_n = 0;
}

static struct volume_users *users_of(struct daemon *d, struct str name)
{
	struct volume_users *of = map_get(&d->volume_users, name);
	if (of)
		return of;
	of = xcalloc(1, sizeof *of);
	of->name = str_dup(name);
	list_init(&of->uses);
	map_put(&d->volume_users, name, of);
	return of;
}

/* A sandbox may have one volume at two places: it is one use. */
static bool is_noted(const struct sandbox *s, struct str name)
{
	for (size_t i = 0; i < s->uses_n; i++)
		if (str_eq_c(name, s->uses[i].of->name))
			return true;
	return false;
}

void uses_note(struct sandbox *s)
{
	const struct json *list = NULL;
	struct str name = STR_NULL;
	uses_drop(s);
	if (!strstr(s->spec.settings, "\"volumes\""))
		return;
	auto_json struct json_doc *doc = settings_get(s->spec.settings, "volumes", &list);
	if (!list || list->type != JSON_T_ARRAY || !list->count)
		return;
	s->uses = xcalloc(list->count, sizeof *s->uses);
	json_each(it, list)
	{
		if (json_read_str(it, "name", &name, NULL) < 0 || !name.p || is_noted(s, name))
			continue;
		struct volume_use *u = &s->uses[s->uses_n++];
		u->sandbox = s;
		u->of = users_of(s->daemon, name);
		u->of->n++;
		list_push(&u->of->uses, &u->node);
	}
}

size_t uses_count(const struct daemon *d, const char *volume)
{
	const struct volume_users *of = map_get(&d->volume_users, str_of(volume));
	return of ? of->n : 0;
}

void uses_each(const struct daemon *d, const char *volume, bool (*each)(void *arg, const struct sandbox *s), void *arg)
{
	struct volume_users *of = map_get(&d->volume_users, str_of(volume));
	if (!of)
		return;
	list_each(it, &of->uses)
	{
		if (!each(arg, list_entry(it, struct volume_use, node)->sandbox))
			return;
	}
}
