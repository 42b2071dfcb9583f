/*
 * ws.h - WebSocket (RFC 6455) on a server exchange or on a client call.
 *
 * Server:	in on_request: if (ws_accept(x, &opts, &ops, arg, &ws, &e) < 0) http_respond_error(x, &e);
 * Client:	ws_connect(client, endpoint, &call_options, &opts, &ops, arg)
 *
 * Whole messages up to options.message_max are delivered by on_message (text is checked for UTF-8); pings are answered
 * here. Masking is enforced in the right direction; reserved bits, unknown opcodes, fragmented control frames, lengths
 * not written in the shortest way and bad close codes end the connection with the code that the RFC names. No
 * extension is negotiated. Messages longer than WS_FRAME_MAX are sent in several frames. on_close comes exactly once,
 * last; then `ws` is dead.
 *
 * Backpressure: ws_send answers false above HTTP_OUT_HIGH; on_writable says when to go on; ws_pause stops on_message.
 * Thread: the loop's.
 */
#pragma once

#include "http/client/client.h"
#include "http/limits.h"
#include "http/server/server.h"

struct ws;

enum {
	WS_CLOSE_NORMAL = 1000,
	WS_CLOSE_GOING_AWAY = 1001,
	WS_CLOSE_PROTOCOL = 1002,
	WS_CLOSE_UNSUPPORTED = 1003,
	WS_CLOSE_NONE = 1005,	  /* reported only: the peer's close frame had no code */
	WS_CLOSE_ABNORMAL = 1006, /* reported only: the connection broke without a close frame */
	WS_CLOSE_BAD_DATA = 1007,
	WS_CLOSE_POLICY = 1008,
	WS_CLOSE_TOO_BIG = 1009,
	WS_CLOSE_INTERNAL = 1011,
};

struct ws_options {
	size_t message_max;  /* 0: WS_MESSAGE_MAX; past it the connection ends with 1009 */
	uint32_t ping_ms;    /* sends a ping when nothing came for so long, ends when nothing came for twice as long; 0:
				never */
	struct str protocol; /* server: subprotocol to answer with; client: to ask for. Empty: none */
};

struct ws_ops {
	void (*on_open)(
		struct ws *ws); /* client: the handshake is done; server: right after ws_accept, from the loop */
	void (*on_message)(struct ws *ws, struct str message, bool text); /* borrowed for the call */
	void (*on_writable)(struct ws *ws);
	/* `code` and `reason` of the peer's close frame, or of ours when we ended it. A client whose handshake failed
	 * gets WS_CLOSE_ABNORMAL and a sentence. */
	void (*on_close)(struct ws *ws, int code, struct str reason);
};

/* Checks the handshake and answers 101. -1: not a WebSocket request (INVALID_REQUEST 400, or UPGRADE_REQUIRED 426 for
 * another version); nothing was answered. */
int ws_accept(struct http_exchange *x, const struct ws_options *o, const struct ws_ops *ops, void *arg, struct ws **ret,
	struct err *e);

/* `call` gives target, host, headers and time limits; the handshake's own headers are added here. */
struct ws *ws_connect(struct http_client *cl, const struct http_endpoint *ep, const struct http_call_options *call,
	const struct ws_options *o, const struct ws_ops *ops, void *arg);

void *ws_arg(const struct ws *ws);

/* One message. False: stop until on_writable. After ws_close nothing is sent. */
bool ws_send(struct ws *ws, struct str message, bool text);
void ws_ping(struct ws *ws);
size_t ws_pending(const struct ws *ws);

void ws_pause(struct ws *ws);
void ws_resume(struct ws *ws);

/* Sends a close frame and waits for the peer's, at most WS_CLOSE_TIMEOUT. `reason` is cut at 123 bytes. */
void ws_close(struct ws *ws, int code, struct str reason);
/* The same with a time limit of the caller's, in milliseconds. */
void ws_close_within(struct ws *ws, int code, struct str reason, uint32_t ms);
/* Drops the connection. on_close follows from the loop. */
void ws_abort(struct ws *ws);
