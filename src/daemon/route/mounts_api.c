/*
 * /v1/sandboxes/{id}/mounts: buckets of a sandbox.
 *
 * A mount is first written to the settings, as a PUT would be (the secret may be new to the sandbox: its box then
 * trusts the gate's authority and the gate knows the key), then made in the box. If s3fs refuses, the note goes again.
 */
#include "base/json.h"
#include "daemon/core/settings.h"
#include "daemon/limits.h"
#include "daemon/route/handlers.h"
#include "daemon/route/request.h"
#include "daemon/storage/buckets.h"

static void drop_note(struct sandbox *s, const char *path)
{
	struct err e;
	auto_free char *changes = sandbox_exists(s) ? buckets_remove(s->spec.settings, path, &e) : NULL;
	if (!changes)
		return;
	char *merged = settings_merge(s->spec.settings, changes);
	free(s->spec.settings);
	s->spec.settings = merged;
	sandbox_write_state(s);
}

/* ---- mount ---- */

static void on_mounted(void *arg, const struct err *e)
{
	struct daemon_request *r = arg;
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	if (e)
		drop_note(r->sandbox, r->mount->path);
	if (r->x && e)
		daemon_request_error(r, e);
	bucket_write(&w, r->mount);
	if (r->x && !e)
		daemon_request_json(r, 201, buf_str(&out));
	daemon_request_release(r);
}

void daemon_request_mount(struct daemon_request *r)
{
	daemon_request_hold(r);
	bucket_mount(r->sandbox, r->mount, on_mounted, r);
}

static void on_running(struct sandbox_waiter *w, struct sandbox *s, const struct err *e)
{
	struct daemon_request *r = container_of(w, struct daemon_request, waiter);
	struct err why;
	if (e)
		return daemon_request_error(r, e);
	r->change.settings_changes = buckets_add(s, r->mount, &why);
	if (!r->change.settings_changes)
		return daemon_request_error(r, &why);
	daemon_request_change(r, s);
}

void handle_mount(struct daemon_request *r)
{
	struct err e;
	auto_json struct json_doc *doc = json_parse(r->body, &e);
	r->mount = xcalloc(1, sizeof *r->mount);
	r->waiter = (struct sandbox_waiter){.goal = WAIT_RUNNING, .on_done = on_running};
	if (!doc || bucket_parse(json_root(doc), r->mount, &e) < 0 ||
		sandbox_wait_id(r->daemon, r->match.id, &r->waiter, &e) < 0)
		daemon_request_error(r, &e);
}

/* ---- unmount ---- */

static void on_unmounted(void *arg, const struct err *e)
{
	struct daemon_request *r = arg;
	if (!e)
		drop_note(r->sandbox, r->mount->path);
	if (r->x && e)
		daemon_request_error(r, e);
	else if (r->x)
		daemon_request_json(r, 200, STR("{\"success\":true}"));
	daemon_request_release(r);
}

static void on_awake(struct sandbox_waiter *w, struct sandbox *s, const struct err *e)
{
	struct daemon_request *r = container_of(w, struct daemon_request, waiter);
	if (e)
		return daemon_request_error(r, e);
	daemon_request_hold(r);
	bucket_unmount(s, r->mount->path, on_unmounted, r);
}

void handle_unmount(struct daemon_request *r)
{
	auto_buf struct buf path = {0};
	struct err e;
	struct sandbox *s = daemon_request_find(r);
	if (!s)
		return;
	r->mount = xcalloc(1, sizeof *r->mount);
	if (http_query_get(http_request(r->x)->query, STR("path"), &path, &e) != 1 ||
		buf_size(&path) > VOLUME_PATH_MAX) {
		err_field(&e, "path", "the query must name the place: ?path=/mnt/data");
		return daemon_request_error(r, &e);
	}
	memcpy(r->mount->path, buf_cstr(&path), buf_size(&path) + 1);
	auto_free char *changes = buckets_remove(s->spec.settings, r->mount->path, &e);
	if (!changes)
		return daemon_request_error(r, &e);
	sandbox_ref(s);
	r->sandbox = s;
	r->waiter = (struct sandbox_waiter){.goal = WAIT_RUNNING, .wake_only = true, .on_done = on_awake};
	if (s->state == SB_STOPPED || s->state == SB_FAILED) {
		daemon_request_hold(r);
		return on_unmounted(r, NULL);
	}
	if (sandbox_wait(s, &r->waiter, &e) < 0)
		daemon_request_error(r, &e);
}

void handle_mounts(struct daemon_request *r)
{
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	const struct sandbox *s = daemon_request_find(r);
	if (!s)
		return;
	json_object_begin(&w);
	json_key(&w, "mounts");
	buckets_write(&w, s->spec.settings);
	json_object_end(&w);
	daemon_request_json(r, 200, buf_str(&out));
}
