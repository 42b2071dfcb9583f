/* Logs of the control protocol: cursors name one place of one log, and what is lost is told. */
#include "agent/limits.h"
#include "agent/rpc/control.h"
#include "test.h"

struct owner {
	struct proclog log;
	bool over;
};

static bool is_over(const void *owner)
{
	return ((const struct owner *)owner)->over;
}

static struct control_reader reader(struct owner *o)
{
	return (struct control_reader){.log = {.id = "p:1", .log = &o->log, .owner = o, .is_over = is_over}};
}

/* Options as they come in a frame. */
static int open_with(struct control_reader *rd, const char *options, const char **why)
{
	struct json_doc *doc = json_parse(str_of(options), NULL);
	int r = control_reader_open(rd, json_root(doc), why);
	json_free(doc);
	return r;
}

static void add(struct owner *o, const char *text)
{
	proclog_add(&o->log, CMD_STDOUT, str_of(text));
}

TEST(a_reader_gets_events_in_order_and_the_end_once)
{
	struct owner o = {0};
	const char *why = NULL;
	char cursor[CONTROL_CURSOR_LEN];
	proclog_init(&o.log);
	add(&o, "one");
	struct control_reader rd = reader(&o);
	CHECK_INT(open_with(&rd, "{\"follow\":true}", &why), 0);
	CHECK_INT(control_reader_next(&rd), EVENT_OUTPUT);
	control_reader_cursor(&rd, EVENT_OUTPUT, cursor);
	CHECK_STR(str_of(cursor), "p:1:3");
	CHECK_INT(control_reader_next(&rd), EVENT_NONE);
	add(&o, "two");
	CHECK_INT(control_reader_next(&rd), EVENT_OUTPUT);
	o.over = true;
	CHECK_INT(control_reader_next(&rd), EVENT_TERMINAL);
	control_reader_cursor(&rd, EVENT_TERMINAL, cursor);
	CHECK_STR(str_of(cursor), "p:1:end");
	CHECK_INT(control_reader_next(&rd), EVENT_END);
	proclog_free(&o.log);
}

TEST(a_reader_that_does_not_follow_ends_where_the_log_was)
{
	struct owner o = {0};
	const char *why = NULL;
	proclog_init(&o.log);
	add(&o, "one");
	struct control_reader rd = reader(&o);
	CHECK_INT(open_with(&rd, "{}", &why), 0);
	add(&o, "later");
	o.over = true;
	CHECK_INT(control_reader_next(&rd), EVENT_OUTPUT);
	CHECK_INT(control_reader_next(&rd), EVENT_END);
	/* Without a replay there is nothing left to tell. */
	rd = reader(&o);
	CHECK_INT(open_with(&rd, "{\"replay\":false,\"follow\":true}", &why), 0);
	CHECK_INT(control_reader_next(&rd), EVENT_END);
	proclog_free(&o.log);
}

TEST(a_cursor_names_an_event_of_its_own_log)
{
	static const char *const bad[] = {"{\"since\":\"\"}", "{\"since\":7}", "{\"since\":\"p:1\"}",
		"{\"since\":\"p:1:\"}", "{\"since\":\"p:1:2\"}", "{\"since\":\"p:1:7\"}", "{\"since\":\"p:2:3\"}",
		"{\"since\":\"p:1:-1\"}", "{\"since\":\"p:1:3x\"}", "{\"since\":\"p:1:end\"}",
		"{\"since\":\"p:1:18446744073709551616\"}"};
	struct owner o = {0};
	proclog_init(&o.log);
	add(&o, "one");
	add(&o, "two");
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct control_reader rd = reader(&o);
		const char *why = NULL;
		CHECK_INT(open_with(&rd, bad[i], &why), -1);
		CHECK(why);
	}
	struct control_reader rd = reader(&o);
	const char *why = NULL;
	CHECK_INT(open_with(&rd, "{\"since\":\"p:1:3\"}", &why), 0);
	CHECK_INT(control_reader_next(&rd), EVENT_OUTPUT);
	CHECK(str_eq_c(str_n(rd.record.bytes, rd.record.n), "two"));
	CHECK_INT(control_reader_next(&rd), EVENT_END);
	o.over = true;
	rd = reader(&o);
	CHECK_INT(open_with(&rd, "{\"since\":\"p:1:end\",\"follow\":true}", &why), 0);
	CHECK_INT(control_reader_next(&rd), EVENT_END);
	proclog_free(&o.log);
}

TEST(output_that_was_dropped_is_told_once_with_a_cursor_that_works)
{
	static char piece[PROCLOG_PIECE];
	struct owner o = {0};
	const char *why = NULL;
	char cursor[CONTROL_CURSOR_LEN];
	proclog_init(&o.log);
	o.log.cap = CONTROL_TERMINAL_LOG_MIN;
	memset(piece, 'x', sizeof piece);
	add(&o, "one");
	for (int i = 0; i < 10; i++)
		proclog_add(&o.log, CMD_STDOUT, str_n(piece, sizeof piece));
	struct control_reader rd = reader(&o);
	CHECK_INT(open_with(&rd, "{\"since\":\"p:1:3\"}", &why), 0);
	CHECK_INT(control_reader_next(&rd), EVENT_TRUNCATED);
	control_reader_cursor(&rd, EVENT_TRUNCATED, cursor);
	size_t got = 0;
	while (control_reader_next(&rd) == EVENT_OUTPUT)
		got += rd.record.n;
	CHECK(got > 0 && got < 10 * sizeof piece);
	/* From there on everything is there. */
	struct control_reader again = reader(&o);
	CHECK_INT(control_reader_since(&again, str_of(cursor), &why), 0);
	again.until = o.log.bytes;
	size_t more = 0;
	while (control_reader_next(&again) == EVENT_OUTPUT)
		more += again.record.n;
	CHECK_INT(more, got);
	proclog_free(&o.log);
}

TEST_MAIN()
