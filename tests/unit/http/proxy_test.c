#include "http/proxy.h"

#include <arpa/inet.h>
#include <malloc.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "http_rig.h"
#include "test.h"

/* A rig whose unknown paths are proxied to a port of the test's choice. */
struct way {
	struct rig r;
	struct http_client *cl;
	struct http_endpoint ep;
	int done, status, fails;
	bool complete;
};

static void on_done(void *arg, int status, bool complete)
{
	struct way *w = arg;
	w->done++;
	w->status = status;
	w->complete = complete;
}

static void on_fail(void *arg, struct http_exchange *x, const struct http_failure *f)
{
	((struct way *)arg)->fails++;
	http_respond_error(x, &f->err);
}

static bool drop_secret(void *arg, struct str name, struct str *value)
{
	(void)arg, (void)value;
	return !str_eq_nocase(name, STR("Authorization"));
}

static void pass_on(struct http_exchange *x, struct rig *r)
{
	struct way *w = container_of(r, struct way, r);
	struct http_header add = {STR("X-Added"), STR("yes")};
	http_proxy(x, w->cl, &w->ep,
		&(struct http_proxy_options){.add = &add,
			.add_n = 1,
			.filter_request = drop_secret,
			.on_fail = on_fail,
			.on_done = on_done,
			.arg = w});
}

static void way_start(struct way *w, int to)
{
	*w = (struct way){.r.on_request = pass_on};
	rig_start(&w->r);
	w->cl = http_client_new(w->r.l);
	w->ep.in = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)to)};
	w->ep.in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	w->ep.len = sizeof w->ep.in;
}

static void way_stop(struct way *w)
{
	http_client_free(w->cl);
	rig_stop(&w->r);
}

TEST(proxy_passes_a_request_and_its_answer)
{
	struct stage g;
	struct way w;
	struct peer client, server;
	stage_open(&g);
	way_start(&w, g.port);
	peer_tcp(&client, &w.r);
	peer_say(&client, "POST /x?y=1 HTTP/1.1\r\nHost: a\r\nAuthorization: s\r\nContent-Length: 5\r\n"
			  "Connection: x-hop\r\nX-Hop: 1\r\nX-End: 2\r\n\r\nhello");
	stage_accept(&g, &server, &w.r);
	peer_until(&server, "hello");
	CHECK(peer_has(&server, "POST /x?y=1 HTTP/1.1\r\nHost: a\r\n"));
	CHECK(peer_has(&server, "X-End: 2\r\n"));
	CHECK(peer_has(&server, "X-Added: yes\r\n"));
	CHECK(!peer_has(&server, "X-Hop"));
	CHECK(!peer_has(&server, "Authorization"));
	peer_say(&server, "HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\nX-Up: 3\r\n\r\n3\r\nabc\r\n0\r\n\r\n");
	peer_until(&client, "0\r\n\r\n");
	CHECK_INT(peer_status(&client), 201);
	CHECK(peer_has(&client, "X-Up: 3\r\n"));
	CHECK(peer_has(&client, "\r\n\r\n3\r\nabc\r\n"));
	CHECK_INT(w.done, 1);
	CHECK_INT(w.status, 201);
	CHECK(w.complete);
	peer_close(&client);
	peer_close(&server);
	way_stop(&w);
	stage_close(&g);
}

TEST(proxy_answers_502_for_a_lie_and_tunnels_an_upgrade)
{
	struct stage g;
	struct way w;
	struct peer client, server;
	stage_open(&g);
	way_start(&w, g.port);
	peer_tcp(&client, &w.r);
	peer_say(&client, "GET /x HTTP/1.1\r\nHost: a\r\n\r\n");
	stage_accept(&g, &server, &w.r);
	peer_until(&server, "\r\n\r\n");
	peer_say(&server, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc");
	peer_until(&client, "BAD_GATEWAY");
	CHECK_INT(peer_status(&client), 502);
	peer_close(&server);
	buf_clear(&client.got);

	peer_say(&client, "GET /x HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: foo\r\n\r\nearly");
	stage_accept(&g, &server, &w.r);
	peer_until(&server, "\r\n\r\n");
	CHECK(peer_has(&server, "Upgrade: foo\r\n"));
	peer_say(&server, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: foo\r\nConnection: upgrade\r\n\r\nraw-down");
	peer_until(&client, "raw-down");
	CHECK_INT(peer_status(&client), 101);
	peer_until(&server, "early");
	peer_say(&client, "raw-up");
	peer_until(&server, "raw-up");
	peer_half_close(&client);
	peer_until_eof(&server);
	peer_say(&server, "after-end");
	peer_until(&client, "after-end");
	peer_half_close(&server);
	peer_until_eof(&client);
	CHECK_INT(w.done, 1);
	peer_close(&client);
	peer_close(&server);
	way_stop(&w);
	stage_close(&g);
}

/* A proxy between a client and a server that are both the test's own. */
struct trio {
	struct stage g;
	struct way w;
	struct peer client, server;
};

static void trio_start(struct trio *t)
{
	stage_open(&t->g);
	way_start(&t->w, t->g.port);
	peer_tcp(&t->client, &t->w.r);
}

/* Sends the request and takes the connection that the proxy makes. */
static void trio_ask(struct trio *t, struct str request)
{
	buf_clear(&t->client.got);
	peer_send(&t->client, request);
	stage_accept(&t->g, &t->server, &t->w.r);
	peer_until(&t->server, "\r\n\r\n");
}

static void trio_stop(struct trio *t)
{
	peer_close(&t->client);
	way_stop(&t->w);
	stage_close(&t->g);
}

#define GET_X "GET /x HTTP/1.1\r\nHost: a\r\n\r\n"

TEST(proxy_refuses_hostile_responses_with_502_and_keeps_the_client)
{
	static const struct str v[] = {
		STR("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
		STR("HTTP/1.1 200 OK\r\nContent-Length: 3, 3\r\n\r\nabc"),
		STR("HTTP/1.1 200 OK\r\nX: a\nSet-Cookie: b\r\n\r\n"),
		STR("HTTP/1.1 200 OK\r\nTransfer-Encoding: xchunked\r\n\r\n"),
		STR("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"),
		STR("ICY 200 OK\r\n\r\n"),
	};
	struct trio t;
	trio_start(&t);
	for (size_t i = 0; i < ARRAY_LEN(v); i++) {
		trio_ask(&t, STR(GET_X));
		peer_send(&t.server, v[i]);
		peer_until(&t.client, "BAD_GATEWAY");
		CHECK_INT(peer_status(&t.client), 502);
		CHECK_INT(t.w.fails, i + 1);
		peer_close(&t.server);
	}
	CHECK_INT(t.w.done, 0);
	trio_stop(&t);
}

TEST(proxy_asks_the_owner_when_nobody_listens)
{
	struct trio t;
	trio_start(&t);
	stage_close(&t.g);
	peer_say(&t.client, GET_X);
	peer_until(&t.client, "CONTAINER_UNAVAILABLE");
	CHECK_INT(peer_status(&t.client), 503);
	CHECK_INT(t.w.fails, 1);
	trio_stop(&t);
}

static void on_fail_again(void *arg, struct http_exchange *x, const struct http_failure *f)
{
	struct trio *t = container_of((struct way *)arg, struct trio, w);
	CHECK_INT(f->fail, HTTP_FAIL_CONNECT);
	CHECK(f->untouched);
	t->w.fails++;
	stage_open(&t->g);
	t->w.ep.in.sin_port = htons((uint16_t)t->g.port);
	http_proxy(x, t->w.cl, &t->w.ep, &(struct http_proxy_options){.on_done = on_done, .arg = &t->w});
}

static void pass_on_twice(struct http_exchange *x, struct rig *r)
{
	struct way *w = container_of(r, struct way, r);
	http_proxy(x, w->cl, &w->ep, &(struct http_proxy_options){.on_fail = on_fail_again, .arg = w});
}

TEST(proxy_may_be_tried_again_with_the_whole_body)
{
	struct trio t;
	trio_start(&t);
	stage_close(&t.g);
	t.w.r.on_request = pass_on_twice;
	peer_say(&t.client, "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n01234");
	RIG_UNTIL(&t.w.r, t.w.fails);
	stage_accept(&t.g, &t.server, &t.w.r);
	peer_say(&t.client, "56789");
	peer_until(&t.server, "\r\n\r\n0123456789");
	peer_say(&t.server, "HTTP/1.1 204 No Content\r\n\r\n");
	peer_until(&t.client, "204");
	CHECK_INT(t.w.done, 1);
	peer_close(&t.server);
	trio_stop(&t);
}

TEST(proxy_cuts_the_client_off_when_the_body_breaks)
{
	struct trio t;
	trio_start(&t);
	trio_ask(&t, STR(GET_X));
	peer_say(&t.server, "HTTP/1.1 200 OK\r\n\r\n");
	peer_half_close(&t.server);
	peer_until(&t.client, "0\r\n\r\n");
	peer_close(&t.server);
	static const struct str v[] = {STR("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"),
		STR("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")};
	for (size_t i = 0; i < ARRAY_LEN(v); i++) {
		trio_ask(&t, STR(GET_X));
		peer_send(&t.server, v[i]);
		peer_until(&t.client, "abc");
		peer_half_close(&t.server);
		peer_until_eof(&t.client);
		CHECK(!peer_has(&t.client, "0\r\n\r\n"));
		CHECK_INT(t.w.done, i + 2);
		CHECK(!t.w.complete);
		peer_close(&t.server);
		peer_close(&t.client);
		peer_tcp(&t.client, &t.w.r);
	}
	trio_stop(&t);
}

TEST(proxy_lets_go_of_the_server_when_the_client_is_gone)
{
	struct trio t;
	trio_start(&t);
	http_server_config(t.w.r.s)->gone_probe = 10;
	trio_ask(&t, STR(GET_X));
	peer_close(&t.client);
	peer_until_eof(&t.server);
	CHECK_INT(t.w.done, 1);
	CHECK_INT(t.w.status, 0);
	CHECK(!t.w.complete);
	peer_close(&t.server);
	trio_stop(&t);
}

TEST(proxy_head_interim_answers_and_bodiless_statuses)
{
	struct trio t;
	trio_start(&t);
	trio_ask(&t, STR("HEAD /x HTTP/1.1\r\nHost: a\r\n\r\n"));
	peer_say(&t.server,
		"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 77\r\n\r\n");
	peer_until(&t.client, "Content-Length: 77\r\n\r\n");
	CHECK(peer_has(&t.client, "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\n"));
	/* The connection on both sides is still good. */
	buf_clear(&t.client.got);
	buf_clear(&t.server.got);
	peer_say(&t.client, GET_X);
	peer_until(&t.server, "\r\n\r\n");
	peer_say(&t.server, "HTTP/1.1 304 Not Modified\r\nETag: x\r\n\r\n");
	peer_until(&t.client, "ETag: x\r\n");
	CHECK_INT(peer_status(&t.client), 304);
	CHECK(!peer_has(&t.client, "chunked"));
	buf_clear(&t.server.got);
	peer_say(&t.client, GET_X);
	peer_until(&t.server, "\r\n\r\n");
	peer_say(&t.server, "HTTP/1.1 204 No Content\r\n\r\n");
	peer_until(&t.client, "204 No Content\r\n");
	CHECK_INT(t.w.done, 3);
	peer_close(&t.server);
	trio_stop(&t);
}

TEST(proxy_expectations_go_end_to_end)
{
	struct trio t;
	trio_start(&t);
	trio_ask(&t, STR("POST /x HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n"));
	CHECK(peer_has(&t.server, "Expect: 100-continue\r\n"));
	CHECK_INT(buf_size(&t.client.got), 0);
	peer_say(&t.server, "HTTP/1.1 100 Continue\r\n\r\n");
	peer_until(&t.client, "HTTP/1.1 100 Continue\r\n\r\n");
	peer_say(&t.client, "abc");
	peer_until(&t.server, "\r\n\r\nabc");
	peer_say(&t.server, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
	peer_until(&t.client, "200 OK");
	/* A refusal instead: no 100, and the body never comes. */
	buf_clear(&t.server.got);
	buf_clear(&t.client.got);
	peer_say(&t.client, "POST /x HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
	peer_until(&t.server, "\r\n\r\n");
	peer_say(&t.server, "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n");
	peer_until_eof(&t.client);
	CHECK_INT(peer_status(&t.client), 403);
	peer_close(&t.server);
	trio_stop(&t);
}

TEST(proxy_rechunks_and_passes_trailers)
{
	struct trio t;
	trio_start(&t);
	trio_ask(&t, STR("POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTE: trailers, gzip\r\n"
			 "Connection: TE, V\r\nTrailer: T\r\n\r\n3;x=y\r\nabc\r\n0\r\nT:1\t \r\nHost: evil\r\nV: 2\r\n"
			 "x-forwarded-For: 1.2.3.4\r\nauthorization: x\r\nKeep-Alive: 1\r\nLast:\r\n\r\n"));
	peer_until(&t.server, "3\r\nabc\r\n0\r\nT: 1\r\nLast: \r\n\r\n");
	CHECK(peer_has(&t.server, "TE: trailers\r\nConnection: TE\r\n"));
	CHECK(peer_has(&t.server, "Trailer: T\r\n"));
	CHECK(!peer_has(&t.server, "x=y"));
	peer_say(&t.server,
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: U\r\nKeep-Alive: timeout=5\r\n\r\n"
		"2\r\nde\r\n0\r\nU: 2\r\n\r\n");
	peer_until(&t.client, "2\r\nde\r\n0\r\nU: 2\r\n\r\n");
	CHECK(peer_has(&t.client, "Trailer: U\r\n"));
	CHECK(!peer_has(&t.client, "Keep-Alive"));
	peer_close(&t.server);
	trio_stop(&t);
}

TEST(proxy_upgrade_declined_is_an_ordinary_answer_and_h2c_is_not_offered)
{
	struct trio t;
	trio_start(&t);
	trio_ask(&t, STR("GET /x HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"));
	CHECK(peer_has(&t.server, "Connection: upgrade\r\n"));
	peer_say(&t.server, "HTTP/1.1 400 Bad Request\r\nContent-Length: 2\r\n\r\nno");
	peer_until(&t.client, "\r\n\r\nno");
	peer_close(&t.server);
	trio_ask(&t, STR("GET /x HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
			 "HTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n"));
	CHECK(!peer_has(&t.server, "h2c"));
	CHECK(!peer_has(&t.server, "HTTP2-Settings"));
	peer_say(&t.server, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
	peer_until(&t.client, "200 OK");
	peer_close(&t.server);
	trio_stop(&t);
}

/* Bytes that tell where they are. */
static void fill(char *p, size_t n, uint64_t at)
{
	for (size_t i = 0; i < n; i++)
		p[i] = (char)((at + i) * 2654435761u >> 13);
}

enum { STREAM = 8 << 20 };

static void check_stream(const struct peer *p)
{
	struct str got = buf_str(&p->got);
	const char *body = memmem(got.p, got.n, "\r\n\r\n", 4);
	CHECK(body);
	body += 4;
	CHECK_INT(got.p + got.n - body, STREAM);
	auto_free char *want = xmalloc(STREAM);
	fill(want, STREAM, 0);
	CHECK(memcmp(body, want, STREAM) == 0);
}

TEST(proxy_streams_both_ways_and_changes_no_byte)
{
	struct trio t;
	static char block[100000];
	trio_start(&t);
	t.client.got.max = t.server.got.max = 2 * STREAM;
	trio_ask(&t, STR("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 8388608\r\n\r\n"));
	for (size_t at = 0; at < STREAM;) {
		size_t n = STREAM - at < sizeof block ? STREAM - at : sizeof block;
		fill(block, n, at);
		peer_send(&t.client, str_n(block, n));
		at += n;
	}
	while (buf_size(&t.server.got) < STREAM || !peer_has(&t.server, "\r\n\r\n"))
		rig_turn(&t.w.r);
	struct str got = buf_str(&t.server.got);
	size_t head = (size_t)((char *)memmem(got.p, got.n, "\r\n\r\n", 4) - got.p) + 4;
	RIG_UNTIL(&t.w.r, buf_size(&t.server.got) == head + STREAM);
	check_stream(&t.server);
	peer_say(&t.server, "HTTP/1.1 200 OK\r\nContent-Length: 8388608\r\n\r\n");
	for (size_t at = 0; at < STREAM;) {
		size_t n = STREAM - at < sizeof block ? STREAM - at : sizeof block;
		fill(block, n, at);
		peer_send(&t.server, str_n(block, n));
		at += n;
	}
	RIG_UNTIL(&t.w.r, t.w.done);
	while (buf_size(&t.client.got) < STREAM + 60)
		loop_turn(t.w.r.l, 1);
	check_stream(&t.client);
	peer_close(&t.server);
	trio_stop(&t);
}

/* Sends until nothing has been taken for a while; returns how much went. */
static size_t stuff(struct peer *p, size_t max)
{
	static const char block[65536];
	size_t sent = 0;
	for (int quiet = 0; quiet < 20 && sent < max;) {
		ssize_t n = send(p->fd, block, sizeof block, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n > 0)
			sent += (size_t)n;
		quiet = n > 0 ? 0 : quiet + 1;
		loop_turn(p->r->l, 1);
	}
	return sent;
}

static size_t heap(void)
{
	struct mallinfo2 m = mallinfo2();
	return m.uordblks + m.hblkhd;
}

TEST(proxy_holds_little_when_either_side_stalls)
{
	struct trio t;
	trio_start(&t);
	size_t before = heap();
	/* The client does not read its response. */
	trio_ask(&t, STR(GET_X));
	peer_read(&t.client, false);
	peer_say(&t.server, "HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n");
	CHECK(stuff(&t.server, 1000000000) < 100000000);
	CHECK(heap() - before < 256 * 1024);
	peer_close(&t.client);
	peer_close(&t.server);
	/* The server does not read the request. */
	peer_tcp(&t.client, &t.w.r);
	trio_ask(&t, STR("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000\r\n\r\n"));
	peer_read(&t.server, false);
	CHECK(stuff(&t.client, 1000000000) < 100000000);
	CHECK(heap() - before < 256 * 1024);
	peer_close(&t.server);
	peer_close(&t.client);
	/* A tunnel, neither reads. */
	peer_tcp(&t.client, &t.w.r);
	trio_ask(&t, STR("GET /x HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: foo\r\n\r\n"));
	peer_say(&t.server, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: foo\r\nConnection: upgrade\r\n\r\n");
	peer_until(&t.client, "101");
	peer_read(&t.client, false);
	peer_read(&t.server, false);
	CHECK(stuff(&t.client, 1000000000) < 100000000);
	CHECK(stuff(&t.server, 1000000000) < 100000000);
	CHECK(heap() - before < 2 * 256 * 1024);
	/* And it is not stuck for ever. */
	buf_clear(&t.client.got);
	peer_read(&t.client, true);
	peer_read(&t.server, true);
	peer_say(&t.server, "marker");
	peer_until(&t.client, "marker");
	peer_close(&t.server);
	trio_stop(&t);
}

TEST(proxy_tunnel_delivers_the_last_bytes_of_a_peer_that_has_left)
{
	struct trio t;
	trio_start(&t);
	trio_ask(&t, STR("GET /x HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: foo\r\n\r\n"));
	peer_say(&t.server, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: foo\r\nConnection: upgrade\r\n\r\n");
	peer_until(&t.client, "101");
	peer_read(&t.client, false);
	size_t sent = stuff(&t.server, 1000000000);
	peer_half_close(&t.server);
	peer_half_close(&t.client);
	for (int i = 0; i < 20; i++)
		loop_turn(t.w.r.l, 1);
	buf_clear(&t.client.got);
	t.client.got.max = 200000000;
	peer_read(&t.client, true);
	peer_until_eof(&t.client);
	CHECK(buf_size(&t.client.got) + 200 >= sent);
	RIG_UNTIL(&t.w.r, t.w.done);
	CHECK(t.w.complete);
	peer_close(&t.server);
	trio_stop(&t);
}

TEST(proxy_serves_an_http_1_0_client)
{
	struct trio t;
	trio_start(&t);
	trio_ask(&t, STR("GET /x HTTP/1.0\r\n\r\n"));
	CHECK(peer_has(&t.server, "GET /x HTTP/1.1\r\nHost: localhost\r\n"));
	peer_say(&t.server, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n");
	peer_until_eof(&t.client);
	CHECK(peer_has(&t.client, "\r\n\r\nabc"));
	CHECK(!peer_has(&t.client, "chunked"));
	peer_close(&t.server);
	trio_stop(&t);
}

TEST_MAIN()
