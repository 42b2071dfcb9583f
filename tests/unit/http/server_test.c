#include <malloc.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "http/limits.h"
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
	/* A value without a word asks for nothing. */
	peer_say(&p, "POST /echo HTTP/1.1\r\nHost: a\r\nExpect:: \r\nContent-Length: 3\r\n\r\nabc");
	peer_until(&p, "\r\n\r\nabc");
	CHECK(str_starts(buf_str(&p.got), STR("HTTP/1.1 200 ")));
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
	peer_say(&p, "POST /ping HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nGET /");
	peer_until(&p, "pong");
	buf_clear(&p.got);
	peer_say(&p, "POST /ping HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
	peer_until(&p, "pong");
	buf_clear(&p.got);
	peer_say(&p, "3\r\nabc\r\n0\r\n\r\n" GET("/ping"));
	peer_until(&p, "pong");
	CHECK_INT(http_server_stats(r.s).accepted, 1);
	/* A large one is not waited for, but the answer can be read. */
	buf_clear(&p.got);
	peer_say(&p, "POST /ping HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999\r\n\r\n");
	peer_until_eof(&p);
	CHECK_INT(p.error, 0);
	CHECK(peer_has(&p, "Connection: close\r\n"));
	peer_close(&p);
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

/* Writes while whoever reads is as fast: nothing ever waits. */
static void write_to_a_fast_reader(struct http_exchange *x)
{
	static char data[32768];
	struct rig *r = http_exchange_arg(x);
	size_t n = 0;
	r->writables++;
	while (http_respond_write(x, str_n(data, sizeof data))) {
		while (recv(*(int *)r->arg, data, sizeof data, MSG_DONTWAIT) > 0)
			;
		n += sizeof data;
		CHECK(n <= 2 * HTTP_TURN_MAX);
	}
}

static const struct http_exchange_ops fast_ops = {.on_writable = write_to_a_fast_reader};

static void on_fast(struct http_exchange *x, struct rig *r)
{
	http_exchange_set(x, &fast_ops, r);
	http_respond_begin(x, 200, HTTP_CHUNKED);
	write_to_a_fast_reader(x);
}

TEST(server_endless_response_leaves_room_for_others)
{
	struct rig r = {.on_request = on_fast};
	struct peer greedy, other;
	rig_start(&r);
	peer_pair(&greedy, &r);
	r.arg = &greedy.fd;
	peer_read(&greedy, false);
	peer_say(&greedy, GET("/fast"));
	RIG_UNTIL(&r, r.writables > 1);
	peer_tcp(&other, &r);
	peer_say(&other, GET("/ping"));
	peer_until(&other, "pong");
	int before = r.writables;
	RIG_UNTIL(&r, r.writables > before);
	peer_close(&other);
	peer_close(&greedy);
	rig_stop(&r);
}

TEST(server_answer_survives_what_is_wrong_with_the_rest_of_the_request)
{
	struct rig r = {0};
	struct peer p;
	rig_start(&r);
	peer_tcp(&p, &r);
	peer_say(&p, "POST /none HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzzz\r\n" GET("/ping"));
	peer_until_eof(&p);
	CHECK_INT(peer_status(&p), 404);
	CHECK_INT(p.error, 0);
	CHECK_INT(r.requests, 1);
	CHECK_INT(r.completes, 1);
	peer_close(&p);
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
	http_respond_error_json(
		r.last, &(struct error_json){.err = &e, .operation = "file.read", .context = STR("{\"path\":\"/x\"}")});
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

TEST_MAIN()
