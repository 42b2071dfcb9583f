#include "http/sse.h"

#include "http_rig.h"
#include "test.h"

struct heard {
	struct buf log;
	struct sse_reader r;
};

static void on_event(void *arg, const struct sse_event *ev)
{
	struct heard *h = arg;
	buf_printf(&h->log, "[%.*s|%.*s|%.*s]", STR_ARG(ev->event), STR_ARG(ev->id), STR_ARG(ev->data));
}

/* What a reader makes of a text, in pieces of every size: it must not depend on where they are cut. */
static void check_reads(const char *text, const char *want)
{
	for (size_t piece = 1; piece <= strlen(text) || piece == 1; piece++) {
		struct heard h = {0};
		struct err e;
		sse_reader_init(&h.r, on_event, &h);
		for (struct str rest = str_of(text); rest.n; rest = str_skip(rest, piece))
			CHECK_INT(sse_feed(&h.r, str_n(rest.p, rest.n < piece ? rest.n : piece), &e), 0);
		CHECK_STR(buf_str(&h.log), want);
		sse_reader_free(&h.r);
		buf_free(&h.log);
	}
}

TEST(sse_reader_takes_all_line_ends)
{
	check_reads(
		"data: a\n\ndata: b\r\n\r\ndata: c\r\rdata: d\n\n", "[message||a][message||b][message||c][message||d]");
}

TEST(sse_reader_joins_data_lines_and_keeps_one_blank)
{
	check_reads("data: one\ndata:two\ndata:  three\ndata\n\n", "[message||one\ntwo\n three\n]");
}

TEST(sse_reader_knows_event_id_comment_and_retry)
{
	check_reads(": hello\nevent: add\nid: 7\ndata: x\nfoo: bar\n\ndata: y\n\nid\ndata: z\n\n",
		"[add|7|x][message|7|y][message||z]");
	struct heard h = {0};
	sse_reader_init(&h.r, on_event, &h);
	sse_feed(&h.r, STR("retry: 12x\nretry: 250\n"), NULL);
	CHECK_INT(h.r.retry_ms, 250);
	sse_reader_free(&h.r);
}

TEST(sse_reader_skips_a_bom_events_without_data_and_the_unfinished)
{
	check_reads("\xef\xbb\xbf"
		    "data: a\n\nevent: empty\n\ndata:\n\ndata: cut\n",
		"[message||a][message||]");
	check_reads("", "");
}

TEST(sse_reader_ignores_an_id_with_nul)
{
	struct heard h = {0};
	sse_reader_init(&h.r, on_event, &h);
	sse_feed(&h.r, STR("id: 1\nid: a\0b\ndata: x\n\n"), NULL);
	CHECK_STR(buf_str(&h.log), "[message|1|x]");
	sse_reader_free(&h.r);
	buf_free(&h.log);
}

TEST(sse_reader_refuses_an_event_past_its_limit)
{
	struct heard h = {0};
	struct err e;
	sse_reader_init(&h.r, on_event, &h);
	h.r.max = 16;
	CHECK_INT(sse_feed(&h.r, STR("data: 012345\n\n"), &e), 0);
	CHECK_INT(sse_feed(&h.r, STR("data: 0123456789"), &e), 0);
	CHECK_INT(sse_feed(&h.r, STR("a"), &e), -1);
	CHECK_INT(e.code, ERRC_PAYLOAD_TOO_LARGE);
	CHECK_INT(sse_feed(&h.r, STR("\n\n"), &e), -1);
	sse_reader_free(&h.r);
	h.r.max = 0;
	buf_free(&h.log);

	/* Many short lines count together. */
	struct heard many = {0};
	sse_reader_init(&many.r, on_event, &many);
	many.r.max = 64;
	int r = 0;
	for (int i = 0; i < 20 && r == 0; i++)
		r = sse_feed(&many.r, STR("data: 12345\n"), &e);
	CHECK_INT(r, -1);
	sse_reader_free(&many.r);
}

TEST(sse_writer_splits_lines_and_refuses_breaks_in_names)
{
	auto_buf struct buf b = {0};
	CHECK(sse_format(&b, "add", STR("9"), STR("one\ntwo\r\nthree\rfour")));
	CHECK_STR(buf_str(&b), "event: add\nid: 9\ndata: one\ndata: two\ndata: three\ndata: four\n\n");
	buf_clear(&b);
	CHECK(sse_format(&b, NULL, STR_NULL, STR("")));
	CHECK_STR(buf_str(&b), "data: \n\n");
	CHECK(!sse_format(&b, "a\nb", STR_NULL, STR("x")));
	CHECK(!sse_format(&b, NULL, STR("1\r"), STR("x")));
}

TEST(sse_what_the_writer_writes_the_reader_reads)
{
	auto_buf struct buf b = {0};
	CHECK(sse_format(&b, NULL, STR_NULL, STR("{\"a\":1}")));
	CHECK(sse_format(&b, "x", STR("2"), STR("l1\n\nl3\n")));
	check_reads(buf_cstr(&b), "[message||{\"a\":1}][x|2|l1\n\nl3\n]");
}

static void stream(struct http_exchange *x, struct rig *r)
{
	(void)r;
	sse_begin(x);
	sse_send(x, NULL, STR_NULL, STR("{\"type\":\"start\"}"));
	sse_comment(x);
	http_respond_end(x);
}

TEST(sse_goes_out_as_chunks)
{
	struct rig r = {.on_request = stream};
	struct peer p;
	rig_start(&r);
	peer_tcp(&p, &r);
	peer_say(&p, "GET /s HTTP/1.1\r\nHost: a\r\n\r\n");
	peer_until(&p, "0\r\n\r\n");
	CHECK(peer_has(&p, "Content-Type: text/event-stream\r\n"));
	CHECK(peer_has(&p, "data: {\"type\":\"start\"}\n\n"));
	CHECK(peer_has(&p, ": keep-alive\n\n"));
	peer_close(&p);
	rig_stop(&r);
}

TEST_MAIN()
