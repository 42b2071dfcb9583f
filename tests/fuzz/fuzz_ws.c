/*
 * The WebSocket frame reader: whole and in pieces the same events; memory within the message limit; and what our writer
 * writes, our reader reads. The first byte chooses the role and the limit.
 */
#include "fuzz.h"
#include "http/ws/ws.h"
#include "http/ws/ws_frame.h"

static void read_all(struct ws_reader *r, struct str in, bool pieces, struct buf *log)
{
	uint32_t seed = (uint32_t)in.n;
	bool bad = false;
	while (in.n && !bad) {
		size_t n = pieces ? next_piece(&seed, in.n) : in.n;
		struct str piece = str_n(in.p, n);
		in = str_skip(in, n);
		for (;;) {
			struct ws_event ev = ws_next(r, &piece);
			MUST(buf_size(&r->message) <= r->message_max);
			if (ev.type == WS_EV_MORE) {
				MUST(piece.n == 0);
				break;
			}
			buf_printf(log, "%d %d %d %zu:", ev.type, ev.text, ev.code, ev.payload.n);
			buf_add_str(log, ev.payload);
			bad = ev.type == WS_EV_BAD;
			if (ev.type == WS_EV_MESSAGE) {
				MUST(ev.payload.n <= r->message_max);
				MUST(!ev.text || str_is_utf8(ev.payload));
			}
			if (ev.type == WS_EV_CLOSE)
				MUST(ev.code == WS_CLOSE_NONE || ws_code_ok(ev.code));
			if (bad)
				break;
		}
	}
}

static void round_trip(struct str payload, bool masked)
{
	static const unsigned char mask[4] = {0x12, 0x00, 0xff, 0x81};
	struct ws_reader r = {.expect_mask = masked, .message_max = payload.n};
	auto_buf struct buf b = {0};
	char head[14];
	buf_add(&b, head, ws_frame_header(head, WS_BINARY, true, payload.n, masked ? mask : NULL));
	if (payload.n) {
		char *to = buf_room(&b, payload.n);
		if (masked)
			ws_mask(to, payload.p, payload.n, mask, 0);
		else
			memcpy(to, payload.p, payload.n);
		buf_commit(&b, payload.n);
	}
	struct str in = buf_str(&b);
	struct ws_event ev = ws_next(&r, &in);
	MUST(ev.type == WS_EV_MESSAGE && !ev.text && in.n == 0);
	must_agree("writer and reader", payload, ev.payload);
	ws_reader_free(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 1)
		return 0;
	struct str in = str_n(data + 1, size - 1);
	bool masked = data[0] & 1;
	size_t max = (size_t)(data[0] >> 1) * 16;
	struct ws_reader a = {.expect_mask = masked, .message_max = max};
	struct ws_reader b = {.expect_mask = masked, .message_max = max};
	struct buf whole = {0}, pieces = {0};
	read_all(&a, in, false, &whole);
	read_all(&b, in, true, &pieces);
	must_agree("whole and pieces", buf_str(&whole), buf_str(&pieces));
	round_trip(in, masked);
	ws_reader_free(&a);
	ws_reader_free(&b);
	buf_free(&whole);
	buf_free(&pieces);
	return 0;
}
