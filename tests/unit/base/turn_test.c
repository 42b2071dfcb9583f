/* Who may work how long in one turn of a loop. Work is time that passes, so a busy machine only makes turns shorter. */
#include "base/turn.h"

#include "base/clock.h"
#include "base/limits.h"
#include "base/loop.h"
#include "test.h"

enum { SEATS = 64 };

static struct {
	struct turn_seat seat;
	struct loop_io io;
	int runs;
	bool again; /* it has more work after each unit */
} v[SEATS];
static int order[SEATS * 4], ran;
static uint64_t unit_us;

static void work(void)
{
	for (uint64_t until = clock_us() + unit_us + 1; clock_us() < until;)
		;
}

static void run(struct turn_seat *s, uint32_t events)
{
	size_t i = (size_t)((char *)s - (char *)v) / sizeof *v;
	(void)events;
	v[i].runs++;
	if (ran < (int)ARRAY_LEN(order))
		order[ran] = (int)i;
	ran++;
	work();
	if (v[i].again)
		turn_wait(s);
}

static void begin(size_t i, struct turn_party *p)
{
	v[i].seat = (struct turn_seat){.party = p, .io = &v[i].io, .run = run};
	turn_wait(&v[i].seat);
}

TEST(turn_a_party_alone_has_what_is_shared_and_the_rest_in_the_next_turn)
{
	struct loop *l = loop_new();
	struct turn_party *p = turn_party_new(l);
	unit_us = TURN_SHARED / 4;
	for (size_t i = 0; i < 10; i++)
		begin(i, p);
	loop_turn(l, 0);
	CHECK(ran >= 1 && ran <= 4);
	/* It never sleeps while seats wait. */
	while (ran < 10)
		loop_turn(l, -1);
	for (int i = 0; i < 10; i++)
		CHECK_INT(order[i], i);
	turn_party_unref(p);
	loop_free(l);
}

TEST(turn_a_part_is_left_while_it_is_not_spent_and_not_past_it)
{
	struct loop *l = loop_new();
	struct turn_party p[2];
	for (int i = 0; i < 2; i++)
		turn_party_init(&p[i], l, false);
	turn_bill(&p[0]);
	CHECK(turn_may(&p[0]) && turn_may(&p[1]));
	unit_us = TURN_SHARED;
	work();
	CHECK(!turn_may(&p[0]) && turn_may(&p[1]));
	turn_bill(&p[1]);
	/* Now both are greedy: each has half of what is shared. */
	unit_us = TURN_SHARED / 2;
	work();
	CHECK(!turn_may(&p[1]));
	turns_settle(loop_turns(l));
	loop_turn(l, 0);
	CHECK(turn_may(&p[0]) && turn_may(&p[1]));
	for (int i = 0; i < 2; i++)
		turn_party_leave(&p[i]);
	loop_free(l);
}

TEST(turn_many_greedy_parties_have_a_unit_each)
{
	struct loop *l = loop_new();
	struct turn_party p[SEATS];
	unit_us = TURN_PART + 10;
	for (size_t i = 0; i < SEATS; i++) {
		turn_party_init(&p[i], l, false);
		v[i].again = true;
		begin(i, &p[i]);
	}
	/* The first turn finds out how many they are. */
	loop_turn(l, 0);
	for (int turn = 2; turn < 6; turn++) {
		loop_turn(l, 0);
		for (int i = 0; i < SEATS; i++)
			CHECK_INT(v[i].runs, turn);
	}
	for (size_t i = 0; i < SEATS; i++) {
		turn_leave(&v[i].seat);
		turn_party_leave(&p[i]);
	}
	loop_free(l);
}

TEST(turn_strangers_come_last_and_share_one_part)
{
	struct loop *l = loop_new();
	struct turn_party strangers, known;
	turn_party_init(&strangers, l, true);
	turn_party_init(&known, l, false);
	unit_us = TURN_STRANGERS / 4;
	CHECK(!turn_may(&strangers) && turn_may(&known));
	for (size_t i = 0; i < 8; i++)
		begin(i, &strangers);
	begin(8, &known);
	loop_turn(l, 0);
	CHECK_INT(order[0], 8);
	CHECK(ran >= 2 && ran <= 1 + 4);
	while (ran < 9)
		loop_turn(l, -1);
	turn_party_leave(&strangers);
	turn_party_leave(&known);
	loop_free(l);
}

TEST(turn_seats_ahead_come_first_and_keep_no_other_from_its_turn)
{
	struct loop *l = loop_new();
	struct turn_party *p = turn_party_new(l);
	unit_us = TURN_SHARED; /* one unit a turn */
	for (size_t i = 0; i < 3; i++)
		begin(i, p);
	for (size_t i = 3; i < 5; i++) {
		v[i].seat = (struct turn_seat){.party = p, .io = &v[i].io, .run = run, .ahead = true};
		turn_wait(&v[i].seat);
	}
	while (ran < 5)
		loop_turn(l, -1);
	static const int want[] = {3, 4, 0, 1, 2};
	for (int i = 0; i < 5; i++)
		CHECK_INT(order[i], want[i]);
	/* One that has more work waits behind all others of the turn. */
	ran = 0;
	unit_us = 0;
	v[3].again = true;
	begin(0, p);
	turn_wait(&v[3].seat);
	loop_turn(l, 0);
	CHECK_INT(ran, 2);
	CHECK(order[0] == 3 && order[1] == 0);
	turn_leave(&v[3].seat);
	turn_party_unref(p);
	loop_free(l);
}

TEST(turn_no_seat_has_two_units_in_a_turn)
{
	struct loop *l = loop_new();
	struct turn_party *p = turn_party_new(l);
	unit_us = 0;
	v[0].again = v[1].again = true;
	begin(0, p);
	begin(1, p);
	for (int turn = 1; turn < 5; turn++) {
		loop_turn(l, 0);
		CHECK_INT(v[0].runs, turn);
		CHECK_INT(v[1].runs, turn);
	}
	turn_leave(&v[0].seat);
	turn_leave(&v[1].seat);
	turn_party_unref(p);
	loop_free(l);
}

static void on_ready(struct loop_io *io, uint32_t events)
{
	size_t i = (size_t)((char *)io - (char *)v) / sizeof *v;
	turn_bill(v[i].seat.party);
	if (turn_admit(&v[i].seat, events))
		run(&v[i].seat, events);
}

TEST(turn_a_seat_that_waits_is_not_watched_and_keeps_its_events)
{
	struct loop *l = loop_new();
	struct turn_party *p = turn_party_new(l);
	int fds[2][2];
	unit_us = TURN_SHARED;
	for (size_t i = 0; i < 2; i++) {
		CHECK_INT(pipe(fds[i]), 0);
		CHECK_INT(write(fds[i][1], "x", 1), 1);
		CHECK_INT(loop_add(l, &v[i].io, fds[i][0], EPOLLIN, on_ready), 0);
		v[i].seat = (struct turn_seat){.party = p, .io = &v[i].io, .run = run};
	}
	/* The one takes all of the part, so the other is served as the one that waits: at least one is in each turn. */
	loop_turn(l, -1);
	CHECK_INT(v[0].runs, 1);
	CHECK_INT(v[1].runs, 1);
	begin(2, p);
	loop_turn(l, -1);
	/* Seat 2 was there before the events of its turn: both others wait behind it, and are not watched. */
	CHECK(turn_waits(&v[0].seat) && v[0].io.events == 0 && v[0].seat.events == EPOLLIN);
	for (size_t i = 0; i < 3; i++)
		turn_leave(&v[i].seat);
	for (size_t i = 0; i < 2; i++)
		loop_del(&v[i].io);
	turn_party_unref(p);
	loop_free(l);
}

TEST(turn_a_seat_that_waits_moves_with_its_party)
{
	struct loop *l = loop_new();
	struct turn_party *from = turn_party_new(l), *to = turn_party_new(l);
	begin(0, from);
	turn_move(&v[0].seat, to);
	turn_party_unref(from);
	loop_turn(l, 0);
	CHECK_INT(v[0].runs, 1);
	turn_party_unref(to);
	loop_free(l);
}

TEST_MAIN()
