/* /v1/volumes: named volumes are made, resized, listed and deleted. */
#include "base/json.h"
#include "daemon/limits.h"
#include "daemon/route/handlers.h"
#include "daemon/route/request.h"
#include "daemon/storage/volumes.h"
#include "proto/id.h"

static void not_found(struct daemon_request *r)
{
	struct err e;
	err_set(&e, ERRC_NOT_FOUND, "there is no volume '%s'", r->match.volume);
	daemon_request_error(r, &e);
}

static void answer(struct daemon_request *r, int status, uint64_t used)
{
	const struct volume *v = volume_find(r->daemon, r->match.volume);
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	if (!v)
		return not_found(r);
	json_object_begin(&w);
	volume_write(&w, v);
	if (used != VOLUME_USED_UNKNOWN)
		json_member_u64(&w, "used", used);
	volume_write_users(&w, v, caller_is_own(&r->caller));
	json_object_end(&w);
	daemon_request_json(r, status, buf_str(&out));
}

static void finish(struct daemon_request *r, int status, uint64_t used, const struct err *e)
{
	if (r->x && e)
		daemon_request_error(r, e);
	else if (r->x)
		answer(r, status, used);
	daemon_request_release(r);
}

static void on_made(void *arg, uint64_t used, const struct err *e)
{
	finish(arg, 201, used, e);
}

static void on_there(void *arg, uint64_t used, const struct err *e)
{
	finish(arg, 200, used, e);
}

static void on_deleted(void *arg, uint64_t used, const struct err *e)
{
	struct daemon_request *r = arg;
	(void)used;
	if (r->x && e)
		daemon_request_error(r, e);
	else if (r->x)
		daemon_request_json(r, 200, STR("{\"success\":true}"));
	daemon_request_release(r);
}

static int read_size(struct str body, uint64_t *ret, struct err *e)
{
	*ret = VOLUME_SIZE_DEFAULT;
	if (!body.n)
		return 0;
	auto_json struct json_doc *doc = json_parse(body, e);
	if (!doc)
		return -1;
	if (json_root(doc)->type != JSON_T_OBJECT)
		return err_set(e, ERRC_VALIDATION_FAILED, "the body must be a JSON object");
	json_each(it, json_root(doc))
	{
		if (!str_eq_c(it->key, "size"))
			return err_field(e, "body", "field '%.*s' is not known", (int)(it->key.n < 40 ? it->key.n : 40),
				it->key.p);
	}
	if (json_read_u64(json_root(doc), "size", BOX_DISK_MIN, BOX_DISK_MAX, ret, e) < 0)
		return err_field(e, "size", "field 'size' must be %llu to %llu bytes", BOX_DISK_MIN, BOX_DISK_MAX);
	return 0;
}

void handle_volume_put(struct daemon_request *r)
{
	const char *name = r->match.volume;
	uint64_t size;
	struct err e;
	if (read_size(r->body, &size, &e) < 0)
		return daemon_request_error(r, &e);
	bool there = volume_find(r->daemon, name) != NULL;
	if (!there && !caller_is_own(&r->caller) && volume_name_is_given(str_of(name))) {
		err_field(&e, "name", "'%s' is a name of the kind that builds give (atoll.build.)", name);
		return daemon_request_error(r, &e);
	}
	daemon_request_hold(r);
	if (volume_put(r->daemon, name, size, there ? on_there : on_made, r, &e) < 0)
		finish(r, 0, 0, &e);
}

void handle_volumes(struct daemon_request *r)
{
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	json_object_begin(&w);
	volumes_list(r->daemon, &w);
	json_object_end(&w);
	daemon_request_json(r, 200, buf_str(&out));
}

void handle_volume_get(struct daemon_request *r)
{
	struct volume *v = volume_find(r->daemon, r->match.volume);
	if (!v)
		return not_found(r);
	daemon_request_hold(r);
	volume_measure(v, on_there, r);
}

void handle_volume_delete(struct daemon_request *r)
{
	struct volume *v = volume_find(r->daemon, r->match.volume);
	struct err e;
	if (!v)
		return not_found(r);
	daemon_request_hold(r);
	if (volume_delete(v, on_deleted, r, &e) < 0)
		finish(r, 0, 0, &e);
}
