#include "daemon/storage/volumes.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "daemon/core/sandbox.h"
#include "daemon/core/settings.h"
#include "daemon/core/uses.h"
#include "daemon/limits.h"
#include "http/http.h"
#include "proto/id.h"
#include "store/item.h"

#define KIND "volume"

/* One request to the warden under way. */
struct work {
	struct volume *volume;
	uint64_t size, used;
	volume_on_done on_done;
	void *arg;
};

/* ---- the table ---- */

static struct volume *volume_new(struct daemon *d, const char *name)
{
	struct volume *v = xcalloc(1, sizeof *v);
	v->daemon = d;
	snprintf(v->name, sizeof v->name, "%s", name);
	map_put(&d->volumes, str_of(v->name), v);
	return v;
}

static void volume_free(struct volume *v)
{
	map_del(&v->daemon->volumes, str_of(v->name));
	free(v);
}

struct volume *volume_find(const struct daemon *d, const char *name)
{
	struct volume *v = map_get(&d->volumes, str_of(name));
	return v && v->ready ? v : NULL;
}

static int take_item(void *arg, const struct store_item *item, struct err *e)
{
	auto_json struct json_doc *doc = json_parse(str_of(item->value), e);
	uint64_t size = 0;
	if (!doc || !volume_name_ok(str_of(item->key)) ||
		json_read_u64(json_root(doc), "size", BOX_DISK_MIN, BOX_DISK_MAX, &size, e) < 0)
		return err_set(e, ERRC_INTERNAL_ERROR, "the row of volume '%.80s' is damaged", item->key);
	struct volume *v = volume_new(arg, item->key);
	v->size = size;
	v->created_ms = item->created_ms;
	v->ready = true;
	return 0;
}

int volumes_load(struct daemon *d, struct err *e)
{
	return store_load_items(d->store, KIND, take_item, d, e);
}

/* ---- who uses them ---- */

struct users {
	struct json_writer *w;
	bool own;
	size_t shown;
};

static bool show_user(void *arg, const struct sandbox *s)
{
	struct users *u = arg;
	if (s->work && !u->own)
		return true;
	json_cstr(u->w, s->id);
	return ++u->shown < VOLUME_USERS_SHOWN;
}

void volume_write_users(struct json_writer *w, const struct volume *v, bool own)
{
	struct users u = {.w = w, .own = own};
	json_key(w, "usedBy");
	json_array_begin(w);
	uses_each(v->daemon, v->name, show_user, &u);
	json_array_end(w);
}

void volume_write(struct json_writer *w, const struct volume *v)
{
	char time[CLOCK_ISO_LEN];
	json_member_cstr(w, "name", v->name);
	json_member_u64(w, "size", v->size);
	json_member_u64(w, "users", uses_count(v->daemon, v->name));
	json_member_cstr(w, "createdAt", clock_iso(v->created_ms, time));
}

static int by_name(const void *a, const void *b)
{
	return strcmp((*(struct volume *const *)a)->name, (*(struct volume *const *)b)->name);
}

void volumes_list(struct daemon *d, struct json_writer *w)
{
	auto_free struct volume **all = xcalloc(d->volumes.count + 1, sizeof(struct volume *));
	size_t it = 0, n = 0;
	void *v;
	while (map_next(&d->volumes, &it, &(struct str){0}, &v))
		if (((struct volume *)v)->ready)
			all[n++] = v;
	qsort(all, n, sizeof *all, by_name);
	json_key(w, "volumes");
	json_array_begin(w);
	for (size_t i = 0; i < n; i++) {
		json_object_begin(w);
		volume_write(w, all[i]);
		json_object_end(w);
	}
	json_array_end(w);
}

/* ---- make, resize, delete ---- */

static void work_end(struct work *k, const struct err *e)
{
	struct volume *v = k->volume;
	volume_on_done on_done = k->on_done;
	void *arg = k->arg;
	uint64_t used = k->used;
	v->busy = false;
	if (!v->ready)
		volume_free(v);
	free(k);
	on_done(arg, used, e);
}

static struct warden_request request_of(const struct volume *v, enum warden_op op)
{
	struct warden_request q = {.op = op, .volumes_n = 1};
	memcpy(q.volumes[0].name, v->name, sizeof q.volumes[0].name);
	return q;
}

static int ask(struct work *k, enum warden_op op, warden_on_answer on_answer, struct err *e)
{
	struct volume *v = k->volume;
	struct warden_request q = request_of(v, op);
	q.limits.disk_bytes = k->size;
	bool up = warden_client_is_up(v->daemon->warden);
	if (up && !v->busy) {
		v->busy = true;
		v->dropping = op == WARDEN_VOLUME_DROP;
		warden_client_call(v->daemon->warden, &q, on_answer, k);
		return 0;
	}
	free(k);
	if (!v->ready && !v->busy)
		volume_free(v);
	return !up ? err_set(e, ERRC_CONTAINER_UNAVAILABLE, "the warden is not running ('atoll up' starts it again)")
		   : err_set(e, ERRC_RESOURCE_BUSY, "another request is changing this volume");
}

static struct work *work_new(struct volume *v, volume_on_done on_done, void *arg)
{
	struct work *k = xcalloc(1, sizeof *k);
	*k = (struct work){.volume = v, .used = VOLUME_USED_UNKNOWN, .on_done = on_done, .arg = arg};
	return k;
}

static void take_used(struct work *k, const struct warden_answer *a)
{
	if (!a->err && a->info && a->info->disk_known)
		k->used = a->info->disk_used;
}

static void on_row(void *arg, const struct err *e)
{
	struct work *k = arg;
	if (!e)
		k->volume->ready = true;
	work_end(k, e);
}

/* How long files in a box may be follows its volumes. */
static bool tell_size(void *arg, const struct sandbox *s)
{
	const struct volume *v = arg;
	if (s->state != SB_RUNNING && s->state != SB_ASLEEP)
		return true;
	const struct warden_request q = {.op = WARDEN_SET_LIMITS,
		.flags = WARDEN_ONLY_FILES,
		.volume_bytes = volumes_largest(v->daemon, s->spec.settings)};
	sandbox_ask(map_get(&v->daemon->boxes, str_of(s->id)), &q, NULL, NULL);
	return true;
}

static void on_made(void *arg, const struct warden_answer *a)
{
	struct work *k = arg;
	struct volume *v = k->volume;
	char value[48];
	if (a->err)
		return work_end(k, a->err);
	take_used(k, a);
	bool resized = v->ready && v->size != k->size;
	v->size = k->size;
	if (resized)
		uses_each(v->daemon, v->name, tell_size, v);
	snprintf(value, sizeof value, "{\"size\":%llu}", (unsigned long long)k->size);
	struct store_item item = {
		.kind = KIND, .key = v->name, .sandbox = "", .created_ms = v->created_ms, .value = value};
	store_item_put(v->daemon->store, &item, on_row, k);
}

int volume_put(struct daemon *d, const char *name, uint64_t size, volume_on_done on_done, void *arg, struct err *e)
{
	struct volume *v = map_get(&d->volumes, str_of(name));
	bool made = !v;
	if (!v && d->volumes.count >= VOLUMES_MAX)
		return err_set(
			e, ERRC_LIMIT_REACHED, "there are %d volumes, more are not kept; delete some", VOLUMES_MAX);
	if (!v) {
		v = volume_new(d, name);
		v->created_ms = clock_wall_ms();
	}
	struct work *k = work_new(v, on_done, arg);
	k->size = size;
	return ask(k, WARDEN_VOLUME, on_made, e) < 0 ? -1 : made;
}

static void on_row_gone(void *arg, const struct err *e)
{
	struct work *k = arg;
	k->volume->ready = e != NULL;
	k->volume->dropping = false;
	work_end(k, e);
}

static void on_dropped(void *arg, const struct warden_answer *a)
{
	struct work *k = arg;
	if (a->err) {
		k->volume->dropping = false;
		return work_end(k, a->err);
	}
	store_item_delete(k->volume->daemon->store, KIND, k->volume->name, on_row_gone, k);
}

int volume_delete(struct volume *v, volume_on_done on_done, void *arg, struct err *e)
{
	size_t users = uses_count(v->daemon, v->name);
	if (users)
		return err_set(e, ERRC_RESOURCE_BUSY, "volume '%s' is used by %zu sandbox%s", v->name, users,
			users > 1 ? "es" : "");
	return ask(work_new(v, on_done, arg), WARDEN_VOLUME_DROP, on_dropped, e);
}

/* It holds no volume: that may be deleted meanwhile. */
static void on_measured(void *arg, const struct warden_answer *a)
{
	struct work k = *(struct work *)arg;
	free(arg);
	take_used(&k, a);
	k.on_done(k.arg, k.used, NULL);
}

void volume_measure(struct volume *v, volume_on_done on_done, void *arg)
{
	struct warden_request q = request_of(v, WARDEN_VOLUME_DISK);
	if (warden_client_is_up(v->daemon->warden))
		warden_client_call(v->daemon->warden, &q, on_measured, work_new(NULL, on_done, arg));
	else
		on_done(arg, VOLUME_USED_UNKNOWN, NULL);
}

/* ---- of a sandbox ---- */

static int check_one(const struct json *list, const struct json *it, struct err *e)
{
	struct str name = STR_NULL, path = STR_NULL, other = STR_NULL;
	bool read_only = false;
	json_each(member, it)
	{
		if (!str_eq_c(member->key, "name") && !str_eq_c(member->key, "path") &&
			!str_eq_c(member->key, "readOnly"))
			return err_field(e, "volumes", "'%.*s' in field 'volumes' is not known",
				(int)(member->key.n < 40 ? member->key.n : 40), member->key.p);
	}
	if (it->type != JSON_T_OBJECT || json_read_str(it, "name", &name, e) < 0 ||
		json_read_str(it, "path", &path, e) < 0 || json_read_bool(it, "readOnly", &read_only, e) < 0 ||
		!volume_name_ok(name))
		return err_field(e, "volumes",
			"field 'volumes' must be a list of objects with 'name', 'path' and, if you like, 'readOnly'");
	if (!volume_path_ok(path))
		return err_field(e, "volumes",
			"the path of volume '%.*s' must be absolute, at most %d bytes long and without '.', '..', '//' "
			"or a slash at the end; not / and nothing in /proc, /dev and /sys",
			STR_ARG(name), VOLUME_PATH_MAX);
	for (const struct json *before = list->first; before != it; before = before->next)
		if (json_read_str(before, "path", &other, NULL) == 0 && volume_paths_overlap(path, other))
			return err_field(
				e, "volumes", "the paths of two volumes are the same, or one is inside of the other");
	return 0;
}

int volumes_check_setting(const struct json *value, struct err *e)
{
	if (value->type != JSON_T_ARRAY || value->count > BOX_VOLUMES_MAX)
		return err_field(e, "volumes", "field 'volumes' must be a list of at most %d volumes", BOX_VOLUMES_MAX);
	json_each(it, value)
	{
		if (check_one(value, it, e) < 0)
			return -1;
	}
	return 0;
}

int volumes_check_known(const struct daemon *d, const char *settings, struct err *e)
{
	const struct json *list;
	struct str name = STR_NULL;
	auto_json struct json_doc *doc = settings_get(settings, "volumes", &list);
	json_each(it, list)
	{
		struct volume *v = json_read_str(it, "name", &name, NULL) == 0 ? map_get(&d->volumes, name) : NULL;
		if (v && v->ready && !v->dropping)
			continue;
		err_set(e, ERRC_NOT_FOUND, "there is no volume '%.*s'; make it first", STR_ARG(name));
		return err_about(e, "volumes");
	}
	return 0;
}

static bool has_name(const struct json *list, struct str wanted)
{
	struct str name = STR_NULL;
	json_each(it, list)
	{
		if (json_read_str(it, "name", &name, NULL) == 0 && str_eq(name, wanted))
			return true;
	}
	return false;
}

bool volumes_add_builds(const char *had, const char *settings)
{
	const struct json *list, *before;
	struct str name = STR_NULL;
	auto_json struct json_doc *doc = settings_get(settings, "volumes", &list);
	auto_json struct json_doc *old = settings_get(had, "volumes", &before);
	json_each(it, list)
	{
		if (json_read_str(it, "name", &name, NULL) == 0 && volume_name_is_given(name) &&
			!has_name(before, name))
			return true;
	}
	return false;
}

static char *text_of(const char *settings)
{
	const struct json *list;
	auto_buf struct buf out = {0};
	auto_json struct json_doc *doc = settings_get(settings, "volumes", &list);
	if (list && list->type == JSON_T_ARRAY && list->count)
		json_put_tree(&out, list);
	return str_dup(buf_str(&out));
}

bool volumes_same(const char *a, const char *b)
{
	auto_free char *one = text_of(a), *two = text_of(b);
	return strcmp(one, two) == 0;
}

uint64_t volumes_largest(const struct daemon *d, const char *settings)
{
	const struct json *list;
	struct str name = STR_NULL;
	uint64_t largest = 0;
	auto_json struct json_doc *doc = settings_get(settings, "volumes", &list);
	json_each(it, list)
	{
		const struct volume *v =
			json_read_str(it, "name", &name, NULL) == 0 ? map_get(&d->volumes, name) : NULL;
		largest = v && v->size > largest ? v->size : largest;
	}
	return largest;
}

void volumes_ask(const struct daemon *d, const char *settings, struct warden_request *r)
{
	r->volume_bytes = volumes_largest(d, settings);
	const struct json *list;
	auto_json struct json_doc *doc = settings_get(settings, "volumes", &list);
	json_each(it, list)
	{
		struct str name = STR_NULL, path = STR_NULL;
		bool read_only = false;
		if (r->volumes_n == BOX_VOLUMES_MAX || json_read_str(it, "name", &name, NULL) < 0 ||
			json_read_str(it, "path", &path, NULL) < 0 ||
			json_read_bool(it, "readOnly", &read_only, NULL) < 0)
			continue;
		struct warden_volume *v = &r->volumes[r->volumes_n++];
		snprintf(v->name, sizeof v->name, "%.*s", STR_ARG(name));
		snprintf(v->path, sizeof v->path, "%.*s", STR_ARG(path));
		v->read_only = read_only;
	}
}
