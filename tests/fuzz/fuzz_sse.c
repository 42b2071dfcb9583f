/*
 * The event stream reader: whole and in pieces the same events, memory within the limit; and what our writer writes of
 * any data, our reader reads back (line breaks become LF).
 */
#include "fuzz.h"
#include "http/sse.h"

enum { LIMIT = 512 };

static void on_event(void *arg, const struct sse_event *ev)
{
	struct buf *log = arg;
	buf_printf(log, "%zu:%zu:%zu ", ev->event.n, ev->id.n, ev->data.n);
	buf_add_str(log, ev->event);
	buf_add_str(log, ev->id);
	buf_add_str(log, ev->data);
}

static int read_all(struct str in, bool pieces, struct buf *log)
{
	struct sse_reader r;
	uint32_t seed = (uint32_t)in.n;
	int result = 0;
	sse_reader_init(&r, on_event, log);
	r.max = LIMIT;
	while (in.n && result == 0) {
		size_t n = pieces ? next_piece(&seed, in.n) : in.n;
		result = sse_feed(&r, str_n(in.p, n), NULL);
		in = str_skip(in, n);
		MUST(buf_size(&r.line) + buf_size(&r.data) <= 2 * LIMIT);
	}
	sse_reader_free(&r);
	return result;
}

struct back {
	struct buf data;
	int events;
};

static void on_back(void *arg, const struct sse_event *ev)
{
	struct back *b = arg;
	b->events++;
	buf_add_str(&b->data, ev->data);
}

static void round_trip(struct str data)
{
	struct buf text = {0}, want = {0};
	struct back back = {0};
	struct sse_reader r;
	MUST(sse_format(&text, NULL, STR_NULL, data));
	sse_reader_init(&r, on_back, &back);
	MUST(sse_feed(&r, buf_str(&text), NULL) == 0);
	for (size_t i = 0; i < data.n; i++) {
		bool crlf = data.p[i] == '\r' && i + 1 < data.n && data.p[i + 1] == '\n';
		if (!crlf)
			buf_add_byte(&want, data.p[i] == '\r' ? '\n' : data.p[i]);
	}
	MUST(back.events == 1);
	must_agree("writer and reader", buf_str(&want), buf_str(&back.data));
	sse_reader_free(&r);
	buf_free(&text);
	buf_free(&want);
	buf_free(&back.data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str in = str_n(data, size);
	struct buf whole = {0}, pieces = {0};
	int a = read_all(in, false, &whole), b = read_all(in, true, &pieces);
	/* Where a limit is hit first depends on what has come: only streams that pass must agree. */
	MUST(a == b);
	if (a == 0)
		must_agree("whole and pieces", buf_str(&whole), buf_str(&pieces));
	round_trip(in);
	buf_free(&whole);
	buf_free(&pieces);
	return 0;
}
