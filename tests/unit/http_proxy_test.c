#include "http/proxy.h"

#include <arpa/inet.h>
#include <stdlib.h>

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

TEST_MAIN()
