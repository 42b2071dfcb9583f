/* How connections share the turns of the loop: each limit of docs/design/026-turns.md, at it and one past it. */
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "http/client/client.h"
#include "http_rig.h"
#include "test.h"

#define GET(path) "GET " path " HTTP/1.1\r\nHost: a\r\n\r\n"

enum { TCP_TAG = 7, WORK_US = 1000, FROM = 3 };

static int asked, pieces[8], pieces_n;

static void on_body(struct http_exchange *x, struct str chunk)
{
	(void)x;
	if (pieces_n < (int)ARRAY_LEN(pieces))
		pieces[pieces_n++] = (int)chunk.n;
}

static void on_body_end(struct http_exchange *x)
{
	http_respond(x, 200, NULL, STR("took it"));
}

static const struct http_exchange_ops pieces_ops = {.on_body = on_body, .on_body_end = on_body_end};

/* /known is vouched for; /work takes a while; /401 is refused; /pieces notes how its body comes. */
static void on_request(struct http_exchange *x, struct rig *r)
{
	struct str path = http_request(x)->path;
	struct err e;
	(void)r;
	asked++;
	if (str_starts(path, STR("/known")))
		http_exchange_vouch(x, HTTP_KNOWN);
	if (str_eq_c(path, "/pieces"))
		return http_exchange_set(x, &pieces_ops, NULL);
	for (uint64_t until = clock_us() + WORK_US; str_eq_c(path, "/work") && clock_us() < until;)
		;
	if (str_ends(path, STR("401"))) {
		err_set(&e, ERRC_UNAUTHORIZED, "a token is needed");
		return http_respond_error(x, &e);
	}
	http_respond(x, 200, NULL, STR("done"));
}

static bool is_proxy(void *arg, const struct sockaddr *sa)
{
	(void)arg;
	return (ntohl(((const struct sockaddr_in *)sa)->sin_addr.s_addr) & 0xff) == FROM;
}

static void begin(struct rig *r)
{
	*r = (struct rig){.on_request = on_request};
	rig_start(r);
	http_server_set_public(r->s, TCP_TAG, is_proxy, NULL);
}

static void send_many(struct peer *p, const char *request, int n)
{
	auto_buf struct buf all = {0};
	while (n--)
		buf_add_c(&all, request);
	peer_send(p, buf_str(&all));
}

static int count(const struct peer *p, const char *text)
{
	int n = 0;
	struct str in = buf_str(&p->got);
	for (const char *at = in.p; in.n && (at = memmem(at, in.n - (size_t)(at - in.p), text, strlen(text))); at++)
		n++;
	return n;
}

/* Everything that a connection has sent ahead was answered in one turn, before anything else. */
TEST(turns_requests_of_a_stranger_do_not_keep_others_waiting)
{
	struct rig r;
	struct peer stranger, local;
	begin(&r);
	peer_tcp(&stranger, &r);
	peer_pair(&local, &r);
	send_many(&stranger, GET("/work"), 80);
	RIG_UNTIL(&r, asked > 0);
	int before = asked;
	peer_say(&local, GET("/ping"));
	peer_until(&local, "pong");
	/* A turn has at most TURN_STRANGERS of them, and the answer took a few turns to arrive. */
	CHECK(asked - before < 40);
	RIG_UNTIL(&r, count(&stranger, "done") == 80);
	peer_close(&stranger);
	peer_close(&local);
	rig_stop(&r);
}

TEST(turns_a_strangers_connection_ends_with_its_last_request)
{
	struct rig r;
	struct peer p, more;
	begin(&r);
	peer_tcp(&p, &r);
	send_many(&p, GET("/x"), HTTP_STRANGER_REQUESTS - 1);
	RIG_UNTIL(&r, count(&p, "done") == HTTP_STRANGER_REQUESTS - 1);
	CHECK_INT(count(&p, "Connection: close"), 0);
	peer_say(&p, GET("/x") GET("/x"));
	peer_until_eof(&p);
	CHECK_INT(count(&p, "done"), HTTP_STRANGER_REQUESTS);
	CHECK_INT(count(&p, "Connection: close"), 1);
	/* A token begins the count anew; a proxy's connection has no end. */
	peer_close(&p);
	peer_tcp(&p, &r);
	send_many(&p, GET("/x"), HTTP_STRANGER_REQUESTS - 1);
	peer_say(&p, GET("/known"));
	send_many(&p, GET("/x"), HTTP_STRANGER_REQUESTS - 1);
	peer_tcp_from(&more, &r, FROM);
	send_many(&more, GET("/x"), 2 * HTTP_STRANGER_REQUESTS);
	RIG_UNTIL(&r, count(&p, "done") == 2 * HTTP_STRANGER_REQUESTS - 1);
	RIG_UNTIL(&r, count(&more, "done") == 2 * HTTP_STRANGER_REQUESTS);
	CHECK_INT(count(&p, "Connection: close") + count(&more, "Connection: close"), 0);
	peer_close(&p);
	peer_close(&more);
	rig_stop(&r);
}

TEST(turns_a_stranger_is_closed_after_401)
{
	struct rig r;
	struct peer p;
	begin(&r);
	peer_tcp(&p, &r);
	peer_say(&p, GET("/401") GET("/401"));
	peer_until_eof(&p);
	CHECK_INT(peer_status(&p), 401);
	CHECK_INT(count(&p, "401 Unauthorized"), 1);
	CHECK_INT(count(&p, "Connection: close"), 1);
	peer_close(&p);
	/* Neither who is known, nor a proxy. */
	for (int i = 0; i < 2; i++) {
		if (i)
			peer_tcp_from(&p, &r, FROM);
		else
			peer_tcp(&p, &r);
		peer_send(&p, i ? STR(GET("/401") GET("/x")) : STR(GET("/known/401") GET("/x")));
		peer_until(&p, "done");
		CHECK_INT(count(&p, "Connection: close"), 0);
		peer_close(&p);
	}
	rig_stop(&r);
}

static void send_chunks(struct peer *p, int n)
{
	auto_buf struct buf all = {0};
	buf_add_c(&all, "POST /pieces HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
	while (n--)
		buf_add_c(&all, "1\r\nx\r\n");
	buf_add_c(&all, "0\r\n\r\n");
	pieces_n = 0;
	peer_send(p, buf_str(&all));
	peer_until(p, "took it");
	buf_clear(&p->got);
}

TEST(turns_small_chunks_come_as_one_up_to_the_chunks_of_a_turn)
{
	struct rig r;
	struct peer p;
	begin(&r);
	peer_pair(&p, &r);
	send_chunks(&p, HTTP_TURN_CHUNKS);
	CHECK_INT(pieces_n, 1);
	CHECK_INT(pieces[0], HTTP_TURN_CHUNKS);
	send_chunks(&p, HTTP_TURN_CHUNKS + 1);
	CHECK_INT(pieces_n, 2);
	CHECK_INT(pieces[0], HTTP_TURN_CHUNKS);
	CHECK_INT(pieces[1], 1);
	peer_close(&p);
	rig_stop(&r);
}

TEST(turns_long_chunks_come_as_they_are)
{
	static char body[] = "POST /pieces HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n3ff\r\n";
	struct rig r;
	struct peer p;
	auto_buf struct buf b = {0};
	begin(&r);
	peer_pair(&p, &r);
	buf_add_c(&b, body);
	for (unsigned i = 0; i < HTTP_CHUNK_SMALL - 1; i++)
		buf_add_byte(&b, 'x');
	buf_add_c(&b, "\r\n1\r\ny\r\n400\r\n");
	for (unsigned i = 0; i < HTTP_CHUNK_SMALL; i++)
		buf_add_byte(&b, 'z');
	buf_add_c(&b, "\r\n1\r\ny\r\n0\r\nTrailer: 1\r\n\r\n");
	peer_send(&p, buf_str(&b));
	peer_until(&p, "took it");
	CHECK_INT(pieces_n, 3);
	CHECK_INT(pieces[0], 2 + (int)HTTP_CHUNK_SMALL - 1 + 1);
	CHECK_INT(pieces[1], (int)HTTP_CHUNK_SMALL);
	CHECK_INT(pieces[2], 1);
	peer_close(&p);
	rig_stop(&r);
}

TEST(turns_gathered_chunks_have_a_bound)
{
	enum { PIECE = HTTP_CHUNK_SMALL - 1, FIT = HTTP_CHUNK_GATHER / HTTP_CHUNK_SMALL };
	struct rig r;
	struct peer p;
	auto_buf struct buf b = {0};
	begin(&r);
	peer_pair(&p, &r);
	buf_add_c(&b, "POST /pieces HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
	for (int k = 0; k < FIT + 1; k++) {
		buf_add_c(&b, "3ff\r\n");
		for (unsigned i = 0; i < PIECE; i++)
			buf_add_byte(&b, 'x');
		buf_add_c(&b, "\r\n");
	}
	buf_add_c(&b, "0\r\n\r\n");
	peer_send(&p, buf_str(&b));
	peer_until(&p, "took it");
	int all = 0;
	for (int i = 0; i < pieces_n; i++) {
		CHECK(pieces[i] <= (int)HTTP_CHUNK_GATHER);
		all += pieces[i];
	}
	CHECK_INT(all, (FIT + 1) * PIECE);
	CHECK(pieces_n >= 2);
	peer_close(&p);
	rig_stop(&r);
}

/* ---- answers ---- */

static int answer_pieces[8], answer_n;
static bool answered;

static void on_answer(struct http_call *c, struct str chunk)
{
	(void)c;
	if (answer_n < (int)ARRAY_LEN(answer_pieces))
		answer_pieces[answer_n++] = (int)chunk.n;
}

static void on_answered(struct http_call *c, const struct http_failure *failure)
{
	(void)c;
	CHECK(!failure);
	answered = true;
}

static const struct http_call_ops call_ops = {.on_body = on_answer, .on_close = on_answered};

static void answer_in_chunks(struct rig *r, struct http_client *cl, int n)
{
	auto_buf struct buf all = {0};
	int pair[2];
	struct peer server = {.r = r};
	answer_n = 0;
	answered = false;
	CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
	http_call_start_fd(cl, pair[0], &(struct http_call_options){0}, &call_ops, NULL);
	buf_add_c(&all, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
	while (n--)
		buf_add_c(&all, "1\r\nx\r\n");
	buf_add_c(&all, "0\r\n\r\n");
	server.fd = pair[1];
	CHECK_INT(write(server.fd, buf_str(&all).p, buf_size(&all)), buf_size(&all));
	RIG_UNTIL(r, answered);
	close(server.fd);
}

TEST(turns_small_chunks_of_an_answer_come_as_one)
{
	struct rig r;
	begin(&r);
	struct http_client *cl = http_client_new(r.l);
	answer_in_chunks(&r, cl, HTTP_TURN_CHUNKS);
	CHECK_INT(answer_n, 1);
	CHECK_INT(answer_pieces[0], HTTP_TURN_CHUNKS);
	answer_in_chunks(&r, cl, HTTP_TURN_CHUNKS + 1);
	CHECK_INT(answer_n, 2);
	CHECK_INT(answer_pieces[1], 1);
	http_client_free(cl);
	rig_stop(&r);
}

/* On a socket that keeps records each send is one. */
TEST(turns_answers_to_requests_that_came_together_leave_together)
{
	struct rig r;
	int pair[2];
	char got[16384];
	auto_buf struct buf all = {0};
	begin(&r);
	CHECK_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
	CHECK_INT(http_server_adopt(r.s, pair[1], 9, NULL, NULL), 0);
	for (int i = 0; i < 10; i++)
		buf_add_c(&all, GET("/x"));
	CHECK_INT(send(pair[0], buf_str(&all).p, buf_size(&all), 0), buf_size(&all));
	RIG_UNTIL(&r, asked == 10);
	ssize_t n = recv(pair[0], got, sizeof got, MSG_DONTWAIT);
	CHECK(n > 0 && memmem(got, (size_t)n, "done", 4));
	int answers = 0;
	for (char *at = got; (at = memmem(at, (size_t)(got + n - at), "done", 4)); at++)
		answers++;
	/* A slow machine may need a second turn. */
	CHECK(answers >= 2);
	close(pair[0]);
	RIG_UNTIL(&r, http_server_stats(r.s).conns == 0);
	rig_stop(&r);
}

TEST_MAIN()
