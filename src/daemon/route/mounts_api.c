/* /v1/sandboxes/{id}/mounts: buckets of a sandbox. */
#include "base/json.h"
#include "daemon/limits.h"
#include "daemon/route/handlers.h"
#include "daemon/storage/buckets.h"

static void on_mounted(void *arg, const struct op_result *result)
{
	struct daemon_request *r = daemon_request_done(arg);
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	if (result->err)
		return daemon_request_error(r, result->err);
	bucket_write(&w, r->extra);
	daemon_request_json(r, 201, buf_str(&out));
}

void handle_mount(struct daemon_request *r)
{
	struct err e;
	struct bucket_mount *mount = r->extra = xcalloc(1, sizeof *mount);
	auto_json struct json_doc *doc = json_parse(r->body, &e);
	if (!doc || bucket_parse(json_root(doc), mount, &e) < 0)
		return daemon_request_error(r, &e);
	const struct op_call call = daemon_request_call(r, on_mounted);
	r->op = op_mount(&call, mount);
}

static void on_unmounted(void *arg, const struct op_result *result)
{
	struct daemon_request *r = daemon_request_done(arg);
	if (result->err)
		daemon_request_error(r, result->err);
	else
		daemon_request_json(r, 200, STR("{\"success\":true}"));
}

void handle_unmount(struct daemon_request *r)
{
	auto_buf struct buf path = {0};
	struct err e;
	if (!daemon_request_find(r))
		return;
	if (http_query_get(http_request(r->x)->query, STR("path"), &path, &e) != 1 ||
		buf_size(&path) > VOLUME_PATH_MAX) {
		err_field(&e, "path", "the query must name the place: ?path=/mnt/data");
		return daemon_request_error(r, &e);
	}
	const struct op_call call = daemon_request_call(r, on_unmounted);
	r->op = op_unmount(&call, buf_cstr(&path));
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
