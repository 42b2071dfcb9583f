#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/map.h"
#include "base/sig.h"
#include "base/str.h"
#include "test.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>

TEST(buf_refuses_past_its_maximum_and_stays_failed)
{
	struct buf b = {.max = 4};
	CHECK(buf_add(&b, "1234", 4));
	CHECK(!buf_add(&b, "5", 1));
	CHECK(b.failed);
	CHECK_STR(buf_str(&b), "1234");
	buf_free(&b);
}

TEST(buf_consumes_from_the_front_and_reuses_room)
{
	auto_buf struct buf b = {0};
	for (int i = 0; i < 1000; i++)
		buf_printf(&b, "%03d", i);
	buf_consume(&b, 2997);
	CHECK_STR(buf_str(&b), "999");
	buf_consume(&b, 3);
	CHECK_INT(buf_size(&b), 0);
}

TEST(str_to_u64_takes_digits_only)
{
	uint64_t v = 7;
	CHECK(!str_to_u64(STR("+3"), 100, &v));
	CHECK(!str_to_u64(STR(""), 100, &v));
	CHECK(!str_to_u64(STR("101"), 100, &v));
	CHECK(!str_to_u64(STR("18446744073709551616"), UINT64_MAX, &v));
	CHECK_INT(v, 7);
	CHECK(str_to_u64(STR("100"), 100, &v));
	CHECK_INT(v, 100);
}

TEST(str_utf8_refuses_overlongs_surrogates_and_cut_sequences)
{
	CHECK(str_is_utf8(STR("a\xc3\xa4\xe2\x82\xac\xf0\x9f\x9a\x80")));
	CHECK(!str_is_utf8(STR("\xc0\x80")));
	CHECK(!str_is_utf8(STR("\xed\xa0\x80")));
	CHECK(!str_is_utf8(STR("\xf4\x90\x80\x80")));
	CHECK(!str_is_utf8(STR("\xe2\x82")));
}

/* Codes of whoever uses the library: it treats them all alike. */
enum { NOT_FOUND = 70, NO_SPACE };

TEST(err_wrap_puts_context_before_the_message)
{
	struct err e;
	CHECK_INT(err_os(&e, NO_SPACE, ENOSPC, "mount overlay"), -1);
	err_wrap(&e, "box %s", "x");
	CHECK_CSTR(e.msg, "box x: mount overlay: No space left on device");
	CHECK_INT(e.code, NO_SPACE);
	CHECK_INT(e.os, ENOSPC);
}

TEST(map_keeps_its_entries_through_growth_and_deletion)
{
	struct map m = {0};
	static int values[5000];
	char key[32];
	for (int i = 0; i < 5000; i++) {
		snprintf(key, sizeof key, "key-%d", i);
		CHECK(!map_put(&m, str_of(key), &values[i]));
	}
	for (int i = 0; i < 5000; i += 2) {
		snprintf(key, sizeof key, "key-%d", i);
		CHECK(map_del(&m, str_of(key)) == &values[i]);
	}
	for (int i = 0; i < 5000; i++) {
		snprintf(key, sizeof key, "key-%d", i);
		CHECK(map_get(&m, str_of(key)) == (i % 2 ? (void *)&values[i] : NULL));
	}
	CHECK_INT(m.count, 2500);
	map_free(&m);
}

TEST(buf_takes_its_maximum_to_the_byte)
{
	char text[1001];
	memset(text, 'x', sizeof text - 1);
	text[1000] = 0;
	auto_buf struct buf b = {.max = 1000};
	CHECK(buf_printf(&b, "%s", text));
	CHECK_INT(buf_size(&b), 1000);
	CHECK_INT(strlen(buf_cstr(&b)), 1000);
	CHECK(!buf_printf(&b, "y"));
	buf_clear(&b);
	CHECK(!buf_printf(&b, "%sy", text));
	CHECK_INT(buf_size(&b), 0);
	buf_clear(&b);
	CHECK(buf_room(&b, 1000) && !buf_room(&b, 1001));
}

TEST(buf_room_of_nothing_is_no_failure)
{
	auto_buf struct buf b = {0};
	CHECK(buf_room(&b, 0));
	CHECK(buf_add(&b, NULL, 0));
	CHECK(!b.failed);
	CHECK_STR(buf_str(&b), "");
}

/* A queue that is always nearly full, written and read a little at a time, with a memory of at most twice its maximum.
 */
TEST(buf_works_as_a_queue)
{
	auto_buf struct buf b = {.max = 1000};
	uint8_t in = 0, out = 0;
	for (int round = 0; round < 20000; round++) {
		for (int i = 0; i < 1 + round % 7 && buf_size(&b) < 1000; i++)
			CHECK(buf_add_byte(&b, (char)in++));
		CHECK(b.cap <= 2000 && b.len <= b.cap);
		for (int i = 0; i < round % 7 && buf_size(&b) > 900; i++) {
			CHECK_INT((uint8_t)buf_str(&b).p[0], out++);
			buf_consume(&b, 1);
		}
	}
	CHECK(buf_size(&b) > 900);
	while (buf_size(&b)) {
		CHECK_INT((uint8_t)buf_str(&b).p[0], out++);
		buf_consume(&b, 1);
	}
	CHECK_INT(in, out);
}

TEST(buf_that_is_empty_keeps_little_memory)
{
	auto_buf struct buf b = {0};
	CHECK(buf_room(&b, BUF_KEEP + 1));
	buf_add_c(&b, "x");
	buf_consume(&b, 1);
	CHECK_INT(b.cap, 0);
}

TEST(str_eq_secret_compares_also_with_nothing)
{
	CHECK(str_eq_secret(STR("abc"), STR("abc")));
	CHECK(!str_eq_secret(STR("abc"), STR("abd")));
	CHECK(!str_eq_secret(STR("abc"), STR("ab")));
	CHECK(!str_eq_secret(STR("abc"), STR_NULL));
	CHECK(!str_eq_secret(STR_NULL, STR("abc")));
	CHECK(str_eq_secret(STR_NULL, STR("")));
}

TEST(str_splits_trims_and_skips)
{
	struct str rest;
	CHECK_STR(str_split(STR("a=b=c"), '=', &rest), "a");
	CHECK_STR(rest, "b=c");
	CHECK_STR(str_split(STR("abc"), '=', &rest), "abc");
	CHECK_STR(rest, "");
	CHECK_STR(str_split(STR("=x"), '=', &rest), "");
	CHECK_STR(rest, "x");
	CHECK_STR(str_trim(STR(" \t a b\t ")), "a b");
	CHECK_STR(str_trim(STR(" \t")), "");
	CHECK_STR(str_skip(STR("abc"), 2), "c");
	CHECK_STR(str_skip(STR("abc"), 9), "");
	CHECK_STR(str_skip(STR_NULL, 1), "");
	CHECK(str_eq_nocase(STR("Content-Type"), STR("content-tYPE")) && !str_eq_nocase(STR("a["), STR("A{")));
	CHECK(str_starts(STR("abc"), STR("ab")) && !str_starts(STR("a"), STR("ab")) && str_ends(STR("abc"), STR("bc")));
}

TEST(err_message_may_be_part_of_the_next_one)
{
	struct err e;
	err_set(&e, NOT_FOUND, "first");
	err_set(&e, NO_SPACE, "second after %s", e.msg);
	CHECK_CSTR(e.msg, "second after first");
	CHECK_INT(err_set(NULL, NO_SPACE, "nobody asks"), -1);
	CHECK_INT(err_wrap(NULL, "nobody asks"), -1);
	char more[2 * sizeof e.msg];
	memset(more, 'x', sizeof more);
	more[sizeof more - 1] = 0;
	err_os(&e, NO_SPACE, ENOSPC, "%s", more);
	CHECK_INT(strlen(e.msg), sizeof e.msg - 1);
	err_wrap(&e, "%s", more);
	CHECK_INT(strlen(e.msg), sizeof e.msg - 1);
}

TEST(err_names_the_field_that_it_is_about)
{
	struct err e;
	char longer[2 * sizeof e.field];
	memset(longer, 'x', sizeof longer);
	longer[sizeof longer - 1] = 0;
	CHECK_INT(err_field(&e, "timeout", "field '%s' is %d too long", "timeout", 3), -1);
	CHECK_INT(e.code, ERR_BAD_FIELD);
	CHECK_INT(e.os, 0);
	CHECK_CSTR(e.field, "timeout");
	CHECK_CSTR(e.msg, "field 'timeout' is 3 too long");
	err_wrap(&e, "the request");
	CHECK_CSTR(e.field, "timeout");
	CHECK_INT(err_about(&e, "limits.timeout"), -1);
	CHECK_CSTR(e.field, "limits.timeout");
	CHECK_CSTR(e.msg, "the request: field 'timeout' is 3 too long");
	err_set(&e, NOT_FOUND, "another error");
	CHECK_CSTR(e.field, "");
	err_about(&e, longer);
	CHECK_INT(strlen(e.field), ERR_FIELD_MAX);
	CHECK_INT(err_field(NULL, "f", "nobody asks"), -1);
	CHECK_INT(err_about(NULL, "f"), -1);
}

TEST(err_seal_ends_the_texts_of_another_process)
{
	struct err e;
	memset(&e, 'x', sizeof e);
	err_seal(&e);
	CHECK_INT(strlen(e.field), ERR_FIELD_MAX);
	CHECK_INT(strlen(e.msg), sizeof e.msg - 1);
}

/* The vectors of the SipHash paper's reference implementation: key 00..0f, inputs of 0, 1, 8 and 15 bytes 00, 01, … */
TEST(map_hash_is_siphash)
{
	const uint64_t secret[2] = {0x0706050403020100ull, 0x0f0e0d0c0b0a0908ull};
	char in[15];
	for (size_t i = 0; i < sizeof in; i++)
		in[i] = (char)i;
	CHECK(map_hash(secret, STR("")) == 0x726fdb47dd0e0e31ull);
	CHECK(map_hash(secret, str_n(in, 1)) == 0x74f839c593dc67fdull);
	CHECK(map_hash(secret, str_n(in, 8)) == 0x93f5f5799a932462ull);
	CHECK(map_hash(secret, str_n(in, 15)) == 0xa129ca6149be45e5ull);
}

TEST(map_draws_a_secret_of_its_own)
{
	struct map a = {0}, b = {0};
	int value;
	CHECK(!map_get(&a, STR("x")) && !map_del(&a, STR("x")));
	map_put(&a, STR("x"), &value);
	map_put(&b, STR("x"), &value);
	CHECK(a.secret[0] != b.secret[0] && a.secret[1] != b.secret[1]);
	CHECK(map_get(&a, STR("x")) == &value && map_get(&b, STR("x")) == &value);
	map_free(&a);
	map_free(&b);
}

TEST(map_takes_any_bytes_as_a_key_and_walks_over_all)
{
	struct map m = {0};
	static int values[256];
	for (int i = 0; i < 256; i++)
		map_put(&m, str_n((char[]){'k', (char)i, 0}, 3), &values[i]);
	map_put(&m, STR(""), &values[0]);
	CHECK_INT(m.count, 257);
	struct str key;
	void *value;
	size_t it = 0;
	int n = 0;
	for (; map_next(&m, &it, &key, &value); n++)
		CHECK(key.n == 0 || value == &values[(uint8_t)key.p[1]]);
	CHECK_INT(n, 257);
	map_free(&m);
}

static const char *ignored_signals(void)
{
	static char mask[17];
	auto_buf struct buf status = {0};
	CHECK_INT(fd_read_file(AT_FDCWD, "/proc/self/status", 1 << 20, &status), 0);
	const char *line = strstr(buf_cstr(&status), "SigIgn:\t");
	CHECK(line);
	memcpy(mask, line + 8, 16);
	return mask;
}

TEST(sig_default_all_reaches_the_signals_of_the_c_library)
{
	sig_default_all();
	const unsigned long ignore[4] = {(unsigned long)SIG_IGN};
	for (int signo = 32; signo <= 34; signo++)
		CHECK_INT(syscall(SYS_rt_sigaction, signo, ignore, NULL, (size_t)8), 0);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGRTMAX, SIG_IGN);
	CHECK_CSTR(ignored_signals(), "8000000380001000");
	sig_default_all();
	CHECK_CSTR(ignored_signals(), "0000000000000000");
}

TEST_MAIN()
