/*
 * ws_frame.h - WebSocket frames to messages and back. Internal to src/http.
 *
 * The reader pulls, like chunk.h: each call consumes from the front of *in and answers with at most one event, so the
 * caller may stop between messages. A message that arrives whole and unmasked is not copied. Held memory is bounded by
 * message_max.
 */
#pragma once

#include "base/buf.h"
#include "base/str.h"

enum ws_opcode { WS_CONTINUATION = 0, WS_TEXT = 1, WS_BINARY = 2, WS_CLOSE = 8, WS_PING = 9, WS_PONG = 10 };

enum ws_event_type {
	WS_EV_MORE, /* everything was consumed */
	WS_EV_MESSAGE,
	WS_EV_PING,
	WS_EV_PONG,
	WS_EV_CLOSE,
	WS_EV_BAD, /* for good: `code` and `payload` (a sentence) say what to close with */
};

struct ws_event {
	enum ws_event_type type;
	struct str payload; /* valid until the next call; for WS_EV_CLOSE the reason */
	bool text;
	int code; /* WS_EV_CLOSE: the peer's, or 1005; WS_EV_BAD: ours */
};

struct ws_reader {
	bool expect_mask;
	size_t message_max;

	unsigned char head[14];
	uint8_t head_len;
	bool in_payload, in_message, text, fin, bad;
	uint8_t opcode;
	unsigned char mask[4];
	uint64_t length, done; /* of this frame's payload */
	struct buf message;
	char control[125];
	bool message_out; /* the last event lent out the message: drop it at the next call */
};

struct ws_event ws_next(struct ws_reader *r, struct str *in);
void ws_reader_free(struct ws_reader *r);

/* May a close frame carry this code? */
bool ws_code_ok(int code);

/* Writes a frame header for n bytes; `mask` is NULL for a server. Returns its length. */
size_t ws_frame_header(char ret[14], enum ws_opcode opcode, bool fin, uint64_t n, const unsigned char *mask);
/* XORs; `at` is the offset of the bytes in the payload. */
void ws_mask(char *to, const char *from, size_t n, const unsigned char mask[4], uint64_t at);
