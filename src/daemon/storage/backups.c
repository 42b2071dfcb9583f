#include "daemon/storage/backups.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "daemon/limits.h"
#include "daemon/storage/backup_jobs.h"
#include "daemon/storage/job_process.h"
#include "daemon/storage/spec_json.h"
#include "proto/id.h"

struct backups {
	struct daemon *daemon;
	struct map all; /* id → struct backup */
	bool known, listing;
	bool partial;	     /* some were left out: who needs what is not known */
	struct list waiting; /* struct known_waiter */
	uint64_t sweep_at;   /* hidden ones may be needed no more (loop_now); 0: no reason to look */
	struct loop_timer timer;
};

/* ---- the table ---- */

struct backup *backup_new(struct daemon *d, const char *id, const char *sandbox)
{
	struct backup *b = xcalloc(1, sizeof *b);
	b->daemon = d;
	snprintf(b->id, sizeof b->id, "%s", id);
	snprintf(b->sandbox, sizeof b->sandbox, "%s", sandbox);
	map_put(&d->backups->all, str_of(b->id), b);
	return b;
}

void backup_forget(struct backup *b)
{
	map_del(&b->daemon->backups->all, str_of(b->id));
	api_spec_free(&b->spec);
	free(b);
}

struct backup *backup_find(struct daemon *d, struct str id)
{
	struct backup *b = map_get(&d->backups->all, id);
	return b && !b->hidden ? b : NULL;
}

struct backup *backup_find_any(struct daemon *d, const char *id)
{
	return map_get(&d->backups->all, str_of(id));
}

static int by_age(const void *a, const void *b)
{
	const struct backup *x = *(struct backup *const *)a, *y = *(struct backup *const *)b;
	if (x->created_ms != y->created_ms)
		return x->created_ms < y->created_ms ? -1 : 1;
	return strcmp(x->id, y->id);
}

struct backup **backups_of(struct daemon *d, const char *sandbox, size_t *ret_n)
{
	struct backups *k = d->backups;
	struct backup **v = xmalloc((k->all.count + 1) * sizeof(struct backup *));
	size_t n = 0, it = 0;
	struct str key;
	void *value;
	while (map_next(&k->all, &it, &key, &value)) {
		struct backup *b = value;
		if (!b->hidden && (!sandbox || strcmp(b->sandbox, sandbox) == 0))
			v[n++] = b;
	}
	qsort(v, n, sizeof(struct backup *), by_age);
	*ret_n = n;
	return v;
}

struct backup_usage backups_usage(struct daemon *d, const char *sandbox)
{
	struct backup_usage u = {0};
	size_t it = 0;
	struct str key;
	void *value;
	while (map_next(&d->backups->all, &it, &key, &value)) {
		const struct backup *b = value;
		if (b->state == BACKUP_FAILED || (sandbox && strcmp(b->sandbox, sandbox) != 0))
			continue;
		u.bytes += b->size;
		u.hidden += b->hidden;
		u.hidden_bytes += b->hidden ? b->size : 0;
	}
	return u;
}

const char *backup_digest(struct daemon *d, const struct api_spec *spec)
{
	const struct warden_host *host = warden_host(d->warden);
	return strcmp(spec->image, "default") == 0 && host && *host->image ? host->image : spec->image;
}

static const char *state_of(const struct backup *b)
{
	return b->state == BACKUP_READY ? "ready" : b->state == BACKUP_MAKING ? "making" : "failed";
}

void backup_write(struct json_writer *w, const struct backup *b)
{
	char iso[CLOCK_ISO_LEN];
	json_object_begin(w);
	json_member_cstr(w, "id", b->id);
	json_member_cstr(w, "sandbox", b->sandbox);
	json_member_cstr(w, "name", *b->name ? b->name : NULL);
	json_member_cstr(w, "state", state_of(b));
	json_member_cstr(w, "parent", *b->parent ? b->parent : NULL);
	json_member_cstr(w, "image", b->digest);
	json_member_u64(w, "size", b->size);
	json_member_u64(w, "bytes", b->bytes);
	json_member_bool(w, "scheduled", b->scheduled);
	json_member_cstr(w, "createdAt", clock_iso(b->created_ms, iso));
	json_member_cstr(w, "expiresAt", b->expires_ms ? clock_iso(b->expires_ms, iso) : NULL);
	if (b->state == BACKUP_FAILED)
		json_member_cstr(w, "error", b->err.msg);
	json_object_end(w);
}

/* ---- the list ---- */

struct known_waiter {
	struct list node;
	void (*run)(void *arg, const struct err *e);
	void *arg;
};

static void take_text(const struct json *object, const char *key, char *ret, size_t size)
{
	struct str text = STR_NULL;
	if (json_read_str(object, key, &text, NULL) == 0 && text.n < size)
		snprintf(ret, size, "%.*s", STR_ARG(text));
}

static void take_manifest(struct backups *k, const struct json *manifest, bool hidden)
{
	const struct json *d = json_get(manifest, "backup"), *o = json_get(manifest, "object");
	char id[SNAPSHOT_NAME_MAX + 1] = "", sandbox[BOX_ID_MAX + 1] = "";
	uint64_t created = 0, expires = 0;
	take_text(d, "id", id, sizeof id);
	take_text(d, "sandbox", sandbox, sizeof sandbox);
	if (!snapshot_name_ok(str_of(id)) || map_get(&k->all, str_of(id)) || k->all.count >= BACKUPS_MAX)
		return;
	struct backup *b = backup_new(k->daemon, id, sandbox);
	b->state = BACKUP_READY;
	b->hidden = hidden;
	take_text(d, "name", b->name, sizeof b->name);
	take_text(d, "parent", b->parent, sizeof b->parent);
	take_text(d, "digest", b->digest, sizeof b->digest);
	json_read_u64(d, "created", 0, INT64_MAX, &created, NULL);
	json_read_u64(d, "expires", 0, INT64_MAX, &expires, NULL);
	json_read_u64(d, "chain", 0, BACKUP_CHAIN_MAX, &b->chain, NULL);
	json_read_bool(d, "scheduled", &b->scheduled, NULL);
	json_read_u64(o, "size", 0, UINT64_MAX, &b->size, NULL);
	json_read_u64(o, "bytes", 0, UINT64_MAX, &b->bytes, NULL);
	b->created_ms = (int64_t)created;
	b->expires_ms = (int64_t)expires;
	api_spec_default(&b->spec);
	spec_json_read(json_get(d, "spec"), &b->spec);
}

static void on_list_line(void *arg, const struct json *line)
{
	struct backups *k = arg;
	const char *damaged = NULL, *why = NULL;
	bool hidden = false;
	json_read_bool(line, "hidden", &hidden, NULL);
	json_read_cstr(line, "damaged", &damaged, NULL);
	json_read_cstr(line, "why", &why, NULL);
	if (damaged) {
		k->partial = true;
		log_event(LOG_WARN, "backup left out", "id=%s why=%s", LOG_Q(damaged), LOG_Q(why ? why : ""));
	} else
		take_manifest(k, json_get(line, "manifest"), hidden);
}

static void on_listed(void *arg, const struct err *e)
{
	struct backups *k = arg;
	k->listing = false;
	k->known = !e;
	if (e)
		log_event(LOG_ERROR, "backups cannot be listed", "error=%s", LOG_Q(e->msg));
	else
		backups_unneeded(k->daemon);
	struct list all;
	list_init(&all);
	while (!list_empty(&k->waiting))
		list_push(&all, list_pop(&k->waiting));
	while (!list_empty(&all)) {
		struct known_waiter *w = list_entry(list_pop(&all), struct known_waiter, node);
		w->run(w->arg, e);
		free(w);
	}
}

static int list_begin(struct backups *k, struct err *e)
{
	static const char *const args[] = {"--sweep"};
	const struct job_task t = {.program = "atoll-backup",
		.verb = "list",
		.args = args,
		.args_n = 1,
		.in = -1,
		.also = -1,
		.on_line = on_list_line,
		.on_end = on_listed,
		.arg = k};
	k->listing = job_process_start(k->daemon, &t, e) != NULL;
	return k->listing ? 0 : -1;
}

void backups_when_known(struct daemon *d, void (*run)(void *arg, const struct err *e), void *arg)
{
	struct backups *k = d->backups;
	struct err e;
	if (k->known)
		return run(arg, NULL);
	if (!k->listing && list_begin(k, &e) < 0)
		return run(arg, &e);
	struct known_waiter *w = xcalloc(1, sizeof *w);
	*w = (struct known_waiter){.run = run, .arg = arg};
	list_push(&k->waiting, &w->node);
}

/* ---- delete ---- */

struct drop {
	struct daemon *daemon;
	struct backup *b;
	bool hide;
	backup_on_done on_done;
	void *arg;
};

static bool is_needed(struct backups *k, const struct backup *b)
{
	size_t it = 0;
	struct str key;
	void *value;
	while (map_next(&k->all, &it, &key, &value)) {
		const struct backup *other = value;
		if (other->state != BACKUP_FAILED && strcmp(other->parent, b->id) == 0)
			return true;
	}
	return false;
}

static void drop_begin(struct backup *b, backup_on_done on_done, void *arg);

/* Nobody may have waited for more than this. One that is in use now is found by sweep_hidden. */
static void drop_unneeded(struct daemon *d, const char *id)
{
	struct backup *b = map_get(&d->backups->all, str_of(id));
	if (b && b->hidden && !b->uses && !is_needed(d->backups, b))
		drop_begin(b, NULL, NULL);
}

void backups_unneeded(struct daemon *d)
{
	d->backups->sweep_at = loop_now(d->loop);
}

static void sweep_hidden(struct backups *k)
{
	struct map needed = {0};
	struct str key;
	void *value;
	k->sweep_at = 0;
	if (k->partial)
		return;
	for (size_t it = 0; map_next(&k->all, &it, &key, &value);) {
		struct backup *b = value;
		if (b->state != BACKUP_FAILED && *b->parent)
			map_put(&needed, str_of(b->parent), b);
	}
	for (size_t it = 0; map_next(&k->all, &it, &key, &value);) {
		struct backup *b = value;
		if (b->hidden && !b->uses && !map_get(&needed, key))
			drop_begin(b, NULL, NULL);
	}
	map_free(&needed);
}

static void on_drop_end(void *arg, const struct err *e)
{
	struct drop *x = arg;
	struct backup *b = x->b;
	char parent[sizeof b->parent];
	memcpy(parent, b->parent, sizeof parent);
	b->uses--;
	if (e) {
		log_limited(LOG_WARN, "backup not deleted", "id=%s error=%s", b->id, LOG_Q(e->msg));
		x->daemon->backups->sweep_at = loop_now(x->daemon->loop) + BACKUP_SWEEP_AGAIN;
	} else if (x->hide) {
		b->hidden = true;
		drop_unneeded(x->daemon, b->id); /* the last that needed it may have gone meanwhile */
	} else {
		backup_forget(b);
		drop_unneeded(x->daemon, parent);
	}
	if (x->on_done)
		x->on_done(x->arg, NULL, e);
	free(x);
}

static void drop_begin(struct backup *b, backup_on_done on_done, void *arg)
{
	struct drop *x = xcalloc(1, sizeof *x);
	struct snapshot *base = snapshot_base(b->daemon, b->sandbox);
	const char *const args[] = {b->id};
	struct err e;
	*x = (struct drop){.daemon = b->daemon, .b = b, .on_done = on_done, .arg = arg};
	x->hide = is_needed(b->daemon->backups, b);
	b->uses++;
	if (!x->hide && base && strcmp(base->name, b->id) == 0)
		snapshot_drop_base(b->daemon, b->sandbox);
	const struct job_task t = {.program = "atoll-backup",
		.verb = x->hide ? "hide" : "drop",
		.args = args,
		.args_n = 1,
		.in = -1,
		.also = -1,
		.on_end = on_drop_end,
		.arg = x};
	if (!job_process_start(b->daemon, &t, &e))
		on_drop_end(x, &e);
}

void backup_delete(struct backup *b, backup_on_done on_done, void *arg)
{
	struct err e;
	if (b->state == BACKUP_MAKING)
		return backup_cancel(b, on_done, arg);
	if (b->uses) {
		err_set(&e, ERRC_RESOURCE_BUSY, "backup '%s' is being restored or deleted", b->id);
		if (on_done)
			on_done(arg, NULL, &e);
		return;
	}
	if (b->state == BACKUP_READY)
		return drop_begin(b, on_done, arg);
	backup_forget(b);
	if (on_done)
		on_done(arg, NULL, NULL);
}

static void on_cleaned(void *arg, const struct err *e)
{
	(void)arg;
	if (e)
		log_limited(LOG_WARN, "rest of a backup not deleted", "error=%s", LOG_Q(e->msg));
}

void backup_clean(struct daemon *d, const char *id)
{
	const char *const args[] = {id};
	struct err e;
	const struct job_task t = {.program = "atoll-backup",
		.verb = "drop",
		.args = args,
		.args_n = 1,
		.in = -1,
		.also = -1,
		.on_end = on_cleaned};
	if (!job_process_start(d, &t, &e))
		on_cleaned(NULL, &e);
}

/* ---- time ---- */

static bool is_over(const struct backups *k, const struct backup *b)
{
	if (b->state == BACKUP_FAILED)
		return loop_now(k->daemon->loop) - b->failed_ms > BACKUP_FAILED_KEEP;
	return b->state == BACKUP_READY && b->expires_ms && b->expires_ms <= clock_wall_ms() && !b->uses;
}

static void on_look(struct loop_timer *t)
{
	struct backups *k = container_of(t, struct backups, timer);
	size_t n;
	auto_free struct backup **v = backups_of(k->daemon, NULL, &n);
	for (size_t i = 0; i < n; i++)
		if (is_over(k, v[i]))
			backup_delete(v[i], NULL, NULL);
	if (k->sweep_at && k->sweep_at <= loop_now(k->daemon->loop))
		sweep_hidden(k);
	snapshots_retry(k->daemon);
	if (k->known)
		backups_schedule(k->daemon);
	loop_timer_set(k->daemon->loop, t, BACKUP_LOOK, on_look);
}

struct backups *backups_new(struct daemon *d)
{
	struct backups *k = xcalloc(1, sizeof *k);
	char path[400];
	struct err e;
	k->daemon = d;
	list_init(&k->waiting);
	d->backup_jobs = backup_jobs_new(d);
	backups_schedule_begin(&d->config);
	snprintf(path, sizeof path, "%s/backups", d->config.data);
	setenv("ATOLL_BACKUP_DIR", path, 1);
	snprintf(path, sizeof path, "%s/backup.key", d->config.state_dir);
	setenv("ATOLL_BACKUP_KEY", path, 1);
	if (list_begin(k, &e) < 0)
		log_event(LOG_ERROR, "no backups", "error=%s", LOG_Q(e.msg));
	loop_timer_set(d->loop, &k->timer, BACKUP_LOOK, on_look);
	return k;
}
