/*
 * /v1/sandboxes/{id}/restore and /replace.
 *
 * Restoring a backup takes as long as its bytes do. With ?follow=1 the answer is an event stream: progress, then done
 * or error; a client that leaves it while the backup is read has changed nothing.
 */
#include <stdio.h>

#include "base/json.h"
#include "daemon/limits.h"
#include "daemon/route/handlers.h"
#include "daemon/route/request.h"
#include "daemon/storage/backups.h"
#include "http/sse.h"

/* Other files for a sandbox: a source, and the sandbox when it is settled. */
struct exchange_files {
	struct daemon_request *r;
	struct snapshot *source;
	bool own;		      /* the source is ours to drop */
	bool told;		      /* with events: ?follow=1 */
	bool full;		      /* the client does not read: progress is left out */
	struct backup_loading *load;  /* while it runs */
	struct loop_timer timer;      /* of keep-alive comments */
	struct sandbox_waiter waiter; /* not the request's: a client that leaves does not stop it half-way */
};

/* ---- events ---- */

static const struct http_exchange_ops plain_ops = {.on_close = daemon_request_closed};

static void on_keep_alive(struct loop_timer *t)
{
	struct exchange_files *f = container_of(t, struct exchange_files, timer);
	if (f->r->x && !f->full)
		f->full = !sse_comment(f->r->x);
	loop_timer_set(f->r->daemon->loop, t, EVENTS_KEEP_ALIVE, on_keep_alive);
}

static void tell_progress(void *arg, const char *phase, uint64_t bytes, uint64_t total)
{
	struct exchange_files *f = arg;
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	if (!f->told || !f->r->x || f->full)
		return;
	json_object_begin(&w);
	json_member_cstr(&w, "type", "progress");
	json_member_cstr(&w, "phase", phase);
	json_member_u64(&w, "bytes", bytes);
	json_member_u64(&w, "total", total);
	json_object_end(&w);
	f->full = !sse_send(f->r->x, NULL, STR_NULL, buf_str(&out));
}

static void tell_end(struct exchange_files *f, const struct err *e)
{
	struct http_exchange *x = f->r->x;
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	json_object_begin(&w);
	json_member_cstr(&w, "type", e ? "error" : "done");
	if (e) {
		json_member_cstr(&w, "code", errc_info(e->code)->code);
		json_member_cstr(&w, "message", e->msg);
	}
	json_object_end(&w);
	sse_send(x, NULL, STR_NULL, buf_str(&out));
	http_respond_end(x);
}

static void on_writable(struct http_exchange *x)
{
	((struct exchange_files *)http_exchange_arg(x))->full = false;
}

/* A client that leaves ends the load, but not the exchange of the files. */
static void on_follower_close(struct http_exchange *x, bool complete)
{
	struct exchange_files *f = http_exchange_arg(x);
	struct daemon_request *r = f->r;
	struct backup_loading *load = f->load;
	http_exchange_set(x, &plain_ops, r);
	daemon_request_closed(x, complete);
	if (load)
		backup_load_cancel(load);
}

static void follow(struct exchange_files *f)
{
	static const struct http_exchange_ops ops = {.on_writable = on_writable, .on_close = on_follower_close};
	struct daemon_request *r = f->r;
	f->told = true;
	http_exchange_set(r->x, &ops, f);
	sse_begin(r->x);
	daemon_request_answered(r, 200);
	loop_timer_set(r->daemon->loop, &f->timer, EVENTS_KEEP_ALIVE, on_keep_alive);
}

/* ---- restore and replace ---- */

static void end(struct exchange_files *f, const struct err *e)
{
	struct daemon_request *r = f->r;
	loop_timer_stop(&f->timer);
	if (f->own)
		snapshot_drop(f->source, NULL, NULL);
	if (!e)
		snapshot_drop_base(r->daemon, r->match.id);
	if (r->x && f->told) {
		http_exchange_set(r->x, &plain_ops, r);
		tell_end(f, e);
	} else if (r->x && e) {
		daemon_request_error(r, e);
	} else if (r->x) {
		daemon_request_view(r, 200, NULL);
	}
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
	f->load = NULL;
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
	if (!good)
		return end(f, e ? e : &none);
	if (r->x && daemon_request_follows(r))
		follow(f);
	const struct backup_load_task t = {
		.disk = s->spec.limits.disk_bytes, .on_progress = tell_progress, .on_done = on_source, .arg = f};
	f->load = backup_load(b, &t, &none);
	if (!f->load)
		end(f, &none);
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
	if (*from->sandbox && (!winner || winner->work))
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

/* The only member of the body, which must have this name. */
static const struct json *only_member(
	const struct json *root, const char *const *names, const char *said, struct err *e)
{
	const struct json *found = NULL;
	for (; *names && !found; names++)
		found = root->type == JSON_T_OBJECT && root->count == 1 ? json_get(root, *names) : NULL;
	if (!found)
		err_field(e, names[-1], "the body must be an object with the field %s alone", said);
	return found;
}

void handle_replace(struct daemon_request *r)
{
	static const char *const names[] = {"from", NULL};
	struct api_from from = {0};
	struct err e;
	if (!daemon_request_find(r) || daemon_request_warden_is_away(r))
		return;
	auto_json struct json_doc *doc = json_parse(r->body, &e);
	const struct json *given = doc ? only_member(json_root(doc), names, "'from'", &e) : NULL;
	if (!given || api_from_read(given, &from, &e) < 0)
		return daemon_request_error(r, &e);
	replace_from(r, &from);
}

void handle_restore(struct daemon_request *r)
{
	static const char *const names[] = {"backup", "snapshot", NULL};
	struct err e;
	struct str text = STR_NULL;
	if (!daemon_request_find(r) || daemon_request_warden_is_away(r))
		return;
	auto_json struct json_doc *doc = json_parse(r->body, &e);
	const struct json *given = doc ? only_member(json_root(doc), names, "'snapshot' or 'backup'", &e) : NULL;
	bool backup = given && str_eq_c(given->key, "backup");
	if (!given || json_read_str(json_root(doc), backup ? "backup" : "snapshot", &text, &e) < 0)
		return daemon_request_error(r, &e);
	if (backup)
		return restore_backup(r, text);
	struct snapshot *s = daemon_request_snapshot(r, text);
	if (!s)
		return;
	struct exchange_files *f = files_new(r);
	f->source = s;
	swap_files(f);
}
