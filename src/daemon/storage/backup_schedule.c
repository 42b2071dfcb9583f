/*
 * Backups by the clock: the setting "backup" of a sandbox.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "daemon/core/settings.h"
#include "daemon/limits.h"
#include "daemon/storage/backups.h"

struct schedule {
	uint64_t every_ms, keep;
};

static uint64_t every_min; /* ATOLL_BACKUP_EVERY_MIN */

void backups_schedule_begin(const struct config *c)
{
	every_min = c->backup_every_min_ms;
}

static int read_schedule(const struct json *value, struct schedule *ret, struct err *e)
{
	struct str every = STR_NULL;
	ret->keep = BACKUP_KEEP_DEFAULT;
	if (value->type != JSON_T_OBJECT)
		return err_field(e, "backup", "field 'backup' must be {\"every\": \"1h\", \"keep\": 24}");
	json_each(it, value) if (!str_eq_c(it->key, "every") && !str_eq_c(it->key, "keep")) return err_field(e,
		"backup", "'%.*s' in field 'backup' is not known", (int)(it->key.n < 40 ? it->key.n : 40), it->key.p);
	if (json_read_str(value, "every", &every, NULL) < 0 || !api_duration(every, &ret->every_ms) || !ret->every_ms)
		return err_field(e, "backup", "'every' in field 'backup' must be a time like '30m'");
	if (json_read_u64(value, "keep", 1, BACKUP_KEEP_MAX, &ret->keep, NULL) < 0)
		return err_field(e, "backup", "'keep' in field 'backup' must be 1 to %d", BACKUP_KEEP_MAX);
	return 0;
}

int backups_check_setting(const struct json *value, struct err *e)
{
	struct schedule s = {0};
	if (read_schedule(value, &s, e) < 0)
		return -1;
	return s.every_ms >= every_min ? 0
				       : err_field(e, "backup",
						 "'every' in field 'backup' must be at least %llu s: "
						 "ATOLL_BACKUP_EVERY_MIN of the daemon",
						 (unsigned long long)every_min / 1000);
}

static bool schedule_of(const struct sandbox *s, struct schedule *ret)
{
	const struct json *value = NULL;
	if (!strstr(s->spec.settings, "\"backup\""))
		return false;
	auto_json struct json_doc *doc = settings_get(s->spec.settings, "backup", &value);
	if (!doc || !value || read_schedule(value, ret, NULL) < 0)
		return false;
	if (ret->every_ms < every_min) /* it was set when less was allowed */
		ret->every_ms = every_min;
	return true;
}

/* When the last one was made; 0: there is none. */
static int64_t last_of(const struct sandbox *s)
{
	size_t n;
	int64_t last = 0;
	auto_free struct backup **v = backups_of(s->daemon, s->id, &n);
	for (size_t i = 0; i < n; i++)
		if (v[i]->scheduled && v[i]->state != BACKUP_FAILED)
			last = v[i]->created_ms;
	return last;
}

static void prune(struct daemon *d, const char *sandbox, uint64_t keep)
{
	size_t n, ready = 0;
	auto_free struct backup **v = backups_of(d, sandbox, &n);
	for (size_t i = 0; i < n; i++)
		ready += v[i]->scheduled && v[i]->state == BACKUP_READY;
	for (size_t i = 0; i < n && ready > keep; i++)
		if (v[i]->scheduled && v[i]->state == BACKUP_READY && !v[i]->uses) {
			ready--;
			backup_delete(v[i], NULL, NULL);
		}
}

static void on_made(void *arg, struct backup *b, const struct err *e)
{
	struct daemon *d = arg;
	struct schedule c = {0};
	const struct sandbox *s = e ? NULL : sandbox_find(d, b->sandbox);
	if (s && schedule_of(s, &c))
		prune(d, s->id, c.keep);
}

static void look(struct sandbox *s, int64_t now)
{
	struct schedule c = {0};
	struct err e;
	const struct backup_wish wish = {.scheduled = true};
	bool settled = s->state == SB_RUNNING || s->state == SB_ASLEEP || s->state == SB_STOPPED;
	if (!schedule_of(s, &c) || !settled || s->op != OP_NONE)
		return;
	if (s->backup_every_ms != c.every_ms) { /* new, or changed */
		s->backup_every_ms = c.every_ms;
		s->backup_due_ms = last_of(s) + (int64_t)c.every_ms;
	}
	if (now < s->backup_due_ms)
		return;
	s->backup_due_ms = now + (int64_t)c.every_ms;
	backup_make(s, &wish, on_made, s->daemon, &e);
}

void backups_schedule(struct daemon *d)
{
	size_t it = 0;
	struct str key;
	void *value;
	int64_t now = clock_wall_ms();
	if (!warden_client_is_up(d->warden))
		return;
	while (map_next(&d->boxes, &it, &key, &value))
		look(value, now);
}
