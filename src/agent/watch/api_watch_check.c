#include <stdio.h>

#include "agent/agent.h"
#include "agent/api.h"
#include "agent/file/path.h"
#include "agent/fuse/mounts.h"
#include "agent/limits.h"
#include "agent/watch/watch_request.h"

/*
 * POST /api/watch/check: has anything changed since a version? A watcher is retained between calls, until WATCH_RETAIN
 * ms after the last call, and counts its events. A version names the watcher and the count:
 * "watch-3-1763190000000:17". A directory in a FUSE mount, or with one below, has no watcher: the answer to each
 * version is "resync".
 */

struct retained {
	struct list node;
	char *key; /* root and filter */
	char id[WATCH_ID_LEN];
	struct watch_filter filter;
	struct watcher *watcher;
	uint64_t seq;
	bool gone; /* its directory has gone away: the watcher ends with this turn of the loop */
	struct loop_timer expiry;
};

static struct list retained = {&retained, &retained}; /* least recently used first */

static void retained_free(struct loop_timer *t)
{
	struct retained *k = container_of(t, struct retained, expiry);
	list_del(&k->node);
	loop_timer_stop(&k->expiry);
	watcher_free(k->watcher);
	watch_filter_free(&k->filter);
	free(k->key);
	free(k);
}

void watch_make_room(void)
{
	if (watchers_running() >= WATCHERS_MAX && !list_empty(&retained))
		retained_free(&list_entry(retained.next, struct retained, node)->expiry);
}

static bool count_event(void *arg, const struct watch_event *ev)
{
	(void)ev;
	((struct retained *)arg)->seq++;
	return true;
}

static void count_lost(void *arg, const char *why)
{
	(void)why;
	((struct retained *)arg)->seq++;
}

static void end_retained(void *arg)
{
	struct retained *k = arg;
	k->gone = true;
	k->seq++;
	loop_timer_set(agent.loop, &k->expiry, 0, retained_free);
}

/* Two checks with the same key share a watcher. */
static char *key_of(const struct watch_target *t, const struct watch_filter *f)
{
	auto_buf struct buf b = {0};
	struct json_writer w = json_writer(&b);
	json_array_begin(&w);
	json_cstr(&w, t->root);
	json_cstr(&w, t->only);
	json_bool(&w, f->recursive);
	json_u64(&w, f->kinds);
	for (size_t i = 0; i < f->include_n; i++)
		json_str(&w, f->include[i]);
	json_null(&w);
	for (size_t i = 0; i < f->exclude_n; i++)
		json_str(&w, f->exclude[i]);
	json_array_end(&w);
	return str_dup(buf_str(&b));
}

static struct retained *find_retained(const char *key)
{
	list_each(it, &retained)
	{
		struct retained *k = list_entry(it, struct retained, node);
		if (!k->gone && strcmp(k->key, key) == 0)
			return k;
	}
	return NULL;
}

static struct retained *retain(const struct watch_target *t, struct watch_filter *f, char *key, struct err *e)
{
	static const struct watch_ops ops = {count_event, count_lost, end_retained};
	struct retained *k = xcalloc(1, sizeof *k);
	k->filter = *f;
	*f = (struct watch_filter){0};
	struct watch_options o = watch_options_of(&k->filter, t);
	watch_make_room();
	k->watcher = watcher_new(agent.loop, &o, &ops, k, e);
	if (!k->watcher) {
		watch_filter_free(&k->filter);
		free(k);
		return NULL;
	}
	k->key = xstrdup(key);
	watch_id_make(k->id);
	list_push(&retained, &k->node);
	return k;
}

/* Reads the version that an earlier answer gave: "watch-3-1763190000000:17". */
static int read_since(const struct agent_request *r, struct str *ret_id, uint64_t *ret_seq, struct err *e)
{
	struct str since = STR_NULL, seq;
	if (json_read_str(r->body, "since", &since, e) < 0)
		return -1;
	*ret_id = str_split(since, ':', &seq);
	if (since.n && (!ret_id->n || !str_to_u64(seq, INT64_MAX, ret_seq)))
		return err_field(e, "since", "field 'since' must be a version that a check has answered");
	return 0;
}

/* Compares with the version that the client knows: "unchanged", "changed", or NULL with a reason. */
static const char *compare(const struct retained *k, struct str id, uint64_t seq, const char **ret_reason)
{
	if (!id.n)
		return "unchanged";
	if (str_eq_c(id, k->id) && seq <= k->seq)
		return seq == k->seq ? "unchanged" : "changed";
	*ret_reason = watch_id_is_ours(id) ? "expired" : "restarted";
	return NULL;
}

static void answer_check(const struct agent_request *r, const struct retained *k, struct str id, uint64_t seq)
{
	const char *reason = NULL, *status = compare(k, id, seq, &reason);
	auto_buf struct buf b = {0};
	char version[80];
	snprintf(version, sizeof version, "%s:%llu", k->id, (unsigned long long)k->seq);
	struct json_writer w = json_writer(&b);
	json_object_begin(&w);
	json_member_bool(&w, "success", true);
	json_member_cstr(&w, "status", status ? status : "resync");
	json_member_cstr(&w, "version", version);
	if (reason)
		json_member_cstr(&w, "reason", reason);
	json_member_now(&w);
	json_object_end(&w);
	agent_request_json(r, buf_str(&b));
}

/* A watcher of files behind a FUSE server could stop the loop. Without one nobody knows: each version is told once. */
static void answer_unwatched(const struct agent_request *r)
{
	struct retained none = {0};
	struct str id;
	uint64_t seq = 0;
	struct err e;
	if (read_since(r, &id, &seq, &e) < 0)
		return watch_fail(r, &e);
	watch_id_make(none.id);
	answer_check(r, &none, id, seq);
}

static bool is_behind_fuse(const struct agent_request *r)
{
	auto_free char *path = NULL;
	struct err e;
	return fuse_mounts_any() && agent_request_path(r, "path", &path, &e) == 0 && fuse_mounts_on_or_below(path);
}

void api_watch_check(struct agent_request *r)
{
	auto_free char *key = NULL;
	struct watch_target t = {0};
	struct watch_filter f = {0};
	struct str id;
	uint64_t seq = 0;
	struct err e;
	struct retained *k = NULL;
	if (is_behind_fuse(r))
		return answer_unwatched(r);
	if (watch_target_read(r, &t, &e) == 0 && watch_filter_read(r->body, &f, &e) == 0 &&
		read_since(r, &id, &seq, &e) == 0) {
		key = key_of(&t, &f);
		k = find_retained(key);
		if (!k)
			k = retain(&t, &f, key, &e);
	}
	watch_target_free(&t);
	watch_filter_free(&f);
	if (!k)
		return watch_fail(r, &e);
	list_del(&k->node);
	list_push(&retained, &k->node);
	watcher_flush(k->watcher);
	loop_timer_set(agent.loop, &k->expiry, k->gone ? 0 : WATCH_RETAIN, retained_free);
	answer_check(r, k, id, seq);
}
