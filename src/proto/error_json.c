#include "proto/error_json.h"

#include "base/clock.h"

static const char *const usual_members[] = {
	"code", "message", "context", "operation", "httpStatus", "timestamp", "suggestion", NULL};

int error_json_status(const struct error_json *j)
{
	return j->status ? j->status : errc_info(j->err->code)->status;
}

static void put_member(struct json_writer *w, const struct error_json *j, const char *member)
{
	const struct errc_info *info = errc_info(j->err->code);
	char iso[CLOCK_ISO_LEN];
	if (strcmp(member, "code") == 0) {
		json_member_cstr(w, member, info->code);
	} else if (strcmp(member, "message") == 0) {
		json_member_cstr(w, member, j->err->msg);
	} else if (strcmp(member, "context") == 0) {
		json_key(w, member);
		json_raw(w, j->context.n ? j->context : STR("{}"));
	} else if (strcmp(member, "operation") == 0) {
		if (j->operation)
			json_member_cstr(w, member, j->operation);
	} else if (strcmp(member, "httpStatus") == 0) {
		json_member_u64(w, member, (uint64_t)error_json_status(j));
	} else if (strcmp(member, "timestamp") == 0) {
		json_member_cstr(w, member, clock_iso(clock_wall_ms(), iso));
	} else {
		INVARIANT(strcmp(member, "suggestion") == 0);
		if (j->suggestion || info->suggestion[0])
			json_member_cstr(w, member, j->suggestion ? j->suggestion : info->suggestion);
	}
}

void error_json_members(struct json_writer *w, const struct error_json *j)
{
	for (const char *const *m = j->members ? j->members : usual_members; *m; m++)
		if (!j->put || !j->put(w, *m, j->arg))
			put_member(w, j, *m);
}

void error_json(struct buf *out, const struct error_json *j)
{
	struct json_writer w = json_writer(out);
	json_object_begin(&w);
	error_json_members(&w, j);
	json_object_end(&w);
}

void error_json_field(struct buf *out, const struct err *e, const char *code)
{
	struct json_writer w = json_writer(out);
	json_object_begin(&w);
	json_key(&w, "validationErrors");
	json_array_begin(&w);
	json_object_begin(&w);
	json_member_cstr(&w, "field", e->field);
	json_member_cstr(&w, "message", e->msg);
	if (code)
		json_member_cstr(&w, "code", code);
	json_object_end(&w);
	json_array_end(&w);
	json_object_end(&w);
}

void error_json_message(struct str body, struct buf *ret)
{
	auto_json struct json_doc *doc = json_parse(body, NULL);
	struct str message = STR_NULL;
	const struct json *root = doc ? json_root(doc) : NULL;
	if (root && root->type == JSON_T_OBJECT)
		json_read_str(root, "message", &message, NULL);
	buf_add_str(ret, message.p ? message : body);
}
