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

static void on_taken(void *arg, const struct op_result *result)
{
	struct daemon_request *r = daemon_request_done(arg);
	if (result->err)
		daemon_request_error(r, result->err);
	else
		answer_snapshot(r, 201, result->snapshot);
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
	if (!daemon_request_find(r))
		return;
	if (read_name(r->body, name, &e) < 0)
		return daemon_request_error(r, &e);
	const struct op_call call = daemon_request_call(r, on_taken);
	r->op = op_snapshot(&call, name);
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

static void on_dropped(void *arg, const struct op_result *result)
{
	struct daemon_request *r = daemon_request_done(arg);
	if (result->err)
		daemon_request_error(r, result->err);
	else
		daemon_request_empty(r);
}

void handle_snapshot_get(struct daemon_request *r)
{
	struct str id = str_of(r->match.snapshot);
	struct err e;
	if (!daemon_request_find(r))
		return;
	const struct snapshot *s = snapshot_find(r->daemon, r->match.id, id);
	if (s)
		return answer_snapshot(r, 200, s);
	err_set(&e, ERRC_SNAPSHOT_NOT_FOUND, "sandbox '%s' has no snapshot '%.*s'", r->match.id,
		(int)(id.n < 80 ? id.n : 80), id.p);
	daemon_request_error(r, &e);
}

void handle_snapshot_drop(struct daemon_request *r)
{
	const struct op_call call = daemon_request_call(r, on_dropped);
	r->op = op_snapshot_drop(&call, str_of(r->match.snapshot));
}
