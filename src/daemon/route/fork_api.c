/* POST /v1/sandboxes/{id}/fork */
#include <stdio.h>

#include "base/json.h"
#include "daemon/route/handlers.h"
#include "daemon/route/view.h"
#include "proto/id.h"

static void on_forked(void *arg, const struct op_result *result)
{
	struct daemon_request *r = daemon_request_done(arg);
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	if (result->err)
		return daemon_request_error(r, result->err);
	json_list_begin(&w, "sandboxes");
	for (size_t i = 0; i < result->forks_n; i++)
		view_sandbox(&w, result->forks[i], NULL);
	json_list_end(&w);
	daemon_request_json(r, 201, buf_str(&out));
}

static int read_ids(const struct json *ids, struct op_fork_wish *f, struct err *e)
{
	if (ids->type != JSON_T_ARRAY || ids->count < 1 || ids->count > FORKS_MAX)
		return err_field(e, "ids", "field 'ids' must be an array of 1 to %d ids", FORKS_MAX);
	json_each(it, ids)
	{
		if (it->type != JSON_T_STRING)
			return err_field(e, "ids", "field 'ids' must be an array of texts");
		if (box_id_check(it->text, e) < 0)
			return err_about(e, "ids");
		for (size_t i = 0; i < f->n; i++)
			if (str_eq_c(it->text, f->ids[i]))
				return err_field(e, "ids", "'%s' stands twice in field 'ids'", f->ids[i]);
		snprintf(f->ids[f->n++], BOX_ID_MAX + 1, "%.*s", STR_ARG(it->text));
	}
	return 0;
}

static int read_fork(const struct json *root, struct op_fork_wish *f, struct err *e)
{
	const struct json *ids = json_get(root, "ids");
	uint64_t count = 0;
	if (root->type != JSON_T_OBJECT || root->count != 1 || (!ids && !json_get(root, "count")))
		return err_set(e, ERRC_VALIDATION_FAILED, "the body must be an object with 'ids' or 'count'");
	if (ids)
		return read_ids(ids, f, e);
	if (json_read_u64(root, "count", 1, FORKS_MAX, &count, e) < 0)
		return -1;
	f->count = count;
	return count ? 0 : err_field(e, "count", "field 'count' must be 1 to %d", FORKS_MAX);
}

void handle_fork(struct daemon_request *r)
{
	struct err e;
	struct op_fork_wish wish = {0};
	if (!daemon_request_find(r))
		return;
	auto_json struct json_doc *doc = json_parse(r->body, &e);
	if (!doc || read_fork(json_root(doc), &wish, &e) < 0)
		return daemon_request_error(r, &e);
	const struct op_call call = daemon_request_call(r, on_forked);
	r->op = op_fork(&call, &wish);
}
