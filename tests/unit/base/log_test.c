#include "base/log.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/limits.h"
#include "test.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>

static int captured = -1, real_stderr = -1;

static void capture(const char *format)
{
	setenv("ATOLL_LOG", format, 1);
	unsetenv("ATOLL_LOG_LEVEL");
	log_init("test");
	real_stderr = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
	captured = memfd_create("log", MFD_CLOEXEC);
	CHECK(captured >= 0);
	CHECK(dup2(captured, STDERR_FILENO) >= 0);
}

/* What was logged since the last call, and from then on failed checks print to where they should. */
static const char *logged(void)
{
	static char text[2 * LOG_BURST * 256];
	dup2(real_stderr, STDERR_FILENO);
	lseek(captured, 0, SEEK_SET);
	ssize_t n = fd_read_full(captured, text, sizeof text - 1);
	CHECK(n >= 0);
	text[n] = 0;
	CHECK_INT(ftruncate(captured, 0), 0);
	lseek(captured, 0, SEEK_SET);
	dup2(captured, STDERR_FILENO);
	return text;
}

/* One line, valid UTF-8, nothing that steers a terminal, no longer than promised. */
static struct str one_line(void)
{
	const char *text = logged();
	dup2(real_stderr, STDERR_FILENO);
	size_t n = strlen(text);
	CHECK(n > 0 && n <= LOG_LINE_MAX);
	CHECK(strchr(text, '\n') == text + n - 1);
	CHECK(str_is_utf8(str_n(text, n)));
	for (size_t i = 0; i + 1 < n; i++)
		CHECK((unsigned char)text[i] >= 0x20 && text[i] != 0x7f);
	dup2(captured, STDERR_FILENO);
	return str_n(text, n - 1);
}

static struct json_doc *one_object(void)
{
	struct err e = {0};
	struct str line = one_line();
	struct json_doc *d = json_parse(line, &e);
	dup2(real_stderr, STDERR_FILENO);
	if (!d)
		test_fail(__FILE__, __LINE__, "%s: %.*s", e.msg, STR_ARG(line));
	CHECK_INT(json_root(d)->type, JSON_T_OBJECT);
	return d;
}

static const char hostile[] = "a b\"c\\d=e\n{\"x\":1}\r\t\x1b[31m\x7f\xc2\x9b"
			      "2J\xff\xfe\xc3(\xe2\x82 \xc3\xa4\xf0\x9f\x9a\x80";

TEST(log_text_is_a_row_of_pairs)
{
	capture("text");
	errno = ENOSPC;
	log_event(LOG_INFO, "box created", "id=%s ms=%.1f", "user-123", 2.9);
	int saved = errno;
	const char *text = logged();
	dup2(real_stderr, STDERR_FILENO);
	CHECK_INT(saved, ENOSPC);
	CHECK(strncmp(text, "ts=20", 5) == 0);
	CHECK(text[3 + 24] == ' ' && text[3 + 23] == 'Z');
	CHECK_CSTR(text + 28, "level=info program=test msg=\"box created\" id=user-123 ms=2.9\n");
}

TEST(log_text_without_pairs)
{
	capture("text");
	log_event(LOG_WARN, "alone", "%s", "");
	const char *text = logged();
	dup2(real_stderr, STDERR_FILENO);
	CHECK_CSTR(text + 28, "level=warn program=test msg=\"alone\"\n");
}

TEST(log_quote_escapes_and_cuts)
{
	CHECK_CSTR(LOG_Q("plain"), "\"plain\"");
	CHECK_CSTR(LOG_Q(""), "\"\"");
	CHECK_CSTR(LOG_Q(NULL), "\"\"");
	CHECK_CSTR(LOG_Q("a\"b\\c\nd\te\x1b\x7f"), "\"a\\\"b\\\\c\\nd\\u0009e\\u001b\\u007f\"");
	CHECK_CSTR(LOG_Q("\xc2\x9b\xc2\xa0\xc3\xa4"), "\"\\u009b\xc2\xa0\xc3\xa4\"");
	CHECK_CSTR(LOG_Q("\xff\xe2\x82"), "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
	CHECK_CSTR(LOG_QS(str_n("a\0b", 3)), "\"a\\u0000b\"");
	static const char *const fillers[] = {"x", "\n", "\x01", "\xc3\xa4", "\xf0\x9f\x9a\x80", "\xff", "\""};
	for (size_t i = 0; i < ARRAY_LEN(fillers); i++) {
		auto_buf struct buf b = {0};
		while (buf_size(&b) < 2 * LOG_QUOTED_MAX)
			buf_add_c(&b, fillers[i]);
		struct log_quoted q;
		struct str s = str_of(log_quote(&q, buf_str(&b)));
		CHECK(s.n < sizeof q.text && s.n > sizeof q.text - 16);
		CHECK(str_ends(s, STR("…\"")));
		CHECK(str_is_utf8(s));
	}
}

TEST(log_text_stays_one_line_whatever_the_values)
{
	capture("text");
	log_event(LOG_ERROR, hostile, "a=%s b=%s", LOG_Q(hostile), "after");
	CHECK(str_ends(one_line(), STR(" b=after")));
	log_event(LOG_ERROR, "not quoted", "a=%s b=%s", hostile, "after");
	CHECK(str_ends(one_line(), STR(" b=after")));
}

TEST(log_text_is_cut_at_its_maximum)
{
	capture("text");
	for (int shift = 0; shift < 8; shift++) {
		auto_buf struct buf b = {0};
		for (int i = 0; i < LOG_LINE_MAX; i++)
			buf_add_c(&b, "\xf0\x9f\x9a\x80");
		log_event(LOG_ERROR, "long", "%.*s=%s", shift, "keykeykey", buf_cstr(&b));
		CHECK_INT(one_line().n, LOG_LINE_MAX - 1);
	}
}

TEST(log_json_has_every_pair)
{
	capture("json");
	log_event(LOG_INFO, "box \"created\"", "id=%s ms=%.1f why=%s empty= last=%s", "user-123", 2.9,
		LOG_Q("a b=c \"d\"\n\\n\\u0041"), "=x");
	auto_json struct json_doc *d = one_object();
	const struct json *o = json_root(d);
	CHECK_INT(o->count, 9);
	CHECK_INT(json_get(o, "ts")->text.n, 24);
	CHECK_STR(json_get(o, "level")->text, "info");
	CHECK_STR(json_get(o, "program")->text, "test");
	CHECK_STR(json_get(o, "msg")->text, "box \"created\"");
	CHECK_STR(json_get(o, "id")->text, "user-123");
	CHECK_STR(json_get(o, "ms")->text, "2.9");
	CHECK_STR(json_get(o, "why")->text, "a b=c \"d\"\n\\n\\u0041");
	CHECK_STR(json_get(o, "empty")->text, "");
	CHECK_STR(json_get(o, "last")->text, "=x");
}

TEST(log_json_keeps_hostile_values_as_values)
{
	capture("json");
	log_event(LOG_ERROR, hostile, "a=%s b=after", LOG_Q(hostile));
	auto_json struct json_doc *d = one_object();
	const struct json *o = json_root(d);
	CHECK_INT(o->count, 6);
	CHECK_STR(json_get(o, "b")->text, "after");
	/* What is not UTF-8 or steers a terminal unescaped is replaced, the rest is as it was. */
	CHECK_STR(json_get(o, "a")->text,
		"a b\"c\\d=e\n{\"x\":1}\r\t\x1b[31m???"
		"2J\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd(\xef\xbf\xbd\xef\xbf\xbd \xc3\xa4\xf0\x9f\x9a\x80");
}

TEST(log_json_is_valid_with_values_that_are_not_quoted)
{
	static const char *const values[] = {
		hostile, "\"", "\"\\", "\"\\u", "\"\\u00", "\"\\uzzzz\"", "\"\\x\"", "\"a\"b", "\\"};
	capture("json");
	for (size_t i = 0; i < ARRAY_LEN(values); i++) {
		log_event(LOG_ERROR, "m", "a=%s", values[i]);
		json_free(one_object());
		dup2(captured, STDERR_FILENO);
	}
	log_event(LOG_ERROR, "m", "no pairs at all");
	auto_json struct json_doc *d = one_object();
	CHECK_INT(json_root(d)->count, 4);
}

TEST(log_json_leaves_out_what_does_not_fit)
{
	capture("json");
	for (size_t n = LOG_LINE_MAX - 400; n < LOG_LINE_MAX + 10; n += 7) {
		auto_free char *value = xcalloc(1, n + 1);
		memset(value, n % 2 ? 'x' : '"', n);
		log_event(LOG_ERROR, "m", "first=1 a=%s", value);
		struct json_doc *d = one_object();
		CHECK_STR(json_get(json_root(d), "first")->text, "1");
		json_free(d);
		dup2(captured, STDERR_FILENO);
	}
	auto_free char *msg = xcalloc(1, LOG_LINE_MAX * 2);
	memset(msg, 'm', LOG_LINE_MAX * 2 - 1);
	log_event(LOG_ERROR, msg, "a=1");
	auto_json struct json_doc *d = one_object();
	CHECK_STR(json_get(json_root(d), "a")->text, "1");
}

TEST(log_level_is_a_threshold)
{
	capture("text");
	log_event(LOG_DEBUG, "hidden", "a=1");
	CHECK_CSTR(logged(), "");
	setenv("ATOLL_LOG_LEVEL", "error", 1);
	log_init("test");
	log_event(LOG_WARN, "hidden", "a=1");
	CHECK_CSTR(logged(), "");
	log_event(LOG_ERROR, "shown", "a=1");
	CHECK(strstr(logged(), "shown"));
	setenv("ATOLL_LOG_LEVEL", "debug", 1);
	log_init("test");
	log_event(LOG_DEBUG, "shown", "a=1");
	CHECK(strstr(logged(), "shown"));
}

TEST(log_settings_that_mean_nothing_are_told)
{
	capture("text");
	setenv("ATOLL_LOG_LEVEL", "loud", 1);
	log_init("test");
	CHECK(strstr(logged(), "value=\"loud\""));
	setenv("ATOLL_LOG_LEVEL", "", 1);
	setenv("ATOLL_LOG", "yaml", 1);
	log_init("test");
	CHECK(strstr(logged(), "value=\"yaml\""));
	setenv("ATOLL_LOG", "", 1);
	log_init("test");
	CHECK_CSTR(logged(), "");
}

static int count(const char *text, const char *what)
{
	int n = 0;
	for (; (text = strstr(text, what)); text++)
		n++;
	return n;
}

/* As full or empty as the test wants it, counted just now. */
static void set_tokens(struct log_limit *l, uint64_t lines)
{
	l->tokens = lines * 1000;
	l->at_ms = clock_ms();
}

TEST(log_limited_writes_a_burst_and_counts_the_rest)
{
	struct log_limit l = {0};
	capture("text");
	for (int i = 0; i < LOG_BURST; i++)
		log_limited_by(&l, LOG_WARN, "flood", "i=%d", i);
	CHECK_INT(lseek(captured, 0, SEEK_CUR) > 0, 1);
	const char *text = logged();
	CHECK_INT(count(text, "msg=\"flood\""), LOG_BURST);
	CHECK_INT(count(text, "suppressed"), 0);
	for (int i = 0; i < 3; i++) {
		set_tokens(&l, 0);
		log_limited_by(&l, LOG_WARN, "flood", "i=%d", i);
	}
	CHECK_CSTR(logged(), "");
	/* Other places are not concerned, also with the same text. */
	struct log_limit other = {0};
	log_limited_by(&other, LOG_WARN, "flood", "other=1");
	CHECK_INT(count(logged(), "other=1"), 1);
	set_tokens(&l, 1);
	log_limited_by(&l, LOG_WARN, "flood", "i=%d", 9);
	text = logged();
	CHECK_INT(count(text, "level=warn program=test msg=\"lines suppressed\" of=\"flood\" count=3\n"), 1);
	CHECK_INT(count(text, "msg=\"flood\" i=9"), 1);
	CHECK(strstr(text, "suppressed") < strstr(text, "i=9"));
}

TEST(log_limited_fills_with_time)
{
	struct log_limit l = {0};
	capture("text");
	log_limited_by(&l, LOG_WARN, "flood", "i=0");
	set_tokens(&l, 0);
	l.at_ms -= 3 * 1000;
	for (int i = 0; i < 3 * LOG_RATE; i++)
		log_limited_by(&l, LOG_WARN, "flood", "i=1");
	CHECK_INT(count(logged(), "i=1"), 3 * LOG_RATE);
	/* However long it was quiet, a burst is a burst. */
	l.at_ms -= 1000000;
	log_limited_by(&l, LOG_WARN, "flood", "i=2");
	CHECK_INT(l.tokens, (LOG_BURST - 1) * 1000);
}

TEST(log_any_line_tells_what_a_quiet_place_left_out)
{
	static struct log_limit l;
	capture("text");
	l.at_ms = clock_ms();
	log_limited_by(&l, LOG_WARN, "flood", "i=0");
	CHECK_CSTR(logged(), "");
	log_event(LOG_INFO, "another", "a=1");
	CHECK_INT(count(logged(), "suppressed"), 0); /* it may go on */
	l.at_ms -= LOG_SETTLED;
	log_event(LOG_INFO, "another", "a=1");
	CHECK_INT(count(logged(), "of=\"flood\" count=1"), 1);
	log_event(LOG_INFO, "another", "a=1");
	CHECK_INT(count(logged(), "suppressed"), 0);
}

TEST(log_limited_does_not_count_what_nobody_wants)
{
	struct log_limit l = {0};
	capture("text");
	l.at_ms = clock_ms();
	log_limited_by(&l, LOG_DEBUG, "hidden", "a=1");
	CHECK_INT(l.suppressed, 0);
}

TEST_MAIN()
