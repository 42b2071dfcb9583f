/* Who keeps a place on a server that is full: each limit of places.h, at it and one past it. */
#include <netinet/in.h>
#include <sys/socket.h>

#include "http_rig.h"
#include "test.h"

#define GET(path)  "GET " path " HTTP/1.1\r\nHost: a\r\n\r\n"
#define POST(path) "POST " path " HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n"

/* 16 places: 4 for strangers, 8 for guests, 1 kept for local connections. */
enum { PLACES = 16, STRANGERS = 4, GUESTS = 8, PUBLIC = 15, TCP_TAG = 7, NOBODY = 99 };

static const struct http_exchange_ops none;

/* /known, /guest: vouched for and answered; behind "-hold" they stay open, with the body thrown away. Other paths: open
 * to all for GET. */
static void on_request(struct http_exchange *x, struct rig *r)
{
	struct str path = http_request(x)->path;
	enum http_rank rank = str_starts(path, STR("/known"))	? HTTP_KNOWN
			      : str_starts(path, STR("/guest")) ? HTTP_GUEST
								: HTTP_STRANGER;
	struct err e;
	(void)r;
	if (rank == HTTP_STRANGER) {
		bool is_public = http_request(x)->method == HTTP_M_GET;
		err_set(&e, is_public ? ERRC_NOT_FOUND : ERRC_UNAUTHORIZED, "a stranger");
		http_respond_error(x, &e);
	} else if (!http_exchange_vouch(x, rank)) {
		err_set(&e, ERRC_LIMIT_REACHED, "no place");
		http_respond_error(x, &e);
	} else if (memmem(path.p, path.n, "-hold", 5)) {
		http_exchange_set(x, &none, r);
	} else {
		http_respond(x, 200, NULL, STR("vouched"));
	}
}

static bool exempt_host(void *arg, const struct sockaddr *sa)
{
	uint32_t host = ntohl(((const struct sockaddr_in *)sa)->sin_addr.s_addr) & 0xff;
	return host == *(unsigned *)arg;
}

static unsigned exempt = NOBODY;

static void begin(struct rig *r)
{
	*r = (struct rig){.on_request = on_request};
	rig_start(r);
	http_server_config(r->s)->conns_max = PLACES;
	http_server_set_public(r->s, TCP_TAG, exempt_host, &exempt);
}

static void end(struct rig *r, struct peer *v, size_t n)
{
	while (n)
		peer_close(&v[--n]);
	rig_stop(r);
}

/* A connection that the server has taken, with the first bytes of a head. */
static void stranger(struct peer *p, struct rig *r, unsigned host)
{
	uint64_t before = http_server_stats(r->s).accepted;
	peer_tcp_from(p, r, host);
	peer_say(p, "GET /x HT");
	RIG_UNTIL(r, http_server_stats(r->s).accepted > before);
}

static void ask(struct peer *p, const char *path, const char *answer)
{
	char head[128];
	int n = snprintf(head, sizeof head, "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", path);
	buf_clear(&p->got);
	peer_send(p, str_n(head, (size_t)n));
	peer_until(p, answer);
}

/* A request that is not answered, seen by the server. */
static void hold(struct peer *p, struct rig *r, const char *head)
{
	uint64_t before = http_server_stats(r->s).requests;
	peer_send(p, str_of(head));
	RIG_UNTIL(r, http_server_stats(r->s).requests > before);
}

static uint64_t shed(struct rig *r, enum http_shed why)
{
	return http_server_stats(r->s).shed[why];
}

TEST(past_the_strangers_places_the_slowest_goes)
{
	struct rig r;
	struct peer p[STRANGERS + 2];
	begin(&r);
	for (unsigned i = 0; i < STRANGERS; i++)
		stranger(&p[i], &r, i + 1);
	CHECK_INT(shed(&r, HTTP_SHED_STRANGER), 0);
	CHECK_INT(http_server_stats(r.s).by_rank[HTTP_STRANGER], STRANGERS);
	stranger(&p[STRANGERS], &r, 9);
	peer_until_eof(&p[0]);
	CHECK_INT(shed(&r, HTTP_SHED_STRANGER), 1);
	CHECK_INT(http_server_stats(r.s).by_rank[HTTP_STRANGER], STRANGERS);
	/* A completed request makes p[1] the fastest: the next to go is p[2]. */
	peer_say(&p[1], "TP/1.1\r\nHost: a\r\n\r\n");
	peer_until(&p[1], "NOT_FOUND");
	stranger(&p[STRANGERS + 1], &r, 10);
	peer_until_eof(&p[2]);
	CHECK(!p[1].eof && !p[3].eof);
	end(&r, p, STRANGERS + 2);
}

TEST(past_the_limit_of_an_address_its_oldest_goes)
{
	struct rig r;
	struct peer p[6];
	begin(&r);
	http_server_config(r.s)->address_max = 2;
	stranger(&p[0], &r, 2);
	stranger(&p[1], &r, 3);
	stranger(&p[2], &r, 3);
	CHECK_INT(shed(&r, HTTP_SHED_ADDRESS), 0);
	stranger(&p[3], &r, 3);
	peer_until_eof(&p[1]);
	CHECK(!p[0].eof && !p[2].eof);
	CHECK_INT(shed(&r, HTTP_SHED_ADDRESS), 1);
	/* Authenticated connections of the address are not counted … */
	peer_say(&p[2], "TP/1.1\r\nHost: a\r\n\r\n" GET("/known"));
	peer_until(&p[2], "vouched");
	stranger(&p[4], &r, 3);
	CHECK_INT(shed(&r, HTTP_SHED_ADDRESS), 1);
	/* … until they ask as strangers again. */
	ask(&p[2], "/x", "NOT_FOUND");
	peer_until_eof(&p[3]);
	CHECK_INT(shed(&r, HTTP_SHED_ADDRESS), 2);
	stranger(&p[5], &r, 2);
	CHECK_INT(shed(&r, HTTP_SHED_ADDRESS), 2);
	end(&r, p, 6);
}

TEST(a_trusted_proxy_has_no_limit_of_its_address)
{
	struct rig r;
	struct peer p[3];
	begin(&r);
	exempt = 3;
	http_server_config(r.s)->address_max = 1;
	for (int i = 0; i < 3; i++)
		stranger(&p[i], &r, 3);
	CHECK_INT(shed(&r, HTTP_SHED_ADDRESS), 0);
	exempt = NOBODY;
	end(&r, p, 3);
}

TEST(strangers_push_out_nobody_who_is_known)
{
	struct rig r;
	struct peer known, busy, local, guest, p[5 * STRANGERS];
	begin(&r);
	peer_tcp(&known, &r);
	ask(&known, "/known", "vouched");
	peer_tcp(&busy, &r);
	hold(&busy, &r, POST("/known-hold"));
	peer_tcp(&guest, &r);
	ask(&guest, "/guest", "vouched");
	peer_pair(&local, &r);
	ask(&local, "/ping", "pong");
	for (unsigned i = 0; i < ARRAY_LEN(p); i++)
		stranger(&p[i], &r, i % 8 + 1);
	CHECK_INT(shed(&r, HTTP_SHED_STRANGER), ARRAY_LEN(p) - STRANGERS);
	CHECK_INT(shed(&r, HTTP_SHED_ROOM), 0);
	ask(&known, "/known", "vouched");
	ask(&guest, "/guest", "vouched");
	ask(&local, "/ping", "pong");
	CHECK(!busy.eof);
	peer_close(&known);
	peer_close(&busy);
	peer_close(&guest);
	peer_close(&local);
	end(&r, p, ARRAY_LEN(p));
}

TEST(a_refused_body_is_not_drained_and_the_answer_is_read)
{
	static const char *const requests[] = {
		POST("/x"), "POST /ping HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n"};
	struct rig r;
	struct peer p;
	begin(&r);
	for (size_t i = 0; i < ARRAY_LEN(requests); i++) {
		peer_tcp(&p, &r);
		peer_send(&p, str_of(requests[i]));
		peer_until_eof(&p);
		CHECK_INT(p.error, 0);
		CHECK_INT(peer_status(&p), i == 0 ? 401 : 200);
		CHECK(peer_has(&p, "Connection: close\r\n"));
		peer_close(&p);
	}
	/* For a client that is known the rest of a small body is read. */
	peer_tcp(&p, &r);
	peer_say(&p, POST("/known"));
	peer_until(&p, "vouched");
	CHECK(!peer_has(&p, "Connection: close"));
	CHECK(!p.eof);
	peer_close(&p);
	RIG_UNTIL(&r, http_server_stats(r.s).conns == 0);
	rig_stop(&r);
}

TEST(past_the_lingering_ones_the_first_goes)
{
	struct rig r;
	struct peer p[3];
	begin(&r);
	http_server_config(r.s)->lingering_max = 2;
	for (unsigned i = 0; i < 2; i++) {
		peer_tcp(&p[i], &r);
		peer_say(&p[i], POST("/x"));
		peer_until_eof(&p[i]);
	}
	CHECK_INT(http_server_stats(r.s).conns, 2);
	CHECK_INT(shed(&r, HTTP_SHED_LINGERING), 0);
	peer_tcp(&p[2], &r);
	peer_say(&p[2], POST("/x"));
	peer_until_eof(&p[2]);
	CHECK_INT(shed(&r, HTTP_SHED_LINGERING), 1);
	CHECK_INT(http_server_stats(r.s).conns, 2);
	for (unsigned i = 0; i < 3; i++)
		CHECK_INT(peer_status(&p[i]), 401);
	end(&r, p, 3);
}

TEST(guests_have_a_budget_of_their_own)
{
	struct rig r;
	struct peer p[GUESTS], next, more;
	begin(&r);
	CHECK_INT(http_server_guests_max(r.s), GUESTS);
	peer_tcp(&p[0], &r);
	ask(&p[0], "/guest", "vouched");
	peer_tcp(&p[1], &r);
	hold(&p[1], &r, POST("/guest-hold"));
	for (int i = 2; i < GUESTS; i++) {
		peer_tcp(&p[i], &r);
		hold(&p[i], &r, GET("/guest-hold"));
	}
	CHECK_INT(shed(&r, HTTP_SHED_GUEST), 0);
	/* The idle one goes, then the one that does not send its body, then nobody. */
	peer_tcp(&next, &r);
	hold(&next, &r, GET("/guest-hold"));
	peer_until_eof(&p[0]);
	peer_tcp(&more, &r);
	hold(&more, &r, GET("/guest-hold"));
	peer_until_eof(&p[1]);
	CHECK_INT(shed(&r, HTTP_SHED_GUEST), 2);
	CHECK_INT(http_server_stats(r.s).by_rank[HTTP_GUEST], GUESTS);
	peer_close(&p[0]);
	peer_tcp(&p[0], &r);
	ask(&p[0], "/guest", "LIMIT_REACHED");
	ask(&p[0], "/known", "vouched");
	for (int i = 2; i < GUESTS; i++)
		CHECK(!p[i].eof);
	peer_close(&next);
	peer_close(&more);
	end(&r, p, GUESTS);
}

TEST(a_guest_that_has_sent_its_request_stays)
{
	struct rig r;
	struct peer p[GUESTS], next;
	static const char head[] = "POST /guest-hold HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n";
	begin(&r);
	for (int i = 0; i < GUESTS; i++) {
		peer_tcp(&p[i], &r);
		hold(&p[i], &r, head);
		if (i != 2)
			peer_say(&p[i], "abc");
	}
	RIG_UNTIL(&r, http_server_stats(r.s).bytes_in == GUESTS * strlen(head) + (GUESTS - 1) * 3);
	peer_tcp(&next, &r);
	hold(&next, &r, GET("/guest-hold"));
	peer_until_eof(&p[2]);
	for (int i = 0; i < GUESTS; i++)
		CHECK_INT(p[i].eof, i == 2);
	peer_close(&next);
	end(&r, p, GUESTS);
}

TEST(some_places_are_kept_for_local_connections)
{
	struct rig r;
	struct peer p[PUBLIC], next, local;
	begin(&r);
	for (int i = 0; i < PUBLIC; i++) {
		peer_tcp(&p[i], &r);
		hold(&p[i], &r, GET("/known-hold"));
	}
	uint64_t accepted = http_server_stats(r.s).accepted;
	CHECK_INT(accepted, PUBLIC);
	/* A newcomer waits in the backlog, and does not make the loop spin. */
	peer_tcp(&next, &r);
	peer_say(&next, GET("/known"));
	uint64_t turns = 0;
	for (uint64_t until = loop_now(r.l) + 30; loop_now(r.l) < until; turns++)
		loop_turn(r.l, 10);
	CHECK(turns < 20);
	CHECK_INT(http_server_stats(r.s).accepted, PUBLIC);
	peer_pair(&local, &r);
	ask(&local, "/ping", "pong");
	peer_close(&p[0]);
	peer_until(&next, "vouched");
	peer_close(&next);
	peer_close(&local);
	end(&r, p + 1, PUBLIC - 1);
}

TEST(a_full_server_closes_idle_ones_before_fresh_strangers)
{
	struct rig r;
	struct peer p[PUBLIC], fresh, more, last;
	begin(&r);
	for (int i = 0; i < PUBLIC; i++) {
		peer_tcp(&p[i], &r);
		ask(&p[i], "/known", "vouched");
	}
	/* One stranger is kept: it and the next each cost an idle connection, the third costs the first stranger. */
	stranger(&fresh, &r, 2);
	peer_until_eof(&p[0]);
	stranger(&more, &r, 3);
	peer_until_eof(&p[1]);
	CHECK(!fresh.eof && !p[2].eof);
	stranger(&last, &r, 4);
	peer_until_eof(&fresh);
	CHECK(!more.eof && !p[2].eof);
	CHECK_INT(shed(&r, HTTP_SHED_ROOM), 3);
	peer_close(&fresh);
	peer_close(&more);
	peer_close(&last);
	end(&r, p, PUBLIC);
}

TEST_MAIN()
