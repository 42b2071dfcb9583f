/* The life of connections: half-closed, gone, drained, too many. */
#include <stdlib.h>
#include <sys/resource.h>

#include "http_rig.h"
#include "test.h"

#define GET(path) "GET " path " HTTP/1.1\r\nHost: a\r\n\r\n"

TEST(server_answers_a_half_closed_client)
{
	struct rig r = {0};
	for (int tcp = 0; tcp < 2; tcp++) {
		struct peer p;
		rig_start(&r);
		http_server_config(r.s)->gone_probe = 10;
		(tcp ? peer_tcp : peer_pair)(&p, &r);
		peer_say(&p, GET("/hold"));
		peer_half_close(&p);
		RIG_UNTIL(&r, r.last);
		if (tcp)
			peer_until(&p, "HTT");
		else
			for (int i = 0; i < 10; i++)
				loop_turn(r.l, 2);
		CHECK(r.last);
		http_respond(r.last, 200, "text/plain", STR("here"));
		peer_until_eof(&p);
		CHECK_INT(peer_status(&p), 200);
		CHECK(peer_has(&p, "here"));
		CHECK_INT(r.completes, 1);
		peer_close(&p);
		rig_stop(&r);
	}
}

TEST(server_probes_leave_a_chunked_response_whole)
{
	struct rig r = {0};
	struct peer p;
	rig_start(&r);
	http_server_config(r.s)->gone_probe = 5;
	peer_tcp(&p, &r);
	peer_say(&p, GET("/hold"));
	peer_half_close(&p);
	RIG_UNTIL(&r, r.last);
	http_respond_begin(r.last, 200, HTTP_CHUNKED);
	http_respond_write(r.last, STR("first"));
	peer_until(&p, "5\r\nfirst\r\n000");
	http_respond_write(r.last, STR("second"));
	peer_until(&p, "6\r\nsecond\r\n0");
	http_respond_end(r.last);
	peer_until_eof(&p);
	CHECK(peer_has(&p, "00\r\n\r\n"));
	CHECK_INT(r.completes, 1);
	peer_close(&p);
	/* And a client that has left a silent stream is found out. */
	peer_tcp(&p, &r);
	peer_say(&p, GET("/hold"));
	RIG_UNTIL(&r, r.last);
	http_respond_begin(r.last, 200, HTTP_CHUNKED);
	http_respond_write(r.last, STR("first"));
	peer_until(&p, "first");
	peer_close(&p);
	RIG_UNTIL(&r, r.closes == 2);
	CHECK_INT(r.completes, 1);
	rig_stop(&r);
}

TEST(server_notices_a_client_that_is_gone)
{
	for (int tcp = 0; tcp < 2; tcp++) {
		struct rig r = {0};
		struct peer p;
		rig_start(&r);
		http_server_config(r.s)->gone_probe = 10;
		(tcp ? peer_tcp : peer_pair)(&p, &r);
		peer_say(&p, GET("/hold"));
		RIG_UNTIL(&r, r.last);
		peer_close(&p);
		RIG_UNTIL(&r, r.closes);
		CHECK_INT(r.completes, 0);
		CHECK_INT(http_server_stats(r.s).conns, 0);
		rig_stop(&r);
	}
}

TEST(server_runs_a_request_whose_client_left_at_once)
{
	struct rig r = {0};
	struct peer p;
	rig_start(&r);
	peer_pair(&p, &r);
	peer_say(&p, "POST /hold HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc");
	peer_close(&p);
	RIG_UNTIL(&r, r.closes);
	CHECK_INT(r.requests, 1);
	CHECK(r.body_ended);
	rig_stop(&r);
}

static void on_drained(void *arg)
{
	*(int *)arg += 1;
}

TEST(server_drain_ends_idle_ones_and_waits_for_running_ones)
{
	struct rig r = {0};
	struct peer idle, busy;
	int drained = 0;
	rig_start(&r);
	peer_tcp(&idle, &r);
	peer_say(&idle, GET("/ping"));
	peer_until(&idle, "pong");
	peer_tcp(&busy, &r);
	peer_say(&busy, GET("/hold"));
	RIG_UNTIL(&r, r.last);
	http_server_drain(r.s, 60000, on_drained, &drained);
	peer_until_eof(&idle);
	CHECK_INT(drained, 0);
	http_respond(r.last, 200, "text/plain", STR("done"));
	peer_until_eof(&busy);
	CHECK(peer_has(&busy, "Connection: close\r\n"));
	CHECK(peer_has(&busy, "done"));
	peer_close(&busy);
	RIG_UNTIL(&r, drained == 1);
	peer_close(&idle);
	rig_stop(&r);
}

TEST(server_drain_cuts_off_after_the_grace)
{
	struct rig r = {0};
	struct peer busy;
	int drained = 0;
	rig_start(&r);
	peer_tcp(&busy, &r);
	peer_say(&busy, GET("/hold"));
	RIG_UNTIL(&r, r.last);
	http_server_drain(r.s, 10, on_drained, &drained);
	RIG_UNTIL(&r, drained == 1);
	CHECK_INT(r.closes, 1);
	peer_close(&busy);
	rig_stop(&r);
}

TEST(server_at_its_connection_limit_lets_idle_ones_go_first)
{
	struct rig r = {0};
	struct peer idle, busy, next, last;
	rig_start(&r);
	http_server_config(r.s)->conns_max = 2;
	peer_tcp(&idle, &r);
	peer_say(&idle, GET("/ping"));
	peer_until(&idle, "pong");
	peer_tcp(&busy, &r);
	peer_say(&busy, GET("/hold"));
	RIG_UNTIL(&r, r.last);
	struct http_exchange *first = r.last;
	r.last = NULL;
	peer_tcp(&next, &r);
	peer_say(&next, GET("/hold"));
	RIG_UNTIL(&r, r.last);
	peer_until_eof(&idle);
	/* Both are busy: a third waits in the backlog, without making the loop spin. */
	peer_tcp(&last, &r);
	peer_say(&last, GET("/ping"));
	uint64_t turns = 0;
	for (uint64_t end = loop_now(r.l) + 30; loop_now(r.l) < end; turns++)
		loop_turn(r.l, 10);
	CHECK(turns < 20);
	CHECK_INT(http_server_stats(r.s).conns, 2);
	http_respond(first, 200, NULL, STR_NULL);
	peer_until(&busy, "200 OK");
	peer_until(&last, "pong");
	peer_close(&idle);
	peer_close(&busy);
	peer_close(&next);
	peer_close(&last);
	rig_stop(&r);
}

TEST(server_out_of_descriptors_neither_spins_nor_forgets)
{
	struct rig r = {0};
	struct peer busy, p;
	rig_start(&r);
	peer_tcp(&busy, &r);
	peer_say(&busy, GET("/hold"));
	RIG_UNTIL(&r, r.last);
	peer_tcp(&p, &r);
	struct rlimit old, none;
	CHECK_INT(getrlimit(RLIMIT_NOFILE, &old), 0);
	none = old;
	none.rlim_cur = (rlim_t)p.fd + 1;
	CHECK_INT(setrlimit(RLIMIT_NOFILE, &none), 0);
	peer_say(&p, GET("/ping"));
	uint64_t turns = 0;
	for (uint64_t end = loop_now(r.l) + 60; loop_now(r.l) < end; turns++)
		loop_turn(r.l, 10);
	CHECK(turns < 30);
	CHECK_INT(http_server_stats(r.s).conns, 1);
	CHECK_INT(setrlimit(RLIMIT_NOFILE, &old), 0);
	peer_until(&p, "pong");
	peer_close(&p);
	peer_close(&busy);
	rig_stop(&r);
}

TEST_MAIN()
