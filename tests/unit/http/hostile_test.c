/* What the server must refuse, byte for byte, over real connections. None of it may reach the handler. */
#include <stdlib.h>

#include "http/limits.h"
#include "http_rig.h"
#include "test.h"

struct hostile {
	const char *what;
	struct str bytes;
	int status;
};

static void check_refused(const struct hostile *v, size_t n)
{
	struct rig r = {0};
	rig_start(&r);
	for (size_t i = 0; i < n; i++) {
		int before = r.requests;
		int status = rig_ask(&r, v[i].bytes);
		if (status != v[i].status || r.requests != before)
			test_fail(__FILE__, __LINE__, "%s: status %d, expected %d; %d reached the handler", v[i].what,
				status, v[i].status, r.requests - before);
	}
	rig_stop(&r);
}
#define CHECK_REFUSED(v) check_refused(v, ARRAY_LEN(v))

#define GET_PING  "GET /ping HTTP/1.1\r\n"
#define POST_ECHO "POST /echo HTTP/1.1\r\nHost: a\r\n"

TEST(hostile_request_lines)
{
	static const struct hostile v[] = {
		{"lower-case method", STR("get /ping HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
		{"mixed-case method", STR("Get /ping HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
		{"unknown method", STR("BREW /ping HTTP/1.1\r\nHost: a\r\n\r\n"), 501},
		{"method too long", STR("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA / HTTP/1.1\r\n"), 400},
		{"CONNECT", STR("CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n"), 405},
		{"authority form", STR("GET a:80 HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
		{"star for GET", STR("GET * HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
		{"no slash", STR("GET ping HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
		{"other scheme", STR("GET ftp://a/ping HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
		{"absolute without host", STR("GET http:///ping HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
		{"absolute with user", STR("GET http://u@a/ping HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
		{"fragment", STR("GET /ping#x HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
		{"two blanks", STR("GET  /ping HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
		{"blank in target", STR("GET /pi ng HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
		{"tab after method", STR("GET\t/ping HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
		{"control in target", STR("GET /pi\x01ng HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
		{"NUL in target", STR("GET /pi\0ng HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
		{"8 bit in target", STR("GET /p\xc3\xa4 HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
		{"trailing blank", STR("GET /ping HTTP/1.1 \r\nHost: a\r\n\r\n"), 400},
		{"HTTP/0.9", STR("GET /ping\r\n"), 400},
		{"HTTP/0.9 with LF", STR("GET /ping\n"), 400},
		{"version 0.9", STR("GET /ping HTTP/0.9\r\nHost: a\r\n\r\n"), 505},
		{"version 1.2", STR("GET /ping HTTP/1.2\r\nHost: a\r\n\r\n"), 505},
		{"version 2.0", STR("GET /ping HTTP/2.0\r\nHost: a\r\n\r\n"), 505},
		{"version 1.10", STR("GET /ping HTTP/1.10\r\nHost: a\r\n\r\n"), 400},
		{"version 1", STR("GET /ping HTTP/1\r\nHost: a\r\n\r\n"), 400},
		{"http lower-case", STR("GET /ping http/1.1\r\nHost: a\r\n\r\n"), 400},
		{"not HTTP at all", STR("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"), 400},
		{"SSH", STR("SSH-2.0-OpenSSH_9.2\r\n"), 400},
		{"HTTP/2 preface", STR("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 505},
		{"zeroes", STR("\0\0\0\0\0\0\0\0"), 400},
		{"two empty lines first", STR("\r\n\r\nGET /ping HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
		{"bare LF first", STR("\nGET /ping HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
		{"blank first", STR(" GET /ping HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
	};
	CHECK_REFUSED(v);
}

TEST(hostile_header_lines)
{
	static const struct hostile v[] = {
		{"no Host", STR(GET_PING "\r\n"), 400},
		{"two Hosts", STR(GET_PING "Host: a\r\nHost: a\r\n\r\n"), 400},
		{"two Hosts in absolute form", STR("GET http://a/ HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n"), 400},
		{"Host with path", STR(GET_PING "Host: a/b\r\n\r\n"), 400},
		{"Host with user", STR(GET_PING "Host: u@a\r\n\r\n"), 400},
		{"Host with blank", STR(GET_PING "Host: a b\r\n\r\n"), 400},
		{"Host list", STR(GET_PING "Host: a, b\r\n\r\n"), 400},
		{"folded line", STR(GET_PING "Host: a\r\nX: 1\r\n 2\r\n\r\n"), 400},
		{"folded with tab", STR(GET_PING "Host: a\r\nX: 1\r\n\t2\r\n\r\n"), 400},
		{"folded first", STR(GET_PING " X: 1\r\nHost: a\r\n\r\n"), 400},
		{"bare LF in request line", STR("GET /ping HTTP/1.1\nHost: a\r\n\r\n"), 400},
		{"bare LF in header", STR(GET_PING "Host: a\nX: 1\r\n\r\n"), 400},
		{"bare LF at the end", STR(GET_PING "Host: a\r\n\n"), 400},
		{"bare CR in value", STR(GET_PING "Host: a\r\nX: 1\r2\r\n\r\n"), 400},
		{"bare CR at the end", STR(GET_PING "Host: a\r\n\rX"), 400},
		{"CR CR LF", STR(GET_PING "Host: a\r\r\n\r\n"), 400},
		{"NUL in value", STR(GET_PING "Host: a\r\nX: 1\0002\r\n\r\n"), 400},
		{"control in value", STR(GET_PING "Host: a\r\nX: \x01\r\n\r\n"), 400},
		{"DEL in value", STR(GET_PING "Host: a\r\nX: \x7f\r\n\r\n"), 400},
		{"blank before colon", STR(GET_PING "Host : a\r\n\r\n"), 400},
		{"tab before colon", STR(GET_PING "Host\t: a\r\n\r\n"), 400},
		{"blank in name", STR(GET_PING "Host: a\r\nX Y: 1\r\n\r\n"), 400},
		{"no colon", STR(GET_PING "Host: a\r\nfoo\r\n\r\n"), 400},
		{"empty name", STR(GET_PING "Host: a\r\n: 1\r\n\r\n"), 400},
		{"8 bit in name", STR(GET_PING "Host: a\r\nX\xe4: 1\r\n\r\n"), 400},
		{"NUL in name", STR(GET_PING "Host: a\r\nX\0: 1\r\n\r\n"), 400},
		{"parenthesis in name", STR(GET_PING "Host: a\r\nX(): 1\r\n\r\n"), 400},
		{"unknown expectation", STR(GET_PING "Host: a\r\nExpect: magic\r\n\r\n"), 417},
	};
	CHECK_REFUSED(v);
}

TEST(hostile_framing)
{
	static const struct hostile v[] = {
		{"CL and TE", STR(POST_ECHO "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), 400},
		{"TE and CL", STR(POST_ECHO "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n"), 400},
		{"TE and CL 0", STR(POST_ECHO "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n0\r\n\r\n"), 400},
		{"two CL", STR(POST_ECHO "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc"), 400},
		{"two equal CL", STR(POST_ECHO "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc"), 400},
		{"two zero CL", STR(POST_ECHO "Content-Length: 0\r\nContent-Length: 0\r\n\r\n"), 400},
		{"CL list", STR(POST_ECHO "Content-Length: 3, 3\r\n\r\nabc"), 400},
		{"CL +3", STR(POST_ECHO "Content-Length: +3\r\n\r\nabc"), 400},
		{"CL -3", STR(POST_ECHO "Content-Length: -3\r\n\r\nabc"), 400},
		{"CL 3 4", STR(POST_ECHO "Content-Length:  3 4\r\n\r\nabc"), 400},
		{"CL 0x3", STR(POST_ECHO "Content-Length: 0x3\r\n\r\nabc"), 400},
		{"CL 3;", STR(POST_ECHO "Content-Length: 3;\r\n\r\nabc"), 400},
		{"CL 3.0", STR(POST_ECHO "Content-Length: 3.0\r\n\r\nabc"), 400},
		{"CL empty", STR(POST_ECHO "Content-Length: \r\n\r\nabc"), 400},
		{"CL 2^64+3", STR(POST_ECHO "Content-Length: 18446744073709551619\r\n\r\nabc"), 400},
		{"CL 2^63", STR(POST_ECHO "Content-Length: 9223372036854775808\r\n\r\nabc"), 400},
		{"CL of 30 digits", STR(POST_ECHO "Content-Length: 100000000000000000000000000003\r\n\r\nabc"), 400},
		{"CL quoted", STR(POST_ECHO "Content-Length: \"3\"\r\n\r\nabc"), 400},
		{"bad CL for GET", STR(GET_PING "Host: a\r\nContent-Length: x\r\n\r\n"), 400},
		{"TE gzip", STR(POST_ECHO "Transfer-Encoding: gzip\r\n\r\n0\r\n\r\n"), 400},
		{"TE identity", STR(POST_ECHO "Transfer-Encoding: identity\r\n\r\n0\r\n\r\n"), 400},
		{"TE gzip, chunked", STR(POST_ECHO "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"), 400},
		{"TE chunked, gzip", STR(POST_ECHO "Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n"), 400},
		{"TE chunked, chunked", STR(POST_ECHO "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n"), 400},
		{"TE twice", STR(POST_ECHO "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
			400},
		{"TE chunked;q=1", STR(POST_ECHO "Transfer-Encoding: chunked;q=1\r\n\r\n0\r\n\r\n"), 400},
		{"TE xchunked", STR(POST_ECHO "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"), 400},
		{"TE with VT",
			STR(POST_ECHO "Transfer-Encoding: \x0b"
				      "chunked\r\n\r\n0\r\n\r\n"),
			400},
		{"TE empty", STR(POST_ECHO "Transfer-Encoding:\r\n\r\n0\r\n\r\n"), 400},
		{"TE quoted", STR(POST_ECHO "Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n"), 400},
		{"TE in HTTP/1.0", STR("POST /echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), 400},
	};
	CHECK_REFUSED(v);
}

/* The head of these is fine; the echo handler gathers the body and is never called. */
static int ask_chunked(struct rig *r, struct str body)
{
	auto_buf struct buf b = {0};
	buf_add_c(&b, POST_ECHO "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n");
	buf_add_str(&b, body);
	int completes = r->completes;
	int status = rig_ask(r, buf_str(&b));
	CHECK_INT(r->completes - completes, status == 200);
	return status;
}

TEST(hostile_chunks)
{
	static const struct hostile v[] = {
		{"no size", STR("\r\nabc\r\n0\r\n\r\n"), 400},
		{"size not hexadecimal", STR("g\r\nabc\r\n0\r\n\r\n"), 400},
		{"size 0x3", STR("0x3\r\nabc\r\n0\r\n\r\n"), 400},
		{"size +3", STR("+3\r\nabc\r\n0\r\n\r\n"), 400},
		{"size -3", STR("-3\r\nabc\r\n0\r\n\r\n"), 400},
		{"blank before size", STR(" 3\r\nabc\r\n0\r\n\r\n"), 400},
		{"blank after size", STR("3 \r\nabc\r\n0\r\n\r\n"), 400},
		{"tab after size", STR("3\t\r\nabc\r\n0\r\n\r\n"), 400},
		{"size of 16 digits", STR("0000000000000003\r\nabc\r\n0\r\n\r\n"), 400},
		{"size past 64 bits", STR("10000000000000003\r\nabc\r\n0\r\n\r\n"), 400},
		{"LF after size", STR("3\nabc\r\n0\r\n\r\n"), 400},
		{"CR after size", STR("3\rabc\r\n0\r\n\r\n"), 400},
		{"LF after data", STR("3\r\nabc\n0\r\n\r\n"), 400},
		{"nothing after data", STR("3\r\nabc0\r\n\r\n"), 400},
		{"data too long", STR("3\r\nabcd\r\n0\r\n\r\n"), 400},
		{"CR X after data", STR("3\r\nabc\rX0\r\n\r\n"), 400},
		{"extension without name", STR("3;\r\nabc\r\n0\r\n\r\n"), 400},
		{"extension without value", STR("3;a=\r\nabc\r\n0\r\n\r\n"), 400},
		{"blank in extension", STR("3; a\r\nabc\r\n0\r\n\r\n"), 400},
		{"8 bit in extension", STR("3;a\xbd\r\nabc\r\n0\r\n\r\n"), 400},
		{"LF in extension", STR("3;a\n\r\nabc\r\n0\r\n\r\n"), 400},
		{"CR in extension", STR("3;a\rb\r\nabc\r\n0\r\n\r\n"), 400},
		{"NUL in extension", STR("3;a\0b\r\nabc\r\n0\r\n\r\n"), 400},
		{"LF at the end", STR("3\r\nabc\r\n0\r\n\n"), 400},
		{"LF after last size", STR("3\r\nabc\r\n0\n\r\n"), 400},
		{"bad trailer", STR("3\r\nabc\r\n0\r\nbad\r\n\r\n"), 400},
		{"folded trailer", STR("3\r\nabc\r\n0\r\nA: 1\r\n 2\r\n\r\n"), 400},
		{"blank in trailer name", STR("3\r\nabc\r\n0\r\nA : 1\r\n\r\n"), 400},
		{"length in trailer", STR("3\r\nabc\r\n0\r\ncontent-length: 5\r\n\r\n"), 400},
		{"encoding in trailer", STR("3\r\nabc\r\n0\r\nTransfer-Encoding: chunked\r\n\r\n"), 400},
		{"NUL in trailer", STR("3\r\nabc\r\n0\r\nA: \0\r\n\r\n"), 400},
	};
	struct rig r = {0};
	rig_start(&r);
	CHECK_INT(ask_chunked(&r, STR("3\r\nabc\r\n0\r\n\r\n")), 200);
	CHECK_INT(ask_chunked(&r, STR("3;a=b\r\nabc\r\n00000a\r\n0123456789\r\n0;z\r\nA: 1\r\n\r\n")), 200);
	for (size_t i = 0; i < ARRAY_LEN(v); i++) {
		int status = ask_chunked(&r, v[i].bytes);
		if (status != v[i].status)
			test_fail(__FILE__, __LINE__, "%s: status %d, expected %d", v[i].what, status, v[i].status);
	}
	rig_stop(&r);
}

TEST(hostile_chunk_extensions_and_trailers_at_the_limit)
{
	struct rig r = {0};
	auto_buf struct buf b = {0};
	rig_start(&r);
	for (int over = 0; over < 2; over++) {
		buf_clear(&b);
		buf_add_c(&b, "3;");
		for (int i = 0; i < HTTP_CHUNK_EXT_MAX + over; i++)
			buf_add_byte(&b, 'e');
		buf_add_c(&b, "\r\nabc\r\n0\r\n\r\n");
		CHECK_INT(ask_chunked(&r, buf_str(&b)), over ? 400 : 200);
	}
	/* Extensions of a whole message: each short, too many together. */
	buf_clear(&b);
	for (unsigned i = 0; i <= HTTP_HEAD_MAX / 200; i++)
		buf_printf(&b, "1;%0200d\r\nx\r\n", 1);
	buf_add_c(&b, "0\r\n\r\n");
	CHECK_INT(ask_chunked(&r, buf_str(&b)), 400);
	for (int over = 0; over < 2; over++) {
		buf_clear(&b);
		buf_add_c(&b, "1\r\nx\r\n0\r\n");
		for (int i = 0; i < HTTP_HEADERS_MAX + over; i++)
			buf_add_c(&b, "T: 1\r\n");
		buf_add_c(&b, "\r\n");
		CHECK_INT(ask_chunked(&r, buf_str(&b)), over ? 400 : 200);
	}
	buf_clear(&b);
	buf_add_c(&b, "1\r\nx\r\n0\r\nT: ");
	for (unsigned i = 0; i < HTTP_HEAD_MAX; i++)
		buf_add_byte(&b, 't');
	buf_add_c(&b, "\r\n\r\n");
	CHECK_INT(ask_chunked(&r, buf_str(&b)), 400);
	rig_stop(&r);
}

TEST(hostile_sizes_at_the_limit_and_one_past_it)
{
	struct rig r = {0};
	auto_buf struct buf b = {0};
	rig_start(&r);
	/* Target. */
	for (unsigned over = 0; over < 2; over++) {
		buf_clear(&b);
		buf_add_c(&b, "GET /ping?");
		while (buf_size(&b) < 4 + HTTP_TARGET_MAX + over)
			buf_add_byte(&b, 'q');
		buf_add_c(&b, " HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
		CHECK_INT(rig_ask(&r, buf_str(&b)), over ? 414 : 200);
	}
	/* Number of headers. */
	for (int over = 0; over < 2; over++) {
		buf_clear(&b);
		buf_add_c(&b, GET_PING "Host: a\r\nConnection: close\r\n");
		for (int i = 2; i < HTTP_HEADERS_MAX + over; i++)
			buf_printf(&b, "X-%d: 1\r\n", i);
		buf_add_c(&b, "\r\n");
		CHECK_INT(rig_ask(&r, buf_str(&b)), over ? 431 : 200);
	}
	/* The whole head, by one value and by one name. */
	for (unsigned over = 0; over < 2; over++) {
		buf_clear(&b);
		buf_add_c(&b, GET_PING "Host: a\r\nConnection: close\r\nX: ");
		while (buf_size(&b) < HTTP_HEAD_MAX - 4 + over)
			buf_add_byte(&b, 'v');
		buf_add_c(&b, "\r\n\r\n");
		CHECK_INT(buf_size(&b), HTTP_HEAD_MAX + over);
		CHECK_INT(rig_ask(&r, buf_str(&b)), over ? 431 : 200);
	}
	buf_clear(&b);
	buf_add_c(&b, GET_PING "Host: a\r\n");
	while (buf_size(&b) < HTTP_HEAD_MAX + 1)
		buf_add_byte(&b, 'n');
	CHECK_INT(rig_ask(&r, buf_str(&b)), 431);
	rig_stop(&r);
}

TEST(hostile_body_past_the_limit_is_413_and_can_be_read_while_sending)
{
	struct rig r = {0};
	struct peer p;
	auto_buf struct buf b = {0};
	rig_start(&r);
	/* Announced: answered before any of it is sent. */
	peer_tcp(&p, &r);
	peer_say(&p, POST_ECHO "Content-Length: 65537\r\n\r\n");
	peer_until(&p, "PAYLOAD_TOO_LARGE");
	CHECK_INT(peer_status(&p), 413);
	peer_close(&p);
	/* At the limit. */
	buf_add_c(&b, POST_ECHO "Content-Length: 65536\r\nConnection: close\r\n\r\n");
	for (int i = 0; i < 65536; i++)
		buf_add_byte(&b, 'b');
	CHECK_INT(rig_ask(&r, buf_str(&b)), 200);
	/* Not announced, and the client goes on sending for long: the answer still arrives whole. */
	peer_tcp(&p, &r);
	peer_say(&p, POST_ECHO "Transfer-Encoding: chunked\r\n\r\n");
	buf_clear(&b);
	buf_add_c(&b, "10000\r\n");
	for (int i = 0; i < 65536; i++)
		buf_add_byte(&b, 'c');
	buf_add_c(&b, "\r\n");
	for (int i = 0; i < 32; i++)
		peer_send(&p, buf_str(&b));
	CHECK_INT(p.error, 0);
	peer_half_close(&p);
	peer_until_eof(&p);
	CHECK_INT(p.error, 0);
	CHECK_INT(peer_status(&p), 413);
	CHECK(peer_has(&p, "PAYLOAD_TOO_LARGE"));
	peer_close(&p);
	rig_stop(&r);
}

TEST(hostile_slow_head_is_408)
{
	struct rig r = {0};
	struct peer p;
	rig_start(&r);
	http_server_config(r.s)->head_timeout = 30;
	peer_tcp(&p, &r);
	peer_say(&p, "GET /ping HTT");
	peer_until_eof(&p);
	CHECK_INT(peer_status(&p), 408);
	CHECK(peer_has(&p, "Connection: close\r\n"));
	peer_close(&p);
	/* Drops of bytes do not move the limit. */
	peer_tcp(&p, &r);
	peer_say(&p, "GET /ping HTTP/1.1\r\nX: ");
	while (!peer_status(&p)) {
		peer_say(&p, "x");
		loop_turn(r.l, 5);
	}
	CHECK_INT(peer_status(&p), 408);
	peer_close(&p);
	CHECK_INT(r.requests, 0);
	rig_stop(&r);
}

TEST(hostile_slow_body_is_408_and_the_handler_hears_of_it)
{
	struct rig r = {0};
	struct peer p;
	rig_start(&r);
	http_server_config(r.s)->body_stall = 30;
	peer_tcp(&p, &r);
	peer_say(&p, "POST /hold HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc");
	peer_until_eof(&p);
	CHECK_INT(peer_status(&p), 408);
	CHECK_INT(r.closes, 1);
	CHECK_INT(r.completes, 0);
	peer_close(&p);
	rig_stop(&r);
}

TEST(hostile_idle_connections_are_closed_without_a_word)
{
	struct rig r = {0};
	struct peer a, b;
	rig_start(&r);
	http_server_config(r.s)->idle_timeout = 30;
	peer_tcp(&a, &r);
	peer_tcp(&b, &r);
	peer_say(&b, "GET /ping HTTP/1.1\r\nHost: a\r\n\r\n");
	peer_until_eof(&a);
	CHECK_INT(buf_size(&a.got), 0);
	peer_until_eof(&b);
	CHECK_INT(peer_status(&b), 200);
	CHECK(!peer_has(&b, "408"));
	peer_close(&a);
	peer_close(&b);
	rig_stop(&r);
}

TEST(hostile_garbage_one_byte_at_a_time_is_refused_at_once)
{
	struct rig r = {0};
	struct peer p;
	rig_start(&r);
	peer_tcp(&p, &r);
	peer_say(&p, "\x16");
	peer_until(&p, "INVALID_REQUEST");
	CHECK_INT(peer_status(&p), 400);
	peer_until_eof(&p);
	peer_close(&p);
	rig_stop(&r);
}

TEST(hostile_cut_requests_do_not_reach_the_end)
{
	struct rig r = {0};
	struct peer p;
	rig_start(&r);
	static const struct str cut[] = {STR("GET /ping HTTP/1.1\r\nHost: a\r\n"), STR("G"),
		STR(POST_ECHO "Content-Length: 4\r\n\r\nabc"),
		STR(POST_ECHO "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n")};
	for (size_t i = 0; i < ARRAY_LEN(cut); i++) {
		peer_tcp(&p, &r);
		peer_send(&p, cut[i]);
		peer_half_close(&p);
		peer_until_eof(&p);
		CHECK_INT(peer_status(&p), 400);
		peer_close(&p);
	}
	CHECK_INT(r.completes, 0);
	rig_stop(&r);
}

TEST(hostile_pipelined_smuggling_ends_the_connection)
{
	struct rig r = {0};
	struct peer p;
	rig_start(&r);
	peer_tcp(&p, &r);
	peer_say(&p, "GET /ping HTTP/1.1\r\nHost: a\r\n\r\n" POST_ECHO
		     "Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /ping HTTP/1.1\r\nHost: "
		     "a\r\n\r\n");
	peer_until_eof(&p);
	CHECK_INT(r.requests, 1);
	CHECK(peer_has(&p, "400 Bad Request"));
	peer_close(&p);
	rig_stop(&r);
}

TEST_MAIN()
