#include "base/buf.h"
#include "base/err.h"
#include "base/loop.h"
#include "base/map.h"
#include "base/str.h"
#include "test.h"

#include <stdlib.h>

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

TEST(err_wrap_puts_context_before_the_message)
{
	struct err e;
	CHECK_INT(err_os(&e, ERRC_NO_SPACE, ENOSPC, "mount overlay"), -1);
	err_wrap(&e, "box %s", "x");
	CHECK_CSTR(e.msg, "box x: mount overlay: No space left on device");
	CHECK_INT(errc_info(e.code)->status, 500);
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

struct timers {
	struct loop_timer t[100];
	uint64_t last;
	int fired;
};
static struct timers timers;

static void note_timer(struct loop_timer *t)
{
	CHECK(t->due >= timers.last);
	timers.last = t->due;
	if (++timers.fired == 50)
		loop_stop(t->loop);
}

TEST(loop_runs_timers_in_order_and_not_the_stopped_ones)
{
	struct loop *l = loop_new();
	for (int i = 0; i < 100; i++)
		loop_timer_set(l, &timers.t[i], (uint64_t)((i * 37) % 20), note_timer);
	for (int i = 0; i < 100; i += 2)
		loop_timer_stop(&timers.t[i]);
	loop_run(l);
	CHECK_INT(timers.fired, 50);
	loop_free(l);
}

static struct loop_io pair_io[2];
static int ready_calls;

static void delete_the_other(struct loop_io *io, uint32_t events)
{
	(void)events;
	ready_calls++;
	struct loop *l = io->loop;
	loop_del(&pair_io[0]);
	loop_del(&pair_io[1]);
	loop_stop(l);
}

TEST(loop_does_not_call_an_io_that_was_removed_in_the_same_turn)
{
	struct loop *l = loop_new();
	int a[2], b[2];
	CHECK(pipe(a) == 0 && pipe(b) == 0);
	CHECK_INT(write(a[1], "x", 1), 1);
	CHECK_INT(write(b[1], "x", 1), 1);
	CHECK_INT(loop_add(l, &pair_io[0], a[0], EPOLLIN, delete_the_other), 0);
	CHECK_INT(loop_add(l, &pair_io[1], b[0], EPOLLIN, delete_the_other), 0);
	loop_run(l);
	CHECK_INT(ready_calls, 1);
	loop_free(l);
}

TEST_MAIN()
