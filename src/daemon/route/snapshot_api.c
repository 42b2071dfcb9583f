/* /v1/sandboxes/{id}/snapshots. */
#include "base/json.h"
#include "daemon/limits.h"
#include "daemon/route/handlers.h"
#include "daemon/route/pieces.h"
#include "daemon/storage/snapshots.h"

static void answer_snapshot(struct daemon_request *r, int status, const struct snapshot *s)
{
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	snapshot_write(&w, s);
	daemon_request_json(r, status, buf_str(&out));
}

/* ---- make and list ---- */

static void on_taken(void *arg, struct snapshot *s, const struct err *e)
{
	struct daemon_request *r = arg;
	if (r->x && e)
		daemon_request_error(r, e);
	else if (r->x)
		answer_snapshot(r, 201, s);
	daemon_request_release(r);
}

static int read_name(struct str body, char ret[SNAPSHOT_LABEL_MAX + 1], struct err *e)
{
	ret[0] = 0;
	if (!body.n)
		return 0;
	auto_json struct json_doc *doc = json_parse(body, e);
	struct str name = STR_NULL;
	if (!doc)
		return -1;
	if (json_root(doc)->type != JSON_T_OBJECT)
		return err_set(e, ERRC_VALIDATION_FAILED, "the body must be a JSON object");
	json_each(it, json_root(doc)) if (!str_eq_c(it->key, "name")) return err_field(
		e, "body", "field '%.*s' is not known", (int)(it->key.n < 40 ? it->key.n : 40), it->key.p);
	if (json_read_str(json_root(doc), "name", &name, e) < 0)
		return -1;
	if (name.n > SNAPSHOT_LABEL_MAX || (name.n && memchr(name.p, 0, name.n)))
		return err_field(e, "name", "field 'name' must have at most %d bytes and no NUL", SNAPSHOT_LABEL_MAX);
	memcpy(ret, name.n ? name.p : "", name.n);
	ret[name.n] = 0;
	return 0;
}

void handle_snapshot_take(struct daemon_request *r)
{
	char name[SNAPSHOT_LABEL_MAX + 1];
	struct err e;
	size_t n;
	struct sandbox *s = daemon_request_find(r);
	if (!s || daemon_request_warden_is_away(r))
		return;
	if (read_name(r->body, name, &e) < 0)
		return daemon_request_error(r, &e);
	free(snapshots_of(r->daemon, s->id, &n));
	if (n >= SNAPSHOTS_MAX) {
		err_set(&e, ERRC_LIMIT_REACHED, "sandbox '%s' has %d snapshots, more are not kept; delete some", s->id,
			SNAPSHOTS_MAX);
		return daemon_request_error(r, &e);
	}
	daemon_request_hold(r);
	snapshot_take(s, name, on_taken, r);
}

static void write_listed(struct json_writer *w, const struct daemon_request *r, void *arg, const char *id)
{
	struct snapshot *s = snapshot_find(r->daemon, NULL, str_of(id));
	(void)arg;
	if (s)
		snapshot_write(w, s);
}

void handle_snapshots(struct daemon_request *r)
{
	struct pieces_list l = {.key = "snapshots", .write = write_listed};
	struct sandbox *s = daemon_request_find(r);
	size_t n;
	if (!s)
		return;
	auto_free struct snapshot **v = snapshots_of(r->daemon, s->id, &n);
	for (size_t i = 0; i < n; i++)
		pieces_list_add(&l, v[i]->id);
	pieces_list(r, &l);
}

/* ---- one ---- */

static void on_dropped(void *arg, struct snapshot *s, const struct err *e)
{
	struct daemon_request *r = arg;
	(void)s;
	if (r->x && e)
		daemon_request_error(r, e);
	else if (r->x)
		daemon_request_empty(r);
	daemon_request_release(r);
}

struct snapshot *daemon_request_snapshot(struct daemon_request *r, struct str text)
{
	struct err e;
	struct snapshot *s = snapshot_find(r->daemon, r->match.id, text);
	if (!s) {
		err_set(&e, ERRC_SNAPSHOT_NOT_FOUND, "sandbox '%s' has no snapshot '%.*s'", r->match.id,
			(int)(text.n < 80 ? text.n : 80), text.p);
		daemon_request_error(r, &e);
	}
	return s;
}

static struct snapshot *named(struct daemon_request *r)
{
	return daemon_request_find(r) ? daemon_request_snapshot(r, str_of(r->match.snapshot)) : NULL;
}

void handle_snapshot_get(struct daemon_request *r)
{
	const struct snapshot *s = named(r);
	if (s)
		answer_snapshot(r, 200, s);
}

void handle_snapshot_drop(struct daemon_request *r)
{
	struct snapshot *s = named(r);
	if (!s || daemon_request_warden_is_away(r))
		return;
	daemon_request_hold(r);
	snapshot_drop(s, on_dropped, r);
}
