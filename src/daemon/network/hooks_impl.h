/*
 * hooks_impl.h - one request on its way to an outbound handler. Internal to hooks.c and hook_socket.c.
 *
 * A stream belongs to its exchange, and after an answer 101 to the box's WebSocket: on_close of either frees it.
 */
#pragma once

#include "daemon/network/hooks.h"
#include "http/ws/ws.h"

/* The first byte of a message: hooks.h. */
enum {
	HOOK_REQUEST = 1,
	HOOK_BODY,
	HOOK_END,
	HOOK_GIVE_UP,
	HOOK_ANSWER,
	HOOK_ANSWER_BODY,
	HOOK_ANSWER_END,
	HOOK_CREDIT,
	HOOK_FAILED,
	HOOK_SOCKET,
	HOOK_SOCKET_END,
};

struct hook_stream {
	struct list node;
	struct hook *hook; /* NULL: it has been given up */
	struct http_exchange *x;
	struct ws *socket; /* in the place of `x`: the box's WebSocket */
	uint32_t id;
	struct loop_timer timer;
	bool told;	  /* the client knows it */
	bool ended;	  /* the request's body */
	int64_t may_send; /* bytes of the request's body, or of messages; the last message may overdraw it */
	uint64_t owed;	  /* bytes of the answer that were taken and not yet granted again */
	int64_t granted;  /* bytes of the answer that may still come */
	bool full;	  /* the box does not read */
};

/* No-ops for NULL, and while nobody holds the hook. */
void hook_send(struct hook *h, int kind, uint32_t id, struct str text);
/* Grants again what the box has taken. */
void hook_grant(struct hook_stream *s);
uint32_t hook_number(const char *p);
/* The hook no longer knows it. */
void hook_leave(struct hook_stream *s);

/* ---- hook_socket.c ---- */
/* The handler answered 101. `headers` may name a subprotocol. False: the request is not for a WebSocket. */
bool hook_socket_begin(struct hook_stream *s, const struct json *headers);
/* False: the client speaks another language. */
bool hook_socket_message(struct hook_stream *s, int kind, struct str rest);
/* The handler is away, or failed. */
void hook_socket_fail(struct hook_stream *s, const char *why);
