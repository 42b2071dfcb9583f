#include "http/ws/ws.h"

#include <arpa/inet.h>
#include <stdlib.h>

#include "http/limits.h"
#include "http/ws/sha1.h"
#include "http/ws/ws_impl.h"
#include "http_rig.h"
#include "test.h"

/* One end of a WebSocket and all that it told. */
struct end {
	struct ws *ws;
	struct buf log; /* "text(…)", "bin(…)" */
	uint64_t bytes;
	int opens, closes, writables, code;
	char reason[128];
	bool echo, count_only;
};

static void on_open(struct ws *ws)
{
	((struct end *)ws_arg(ws))->opens++;
}

static void on_message(struct ws *ws, struct str m, bool text)
{
	struct end *e = ws_arg(ws);
	e->bytes += m.n;
	if (!e->count_only)
		buf_printf(&e->log, "%s(%.*s)", text ? "text" : "bin", STR_ARG(m));
	if (e->echo)
		ws_send(ws, m, text);
}

static void on_writable(struct ws *ws)
{
	((struct end *)ws_arg(ws))->writables++;
}

static void on_close(struct ws *ws, int code, struct str reason)
{
	struct end *e = ws_arg(ws);
	CHECK_INT(e->closes, 0);
	e->closes++;
	e->code = code;
	snprintf(e->reason, sizeof e->reason, "%.*s", STR_ARG(reason));
	e->ws = NULL;
}

static const struct ws_ops ops = {on_open, on_message, on_writable, on_close};

static struct ws_options server_options;

static void accept_ws(struct http_exchange *x, struct rig *r)
{
	static struct end nobody; /* of handshakes that must be refused */
	struct end *end = r->arg ? r->arg : &nobody;
	struct err e;
	if (ws_accept(x, &server_options, &ops, end, &end->ws, &e) < 0)
		http_respond_error(x, &e);
}

#define HANDSHAKE                                                                                                      \
	"GET /ws HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n"                     \
	"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"

static void shake(struct peer *p, struct rig *r, struct end *end)
{
	*r = (struct rig){.on_request = accept_ws, .arg = end};
	rig_start(r);
	peer_tcp(p, r);
	peer_say(p, HANDSHAKE "\r\n");
	peer_until(p, "\r\n\r\n");
	CHECK_INT(peer_status(p), 101);
	buf_clear(&p->got);
}

static void finish(struct peer *p, struct rig *r, struct end *end)
{
	peer_close(p);
	RIG_UNTIL(r, end->closes == 1);
	rig_stop(r);
	buf_free(&end->log);
}

/* Sends raw bytes; expects a close frame with this code and on_close to tell it. */
static void check_closes(struct str bytes, int code)
{
	struct rig r;
	struct peer p;
	struct end end = {0};
	shake(&p, &r, &end);
	peer_send(&p, bytes);
	peer_until_eof(&p);
	struct str got = buf_str(&p.got);
	CHECK(got.n >= 4);
	const unsigned char *f = (const unsigned char *)got.p;
	CHECK_INT(f[0], 0x88);
	CHECK_INT(f[2] << 8 | f[3], code);
	peer_close(&p);
	RIG_UNTIL(&r, end.closes);
	CHECK_INT(end.code, code);
	rig_stop(&r);
	buf_free(&end.log);
}

TEST(ws_sha1_and_base64_match_known_answers)
{
	unsigned char d[20];
	sha1(STR("abc"), d);
	CHECK_MEM(
		(char *)d, 20, "\xa9\x99\x3e\x36\x47\x06\x81\x6a\xba\x3e\x25\x71\x78\x50\xc2\x6c\x9c\xd0\xd8\x9d", 20);
	sha1(STR("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"), d);
	CHECK_MEM(
		(char *)d, 20, "\x84\x98\x3e\x44\x1c\x3b\xd2\x6e\xba\xae\x4a\xa1\xf9\x51\x29\xe5\xe5\x46\x70\xf1", 20);
	sha1(STR(""), d);
	CHECK_MEM(
		(char *)d, 20, "\xda\x39\xa3\xee\x5e\x6b\x4b\x0d\x32\x55\xbf\xef\x95\x60\x18\x90\xaf\xd8\x07\x09", 20);
	char key[29], b[16];
	ws_accept_key(STR("dGhlIHNhbXBsZSBub25jZQ=="), key);
	CHECK_CSTR(key, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
	base64(STR("a"), b);
	CHECK_CSTR(b, "YQ==");
	base64(STR("ab"), b);
	CHECK_CSTR(b, "YWI=");
	base64(STR("abc"), b);
	CHECK_CSTR(b, "YWJj");
}

TEST(ws_accepts_the_handshake_of_the_rfc)
{
	struct rig r = {.on_request = accept_ws};
	struct end end = {0};
	struct peer p;
	r.arg = &end;
	rig_start(&r);
	peer_tcp(&p, &r);
	peer_say(&p, HANDSHAKE "Sec-WebSocket-Protocol: chat\r\n\r\n");
	peer_until(&p, "\r\n\r\n");
	CHECK(peer_has(&p, "HTTP/1.1 101 Switching Protocols\r\n"));
	CHECK(peer_has(&p, "Upgrade: websocket\r\n"));
	CHECK(peer_has(&p, "Connection: upgrade\r\n"));
	CHECK(peer_has(&p, "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"));
	CHECK(!peer_has(&p, "Sec-WebSocket-Protocol"));
	CHECK_INT(end.opens, 1);
	finish(&p, &r, &end);
	CHECK_INT(end.code, WS_CLOSE_ABNORMAL);
}

TEST(ws_refuses_other_handshakes)
{
	struct end end = {0};
	struct rig r = {.on_request = accept_ws, .arg = &end};
	rig_start(&r);
	CHECK_INT(rig_ask(&r, STR("GET /ws HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")), 400);
	CHECK_INT(rig_ask(&r, STR("GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, close\r\nUpgrade: websocket\r\n"
				  "Sec-WebSocket-Version: 8\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")),
		426);
	CHECK_INT(rig_ask(&r, STR("GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, close\r\nUpgrade: websocket\r\n"
				  "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: short\r\n\r\n")),
		400);
	CHECK_INT(rig_ask(&r, STR("POST /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, close\r\nUpgrade: websocket\r\n"
				  "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")),
		400);
	rig_stop(&r);
}

TEST(ws_reads_text_binary_fragments_and_answers_pings)
{
	struct rig r;
	struct peer p;
	struct end end = {.echo = true};
	shake(&p, &r, &end);
	/* "Hello" masked, as in the RFC; then "ab" in two fragments with a ping between; an empty binary. */
	peer_say(&p, "\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58");
	peer_until(&p, "\x81\x05Hello");
	peer_say(&p, "\x01\x81\x00\x00\x00\x00"
		     "a"
		     "\x89\x82\x01\x01\x01\x01\x31\x30"
		     "\x80\x81\x00\x00\x00\x00"
		     "b");
	peer_until(&p, "\x8a\x02"
		       "01");
	peer_until(&p, "\x81\x02"
		       "ab");
	peer_say(&p, "\x82\x80\x00\x00\x00\x00");
	RIG_UNTIL(&r, end.log.len >= 20);
	CHECK_STR(buf_str(&end.log), "text(Hello)text(ab)bin()");
	/* Byte by byte is the same. */
	struct str again = STR("\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58");
	buf_clear(&end.log);
	buf_clear(&p.got);
	for (size_t i = 0; i < again.n; i++) {
		peer_send(&p, str_n(again.p + i, 1));
		loop_turn(r.l, 0);
	}
	peer_until(&p, "Hello");
	CHECK_STR(buf_str(&end.log), "text(Hello)");
	/* A close with a code is answered with the same. */
	buf_clear(&p.got);
	peer_say(&p, "\x88\x84\x00\x00\x00\x00\x03\xe9go");
	peer_until_eof(&p);
	CHECK_STR(buf_str(&p.got), "\x88\x02\x03\xe9");
	finish(&p, &r, &end);
	CHECK_INT(end.code, 1001);
	CHECK_CSTR(end.reason, "go");
}

#define M0 "\x00\x00\x00\x00"

TEST(ws_ends_on_protocol_errors_with_the_right_code)
{
	check_closes(STR("\x81\x05Hello"), 1002);		/* not masked */
	check_closes(STR("\xc1\x80" M0), 1002);			/* reserved bit */
	check_closes(STR("\x83\x80" M0), 1002);			/* unknown opcode */
	check_closes(STR("\x8b\x80" M0), 1002);			/* unknown control opcode */
	check_closes(STR("\x80\x80" M0), 1002);			/* nothing to continue */
	check_closes(STR("\x01\x80" M0 "\x81\x80" M0), 1002);	/* message inside a message */
	check_closes(STR("\x09\x80" M0), 1002);			/* fragmented ping */
	check_closes(STR("\x89\xfe\x00\x7e" M0), 1002);		/* long ping */
	check_closes(STR("\x81\xfe\x00\x05" M0 "Hello"), 1002); /* length not minimal */
	check_closes(STR("\x81\xff\x00\x00\x00\x00\x00\x00\x00\x05" M0), 1002);
	check_closes(STR("\x81\xff\x80\x00\x00\x00\x00\x00\x00\x00" M0), 1002);
	check_closes(STR("\x81\xff\x00\x00\x00\x00\x40\x00\x00\x00" M0), 1009);
	check_closes(STR("\x81\x82" M0 "\xc0\x80"), 1007); /* not UTF-8 */
	check_closes(STR("\x88\x81" M0 "\x03"), 1002);	   /* close with one byte */
	check_closes(STR("\x88\x82" M0 "\x03\xed"), 1002); /* code 1005 */
	check_closes(STR("\x88\x82" M0 "\x00\x01"), 1002);
	check_closes(STR("\x88\x83" M0 "\x03\xe8\xff"), 1007);
}

TEST(ws_takes_a_message_at_its_limit_and_refuses_one_past_it)
{
	server_options.message_max = 300;
	struct rig r;
	struct peer p;
	struct end end = {.count_only = true};
	auto_buf struct buf b = {0};
	shake(&p, &r, &end);
	buf_add(&b, "\x02\xfe\x00\xc8" M0, 8);
	for (int i = 0; i < 200; i++)
		buf_add_byte(&b, 'x');
	buf_add(&b, "\x80\xe4" M0, 6);
	for (int i = 0; i < 100; i++)
		buf_add_byte(&b, 'y');
	peer_send(&p, buf_str(&b));
	RIG_UNTIL(&r, end.bytes == 300);
	b.p[209 - 1] = (char)0x80;
	b.p[209] = (char)0xe5;
	peer_send(&p, buf_str(&b));
	peer_until_eof(&p);
	finish(&p, &r, &end);
	CHECK_INT(end.code, WS_CLOSE_TOO_BIG);
}

static void connect_to(struct end *end, struct rig *r, struct http_client *cl)
{
	struct http_endpoint ep = {.in = {.sin_family = AF_INET, .sin_port = htons((uint16_t)r->port)}};
	ep.in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	ep.len = sizeof ep.in;
	end->ws = ws_connect(cl, &ep, &(struct http_call_options){.target = STR("/ws")}, &server_options, &ops, end);
}

TEST(ws_both_ends_of_ours_talk_and_close)
{
	struct end server = {.echo = true}, client = {0};
	struct rig r = {.on_request = accept_ws, .arg = &server};
	rig_start(&r);
	struct http_client *cl = http_client_new(r.l);
	connect_to(&client, &r, cl);
	RIG_UNTIL(&r, client.opens && server.opens);
	ws_send(client.ws, STR("hello"), true);
	ws_send(client.ws, STR("\x00\x01"), false);
	ws_ping(client.ws);
	RIG_UNTIL(&r, client.bytes == 7);
	ws_close(client.ws, WS_CLOSE_NORMAL, STR("bye"));
	RIG_UNTIL(&r, client.closes && server.closes);
	CHECK_INT(client.code, 1000);
	CHECK_INT(server.code, 1000);
	CHECK_CSTR(server.reason, "bye");
	http_client_free(cl);
	rig_stop(&r);
	buf_free(&client.log);
	buf_free(&server.log);
}

TEST(ws_long_messages_go_in_frames_and_arrive_whole)
{
	struct end server = {.echo = true, .count_only = true}, client = {.count_only = true};
	server_options.message_max = 32 * WS_FRAME_MAX;
	struct rig r = {.on_request = accept_ws, .arg = &server};
	rig_start(&r);
	struct http_client *cl = http_client_new(r.l);
	connect_to(&client, &r, cl);
	RIG_UNTIL(&r, client.opens);
	/* More than the kernel's buffers take. */
	size_t n = 24 * WS_FRAME_MAX + 17;
	auto_free char *big = xmalloc(n);
	memset(big, 'z', n);
	CHECK(!ws_send(client.ws, str_n(big, n), true));
	RIG_UNTIL(&r, client.bytes == n);
	CHECK(client.writables > 0);
	ws_abort(client.ws);
	RIG_UNTIL(&r, client.closes && server.closes);
	CHECK_INT(client.code, WS_CLOSE_ABNORMAL);
	http_client_free(cl);
	rig_stop(&r);
}

TEST(ws_pause_holds_messages_back_until_resume)
{
	struct rig r;
	struct peer p;
	struct end end = {0};
	shake(&p, &r, &end);
	ws_pause(end.ws);
	peer_say(&p, "\x81\x81" M0 "a\x81\x81" M0 "b");
	for (int i = 0; i < 5; i++)
		loop_turn(r.l, 1);
	CHECK_INT(end.bytes, 0);
	ws_resume(end.ws);
	RIG_UNTIL(&r, end.bytes == 2);
	CHECK_STR(buf_str(&end.log), "text(a)text(b)");
	finish(&p, &r, &end);
}

TEST(ws_pings_a_quiet_peer_and_gives_up_on_a_dead_one)
{
	server_options = (struct ws_options){.ping_ms = 500}; /* the peer must get to read it before it is given up */
	struct rig r;
	struct peer p;
	struct end end = {0};
	shake(&p, &r, &end);
	peer_until(&p, "\x89");
	peer_until_eof(&p);
	RIG_UNTIL(&r, end.closes);
	CHECK_INT(end.code, WS_CLOSE_ABNORMAL);
	finish(&p, &r, &end);
}

TEST(ws_keeps_a_quiet_peer_that_answers)
{
	server_options = (struct ws_options){.ping_ms = 100};
	struct rig r;
	struct peer p;
	struct end end = {0};
	shake(&p, &r, &end);
	for (int i = 0; i < 5; i++) {
		usleep(250 * 1000); /* a loop that has other things to do: whoever was not asked cannot have answered */
		peer_until(&p, "\x89");
		CHECK_INT(end.closes, 0);
		buf_clear(&p.got);
		peer_say(&p, "\x8a\x80" M0);
	}
	finish(&p, &r, &end);
}

/* A server of the test's own answers the client's handshake with `answer`. */
static void check_client_refuses(const char *answer)
{
	struct rig r = {0};
	struct stage g;
	struct peer server;
	struct end client = {0};
	rig_start(&r);
	stage_open(&g);
	struct http_client *cl = http_client_new(r.l);
	struct rig to = {.port = g.port};
	connect_to(&client, &to, cl);
	stage_accept(&g, &server, &r);
	peer_until(&server, "\r\n\r\n");
	peer_send(&server, str_of(answer));
	RIG_UNTIL(&r, client.closes);
	CHECK_INT(client.opens, 0);
	CHECK_INT(client.code, WS_CLOSE_ABNORMAL);
	CHECK(client.reason[0]);
	peer_close(&server);
	stage_close(&g);
	http_client_free(cl);
	rig_stop(&r);
}

TEST(ws_client_refuses_a_wrong_answer)
{
	check_client_refuses("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
	check_client_refuses("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
			     "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n");
	check_client_refuses("HTTP/1.1 101 Switching Protocols\r\nUpgrade: other\r\nConnection: Upgrade\r\n\r\n");
	check_client_refuses("garbage\r\n\r\n");
}

TEST_MAIN()
