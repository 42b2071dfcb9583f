/*
 * Which backups there are; hiding and deleting them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backup/backup.h"
#include "backup/target.h"
#include "base/map.h"

struct names {
	struct map manifests, objects, hidden; /* id → itself */
};

static void free_ids(struct map *m)
{
	size_t it = 0;
	struct str key;
	void *value;
	while (map_next(m, &it, &key, &value))
		free(value);
	map_free(m);
}

static int on_name(void *arg, const char *name, struct err *e)
{
	struct names *n = arg;
	struct str end, id = str_split(str_of(name), '.', &end);
	struct map *m = str_eq_c(end, "json")	  ? &n->manifests
			: str_eq_c(end, "zst")	  ? &n->objects
			: str_eq_c(end, "hidden") ? &n->hidden
						  : NULL;
	(void)e;
	if (m && backup_id_ok(id) && !map_get(m, id)) {
		char *text = str_dup(id);
		map_put(m, str_of(text), text);
	}
	return 0;
}

static int drop_name(struct backup_run *r, const char *id, const char *end, struct err *e)
{
	char name[BACKUP_NAME_MAX + 1];
	snprintf(name, sizeof name, "%s.%s", id, end);
	return r->t->ops->remove(r->t, name, e);
}

/* The manifest goes first: from then on there is no such backup. */
static int drop_one(struct backup_run *r, const char *id, struct err *e)
{
	return drop_name(r, id, "json", e) < 0 || drop_name(r, id, "zst", e) < 0 ? -1 : drop_name(r, id, "hidden", e);
}

/* Objects whose manifest was never written. */
static int sweep(struct backup_run *r, struct names *n, struct err *e)
{
	size_t it = 0;
	struct str key;
	void *value;
	if (r->t->ops->sweep(r->t, e) < 0)
		return -1;
	while (!r->t->remote && map_next(&n->objects, &it, &key, &value))
		if (!map_get(&n->manifests, key) && drop_one(r, value, e) < 0)
			return -1;
	it = 0;
	while (!r->t->remote && map_next(&n->hidden, &it, &key, &value))
		if (!map_get(&n->manifests, key) && drop_one(r, value, e) < 0)
			return -1;
	return 0;
}

static void tell_one(struct backup_run *r, const char *id, bool hidden)
{
	auto_buf struct buf line = {0};
	struct json_writer w = json_writer(&line);
	struct manifest m = {0};
	struct err e = {0};
	int n = manifest_fetch(r, id, &m, &e);
	json_object_begin(&w);
	json_member_bool(&w, "hidden", hidden);
	if (n == 0) {
		json_key(&w, "manifest");
		json_raw(&w, buf_str(&m.json));
	} else {
		json_member_cstr(&w, "damaged", id);
		json_member_cstr(&w, "why", e.msg);
	}
	json_object_end(&w);
	tell(&line);
	manifest_free(&m);
}

int run_list(struct backup_run *r, struct err *e)
{
	struct names n = {0};
	size_t it = 0;
	struct str key;
	void *value;
	int code = r->t->ops->list(r->t, on_name, &n, e);
	if (code == 0 && r->sweep)
		code = sweep(r, &n, e);
	while (code == 0 && map_next(&n.manifests, &it, &key, &value))
		tell_one(r, value, map_get(&n.hidden, key) != NULL);
	free_ids(&n.manifests);
	free_ids(&n.objects);
	free_ids(&n.hidden);
	return code;
}

int run_hide(struct backup_run *r, struct err *e)
{
	char name[BACKUP_NAME_MAX + 1];
	for (size_t i = 0; i < r->ids_n; i++) {
		snprintf(name, sizeof name, "%s.hidden", r->ids[i]);
		if (target_put_text(r->t, name, STR("\n"), e) < 0)
			return -1;
	}
	return 0;
}

int run_drop(struct backup_run *r, struct err *e)
{
	for (size_t i = 0; i < r->ids_n; i++)
		if (drop_one(r, r->ids[i], e) < 0)
			return -1;
	return 0;
}
