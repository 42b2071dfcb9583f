#include <stdio.h>
#include <sys/stat.h>

#include "agent/agent.h"
#include "agent/api.h"
#include "agent/path.h"
#include "agent/watch.h"
#include "base/clock.h"
#include "base/limits.h"
#include "http/sse.h"

/*
 * POST /api/watch: an event stream of changes. POST /api/watch/check: has anything changed since …? The latter keeps a
 * watcher between calls (retained, WATCH_RETAIN ms after the last call) and counts its events; a version names the
 * watcher and the count: "watch-3-1763190000000:17".
 */

struct filter {
	bool recursive;
	struct str *include, *exclude; /* each text on the heap */
	size_t include_n, exclude_n;
};

static const struct str default_exclude[] = {STR(".git"), STR("node_modules"), STR(".DS_Store")};

static void list_free(struct str *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free((char *)v[i].p);
	free(v);
}

static void filter_free(struct filter *f)
{
	list_free(f->include, f->include_n);
	list_free(f->exclude, f->exclude_n);
	*f = (struct filter){0};
}

static int read_patterns(const struct json *body, const char *key, struct str **ret, size_t *ret_n, struct err *e)
{
	const struct json *j = json_get(body, key);
	if (json_is_null(j))
		return 0;
	if (j->type != JSON_T_ARRAY || j->count > WATCH_PATTERNS_MAX)
		return err_set(e, ERRC_VALIDATION_FAILED, "field '%s' must be a list of at most %d patterns", key,
			WATCH_PATTERNS_MAX);
	*ret = xcalloc(j->count, sizeof **ret);
	for (const struct json *p = j->first; p; p = p->next) {
		if (p->type != JSON_T_STRING || !p->text.n || p->text.n > WATCH_PATTERN_LEN_MAX)
			return err_set(e, ERRC_VALIDATION_FAILED, "field '%s' must hold patterns of 1 to %d bytes", key,
				WATCH_PATTERN_LEN_MAX);
		if (memchr(p->text.p, '[', p->text.n) || memchr(p->text.p, '{', p->text.n))
			return err_set(e, ERRC_VALIDATION_FAILED, "field '%s': patterns know only * ** and ?", key);
		(*ret)[(*ret_n)++] = str_n(str_dup(p->text), p->text.n);
	}
	return 0;
}

static int filter_read(const struct json *body, struct filter *f, struct err *e)
{
	f->recursive = true;
	if (json_read_bool(body, "recursive", &f->recursive, e) < 0)
		return -1;
	if (read_patterns(body, "include", &f->include, &f->include_n, e) < 0 ||
		read_patterns(body, "exclude", &f->exclude, &f->exclude_n, e) < 0)
		return -1;
	if (f->include_n && f->exclude_n)
		return err_set(e, ERRC_VALIDATION_FAILED, "fields 'include' and 'exclude' cannot be used together");
	if (f->include_n || f->exclude_n || !json_is_null(json_get(body, "exclude")))
		return 0;
	f->exclude = xcalloc(ARRAY_LEN(default_exclude), sizeof *f->exclude);
	for (; f->exclude_n < ARRAY_LEN(default_exclude); f->exclude_n++) {
		struct str s = default_exclude[f->exclude_n];
		f->exclude[f->exclude_n] = str_n(str_dup(s), s.n);
	}
	return 0;
}

static struct watch_options options_of(const struct filter *f)
{
	return (struct watch_options){f->recursive, f->include, f->exclude, f->include_n, f->exclude_n};
}

/* The directory that a request names, resolved. It must lie in the workspace, as upstream has it. */
static int watch_root(const struct request *r, char **ret, struct err *e)
{
	auto_free char *path = NULL;
	if (request_path(r, "path", &path, e) < 0)
		return -1;
	auto_free char *workspace = realpath(agent.workdir, NULL);
	auto_free char *real = realpath(path, NULL);
	int os = errno;
	struct str inside = workspace ? str_of(workspace) : STR("/workspace");
	const char *judged = real ? real : path;
	if (!str_starts(str_of(judged), inside) || (judged[inside.n] && judged[inside.n] != '/'))
		return err_set(e, ERRC_PERMISSION_DENIED, "watch '%.120s': only paths in %.*s can be watched", path,
			STR_ARG(inside));
	if (!real)
		return err_os(e, errc_from_file_errno(os), os, "watch '%.150s'", path);
	struct stat st;
	if (stat(real, &st) == 0 && !S_ISDIR(st.st_mode))
		return err_os(e, ERRC_NOT_DIRECTORY, ENOTDIR, "watch '%.150s'", path);
	*ret = take_ptr(&real);
	return 0;
}

static void fail(const struct request *r, const struct err *e)
{
	const char *path = "";
	json_read_cstr(r->body, "path", &path, NULL);
	request_fail_file(r, e, path, NULL);
}

/* ---- the stream ---- */

struct watch_stream {
	struct http_exchange *x;
	struct filter filter;
	struct watcher *watcher;
	struct loop_timer beat;
	bool lost; /* events were dropped while the client did not read */
};

static uint64_t watch_number;

static void send_error(struct watch_stream *s, const char *text)
{
	auto_buf struct buf b = {0};
	struct json_writer w = json_writer(&b);
	json_object_begin(&w);
	json_member_cstr(&w, "type", "error");
	json_member_cstr(&w, "error", text);
	json_object_end(&w);
	sse_send(s->x, NULL, STR_NULL, buf_str(&b));
}

static void on_event(void *arg, const struct watch_event *ev)
{
	struct watch_stream *s = arg;
	if (http_respond_pending(s->x) > HTTP_OUT_HIGH) {
		s->lost = true;
		return;
	}
	if (s->lost) {
		s->lost = false;
		send_error(s, "Events were lost: the client did not read fast enough");
	}
	auto_buf struct buf b = {0};
	char iso[CLOCK_ISO_LEN];
	struct json_writer w = json_writer(&b);
	json_object_begin(&w);
	json_member_cstr(&w, "type", "event");
	json_member_cstr(&w, "eventType", ev->type);
	json_member_cstr(&w, "path", ev->path);
	json_member_bool(&w, "isDirectory", ev->directory);
	json_member_cstr(&w, "timestamp", clock_iso(ev->wall_ms, iso));
	json_object_end(&w);
	sse_send(s->x, NULL, STR_NULL, buf_str(&b));
}

static void on_overflow(void *arg)
{
	send_error(arg, "Events were lost: too many changes at once");
}

static void on_gone(void *arg)
{
	struct watch_stream *s = arg;
	sse_send(s->x, NULL, STR_NULL, STR("{\"type\":\"stopped\",\"reason\":\"The watched directory is gone\"}"));
	http_respond_end(s->x);
}

/* Comments keep the connection known to be alive; they also find out when it is not. */
static void on_beat(struct loop_timer *t)
{
	struct watch_stream *s = container_of(t, struct watch_stream, beat);
	sse_comment(s->x);
	loop_timer_set(agent.loop, t, SSE_BEAT, on_beat);
}

static void stream_close(struct http_exchange *x, bool complete)
{
	(void)complete;
	struct watch_stream *s = http_exchange_arg(x);
	loop_timer_stop(&s->beat);
	watcher_free(s->watcher);
	filter_free(&s->filter);
	free(s);
}

static void stream_begin(struct request *r, struct watch_stream *s, const char *root)
{
	static const struct http_exchange_ops ops = {.on_close = stream_close};
	auto_buf struct buf b = {0};
	char id[48];
	snprintf(id, sizeof id, "watch-%llu-%lld", (unsigned long long)++watch_number, (long long)clock_wall_ms());
	struct json_writer w = json_writer(&b);
	json_object_begin(&w);
	json_member_cstr(&w, "type", "watching");
	json_member_cstr(&w, "path", root);
	json_member_cstr(&w, "watchId", id);
	json_object_end(&w);
	http_exchange_set(r->x, &ops, s);
	sse_begin(r->x);
	sse_send(r->x, NULL, STR_NULL, buf_str(&b));
	loop_timer_set(agent.loop, &s->beat, SSE_BEAT, on_beat);
}

void api_watch(struct request *r)
{
	static const struct watch_ops ops = {on_event, on_overflow, on_gone};
	auto_free char *root = NULL;
	struct watch_stream *s = xcalloc(1, sizeof *s);
	struct err e;
	s->x = r->x;
	if (watch_root(r, &root, &e) == 0 && filter_read(r->body, &s->filter, &e) == 0) {
		struct watch_options o = options_of(&s->filter);
		s->watcher = watcher_new(agent.loop, root, &o, &ops, s, &e);
	}
	if (s->watcher)
		return stream_begin(r, s, root);
	fail(r, &e);
	filter_free(&s->filter);
	free(s);
}

/* ---- check ---- */

struct retained {
	struct list node;
	char *key; /* root and filter */
	char id[48];
	struct filter filter;
	struct watcher *watcher;
	uint64_t seq;
	bool gone; /* its directory is: it ends with this turn */
	struct loop_timer expiry;
};

static struct list retained = {&retained, &retained};
static struct map expired; /* ids that ended here: "expired", any other is from before a restart */

static void retained_free(struct loop_timer *t)
{
	struct retained *k = container_of(t, struct retained, expiry);
	if (expired.count < WATCH_EXPIRED_MAX)
		map_put(&expired, str_of(k->id), &expired);
	list_del(&k->node);
	loop_timer_stop(&k->expiry);
	watcher_free(k->watcher);
	filter_free(&k->filter);
	free(k->key);
	free(k);
}

static void count_event(void *arg, const struct watch_event *ev)
{
	(void)ev;
	((struct retained *)arg)->seq++;
}

static void count_overflow(void *arg)
{
	((struct retained *)arg)->seq++;
}

static void end_retained(void *arg)
{
	struct retained *k = arg;
	k->gone = true;
	loop_timer_set(agent.loop, &k->expiry, 0, retained_free);
}

static char *key_of(const char *root, const struct filter *f)
{
	auto_buf struct buf b = {0};
	buf_printf(&b, "%s\n%d", root, f->recursive);
	for (size_t i = 0; i < f->include_n; i++)
		buf_printf(&b, "\n+%.*s", STR_ARG(f->include[i]));
	for (size_t i = 0; i < f->exclude_n; i++)
		buf_printf(&b, "\n-%.*s", STR_ARG(f->exclude[i]));
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

static struct retained *retain(const char *root, struct filter *f, const char *key, struct err *e)
{
	static const struct watch_ops ops = {count_event, count_overflow, end_retained};
	struct retained *k = xcalloc(1, sizeof *k);
	k->filter = *f;
	*f = (struct filter){0};
	struct watch_options o = options_of(&k->filter);
	k->watcher = watcher_new(agent.loop, root, &o, &ops, k, e);
	if (!k->watcher) {
		filter_free(&k->filter);
		free(k);
		return NULL;
	}
	k->key = xstrdup(key);
	snprintf(
		k->id, sizeof k->id, "watch-%llu-%lld", (unsigned long long)++watch_number, (long long)clock_wall_ms());
	list_push(&retained, &k->node);
	return k;
}

/* What has happened since the version that the client knows: "unchanged", "changed", or NULL with a reason. */
static const char *compare(const struct retained *k, struct str since, const char **ret_reason)
{
	struct str seq_text, id = str_split(since, ':', &seq_text);
	uint64_t seq;
	if (!since.n)
		return "unchanged";
	if (str_eq_c(id, k->id) && str_to_u64(seq_text, k->seq, &seq))
		return seq == k->seq ? "unchanged" : "changed";
	*ret_reason = map_get(&expired, id) ? "expired" : "restarted";
	return NULL;
}

static void answer_check(const struct request *r, const struct retained *k, struct str since)
{
	const char *reason = NULL, *status = compare(k, since, &reason);
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
	request_json(r, buf_str(&b));
}

void api_watch_check(struct request *r)
{
	auto_free char *root = NULL, *key = NULL;
	struct filter f = {0};
	struct str since = STR_NULL;
	struct err e;
	struct retained *k = NULL;
	if (watch_root(r, &root, &e) == 0 && filter_read(r->body, &f, &e) == 0 &&
		json_read_str(r->body, "since", &since, &e) == 0) {
		key = key_of(root, &f);
		k = find_retained(key);
		if (!k)
			k = retain(root, &f, key, &e);
	}
	filter_free(&f);
	if (!k)
		return fail(r, &e);
	watcher_flush(k->watcher);
	loop_timer_set(agent.loop, &k->expiry, k->gone ? 0 : WATCH_RETAIN, retained_free);
	answer_check(r, k, since);
}
