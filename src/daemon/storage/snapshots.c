#include "daemon/storage/snapshots.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "daemon/limits.h"
#include "daemon/storage/spec_json.h"
#include "proto/id.h"
#include "store/item.h"

#define KIND "snapshot"

/* A take or a drop under way. */
struct work {
	struct snapshot *snapshot;
	struct sandbox *sandbox; /* referenced; NULL in a drop */
	bool keep;
	snapshot_on_done on_done;
	void *arg;
	struct err err;
};

/* ---- rows ---- */

static void write_row(const struct snapshot *s, struct buf *out)
{
	struct json_writer w = json_writer(out);
	json_object_begin(&w);
	json_member_cstr(&w, "state", s->base ? "base" : s->ready ? "ready" : "making");
	json_member_cstr(&w, "name", s->name);
	json_member_u64(&w, "size", s->size);
	spec_json_write(&w, &s->spec);
	json_object_end(&w);
}

static void put_row(const struct snapshot *s, store_on_done on_done, void *arg)
{
	auto_buf struct buf value = {0};
	write_row(s, &value);
	struct store_item item = {.kind = KIND,
		.key = s->id,
		.sandbox = s->sandbox,
		.created_ms = s->created_ms,
		.value = buf_cstr(&value),
		.durable = s->ready && !s->base}; /* the client hears of it; `making` in its place is deleted */
	store_item_put(s->daemon->store, &item, on_done, arg);
}

/* ---- the table ---- */

static struct snapshot *snapshot_new(struct daemon *d, const char *id, const char *sandbox)
{
	struct snapshot *s = xcalloc(1, sizeof *s);
	s->daemon = d;
	snprintf(s->id, sizeof s->id, "%s", id);
	snprintf(s->sandbox, sizeof s->sandbox, "%s", sandbox);
	map_put(&d->snapshots, str_of(s->id), s);
	return s;
}

static void snapshot_free(struct snapshot *s)
{
	map_del(&s->daemon->snapshots, str_of(s->id));
	api_spec_free(&s->spec);
	free(s);
}

static int take_item(void *arg, const struct store_item *item, struct err *e)
{
	struct daemon *d = arg;
	auto_json struct json_doc *doc = json_parse(str_of(item->value), e);
	if (!doc || !snapshot_name_ok(str_of(item->key)) || strlen(item->sandbox) > BOX_ID_MAX)
		return err_set(e, ERRC_INTERNAL_ERROR, "the row of snapshot '%.80s' is damaged", item->key);
	const struct json *root = json_root(doc);
	struct str state = STR_NULL, name = STR_NULL;
	struct snapshot *s = snapshot_new(d, item->key, item->sandbox);
	const struct sandbox *owner = sandbox_find(d, item->sandbox);
	s->created_ms = item->created_ms;
	json_read_str(root, "state", &state, NULL);
	json_read_str(root, "name", &name, NULL);
	json_read_u64(root, "size", 0, UINT64_MAX, &s->size, NULL);
	snprintf(s->name, sizeof s->name, "%.*s", STR_ARG(name));
	api_spec_default(&s->spec);
	spec_json_read(root, &s->spec);
	/* One of an earlier sandbox of the same name goes, like one that was left half-made. */
	bool lives = owner && owner->created_ms <= s->created_ms;
	s->base = str_eq_c(state, "base") && lives;
	s->ready = s->base || (str_eq_c(state, "ready") && lives);
	return 0;
}

int snapshots_load(struct daemon *d, struct err *e)
{
	return store_load_items(d->store, KIND, take_item, d, e);
}

struct snapshot *snapshot_find(struct daemon *d, const char *sandbox, struct str text)
{
	struct snapshot *s = map_get(&d->snapshots, text), *found = NULL;
	if (s && s->ready && !s->base && !s->dropping && (!sandbox || strcmp(s->sandbox, sandbox) == 0))
		return s;
	size_t it = 0;
	struct str key;
	void *value;
	while (sandbox && text.n && map_next(&d->snapshots, &it, &key, &value)) {
		s = value;
		if (s->ready && !s->base && !s->dropping && strcmp(s->sandbox, sandbox) == 0 &&
			str_eq_c(text, s->name) && (!found || s->created_ms > found->created_ms))
			found = s;
	}
	return found;
}

static int by_age(const void *a, const void *b)
{
	const struct snapshot *x = *(struct snapshot *const *)a, *y = *(struct snapshot *const *)b;
	if (x->created_ms != y->created_ms)
		return x->created_ms < y->created_ms ? -1 : 1;
	return strcmp(x->id, y->id);
}

static struct snapshot **collect(struct daemon *d, bool (*wanted)(const struct snapshot *s, const char *sandbox),
	const char *sandbox, size_t *ret_n)
{
	struct snapshot **v = xmalloc((d->snapshots.count + 1) * sizeof(struct snapshot *));
	size_t n = 0, it = 0;
	struct str key;
	void *value;
	while (map_next(&d->snapshots, &it, &key, &value))
		if (wanted(value, sandbox))
			v[n++] = value;
	qsort(v, n, sizeof(struct snapshot *), by_age);
	*ret_n = n;
	return v;
}

static bool is_shown(const struct snapshot *s, const char *sandbox)
{
	return s->ready && !s->base && !s->dropping && strcmp(s->sandbox, sandbox) == 0;
}

struct snapshot **snapshots_of(struct daemon *d, const char *sandbox, size_t *ret_n)
{
	return collect(d, is_shown, sandbox, ret_n);
}

static bool is_left(const struct snapshot *s, const char *sandbox)
{
	(void)sandbox;
	return s->dropping ? !s->active : !s->ready && !s->active;
}

void snapshots_warden_up(struct daemon *d)
{
	size_t n;
	auto_free struct snapshot **v = collect(d, is_left, NULL, &n);
	for (size_t i = 0; i < n; i++)
		snapshot_drop(v[i], NULL, NULL);
}

void snapshots_retry(struct daemon *d)
{
	if (!d->snapshots_left || !warden_client_is_up(d->warden))
		return;
	d->snapshots_left = false;
	snapshots_warden_up(d);
}

static bool is_of(const struct snapshot *s, const char *sandbox)
{
	return !s->dropping && !s->active && strcmp(s->sandbox, sandbox) == 0;
}

void snapshots_drop_all(struct daemon *d, const char *sandbox)
{
	size_t n;
	auto_free struct snapshot **v = collect(d, is_of, sandbox, &n);
	for (size_t i = 0; i < n; i++)
		snapshot_drop(v[i], NULL, NULL);
}

/* ---- drop ---- */

static struct work *work_new(struct snapshot *s, snapshot_on_done on_done, void *arg)
{
	struct work *k = xcalloc(1, sizeof *k);
	*k = (struct work){.snapshot = s, .on_done = on_done, .arg = arg};
	s->active = true;
	return k;
}

static void on_row_gone(void *arg, const struct err *e)
{
	struct work *k = arg;
	struct snapshot *s = k->snapshot;
	s->active = false;
	if (e)
		log_limited(LOG_WARN, "row of a snapshot not deleted", "id=%s error=%s", s->id, LOG_Q(e->msg));
	else
		snapshot_free(s);
	if (k->on_done)
		k->on_done(k->arg, NULL, e);
	free(k);
}

static void on_dropped(void *arg, const struct warden_answer *a)
{
	struct work *k = arg;
	struct snapshot *s = k->snapshot;
	if (!a->err)
		return store_item_delete(s->daemon->store, KIND, s->id, on_row_gone, k);
	/* It is tried again soon, or when the warden comes back. */
	s->active = false;
	s->daemon->snapshots_left = true;
	if (!a->lost)
		log_limited(LOG_WARN, "snapshot not deleted", "id=%s error=%s", s->id, LOG_Q(a->err->msg));
	if (k->on_done)
		k->on_done(k->arg, NULL, a->err);
	free(k);
}

void snapshot_drop(struct snapshot *s, snapshot_on_done on_done, void *arg)
{
	struct warden_request q = {.op = WARDEN_SNAPSHOT_DROP};
	s->dropping = true;
	s->active = false;
	if (!warden_client_is_up(s->daemon->warden) && !on_done)
		return; /* snapshots_warden_up goes on */
	struct work *k = work_new(s, on_done, arg);
	memcpy(q.snapshot, s->id, sizeof q.snapshot);
	warden_client_call(s->daemon->warden, &q, on_dropped, k);
}

/* ---- take ---- */

static void take_end(struct work *k, const struct err *e)
{
	struct snapshot *s = k->snapshot;
	bool gone = !sandbox_exists(k->sandbox);
	struct err why;
	s->active = false;
	if (!e && gone) {
		err_set(&why, ERRC_SANDBOX_NOT_FOUND, "sandbox '%s' was destroyed meanwhile", s->sandbox);
		e = &why;
	}
	s->ready = k->keep && !e;
	s->active = !k->keep && !e; /* the operation's */
	if (k->on_done)
		k->on_done(k->arg, e ? NULL : s, e);
	if (e)
		snapshot_drop(s, NULL, NULL);
	sandbox_unref(k->sandbox);
	free(k);
}

static void on_kept(void *arg, const struct err *e)
{
	take_end(arg, e);
}

static void on_taken(struct sandbox *sandbox, const struct warden_answer *a, void *arg)
{
	(void)sandbox;
	struct work *k = arg;
	struct snapshot *s = k->snapshot;
	if (a->err)
		return take_end(k, a->err);
	s->size = a->info && a->info->disk_known ? a->info->disk_used : 0;
	if (!k->keep)
		return take_end(k, NULL);
	s->ready = true;
	put_row(s, on_kept, k);
	s->ready = false;
}

static void take(struct work *k)
{
	struct warden_request q = {.op = WARDEN_SNAPSHOT};
	struct err away;
	if (!warden_client_is_up(k->sandbox->daemon->warden)) {
		err_set(&away, ERRC_CONTAINER_UNAVAILABLE, "there can be no snapshot now: the warden is not running");
		return take_end(k, &away);
	}
	memcpy(q.snapshot, k->snapshot->id, sizeof q.snapshot);
	sandbox_ask(k->sandbox, &q, on_taken, k);
}

static void on_agent(void *arg, const struct http_reply *r, const struct http_failure *f)
{
	struct work *k = arg;
	(void)f; /* a box whose agent does not answer has a snapshot all the same */
	if (r)
		k->sandbox->heard_ms = k->sandbox->started_ms;
	take(k);
}

/* An agent writes /etc/hosts before it answers. Until its first answer, a snapshot could show a new file that has not
 * taken the place of the old one yet. */
static void await_agent(struct work *k)
{
	struct sandbox *s = k->sandbox;
	struct http_call_options o = {
		.method = STR("GET"),
		.target = STR("/internal/activity"),
		.head_ms = AGENT_FIRST_TIMEOUT,
		.stall_ms = AGENT_FIRST_TIMEOUT,
	};
	struct http_question q = {.options = o, .max = AGENT_ENV_REPLY_MAX, .on_reply = on_agent, .arg = k};
	if (sandbox_is_ready(s) && s->heard_ms != s->started_ms)
		http_call_whole(s->daemon->client, &s->agent, &q);
	else
		take(k);
}

static void on_row(void *arg, const struct err *e)
{
	struct work *k = arg;
	if (e)
		take_end(k, e);
	else
		await_agent(k);
}

static void fresh_id(char ret[SNAPSHOT_NAME_MAX + 1])
{
	uint64_t r = 0;
	INVARIANT(getrandom(&r, sizeof r, 0) == sizeof r);
	snprintf(ret, SNAPSHOT_NAME_MAX + 1, "snap-%016llx", (unsigned long long)r);
}

void snapshot_take(struct sandbox *sandbox, const char *name, snapshot_on_done on_done, void *arg)
{
	char id[SNAPSHOT_NAME_MAX + 1];
	fresh_id(id);
	struct snapshot *s = snapshot_new(sandbox->daemon, id, sandbox->id);
	s->created_ms = clock_wall_ms();
	api_spec_copy(&s->spec, &sandbox->spec);
	snprintf(s->name, sizeof s->name, "%s", name ? name : "");
	struct work *k = work_new(s, on_done, arg);
	k->sandbox = sandbox;
	k->keep = name != NULL;
	sandbox_ref(sandbox);
	put_row(s, on_row, k);
}

/* ---- backups ---- */

static void on_reserved(void *arg, const struct err *e)
{
	struct work *k = arg;
	struct snapshot *s = k->snapshot;
	k->on_done(k->arg, e ? NULL : s, e);
	if (e)
		snapshot_drop(s, NULL, NULL);
	free(k);
}

void snapshot_reserve(
	struct daemon *d, const char *sandbox, const struct api_spec *spec, snapshot_on_done on_done, void *arg)
{
	char id[SNAPSHOT_NAME_MAX + 1];
	fresh_id(id);
	struct snapshot *s = snapshot_new(d, id, sandbox);
	s->created_ms = clock_wall_ms();
	api_spec_copy(&s->spec, spec);
	put_row(s, on_reserved, work_new(s, on_done, arg));
}

static bool is_base(const struct snapshot *s, const char *sandbox)
{
	return s->base && !s->dropping && !s->active && strcmp(s->sandbox, sandbox) == 0;
}

struct snapshot *snapshot_base(struct daemon *d, const char *sandbox)
{
	size_t n;
	auto_free struct snapshot **v = collect(d, is_base, sandbox, &n);
	return n ? v[n - 1] : NULL;
}

void snapshot_drop_base(struct daemon *d, const char *sandbox)
{
	size_t n;
	auto_free struct snapshot **v = collect(d, is_base, sandbox, &n);
	for (size_t i = 0; i < n; i++)
		snapshot_drop(v[i], NULL, NULL);
}

void snapshot_keep_base(struct snapshot *s, const char *backup)
{
	snapshot_drop_base(s->daemon, s->sandbox);
	s->active = false;
	s->ready = s->base = true;
	snprintf(s->name, sizeof s->name, "%s", backup);
	put_row(s, NULL, NULL);
}

void snapshot_write(struct json_writer *w, const struct snapshot *s)
{
	char iso[CLOCK_ISO_LEN];
	json_object_begin(w);
	json_member_cstr(w, "id", s->id);
	json_member_cstr(w, "sandbox", s->sandbox);
	json_member_cstr(w, "name", *s->name ? s->name : NULL);
	json_member_u64(w, "size", s->size);
	json_member_cstr(w, "image", s->spec.image);
	json_member_cstr(w, "createdAt", clock_iso(s->created_ms, iso));
	json_object_end(w);
}
