#include "http/client/call.h"
#include "http/limits.h"
#include "http_ask.h"

TEST(client_reuses_one_connection)
{
	struct rig r = {0};
	struct ask a;
	rig_start(&r);
	struct http_client *cl = http_client_new(r.l);
	for (int i = 0; i < 5; i++) {
		ask(&a, &r, cl, r.port, &(struct http_call_options){.target = STR("/ping")});
		while (!a.closes)
			rig_turn(&r);
		CHECK_INT(a.fail, HTTP_FAIL_NONE);
		CHECK_INT(a.status, 200);
		CHECK_INT(a.sents, 1);
		CHECK_STR(buf_str(&a.body), "pong");
		buf_free(&a.body);
	}
	CHECK_INT(http_server_stats(r.s).accepted, 1);
	http_client_free(cl);
	rig_stop(&r);
}

TEST(client_sends_a_body_with_a_length_and_in_chunks)
{
	struct rig r = {0};
	struct ask a;
	rig_start(&r);
	struct http_client *cl = http_client_new(r.l);
	for (int chunked = 0; chunked < 2; chunked++) {
		ask(&a, &r, cl, r.port,
			&(struct http_call_options){.method = STR("POST"),
				.target = STR("/echo"),
				.content_length = chunked ? HTTP_CALL_CHUNKED : 11});
		http_call_write(a.c, STR("hello "));
		rig_turn(&r);
		http_call_write(a.c, STR("world"));
		http_call_end(a.c);
		while (!a.closes)
			rig_turn(&r);
		CHECK_INT(a.status, 200);
		CHECK_STR(buf_str(&a.body), "hello world");
		buf_free(&a.body);
	}
	http_client_free(cl);
	rig_stop(&r);
}

TEST(client_says_that_nobody_listens)
{
	struct rig r = {0};
	struct ask a;
	struct stage g;
	rig_start(&r);
	stage_open(&g);
	stage_close(&g);
	struct http_client *cl = http_client_new(r.l);
	ask(&a, &r, cl, g.port, &(struct http_call_options){0});
	CHECK_INT(a.closes, 0);
	ask_end(&a);
	CHECK_INT(a.fail, HTTP_FAIL_CONNECT);
	CHECK(!a.maybe_processed);
	http_client_free(cl);
	rig_stop(&r);
}

/* Makes one kept-alive connection, then asks again on it and ends it before any answer. True when the client tried
 * again on a fresh connection. */
static bool repeats(struct duo *d, const struct http_call_options *o, bool before_sending)
{
	duo_ask(d, &(struct http_call_options){0});
	stage_accept(&d->g, &d->server, &d->r);
	peer_until(&d->server, "\r\n\r\n");
	peer_say(&d->server, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
	ask_end(&d->a);
	buf_clear(&d->server.got);
	if (before_sending)
		peer_close(&d->server);
	duo_ask(d, o);
	http_call_write(d->a.c, STR("body"));
	http_call_end(d->a.c);
	if (!before_sending) {
		peer_until(&d->server, "\r\n\r\n");
		peer_close(&d->server);
	}
	int fd = -1;
	while (!d->a.closes && (fd = accept4(d->g.fd, NULL, NULL, SOCK_CLOEXEC)) < 0)
		loop_turn(d->r.l, 1);
	if (fd >= 0) {
		struct str ok = STR("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
		CHECK_INT(send(fd, ok.p, ok.n, MSG_NOSIGNAL), ok.n);
		RIG_UNTIL(&d->r, d->a.closes);
		CHECK_INT(d->a.fail, HTTP_FAIL_NONE);
		close(fd);
	} else {
		CHECK_INT(d->a.fail, HTTP_FAIL_CLOSED);
	}
	return fd >= 0;
}

TEST(client_repeats_only_what_cannot_happen_twice)
{
	struct duo d;
	duo_start(&d);
	struct http_call_options get = {0}, put = {.method = STR("PUT"), .content_length = 4},
				 post = {.method = STR("POST"), .content_length = 4}, empty = {.method = STR("POST")};
	CHECK(repeats(&d, &get, false));
	CHECK(!repeats(&d, &put, false));
	CHECK(!repeats(&d, &post, false));
	CHECK(!repeats(&d, &empty, false));
	CHECK(repeats(&d, &get, true));
	CHECK(repeats(&d, &post, true));
	duo_stop(&d);
}

TEST(client_does_not_repeat_on_a_fresh_connection_or_after_a_byte)
{
	struct duo d;
	duo_start(&d);
	for (int byte = 0; byte < 2; byte++) {
		duo_ask(&d, &(struct http_call_options){0});
		stage_accept(&d.g, &d.server, &d.r);
		peer_until(&d.server, "\r\n\r\n");
		if (byte) {
			peer_say(&d.server, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
			ask_end(&d.a);
			duo_ask(&d, &(struct http_call_options){0});
			buf_clear(&d.server.got);
			peer_until(&d.server, "\r\n\r\n");
			peer_say(&d.server, "H");
		}
		peer_half_close(&d.server);
		RIG_UNTIL(&d.r, d.a.closes);
		CHECK_INT(d.a.fail, HTTP_FAIL_CLOSED);
		peer_close(&d.server);
	}
	duo_stop(&d);
}

/* A unix socket whose backlog is full says EAGAIN, for which no event exists. */
TEST(client_waits_for_room_in_the_backlog_of_a_unix_socket)
{
	struct rig r = {0};
	struct ask a, b;
	struct http_endpoint ep;
	struct peer server;
	rig_start(&r);
	/* An abstract address, so that no failure leaves a file behind. */
	ep = (struct http_endpoint){.un.sun_family = AF_UNIX};
	snprintf(ep.un.sun_path + 1, sizeof ep.un.sun_path - 1, "atoll-http-test-%d", getpid());
	ep.len = sizeof ep.un;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	CHECK_INT(bind(fd, &ep.sa, ep.len), 0);
	CHECK_INT(listen(fd, 0), 0);
	struct http_client *cl = http_client_new(r.l);
	a = (struct ask){.r = &r};
	a.c = http_call_start(cl, &ep, &(struct http_call_options){0}, &ask_ops, &a);
	for (int i = 0; i < 2; i++) {
		b = (struct ask){.r = &r};
		b.c = http_call_start(cl, &ep, &(struct http_call_options){.connect_ms = i ? 60000 : 20}, &ask_ops, &b);
		if (i == 0) {
			RIG_UNTIL(&r, b.closes);
			CHECK_INT(b.fail, HTTP_FAIL_CONNECT);
		}
	}
	struct stage g = {.fd = fd};
	stage_accept(&g, &server, &r);
	peer_until(&server, "\r\n\r\n");
	peer_close(&server);
	RIG_UNTIL(&r, a.closes);
	stage_accept(&g, &server, &r);
	peer_until(&server, "\r\n\r\n");
	peer_say(&server, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
	RIG_UNTIL(&r, b.closes);
	CHECK_INT(b.status, 200);
	peer_close(&server);
	stage_close(&g);
	http_client_free(cl);
	rig_stop(&r);
}

TEST(client_time_limits)
{
	struct duo d;
	duo_start(&d);
	duo_ask(&d, &(struct http_call_options){.head_ms = 20});
	stage_accept(&d.g, &d.server, &d.r);
	peer_say(&d.server, "HTTP/1.1 200 OK\r\n");
	RIG_UNTIL(&d.r, d.a.closes);
	CHECK_INT(d.a.fail, HTTP_FAIL_TIMEOUT);
	peer_close(&d.server);
	duo_ask(&d, &(struct http_call_options){.stall_ms = 20});
	stage_accept(&d.g, &d.server, &d.r);
	peer_say(&d.server, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc");
	RIG_UNTIL(&d.r, d.a.closes);
	CHECK_INT(d.a.fail, HTTP_FAIL_TIMEOUT);
	CHECK_STR(buf_str(&d.a.body), "abc");
	peer_close(&d.server);
	duo_stop(&d);
}

TEST(client_time_for_a_head_begins_behind_the_body)
{
	struct duo d;
	duo_start(&d);
	duo_ask(&d, &(struct http_call_options){.method = STR("POST"), .head_ms = 60000, .content_length = 2});
	stage_accept(&d.g, &d.server, &d.r);
	peer_until(&d.server, "\r\n\r\n");
	for (int i = 0; i < 2; i++) {
		uint64_t now = loop_now(d.r.l), due = d.a.c->due;
		CHECK(due > now && due <= now + 60000);
		while (loop_now(d.r.l) == now)
			loop_turn(d.r.l, 1);
		buf_clear(&d.server.got);
		http_call_write(d.a.c, STR("x"));
		peer_until(&d.server, "x");
		CHECK(d.a.c->due > due);
	}
	peer_close(&d.server);
	RIG_UNTIL(&d.r, d.a.closes);
	duo_stop(&d);
}

TEST(client_pause_holds_the_body_in_the_kernel)
{
	struct duo d;
	duo_start(&d);
	duo_ask(&d, &(struct http_call_options){0});
	stage_accept(&d.g, &d.server, &d.r);
	peer_say(&d.server, "HTTP/1.1 200 OK\r\nContent-Length: 50000000\r\n\r\n");
	RIG_UNTIL(&d.r, d.a.status == 200);
	http_call_pause(d.a.c);
	static const char block[65536];
	size_t sent = 0;
	for (ssize_t n; (n = send(d.server.fd, block, sizeof block, MSG_DONTWAIT | MSG_NOSIGNAL)) > 0;
		sent += (size_t)n)
		loop_turn(d.r.l, 0);
	CHECK(sent < 50000000);
	CHECK(buf_size(&d.a.body) <= HTTP_READ_CHUNK);
	http_call_resume(d.a.c);
	while (sent < 50000000) {
		size_t n = 50000000 - sent < sizeof block ? 50000000 - sent : sizeof block;
		peer_send(&d.server, str_n(block, n));
		sent += n;
	}
	RIG_UNTIL(&d.r, d.a.closes);
	CHECK_INT(buf_size(&d.a.body), 50000000);
	CHECK_INT(d.a.fail, HTTP_FAIL_NONE);
	peer_close(&d.server);
	duo_stop(&d);
}

TEST(client_hears_an_early_refusal_of_a_long_body)
{
	struct duo d;
	static const char block[65536];
	duo_start(&d);
	duo_ask(&d, &(struct http_call_options){.method = STR("POST"), .content_length = 1 << 30});
	stage_accept(&d.g, &d.server, &d.r);
	while (http_call_write(d.a.c, str_n(block, sizeof block)))
		;
	peer_until(&d.server, "\r\n\r\n");
	peer_say(&d.server, "HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
	RIG_UNTIL(&d.r, d.a.closes);
	CHECK_INT(d.a.status, 413);
	CHECK_INT(d.a.fail, HTTP_FAIL_NONE);
	peer_close(&d.server);
	duo_stop(&d);
}

TEST(client_cancel_is_quiet_and_final)
{
	struct duo d;
	duo_start(&d);
	duo_ask(&d, &(struct http_call_options){0});
	http_call_cancel(d.a.c);
	CHECK_INT(d.a.closes, 0);
	RIG_UNTIL(&d.r, d.a.closes);
	CHECK_INT(d.a.fail, HTTP_FAIL_CANCELLED);
	duo_ask(&d, &(struct http_call_options){0});
	stage_accept(&d.g, &d.server, &d.r);
	peer_close(&d.server);
	stage_accept(&d.g, &d.server, &d.r);
	peer_say(&d.server, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab");
	RIG_UNTIL(&d.r, buf_size(&d.a.body) == 2);
	http_call_cancel(d.a.c);
	RIG_UNTIL(&d.r, d.a.closes);
	CHECK_INT(d.a.fail, HTTP_FAIL_CANCELLED);
	peer_until_eof(&d.server);
	peer_close(&d.server);
	duo_stop(&d);
}

TEST(client_refuses_to_send_what_would_split_a_request)
{
	struct duo d;
	duo_start(&d);
	struct http_header bad[] = {{STR("X"), STR("a\r\nY: b")}, {STR("X\n"), STR("a")}, {STR("Host"), STR("b")},
		{STR("content-length"), STR("4")}, {STR("Transfer-Encoding"), STR("chunked")}};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		duo_ask(&d, &(struct http_call_options){.headers = &bad[i], .headers_n = 1});
		RIG_UNTIL(&d.r, d.a.closes);
		CHECK_INT(d.a.fail, HTTP_FAIL_PROTOCOL);
		CHECK(!d.a.maybe_processed);
	}
	static const struct str targets[] = {STR("/a b"), STR("/a\r\nX: y"), STR("a"), STR("/\xff"), STR("/a\0b")};
	for (size_t i = 0; i < ARRAY_LEN(targets); i++) {
		duo_ask(&d, &(struct http_call_options){.target = targets[i]});
		RIG_UNTIL(&d.r, d.a.closes);
		CHECK_INT(d.a.fail, HTTP_FAIL_PROTOCOL);
	}
	duo_ask(&d, &(struct http_call_options){.host = STR("a\r\nb")});
	RIG_UNTIL(&d.r, d.a.closes);
	CHECK_INT(d.a.fail, HTTP_FAIL_PROTOCOL);
	duo_stop(&d);
}

TEST(client_keeps_no_more_idle_connections_than_allowed)
{
	struct rig r = {0};
	struct ask a[HTTP_POOL_IDLE_MAX + 4];
	rig_start(&r);
	struct http_client *cl = http_client_new(r.l);
	for (size_t i = 0; i < ARRAY_LEN(a); i++)
		ask(&a[i], &r, cl, r.port, &(struct http_call_options){.target = STR("/ping")});
	for (size_t i = 0; i < ARRAY_LEN(a); i++)
		ask_end(&a[i]);
	CHECK_INT(http_server_stats(r.s).accepted, ARRAY_LEN(a));
	RIG_UNTIL(&r, http_server_stats(r.s).conns == HTTP_POOL_IDLE_MAX);
	struct http_endpoint ep = port(r.port);
	http_client_forget(cl, &ep);
	RIG_UNTIL(&r, http_server_stats(r.s).conns == 0);
	http_client_free(cl);
	rig_stop(&r);
}

struct whole_result {
	int calls, status;
	enum http_fail fail;
	size_t n;
};

static void on_reply(void *arg, const struct http_reply *r, const struct http_failure *f)
{
	struct whole_result *w = arg;
	w->calls++;
	w->status = r ? r->status : 0;
	w->n = r ? r->body.n : 0;
	w->fail = f ? f->fail : HTTP_FAIL_NONE;
}

TEST(client_whole_calls)
{
	struct rig r = {0};
	rig_start(&r);
	struct http_client *cl = http_client_new(r.l);
	struct http_endpoint ep = port(r.port);
	struct whole_result w = {0};
	struct http_call_options o = {.method = STR("POST"), .target = STR("/echo")};
	http_call_whole(cl, &ep, &(struct http_question){o, STR("hello"), 5, on_reply, &w});
	RIG_UNTIL(&r, w.calls == 1);
	CHECK_INT(w.status, 200);
	CHECK_INT(w.n, 5);
	http_call_whole(cl, &ep, &(struct http_question){o, STR("hello!"), 5, on_reply, &w});
	RIG_UNTIL(&r, w.calls == 2);
	CHECK_INT(w.fail, HTTP_FAIL_PROTOCOL);
	struct http_call *c = http_call_whole(cl, &ep, &(struct http_question){o, STR(""), 5, on_reply, &w});
	http_call_cancel(c);
	for (int i = 0; i < 10; i++)
		loop_turn(r.l, 1);
	CHECK_INT(w.calls, 2);
	http_client_free(cl);
	rig_stop(&r);
}

TEST_MAIN()
