/* When an owner of connections holds too much, and which of them it loses. */
#include "base/tcp_owner.h"

#include "test.h"

static struct tcp_conn conns[6];
static struct tcp_conn *lost[6];
static size_t lost_n;

static void lose(void *arg, struct tcp_conn *c)
{
	(void)arg;
	lost[lost_n++] = c;
}

TEST(an_owner_is_over_past_the_sum_and_until_half_of_it)
{
	struct tcp_owner o = {.held = TCP_OWNER_MAX};
	struct tcp_host h = {0};
	tcp_owner_judge(&o, 1000);
	CHECK(!o.over && !tcp_owner_window(&o, &h, 3) && o.window == 0);
	o.held = TCP_OWNER_MAX + 1;
	tcp_owner_judge(&o, 2000);
	CHECK(o.over == 2000 && tcp_owner_window(&o, &h, 3) && o.window == TCP_WINDOW_MIN);
	o.held = TCP_OWNER_MAX / 2 + 1;
	tcp_owner_judge(&o, 3000);
	CHECK(o.over == 2000 && !tcp_owner_window(&o, &h, 3));
	o.held = TCP_OWNER_MAX / 2;
	tcp_owner_judge(&o, 4000);
	CHECK(!o.over && tcp_owner_window(&o, &h, 3) && o.window == 0);
}

TEST(a_host_that_is_short_makes_the_windows_of_all_owners_small)
{
	struct tcp_owner few = {0}, many = {0};
	struct tcp_host h = {.is_short = true};
	CHECK(tcp_owner_window(&few, &h, 1) && few.window == TCP_WINDOW_MIN);
	CHECK(tcp_owner_window(&many, &h, 100) && many.window == TCP_WINDOW_MIN);
	h.is_short = false;
	CHECK(tcp_owner_window(&few, &h, 1) && few.window == 0);
	CHECK(!tcp_owner_window(&many, &h, 100) && many.window == TCP_WINDOW_MIN); /* more than half of 128 */
	CHECK(tcp_owner_window(&many, &h, 64) && many.window == 2 * TCP_WINDOW_MIN);
}

TEST(owners_divide_half_of_the_mark_and_keep_a_least)
{
	struct tcp_host h = {.mark = TCP_OWNER_KEPT / 4096 * 20};
	CHECK_INT(tcp_host_part(&h, 1), 10 * TCP_OWNER_KEPT);
	CHECK_INT(tcp_host_part(&h, 5), 2 * TCP_OWNER_KEPT);
	CHECK_INT(tcp_host_part(&h, 10), TCP_OWNER_KEPT);
	CHECK_INT(tcp_host_part(&h, 11), TCP_OWNER_KEPT);
	for (h.looks = 0; h.looks <= TCP_STUCK_SHORT / TCP_LOOK; h.looks++)
		CHECK(!tcp_host_needs(&h));
	CHECK(tcp_host_needs(&h));
}

TEST(the_largest_go_first_and_no_more_than_it_takes)
{
	static const size_t held[] = {1, 9, 3, 9, 5, 2};
	struct tcp_owner o = {.held = 29};
	struct tcp_doomed d = {0};
	for (size_t i = 0; i < ARRAY_LEN(held); i++) {
		conns[i].held = held[i];
		tcp_doomed_add(&d, &conns[i]);
	}
	CHECK_INT(tcp_doomed_end(&d, &o, 6, lose, NULL), 23);
	CHECK_INT(lost_n, 3);
	CHECK((lost[0] == &conns[1] || lost[0] == &conns[3]) && (lost[1] == &conns[1] || lost[1] == &conns[3]));
	CHECK(lost[2] == &conns[4] && o.held == 6);
	CHECK(!d.conns);
	/* An owner that holds little loses nothing. */
	tcp_doomed_add(&d, &conns[2]);
	CHECK_INT(tcp_doomed_end(&d, &o, 6, lose, NULL), 0);
	CHECK_INT(lost_n, 3);
}

TEST(one_direction_that_stands_still_is_enough)
{
	struct tcp_conn c = {.held = 100};
	tcp_way_look(&c.down, 1000, true, 50);
	for (uint64_t now = 1000; now <= 1000 + TCP_WAY_SPAN; now += 1000) {
		tcp_way_look(&c.up, now, true, now * TCP_WAY_MOVES);
		tcp_way_look(&c.down, now, true, 50);
		CHECK(tcp_conn_is_stuck(&c, now, TCP_WAY_SPAN) == (now == 1000 + TCP_WAY_SPAN));
	}
	c.held = 0;
	CHECK(!tcp_conn_is_stuck(&c, 90000, TCP_WAY_SPAN));
}

TEST(after_a_minute_waiting_is_enough)
{
	struct tcp_owner o = {.held = TCP_OWNER_MAX + 1};
	struct tcp_conn c = {.held = 100};
	tcp_owner_judge(&o, 1000);
	CHECK_INT(tcp_owner_patience(&o, 1000 + TCP_OWNER_PATIENCE - 1), TCP_WAY_SPAN);
	CHECK_INT(tcp_owner_patience(&o, 1000 + TCP_OWNER_PATIENCE), TCP_ANY);
	tcp_way_look(&c.up, 1000, true, 0);
	CHECK(tcp_conn_is_stuck(&c, 1000, TCP_ANY));
	tcp_way_look(&c.up, 2000, false, 0);
	CHECK(!tcp_conn_is_stuck(&c, 2000, TCP_ANY));
}

TEST_MAIN()
