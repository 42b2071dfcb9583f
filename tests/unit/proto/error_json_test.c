#include "proto/error_json.h"
#include "test.h"

/* The text up to the timestamp, which differs from run to run. */
static const char *text_of(struct buf *out, const struct error_json *j)
{
	error_json(out, j);
	char *at = strstr(buf_cstr(out), "\"timestamp\":\"");
	if (at)
		memset(at + 13, 'T', strcspn(at + 13, "\""));
	return buf_cstr(out);
}

TEST(the_usual_members)
{
	auto_buf struct buf plain = {0}, whole = {0};
	struct err e;
	err_set(&e, ERRC_CODE_EXECUTION_ERROR, "it \"broke\"");
	CHECK_CSTR(text_of(&plain, &(struct error_json){.err = &e}),
		"{\"code\":\"CODE_EXECUTION_ERROR\",\"message\":\"it \\\"broke\\\"\",\"context\":{},\"httpStatus\":500,"
		"\"timestamp\":\"TTTTTTTTTTTTTTTTTTTTTTTT\"}");
	err_set(&e, ERRC_FILE_NOT_FOUND, "gone");
	CHECK_CSTR(
		text_of(&whole,
			&(struct error_json){.err = &e, .operation = "file.read", .context = STR("{\"path\":\"/x\"}")}),
		"{\"code\":\"FILE_NOT_FOUND\",\"message\":\"gone\",\"context\":{\"path\":\"/x\"},"
		"\"operation\":\"file.read\",\"httpStatus\":404,\"timestamp\":\"TTTTTTTTTTTTTTTTTTTTTTTT\","
		"\"suggestion\":\"Check the path, or create the file first.\"}");
}

static bool put_own(struct json_writer *w, const char *member, const void *arg)
{
	bool mine = strcmp(member, "error") == 0 || strcmp(member, "code") == 0;
	if (mine)
		json_member_cstr(w, member, arg);
	return mine;
}

TEST(a_route_may_choose_and_write_members)
{
	static const char *const members[] = {"error", "code", "httpStatus", "message", NULL};
	auto_buf struct buf out = {0};
	struct err e;
	err_set(&e, ERRC_NOT_FOUND, "gone");
	struct error_json j = {.err = &e, .status = 410, .members = members, .put = put_own, .arg = "STALE"};
	CHECK_CSTR(
		text_of(&out, &j), "{\"error\":\"STALE\",\"code\":\"STALE\",\"httpStatus\":410,\"message\":\"gone\"}");
	CHECK_INT(error_json_status(&j), 410);
	j.status = 0;
	CHECK_INT(error_json_status(&j), 404);
}

TEST(a_context_names_the_field)
{
	auto_buf struct buf with = {0}, without = {0};
	struct err e;
	err_field(&e, "cwd", "field 'cwd' is wrong");
	error_json_field(&with, &e, "BAD");
	CHECK_CSTR(buf_cstr(&with), "{\"validationErrors\":[{\"field\":\"cwd\",\"message\":\"field 'cwd' is wrong\","
				    "\"code\":\"BAD\"}]}");
	error_json_field(&without, &e, NULL);
	CHECK_CSTR(buf_cstr(&without),
		"{\"validationErrors\":[{\"field\":\"cwd\",\"message\":\"field 'cwd' is wrong\"}]}");
}

TEST_MAIN()
