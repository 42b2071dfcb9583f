/* What the client makes of responses, good, hostile and cut. */
#include "http/limits.h"
#include "http_ask.h"

/* Asks GET /, plays the answer (then an end of the connection, if `end`) and waits for the call to end. */
static void play(struct duo *d, struct str answer, bool end)
{
	buf_free(&d->a.body);
	duo_ask(d, &(struct http_call_options){.fresh = true});
	stage_accept(&d->g, &d->server, &d->r);
	peer_until(&d->server, "\r\n\r\n");
	peer_send(&d->server, answer);
	if (end)
		peer_half_close(&d->server);
	RIG_UNTIL(&d->r, d->a.closes);
	peer_close(&d->server);
}

TEST(client_reads_every_kind_of_body)
{
	struct duo d;
	duo_start(&d);
	play(&d, STR("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"), false);
	CHECK_INT(d.a.fail, HTTP_FAIL_NONE);
	CHECK_STR(buf_str(&d.a.body), "abc");
	play(&d, STR("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\nT: 1\r\n\r\n"),
		false);
	CHECK_INT(d.a.fail, HTTP_FAIL_NONE);
	CHECK_STR(buf_str(&d.a.body), "abc");
	play(&d, STR("HTTP/1.1 200 OK\r\n\r\nabc"), true);
	CHECK_INT(d.a.fail, HTTP_FAIL_NONE);
	CHECK_STR(buf_str(&d.a.body), "abc");
	play(&d, STR("HTTP/1.0 200\r\nX: 1\r\n\r\nabc"), true);
	CHECK_INT(d.a.fail, HTTP_FAIL_NONE);
	CHECK_STR(buf_str(&d.a.body), "abc");
	play(&d, STR("HTTP/1.1 204 No Content\r\n\r\n"), false);
	CHECK_INT(d.a.status, 204);
	CHECK(d.a.ended);
	play(&d, STR("HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n"), false);
	CHECK_INT(d.a.status, 304);
	CHECK(d.a.ended);
	play(&d,
		STR("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
		    "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na"),
		false);
	CHECK_INT(d.a.infos, 2);
	CHECK_INT(d.a.status, 200);
	duo_stop(&d);
}

TEST(client_head_has_no_body)
{
	struct duo d;
	duo_start(&d);
	duo_ask(&d, &(struct http_call_options){.method = STR("HEAD")});
	stage_accept(&d.g, &d.server, &d.r);
	peer_until(&d.server, "HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n");
	peer_say(&d.server, "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n");
	ask_end(&d.a);
	CHECK_INT(d.a.fail, HTTP_FAIL_NONE);
	peer_close(&d.server);
	duo_stop(&d);
}

TEST(client_refuses_hostile_responses)
{
	static const struct str v[] = {
		STR("garbage\r\n\r\n"),
		STR("HTTP/2 200 OK\r\n\r\n"),
		STR("HTTP/1.2 200 OK\r\n\r\n"),
		STR("HTTP/1.0 100 Continue\r\n\r\nHTTP/1.0 200 OK\r\n\r\n"),
		STR("HTTP/1.1 99 Low\r\n\r\n"),
		STR("HTTP/1.1 999 High\r\n\r\n"),
		STR("HTTP/1.1 2000 OK\r\n\r\n"),
		STR("HTTP/1.1  200 OK\r\n\r\n"),
		STR("HTTP/1.1 200 OK\nContent-Length: 0\r\n\r\n"),
		STR("HTTP/1.1 200 OK\r\nX: 1\r\n 2\r\n\r\n"),
		STR("HTTP/1.1 200 OK\r\nX : 1\r\n\r\n"),
		STR("HTTP/1.1 200 OK\r\nX: a\0b\r\n\r\n"),
		STR("HTTP/1.1 200 O\x01K\r\n\r\n"),
		STR("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc"),
		STR("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
		STR("HTTP/1.1 200 OK\r\nContent-Length: +3\r\n\r\nabc"),
		STR("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
		STR("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
		STR("HTTP/1.1 204 No\r\nContent-Length: 3\r\n\r\nabc"),
		STR("HTTP/1.1 204 No\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
		STR("HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"),
		STR("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\nabc\r\n0\r\n\r\n"),
		STR("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n"),
	};
	struct duo d;
	duo_start(&d);
	for (size_t i = 0; i < ARRAY_LEN(v); i++) {
		play(&d, v[i], false);
		if (d.a.fail != HTTP_FAIL_PROTOCOL)
			test_fail(__FILE__, __LINE__, "%.*s: ended with %d", STR_ARG(v[i]), d.a.fail);
		CHECK(!d.a.ended);
	}
	duo_stop(&d);
}

TEST(client_bounds_heads_and_interim_answers)
{
	struct duo d;
	auto_buf struct buf b = {0};
	duo_start(&d);
	for (unsigned over = 0; over < 2; over++) {
		buf_clear(&b);
		buf_add_c(&b, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX: ");
		while (buf_size(&b) < HTTP_HEAD_MAX - 4 + over)
			buf_add_byte(&b, 'x');
		buf_add_c(&b, "\r\n\r\n");
		play(&d, buf_str(&b), false);
		CHECK_INT(d.a.fail, over ? HTTP_FAIL_PROTOCOL : HTTP_FAIL_NONE);
	}
	buf_clear(&b);
	for (int i = 0; i < 100; i++)
		buf_add_c(&b, "HTTP/1.1 102 Processing\r\n\r\n");
	play(&d, buf_str(&b), false);
	CHECK_INT(d.a.fail, HTTP_FAIL_PROTOCOL);
	duo_stop(&d);
}

TEST(client_tells_a_cut_response_from_a_complete_one)
{
	static const struct str v[] = {STR(""), STR("HTTP/1.1 200 OK\r\nCont"),
		STR("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab"),
		STR("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"),
		STR("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n")};
	struct duo d;
	duo_start(&d);
	for (size_t i = 0; i < ARRAY_LEN(v); i++) {
		play(&d, v[i], true);
		CHECK_INT(d.a.fail, HTTP_FAIL_CLOSED);
		CHECK(!d.a.ended);
		CHECK(d.a.maybe_processed);
	}
	duo_stop(&d);
}

TEST(client_throws_away_idle_connections_that_speak)
{
	struct duo d;
	duo_start(&d);
	duo_ask(&d, &(struct http_call_options){0});
	stage_accept(&d.g, &d.server, &d.r);
	peer_until(&d.server, "\r\n\r\n");
	peer_say(&d.server, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
	ask_end(&d.a);
	/* An answer to a question that was not asked must not become the next one's. */
	struct str planted = STR("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil");
	CHECK_INT(send(d.server.fd, planted.p, planted.n, MSG_NOSIGNAL), planted.n);
	duo_ask(&d, &(struct http_call_options){0});
	struct peer second;
	stage_accept(&d.g, &second, &d.r);
	peer_until(&second, "\r\n\r\n");
	peer_say(&second, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood");
	RIG_UNTIL(&d.r, d.a.closes);
	CHECK_STR(buf_str(&d.a.body), "good");
	peer_close(&second);
	peer_close(&d.server);
	duo_stop(&d);
}

TEST(client_does_not_reuse_a_connection_with_bytes_left_over)
{
	struct duo d;
	duo_start(&d);
	duo_ask(&d, &(struct http_call_options){0});
	stage_accept(&d.g, &d.server, &d.r);
	peer_until(&d.server, "\r\n\r\n");
	peer_say(&d.server, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\naHTTP/1.1 200 OK\r\n");
	RIG_UNTIL(&d.r, d.a.closes);
	CHECK_STR(buf_str(&d.a.body), "a");
	peer_until_eof(&d.server);
	peer_close(&d.server);
	duo_stop(&d);
}

TEST_MAIN()
