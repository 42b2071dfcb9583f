/* /v1/sandboxes/{id}/snapshots, /restore and /replace. */
#include <stdio.h>

#include "base/json.h"
#include "daemon/limits.h"
#include "daemon/route/request.h"
#include "daemon/storage/backups.h"

static void answer_snapshot(struct daemon_request *r, int status, const struct snapshot *s)
{
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	snapshot_write(&w, s);
	daemon_request_json(r, status, buf_str(&out));
}

static bool warden_is_away(struct daemon_request *r)
{
	struct err e;
	if (warden_client_is_up(r->daemon->warden))
		return false;
	err_set(&e, ERRC_CONTAINER_UNAVAILABLE, "the warden is not running ('atoll up' starts it again)");
	daemon_request_error(r, &e);
	return true;
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
		return err_field(e, "name", "field 'name' must have at most %d bytes", SNAPSHOT_LABEL_MAX);
	memcpy(ret, name.n ? name.p : "", name.n);
	ret[name.n] = 0;
	return 0;
}

static void on_make(struct http_exchange *x, struct str body)
{
	struct daemon_request *r = http_exchange_arg(x);
	char name[SNAPSHOT_LABEL_MAX + 1];
	struct err e;
	size_t n;
	struct sandbox *s = daemon_request_find(r);
	if (!s || warden_is_away(r))
		return;
	if (read_name(body, name, &e) < 0)
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

static void list(struct daemon_request *r)
{
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	size_t n;
	struct sandbox *s = daemon_request_find(r);
	if (!s)
		return;
	auto_free struct snapshot **v = snapshots_of(r->daemon, s->id, &n);
	json_object_begin(&w);
	json_key(&w, "snapshots");
	json_array_begin(&w);
	for (size_t i = 0; i < n; i++)
		snapshot_write(&w, v[i]);
	json_array_end(&w);
	json_object_end(&w);
	daemon_request_json(r, 200, buf_str(&out));
}

void handle_snapshots(struct daemon_request *r)
{
	static const struct http_exchange_ops ops = {.on_whole_body = on_make, .on_close = daemon_request_closed};
	if (http_request(r->x)->method != HTTP_M_POST)
		return list(r);
	http_exchange_set(r->x, &ops, r);
	http_collect(r->x, API_BODY_MAX);
}

/* ---- one ---- */

static void on_dropped(void *arg, struct snapshot *s, const struct err *e)
{
	struct daemon_request *r = arg;
	(void)s;
	if (r->x && e) {
		daemon_request_error(r, e);
	} else if (r->x) {
		http_respond(r->x, 204, NULL, STR(""));
		daemon_request_answered(r, 204);
	}
	daemon_request_release(r);
}

static struct snapshot *find(struct daemon_request *r, struct str text)
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

void handle_snapshot(struct daemon_request *r)
{
	struct snapshot *s = daemon_request_find(r) ? find(r, str_of(r->match.snapshot)) : NULL;
	if (!s)
		return;
	if (http_request(r->x)->method != HTTP_M_DELETE)
		return answer_snapshot(r, 200, s);
	if (warden_is_away(r))
		return;
	daemon_request_hold(r);
	snapshot_drop(s, on_dropped, r);
}

/* ---- restore and replace ---- */

/* Other files for a sandbox: a source, and the sandbox when it is settled. */
struct exchange_files {
	struct daemon_request *r;
	struct snapshot *source;
	bool own;		      /* the source is ours to drop */
	struct sandbox_waiter waiter; /* not the request's: a client that leaves does not stop it half-way */
};

static void end(struct exchange_files *f, const struct err *e)
{
	struct daemon_request *r = f->r;
	if (f->own)
		snapshot_drop(f->source, NULL, NULL);
	if (!e)
		snapshot_drop_base(r->daemon, r->match.id);
	if (r->x && e)
		daemon_request_error(r, e);
	else if (r->x)
		daemon_request_view(r, 200, NULL);
	free(f);
	daemon_request_release(r);
}

static void on_replaced(void *arg, struct sandbox *s, const struct err *e)
{
	(void)s;
	end(arg, e);
}

static void on_settled(struct sandbox_waiter *w, struct sandbox *s, const struct err *e)
{
	struct exchange_files *f = container_of(w, struct exchange_files, waiter);
	struct daemon_request *r = f->r;
	if (e)
		return end(f, e);
	sandbox_ref(s);
	r->sandbox = s;
	sandbox_replace(s, f->source->id, on_replaced, f);
}

static void swap_files(struct exchange_files *f)
{
	struct daemon_request *r = f->r;
	struct err e;
	struct sandbox *s = sandbox_find(r->daemon, r->match.id);
	INVARIANT(f->source);
	bool same = s && strcmp(s->spec.image, f->source->spec.image) == 0;
	if (!s)
		err_set(&e, ERRC_SANDBOX_NOT_FOUND, "there is no sandbox '%s'", r->match.id);
	else if (!same)
		err_set(&e, ERRC_INVALID_STATE, "the files are of image '%s', sandbox '%s' has image '%s'",
			f->source->spec.image, s->id, s->spec.image);
	f->waiter = (struct sandbox_waiter){.goal = WAIT_SETTLED, .on_done = on_settled};
	if (!same || sandbox_wait(s, &f->waiter, &e) < 0)
		end(f, &e);
}

static void on_source(void *arg, struct snapshot *s, const struct err *e)
{
	struct exchange_files *f = arg;
	f->source = s;
	f->own = s != NULL;
	if (e)
		end(f, e);
	else
		swap_files(f);
}

static struct exchange_files *files_new(struct daemon_request *r)
{
	struct exchange_files *f = xcalloc(1, sizeof *f);
	f->r = r;
	daemon_request_hold(r);
	return f;
}

/* ---- restore from a backup ---- */

struct from_backup {
	struct exchange_files *files;
	char id[SNAPSHOT_NAME_MAX + 1];
};

static void on_backups_known(void *arg, const struct err *e)
{
	struct from_backup *k = arg;
	struct exchange_files *f = k->files;
	struct daemon_request *r = f->r;
	const struct sandbox *s = sandbox_find(r->daemon, r->match.id);
	struct backup *b = e ? NULL : backup_find(r->daemon, str_of(k->id));
	struct err none;
	if (!e && !b)
		err_set(&none, ERRC_BACKUP_NOT_FOUND, "there is no backup '%s'", k->id);
	else if (!e && b->state != BACKUP_READY)
		err_set(&none, ERRC_INVALID_STATE, "backup '%s' is not complete", k->id);
	else if (!e && !s)
		err_set(&none, ERRC_SANDBOX_NOT_FOUND, "there is no sandbox '%s'", r->match.id);
	bool good = !e && b && b->state == BACKUP_READY && s;
	free(k);
	if (good)
		backup_load(b, s->spec.limits.disk_bytes, on_source, f);
	else
		end(f, e ? e : &none);
}

static void restore_backup(struct daemon_request *r, struct str id)
{
	struct from_backup *k = xcalloc(1, sizeof *k);
	k->files = files_new(r);
	snprintf(k->id, sizeof k->id, "%.*s", (int)(id.n < SNAPSHOT_NAME_MAX ? id.n : SNAPSHOT_NAME_MAX), id.p);
	backups_when_known(r->daemon, on_backups_known, k);
}

static void replace_from(struct daemon_request *r, const struct api_from *from)
{
	struct err e;
	struct snapshot *s = snapshot_find(r->daemon, NULL, str_of(from->snapshot));
	struct sandbox *winner = sandbox_find(r->daemon, from->sandbox);
	if (*from->sandbox && !winner)
		err_set(&e, ERRC_SANDBOX_NOT_FOUND, "there is no sandbox '%s'", from->sandbox);
	else if (*from->sandbox && strcmp(from->sandbox, r->match.id) == 0)
		err_field(&e, "from", "sandbox '%s' cannot replace itself", from->sandbox);
	else if (*from->snapshot && !s)
		err_set(&e, ERRC_SNAPSHOT_NOT_FOUND, "there is no snapshot '%s'", from->snapshot);
	else if (*from->backup)
		return restore_backup(r, str_of(from->backup));
	else if (winner)
		return snapshot_take(winner, NULL, on_source, files_new(r));
	else {
		struct exchange_files *f = files_new(r);
		f->source = s;
		return swap_files(f);
	}
	daemon_request_error(r, &e);
}

static void on_replace_body(struct http_exchange *x, struct str body)
{
	struct daemon_request *r = http_exchange_arg(x);
	struct api_from from = {0};
	struct err e;
	struct str text = STR_NULL;
	if (!daemon_request_find(r) || warden_is_away(r))
		return;
	auto_json struct json_doc *doc = json_parse(body, &e);
	const struct json *root = doc ? json_root(doc) : NULL;
	bool restore = r->match.route == ROUTE_RESTORE;
	bool backup = restore && json_get(root, "backup");
	const char *key = backup ? "backup" : restore ? "snapshot" : "from";
	if (!root)
		return daemon_request_error(r, &e);
	if (root->type != JSON_T_OBJECT || root->count != 1 || !json_get(root, key)) {
		err_field(&e, key, "the body must be an object with the field '%s'%s", key,
			restore ? " or 'backup'" : "");
		return daemon_request_error(r, &e);
	}
	if (restore ? json_read_str(root, key, &text, &e) < 0 : api_from_read(json_get(root, "from"), &from, &e) < 0)
		return daemon_request_error(r, &e);
	if (backup)
		return restore_backup(r, text);
	if (!restore)
		return replace_from(r, &from);
	struct snapshot *s = find(r, text);
	if (!s)
		return;
	struct exchange_files *f = files_new(r);
	f->source = s;
	swap_files(f);
}

void handle_replace(struct daemon_request *r)
{
	static const struct http_exchange_ops ops = {
		.on_whole_body = on_replace_body, .on_close = daemon_request_closed};
	http_exchange_set(r->x, &ops, r);
	http_collect(r->x, API_BODY_MAX);
}
