#include "daemon/core/spec.h"
#include "daemon/limits.h"
#include "proto/limits.h"
#include "test.h"

static struct err why;

static enum errc parse(const char *body, struct api_change *ret)
{
	why = (struct err){0};
	return api_change_parse(str_of(body), ret, &why) < 0 ? why.code : ERRC_OK;
}

static enum errc refused(const char *body)
{
	struct api_change c;
	return parse(body, &c);
}

TEST(an_empty_body_asks_for_nothing)
{
	auto_change struct api_change c;
	CHECK_INT(parse("", &c), ERRC_OK);
	CHECK(!c.has_memory && !c.has_image && !c.spec.env);
	CHECK_INT(parse("{}", &c), ERRC_OK);
	CHECK(!c.has_cpu && !c.has_sleep_after);
}

TEST(every_field_is_read)
{
	auto_change struct api_change c;
	CHECK_INT(parse("{\"limits\":{\"memory\":268435456,\"cpu\":0.5,\"pids\":64},\"image\":\"py3.11\","
			"\"env\":{\"A\":\"b\\\"\\u00e9\"},\"labels\":{\"team/"
			"x\":\"y\"},\"sleepAfter\":\"10m\",\"keepAlive\":true}",
			  &c),
		ERRC_OK);
	CHECK(c.has_memory && c.has_cpu && c.has_pids && c.has_image && c.has_sleep_after && c.has_keep_alive);
	CHECK_INT(c.spec.limits.mem_bytes, 268435456);
	CHECK_INT(c.spec.limits.cpu_milli, 500);
	CHECK_INT(c.spec.limits.pids, 64);
	CHECK_CSTR(c.spec.image, "py3.11");
	CHECK_CSTR(c.spec.env, "{\"A\":\"b\\\"\xc3\xa9\"}");
	CHECK_CSTR(c.spec.labels, "{\"team/x\":\"y\"}");
	CHECK_INT(c.spec.sleep_after_ms, 600000);
	CHECK(c.spec.keep_alive);
}

TEST(null_is_as_not_given)
{
	auto_change struct api_change c;
	CHECK_INT(
		parse("{\"limits\":{\"memory\":null},\"image\":null,\"env\":null,\"sleepAfter\":null,\"keepAlive\":null}",
			&c),
		ERRC_OK);
	CHECK(!c.has_memory && !c.has_image && !c.spec.env && !c.has_sleep_after && !c.has_keep_alive);
	CHECK_INT(parse("{\"limits\":null}", &c), ERRC_OK);
}

TEST(unknown_fields_are_named)
{
	CHECK_INT(refused("{\"foo\":1}"), ERRC_VALIDATION_FAILED);
	CHECK_CSTR(why.field, "foo");
	CHECK_INT(refused("{\"limits\":{\"gpu\":1}}"), ERRC_VALIDATION_FAILED);
	CHECK_CSTR(why.field, "limits.gpu");
	CHECK_CSTR(why.msg, "field 'limits.gpu' is not known");
}

TEST(wrong_types_are_named)
{
	static const char *const bad[][2] = {
		{"{\"limits\":1}", "limits"},
		{"{\"limits\":[]}", "limits"},
		{"{\"limits\":{\"memory\":\"1g\"}}", "limits.memory"},
		{"{\"limits\":{\"memory\":-1}}", "limits.memory"},
		{"{\"limits\":{\"memory\":1e30}}", "limits.memory"},
		{"{\"limits\":{\"cpu\":\"1\"}}", "limits.cpu"},
		{"{\"limits\":{\"pids\":1.5}}", "limits.pids"},
		{"{\"image\":1}", "image"},
		{"{\"image\":\"../x\"}", "image"},
		{"{\"env\":[]}", "env"},
		{"{\"env\":{\"A\":1}}", "env"},
		{"{\"env\":{\"A=B\":\"x\"}}", "env"},
		{"{\"env\":{\"\":\"x\"}}", "env"},
		{"{\"env\":{\"A\":\"\\u0000\"}}", "env"},
		{"{\"labels\":{\"a b\":\"x\"}}", "labels"},
		{"{\"labels\":{\"a\":null}}", "labels"},
		{"{\"sleepAfter\":\"\"}", "sleepAfter"},
		{"{\"sleepAfter\":\"s\"}", "sleepAfter"},
		{"{\"sleepAfter\":\"10\"}", "sleepAfter"},
		{"{\"sleepAfter\":\"1d\"}", "sleepAfter"},
		{"{\"sleepAfter\":-1}", "sleepAfter"},
		{"{\"sleepAfter\":\"169h\"}", "sleepAfter"},
		{"{\"sleepAfter\":true}", "sleepAfter"},
		{"{\"keepAlive\":1}", "keepAlive"},
	};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		CHECK_INT(refused(bad[i][0]), ERRC_VALIDATION_FAILED);
		CHECK_CSTR(why.field, bad[i][1]);
	}
	CHECK_INT(refused("[]"), ERRC_VALIDATION_FAILED);
	CHECK_INT(refused("1"), ERRC_VALIDATION_FAILED);
}

TEST(bad_json_names_line_and_column)
{
	CHECK_INT(refused("{\n  \"limits\": ,\n}"), ERRC_INVALID_JSON);
	CHECK(strstr(why.msg, "line 2 column 13"));
	CHECK_INT(refused("{} {}"), ERRC_INVALID_JSON);
	CHECK_INT(refused("{"), ERRC_INVALID_JSON);
}

TEST(limits_have_minima)
{
	struct api_change c;
	CHECK_INT(refused("{\"limits\":{\"memory\":16777215}}"), ERRC_INVALID_LIMITS);
	CHECK_INT(parse("{\"limits\":{\"memory\":16777216}}", &c), ERRC_OK);
	CHECK_INT(refused("{\"limits\":{\"cpu\":0.009}}"), ERRC_INVALID_LIMITS);
	CHECK_INT(refused("{\"limits\":{\"cpu\":-1}}"), ERRC_INVALID_LIMITS);
	CHECK_INT(refused("{\"limits\":{\"cpu\":1e300}}"), ERRC_INVALID_LIMITS);
	CHECK_INT(parse("{\"limits\":{\"cpu\":0.01}}", &c), ERRC_OK);
	CHECK_INT(refused("{\"limits\":{\"pids\":7}}"), ERRC_INVALID_LIMITS);
	CHECK_INT(parse("{\"limits\":{\"pids\":8}}", &c), ERRC_OK);
	CHECK_INT(parse("{\"limits\":{\"pids\":32768}}", &c), ERRC_OK);
	CHECK_INT(refused("{\"limits\":{\"pids\":32769}}"), ERRC_INVALID_LIMITS);
}

TEST(limits_are_bounded_by_the_host)
{
	struct warden_host host = {.mem_total = 1000, .cpus_milli = 2000, .pids_max = 100};
	struct box_limits at = {1000, 2000, 100};
	CHECK_INT(api_limits_check(&at, &host, &why), 0);
	CHECK_INT(api_limits_check(&(struct box_limits){1001, 2000, 100}, &host, &why), -1);
	CHECK_INT(why.code, ERRC_INVALID_LIMITS);
	CHECK_INT(api_limits_check(&(struct box_limits){1000, 2001, 100}, &host, &why), -1);
	CHECK_INT(api_limits_check(&(struct box_limits){1000, 2000, 101}, &host, &why), -1);
}

static char *env_of(size_t value_len)
{
	char *body = xmalloc(value_len + 32);
	int n = snprintf(body, 32, "{\"env\":{\"A\":\"");
	memset(body + n, 'x', value_len);
	memcpy(body + (size_t)n + value_len, "\"}}", 4);
	return body;
}

TEST(changed_variables_are_merged)
{
	struct api_spec s;
	auto_change struct api_change set, change;
	api_spec_default(&s);
	CHECK_INT(parse("{\"env\":{\"A\":\"1\",\"B\":\"2\",\"C\":\"3\"}}", &set), ERRC_OK);
	api_change_apply(&set, &s);
	CHECK_INT(parse("{\"envChanges\":{\"B\":null,\"A\":\"x\\\"y\",\"D\":\"4\",\"E\":null}}", &change), ERRC_OK);
	api_change_apply(&change, &s);
	CHECK_CSTR(s.env, "{\"C\":\"3\",\"A\":\"x\\\"y\",\"D\":\"4\"}");
	CHECK_INT(refused("{\"envChanges\":{\"1\":null}}"), ERRC_VALIDATION_FAILED);
	CHECK_INT(refused("{\"envChanges\":{\"A\":2}}"), ERRC_VALIDATION_FAILED);
	CHECK_CSTR(why.field, "envChanges");
	CHECK_INT(refused("{\"env\":{\"A\":null}}"), ERRC_VALIDATION_FAILED);
	api_spec_free(&s);
}

TEST(env_is_bounded)
{
	/* {"A":"…"} is 8 bytes around the value. */
	auto_free char *fits = env_of(BOX_ENV_MAX - 8), *over = env_of(BOX_ENV_MAX - 7);
	auto_change struct api_change c;
	CHECK_INT(parse(fits, &c), ERRC_OK);
	CHECK_INT(refused(over), ERRC_VALIDATION_FAILED);
	CHECK_CSTR(why.field, "env");
}

TEST(labels_and_sleep_have_limits)
{
	auto_change struct api_change c;
	CHECK_INT(parse("{\"sleepAfter\":\"168h\"}", &c), ERRC_OK);
	CHECK_INT(c.spec.sleep_after_ms, BOX_SLEEP_MAX);
	CHECK_INT(refused("{\"sleepAfter\":604801}"), ERRC_VALIDATION_FAILED);
	for (int over = 0; over < 2; over++) {
		struct buf body = {0};
		buf_add_c(&body, "{\"labels\":{\"a\":\"");
		for (size_t i = 0; i < BOX_LABELS_MAX - 8 + (size_t)over; i++)
			buf_add_byte(&body, 'x');
		buf_add_c(&body, "\"}}");
		api_change_free(&c);
		CHECK_INT(parse(buf_cstr(&body), &c), over ? ERRC_VALIDATION_FAILED : ERRC_OK);
		buf_free(&body);
		c = over ? (struct api_change){0} : c;
	}
	char name[128];
	snprintf(name, sizeof name, "{\"labels\":{\"%063d\":\"\"}}", 0);
	CHECK_INT(parse(name, &c), ERRC_OK);
	snprintf(name, sizeof name, "{\"labels\":{\"%064d\":\"\"}}", 0);
	CHECK_INT(refused(name), ERRC_VALIDATION_FAILED);
}

TEST(a_change_touches_only_what_it_names)
{
	auto_change struct api_change c;
	struct api_spec s;
	api_spec_default(&s);
	CHECK_INT(parse("{\"limits\":{\"cpu\":2},\"labels\":{\"a\":\"b\"}}", &c), ERRC_OK);
	api_change_apply(&c, &s);
	CHECK_INT(s.limits.mem_bytes, BOX_MEM_DEFAULT);
	CHECK_INT(s.limits.cpu_milli, 2000);
	CHECK_INT(s.limits.pids, BOX_PIDS_DEFAULT);
	CHECK_CSTR(s.image, "default");
	CHECK_CSTR(s.env, "{}");
	CHECK_CSTR(s.labels, "{\"a\":\"b\"}");
	api_spec_free(&s);
}

TEST_MAIN()
