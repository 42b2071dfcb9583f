#include "http/ws/ws.h"

#include <sys/random.h>

#include "http/limits.h"
#include "http/ws/ws_impl.h"

enum { REASON_MAX = 123, MASK_BLOCK = 16384 };

/* ---- the carrier: an exchange or a call ---- */

static bool carry(struct ws *ws, struct str bytes)
{
	if (ws->x)
		return http_respond_write(ws->x, bytes);
	return ws->call ? http_call_write(ws->call, bytes) : true;
}

static void carrier_end(struct ws *ws)
{
	if (ws->x)
		http_respond_end(ws->x);
	else if (ws->call)
		http_call_end(ws->call);
}

static void carrier_abort(struct ws *ws)
{
	if (ws->x)
		http_abort(ws->x);
	else if (ws->call)
		http_call_cancel(ws->call);
}

/* ---- sending ---- */

static void fresh_mask(unsigned char ret[4])
{
	/* One system call for many frames. */
	static _Thread_local unsigned char pool[256];
	static _Thread_local size_t left;
	if (left < 4) {
		if (getrandom(pool, sizeof pool, 0) != (ssize_t)sizeof pool)
			abort();
		left = sizeof pool;
	}
	left -= 4;
	memcpy(ret, pool + left, 4);
}

static bool carry_masked(struct ws *ws, struct str s, const unsigned char mask[4])
{
	char block[MASK_BLOCK];
	bool ok = true;
	for (uint64_t at = 0; s.n; at += MASK_BLOCK) {
		size_t n = s.n < sizeof block ? s.n : sizeof block;
		ws_mask(block, s.p, n, mask, at);
		ok = carry(ws, str_n(block, n));
		s = str_skip(s, n);
	}
	return ok;
}

static bool send_frame(struct ws *ws, enum ws_opcode opcode, bool fin, struct str payload)
{
	char head[14];
	unsigned char mask[4];
	if (ws->server) {
		bool ok = carry(ws, str_n(head, ws_frame_header(head, opcode, fin, payload.n, NULL)));
		return payload.n ? carry(ws, payload) : ok;
	}
	fresh_mask(mask);
	bool ok = carry(ws, str_n(head, ws_frame_header(head, opcode, fin, payload.n, mask)));
	return payload.n ? carry_masked(ws, payload, mask) : ok;
}

bool ws_send(struct ws *ws, struct str message, bool text)
{
	if (!ws->open || ws->close_sent)
		return true;
	enum ws_opcode opcode = text ? WS_TEXT : WS_BINARY;
	bool ok, fin;
	do {
		size_t n = message.n < WS_FRAME_MAX ? message.n : WS_FRAME_MAX;
		fin = n == message.n;
		ok = send_frame(ws, opcode, fin, str_n(message.p, n));
		message = str_skip(message, n);
		opcode = WS_CONTINUATION;
	} while (!fin);
	return ok;
}

void ws_ping(struct ws *ws)
{
	if (ws->open && !ws->close_sent)
		send_frame(ws, WS_PING, true, STR(""));
}

size_t ws_pending(const struct ws *ws)
{
	return ws->x ? http_respond_pending(ws->x) : ws->call ? http_call_pending(ws->call) : 0;
}

/* ---- time ---- */

static void on_due(struct loop_timer *t);

static void on_close_due(struct loop_timer *t)
{
	carrier_abort(container_of(t, struct ws, timer));
}

static void arm_ping(struct ws *ws, uint64_t delay)
{
	if (ws->ping_ms && !ws->close_sent)
		loop_timer_set(ws->loop, &ws->timer, delay, on_due);
}

/* A peer is given up only after a ping: silence alone does not show that it is gone. */
static void on_due(struct loop_timer *t)
{
	struct ws *ws = container_of(t, struct ws, timer);
	uint64_t quiet = loop_now(ws->loop) - ws->last_input;
	if (ws->paused) {
		ws->last_input = loop_now(ws->loop);
		ws->pinged = false;
	} else if (ws->pinged) {
		return carrier_abort(ws);
	} else if (quiet < ws->ping_ms) {
		return arm_ping(ws, ws->ping_ms - quiet);
	} else {
		ws->pinged = true;
		ws_ping(ws);
	}
	arm_ping(ws, ws->ping_ms);
}

/* ---- closing ---- */

static void note_end(struct ws *ws, int code, struct str reason)
{
	if (ws->code)
		return;
	ws->code = code;
	ws->reason_len = reason.n < REASON_MAX ? reason.n : REASON_MAX;
	if (ws->reason_len)
		memcpy(ws->reason, reason.p, ws->reason_len);
}

static void send_close(struct ws *ws, int code, struct str reason, uint32_t ms)
{
	char payload[2 + REASON_MAX];
	if (ws->close_sent)
		return;
	if (reason.n > REASON_MAX)
		reason.n = REASON_MAX;
	/* Not in the middle of a character. */
	while (reason.n && !str_is_utf8(reason))
		reason.n--;
	payload[0] = (char)(code >> 8);
	payload[1] = (char)code;
	if (reason.n)
		memcpy(payload + 2, reason.p, reason.n);
	send_frame(ws, WS_CLOSE, true, str_n(payload, code == WS_CLOSE_NONE ? 0 : 2 + reason.n));
	ws->close_sent = true;
	loop_timer_set(ws->loop, &ws->timer, ms, on_close_due);
}

void ws_close_within(struct ws *ws, int code, struct str reason, uint32_t ms)
{
	if (!ws->open)
		return ws_abort(ws);
	INVARIANT(ws_code_ok(code));
	note_end(ws, code, reason);
	send_close(ws, code, reason, ms);
	/* The peer's close frame must be read, also during a pause. */
	ws_resume(ws);
}

void ws_close(struct ws *ws, int code, struct str reason)
{
	ws_close_within(ws, code, reason, WS_CLOSE_TIMEOUT);
}

void ws_abort(struct ws *ws)
{
	note_end(ws, WS_CLOSE_ABNORMAL, STR("given up"));
	carrier_abort(ws);
}

static void free_ws(struct loop_task *t)
{
	struct ws *ws = container_of(t, struct ws, free_task);
	ws_reader_free(&ws->reader);
	buf_free(&ws->rest);
	free(ws);
}

void ws_gone(struct ws *ws, struct str why)
{
	note_end(ws, WS_CLOSE_ABNORMAL, why);
	ws->x = NULL;
	ws->call = NULL;
	ws->open = false;
	ws->close_sent = true;
	loop_timer_stop(&ws->timer);
	list_del(&ws->task.node);
	if (ws->ops->on_close)
		ws->ops->on_close(ws, ws->code, str_n(ws->reason, ws->reason_len));
	loop_defer(ws->loop, &ws->free_task, free_ws);
}

/* ---- receiving ---- */

static void react(struct ws *ws, const struct ws_event *ev)
{
	switch (ev->type) {
	case WS_EV_MESSAGE:
		if (!ws->close_sent && ws->ops->on_message)
			ws->ops->on_message(ws, ev->payload, ev->text);
		break;
	case WS_EV_PING:
		/* A peer that sends pings and reads no answers must not fill our memory. */
		if (!ws->close_sent && ws_pending(ws) < HTTP_OUT_HIGH)
			send_frame(ws, WS_PONG, true, ev->payload);
		break;
	case WS_EV_CLOSE:
	case WS_EV_BAD:
		note_end(ws, ev->code, ev->payload);
		send_close(ws, ev->code, ev->type == WS_EV_BAD ? ev->payload : STR(""), WS_CLOSE_TIMEOUT);
		ws->over = true;
		carrier_end(ws);
		break;
	case WS_EV_PONG:
	case WS_EV_MORE:
		break;
	}
}

/* Handles messages until the input is used up or the owner pauses; keeps what is left. */
static void read_messages(struct ws *ws, struct str in)
{
	struct ws_event ev;
	do {
		if (ws->over || ws->paused)
			break;
		ev = ws_next(&ws->reader, &in);
		react(ws, &ev);
	} while (ev.type != WS_EV_MORE);
	if (!ws->over && in.n)
		buf_add_str(&ws->rest, in);
}

void ws_input(struct ws *ws, struct str chunk)
{
	ws->last_input = loop_now(ws->loop);
	ws->pinged = false;
	if (ws->over)
		return;
	if (buf_size(&ws->rest) || !ws->open_told)
		buf_add_str(&ws->rest, chunk);
	else
		read_messages(ws, chunk);
}

void ws_input_end(struct ws *ws)
{
	if (!ws->over)
		note_end(ws, WS_CLOSE_ABNORMAL, STR("the connection ended without a close frame"));
	ws->over = true;
	carrier_end(ws);
}

static void carrier_pause(struct ws *ws, bool on)
{
	if (ws->x)
		(on ? http_pause : http_resume)(ws->x);
	else if (ws->call)
		(on ? http_call_pause : http_call_resume)(ws->call);
}

/* From the loop: on_open, and what a pause has left over. */
void ws_run(struct loop_task *t)
{
	struct ws *ws = container_of(t, struct ws, task);
	if (!ws->open_told) {
		ws->open_told = true;
		ws->last_input = loop_now(ws->loop);
		arm_ping(ws, ws->ping_ms);
		if (ws->ops->on_open)
			ws->ops->on_open(ws);
	}
	struct buf in = ws->rest;
	ws->rest = (struct buf){0};
	if (buf_size(&in))
		read_messages(ws, buf_str(&in));
	buf_free(&in);
	if (!ws->paused)
		carrier_pause(ws, false);
}

void ws_pause(struct ws *ws)
{
	ws->paused = true;
	carrier_pause(ws, true);
}

void ws_resume(struct ws *ws)
{
	if (!ws->paused)
		return;
	ws->paused = false;
	loop_defer(ws->loop, &ws->task, ws_run);
}

void *ws_arg(const struct ws *ws)
{
	return ws->arg;
}
