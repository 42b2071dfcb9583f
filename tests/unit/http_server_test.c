#include <malloc.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "http_rig.h"
#include "test.h"

#define GET(path) "GET " path " HTTP/1.1\r\nHost: a\r\n\r\n"

TEST(server_answers_and_keeps_the_connection)
{
	struct rig r = {0};
	struct peer p;
	rig_start(&r);
	peer_tcp(&p, &r);
	for (int i = 1; i <= 3; i++) {
		buf_clear(&p.got);
		peer_say(&p, GET("/ping"));
		peer_until(&p, "\r\n\r\npong");
		CHECK_INT(peer_status(&p), 200);
		CHECK_INT(r.requests, i);
	}
	CHECK_INT(r.completes, 3);
	CHECK(peer_has(&p, "Content-Length: 4\r\n"));
	CHECK(peer_has(&p, "Date: "));
	CHECK(!peer_has(&p, "Connection:"));
	peer_close(&p);
	RIG_UNTIL(&r, http_server_stats(r.s).conns == 0);
	rig_stop(&r);
}

TEST(server_answers_pipelined_requests_in_order_one_at_a_time)
{
	struct rig r = {0};
	struct peer p;
	rig_start(&r);
	peer_tcp(&p, &r);
	peer_say(&p, GET("/hold") GET("/ping") GET("/none"));
	RIG_UNTIL(&r, r.last);
	for (int i = 0; i < 5; i++)
		loop_turn(r.l, 1);
	CHECK_INT(r.requests, 1);
	http_respond(r.last, 200, "text/plain", STR("first"));
	peer_until(&p, "NOT_FOUND");
	CHECK_INT(r.requests, 3);
	struct str got = buf_str(&p.got);
	CHECK((char *)memmem(got.p, got.n, "first", 5) < (char *)memmem(got.p, got.n, "pong", 4));
	peer_close(&p);
	rig_stop(&r);
}

TEST(server_works_byte_by_byte)
{
	struct rig r = {0};
	struct peer p;
	rig_start(&r);
	peer_tcp(&p, &r);
	struct str text = STR("\r\nPOST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n"
			      "3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nT: 1\r\n\r\n" GET("/ping"));
	for (size_t i = 0; i < text.n; i++) {
		peer_send(&p, str_n(text.p + i, 1));
		loop_turn(r.l, 0);
	}
	peer_until(&p, "pong");
	CHECK(peer_has(&p, "\r\n\r\nabcdeHTTP/1.1 200 OK"));
	peer_close(&p);
	rig_stop(&r);
}

TEST(server_head_has_the_headers_but_no_body)
{
	struct rig r = {0};
	struct peer p;
	rig_start(&r);
	peer_tcp(&p, &r);
	peer_say(&p, "HEAD /ping HTTP/1.1\r\nHost: a\r\n\r\nHEAD /big HTTP/1.1\r\nHost: a\r\n\r\n" GET("/null")
			     GET("/none"));
	peer_until(&p, "NOT_FOUND");
	CHECK(peer_has(&p, "Content-Length: 4\r\n\r\nHTTP/1.1 200 OK"));
	CHECK(peer_has(&p, "Content-Length: 1048576\r\n\r\nHTTP/1.1 204 No Content\r\n"));
	CHECK(!peer_has(&p, "pong"));
	peer_close(&p);
	rig_stop(&r);
}

TEST(server_speaks_http_1_0)
{
	struct rig r = {0};
	struct peer p;
	rig_start(&r);
	CHECK_INT(rig_ask(&r, STR("GET /ping HTTP/1.0\r\n\r\n")), 200);
	peer_tcp(&p, &r);
	peer_say(&p, "GET /ping HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /hold HTTP/1.0\r\n\r\n");
	RIG_UNTIL(&r, r.last);
	peer_until(&p, "pong");
	CHECK(peer_has(&p, "Connection: keep-alive\r\n\r\npong"));
	/* A body of unknown length ends with the connection. */
	http_respond_begin(r.last, 200, HTTP_CHUNKED);
	http_respond_write(r.last, STR("part"));
	http_respond_end(r.last);
	peer_until_eof(&p);
	CHECK(peer_has(&p, "Connection: close\r\n\r\npart"));
	CHECK(!peer_has(&p, "chunked"));
	peer_close(&p);
	rig_stop(&r);
}

TEST(server_takes_absolute_form_and_its_host_counts)
{
	struct rig r = {0};
	struct peer p;
	rig_start(&r);
	peer_tcp(&p, &r);
	peer_say(&p, "GET http://real:81/hold?x=1 HTTP/1.1\r\nHost: other\r\n\r\n");
	RIG_UNTIL(&r, r.last);
	const struct http_request *q = http_request(r.last);
	CHECK_STR(q->host, "real:81");
	CHECK_STR(q->path, "/hold");
	CHECK_STR(q->query, "x=1");
	CHECK_STR(q->target, "/hold?x=1");
	CHECK_INT(http_exchange_tag(r.last), 7);
	http_respond(r.last, 200, NULL, STR_NULL);
	peer_until(&p, "Content-Length: 0");
	peer_say(&p, "GET http://real HTTP/1.1\r\nHost: other\r\n\r\n");
	peer_until(&p, "NOT_FOUND");
	peer_close(&p);
	rig_stop(&r);
}

TEST(server_says_continue_only_when_the_body_is_wanted)
{
	struct rig r = {0};
	struct peer p;
	rig_start(&r);
	peer_tcp(&p, &r);
	peer_say(&p, "POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
	peer_until(&p, "HTTP/1.1 100 Continue\r\n\r\n");
	peer_say(&p, "abc");
	peer_until(&p, "\r\n\r\nabc");
	buf_clear(&p.got);
	/* Paused: not yet. */
	peer_say(&p, "POST /pause HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\nContent-Length: 3\r\n\r\n");
	RIG_UNTIL(&r, r.last);
	for (int i = 0; i < 5; i++)
		loop_turn(r.l, 1);
	CHECK_INT(buf_size(&p.got), 0);
	http_resume(r.last);
	peer_until(&p, "100 Continue");
	peer_say(&p, "abc");
	RIG_UNTIL(&r, r.body_ended);
	http_respond(r.last, 204, NULL, STR_NULL);
	peer_until(&p, "204");
	buf_clear(&p.got);
	/* Refused: never, and the connection ends because nobody knows whether the body comes. */
	peer_say(&p, "POST /none HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
	peer_until_eof(&p);
	CHECK_INT(peer_status(&p), 404);
	CHECK(peer_has(&p, "Connection: close\r\n"));
	peer_close(&p);
	rig_stop(&r);
}

TEST(server_keeps_the_connection_past_a_small_unwanted_body)
{
	struct rig r = {0};
	struct peer p;
	rig_start(&r);
	peer_tcp(&p, &r);
	peer_say(&p, "POST /none HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nGET /");
	peer_until(&p, "NOT_FOUND");
	buf_clear(&p.got);
	peer_say(&p, "POST /none HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
	peer_until(&p, "NOT_FOUND");
	buf_clear(&p.got);
	peer_say(&p, "3\r\nabc\r\n0\r\n\r\n" GET("/ping"));
	peer_until(&p, "pong");
	CHECK_INT(http_server_stats(r.s).accepted, 1);
	/* A large one is not waited for, but the answer can be read. */
	buf_clear(&p.got);
	peer_say(&p, "POST /none HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999\r\n\r\n");
	peer_until_eof(&p);
	CHECK_INT(p.error, 0);
	CHECK(peer_has(&p, "Connection: close\r\n"));
	peer_close(&p);
	rig_stop(&r);
}

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

TEST(server_pause_stops_reading_and_resume_goes_on)
{
	struct rig r = {0};
	struct peer p;
	rig_start(&r);
	peer_pair(&p, &r);
	peer_say(&p, "POST /pause HTTP/1.1\r\nHost: a\r\nContent-Length: 4000000\r\n\r\n");
	RIG_UNTIL(&r, r.last);
	char block[4000] = {0};
	size_t sent = 0;
	for (ssize_t n; sent < 4000000; sent += (size_t)n) {
		n = send(p.fd, block, sizeof block, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n < 0)
			break;
		loop_turn(r.l, 0);
	}
	/* The kernel's buffer is full and the server has taken nothing. */
	CHECK(sent < 4000000);
	CHECK_INT(buf_size(&r.body), 0);
	http_resume(r.last);
	for (size_t left = 4000000 - sent; left;) {
		size_t n = left < sizeof block ? left : sizeof block;
		peer_send(&p, str_n(block, n));
		left -= n;
	}
	RIG_UNTIL(&r, r.body_ended);
	CHECK_INT(buf_size(&r.body), 4000000);
	http_respond(r.last, 200, NULL, STR_NULL);
	peer_until(&p, "200 OK");
	peer_close(&p);
	rig_stop(&r);
}

TEST(server_stalled_reader_costs_bounded_memory)
{
	struct rig r = {0};
	enum { N = 20 };
	struct peer p[N];
	rig_start(&r);
	struct mallinfo2 before = mallinfo2();
	for (int i = 0; i < N; i++) {
		peer_pair(&p[i], &r);
		peer_read(&p[i], false);
		peer_say(&p[i], GET("/flood"));
	}
	for (int i = 0; i < 200; i++)
		loop_turn(r.l, 0);
	CHECK_INT(r.requests, N);
	struct mallinfo2 after = mallinfo2();
	CHECK((after.uordblks + after.hblkhd - before.uordblks - before.hblkhd) / N < 256 * 1024);
	/* Not forgotten: whoever reads again is served again. */
	int writables = r.writables;
	peer_read(&p[0], true);
	RIG_UNTIL(&r, r.writables > writables + 3);
	for (int i = 0; i < N; i++)
		peer_close(&p[i]);
	RIG_UNTIL(&r, r.closes == N);
	rig_stop(&r);
}

TEST(server_gives_up_on_a_client_that_never_reads)
{
	struct rig r = {0};
	struct peer p;
	rig_start(&r);
	http_server_config(r.s)->send_stall = 30;
	peer_pair(&p, &r);
	peer_read(&p, false);
	peer_say(&p, GET("/flood"));
	RIG_UNTIL(&r, r.closes);
	CHECK_INT(r.completes, 0);
	peer_close(&p);
	rig_stop(&r);
}

TEST(server_sends_a_large_body_whole)
{
	struct rig r = {0};
	struct peer p;
	rig_start(&r);
	peer_tcp(&p, &r);
	peer_say(&p, "GET /big HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
	peer_until_eof(&p);
	struct str got = buf_str(&p.got);
	const char *body = memmem(got.p, got.n, "\r\n\r\n", 4);
	CHECK(body);
	CHECK_INT(got.p + got.n - body - 4, 1 << 20);
	CHECK_INT(r.completes, 1);
	peer_close(&p);
	rig_stop(&r);
}

TEST(server_abort_never_looks_like_an_end)
{
	struct rig r = {0};
	struct peer p;
	rig_start(&r);
	for (int kind = 0; kind < 3; kind++) {
		peer_tcp(&p, &r);
		peer_send(&p, kind == 2 ? STR("GET /hold HTTP/1.0\r\n\r\n") : STR(GET("/hold")));
		RIG_UNTIL(&r, r.last);
		http_respond_begin(r.last, 200, kind == 0 ? 77 : HTTP_CHUNKED);
		http_respond_write(r.last, STR("part"));
		peer_until(&p, "part");
		/* Too few bytes for the announced length is an abort as well. */
		if (kind == 0)
			http_respond_end(r.last);
		else
			http_abort(r.last);
		peer_until_eof(&p);
		CHECK(!peer_has(&p, "0\r\n\r\n"));
		/* Only an error can tell an HTTP/1.0 client. */
		CHECK_INT(p.error, kind == 2 ? ECONNRESET : 0);
		peer_close(&p);
	}
	CHECK_INT(r.closes, 3);
	CHECK_INT(r.completes, 0);
	rig_stop(&r);
}

TEST(server_refuses_headers_that_would_split_the_response)
{
	struct rig r = {0};
	struct peer p;
	rig_start(&r);
	peer_tcp(&p, &r);
	peer_say(&p, GET("/hold"));
	RIG_UNTIL(&r, r.last);
	CHECK(!http_respond_header(r.last, STR("X"), STR("a\r\nSet-Cookie: b")));
	CHECK(!http_respond_header(r.last, STR("X"), STR("a\nb")));
	CHECK(!http_respond_header(r.last, STR("X"), STR("a\rb")));
	CHECK(!http_respond_header(r.last, STR("X"), STR("a\0b")));
	CHECK(!http_respond_header(r.last, STR("X: y\r\nZ"), STR("a")));
	CHECK(!http_respond_header(r.last, STR("X Y"), STR("a")));
	CHECK(!http_respond_header(r.last, STR(""), STR("a")));
	CHECK(!http_respond_header(r.last, STR("content-length"), STR("5")));
	CHECK(!http_respond_header(r.last, STR("Transfer-Encoding"), STR("chunked")));
	CHECK(http_respond_header(r.last, STR("X-Fine"), STR("a\tb \xc3\xa4")));
	http_respond(r.last, 200, NULL, STR("ok"));
	peer_until(&p, "\r\n\r\nok");
	CHECK(peer_has(&p, "X-Fine: a\tb \xc3\xa4\r\n"));
	CHECK(!peer_has(&p, "Set-Cookie"));
	CHECK(!peer_has(&p, "chunked"));
	peer_close(&p);
	rig_stop(&r);
}

TEST(server_error_envelope_and_allow)
{
	struct rig r = {0};
	struct peer p;
	struct err e;
	rig_start(&r);
	peer_tcp(&p, &r);
	peer_say(&p, GET("/hold"));
	RIG_UNTIL(&r, r.last);
	err_set(&e, ERRC_FILE_NOT_FOUND, "no \"x\"");
	http_respond_error_with(r.last, &e, "file.read", STR("{\"path\":\"/x\"}"));
	peer_until(&p, "suggestion");
	CHECK_INT(peer_status(&p), 404);
	CHECK(peer_has(&p, "Content-Type: application/json\r\n"));
	CHECK(peer_has(&p, "{\"code\":\"FILE_NOT_FOUND\",\"message\":\"no \\\"x\\\"\",\"context\":{\"path\":\"/x\"},"
			   "\"operation\":\"file.read\",\"httpStatus\":404,\"timestamp\":\""));
	buf_clear(&p.got);
	peer_say(&p, GET("/hold"));
	RIG_UNTIL(&r, r.last);
	http_respond_not_allowed(r.last, "PUT, DELETE");
	peer_until(&p, "METHOD_NOT_ALLOWED");
	CHECK_INT(peer_status(&p), 405);
	CHECK(peer_has(&p, "Allow: PUT, DELETE\r\n"));
	peer_close(&p);
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
