/* A WebSocket of a box that an outbound handler has taken: its messages go over the hook, in both directions. */
#include "daemon/limits.h"
#include "daemon/network/hooks_impl.h"

static void on_message(struct ws *ws, struct str message, bool text)
{
	struct hook_stream *s = ws_arg(ws);
	auto_buf struct buf b = {0};
	buf_add_byte(&b, text ? 1 : 0);
	buf_add_str(&b, message);
	s->may_send -= (int64_t)message.n;
	hook_send(s->hook, HOOK_SOCKET, s->id, buf_str(&b));
	if (s->may_send <= 0)
		ws_pause(ws);
}

static void on_writable(struct ws *ws)
{
	struct hook_stream *s = ws_arg(ws);
	s->full = false;
	hook_grant(s);
}

static void on_close(struct ws *ws, int code, struct str reason)
{
	struct hook_stream *s = ws_arg(ws);
	auto_buf struct buf b = {0};
	buf_add_byte(&b, (char)(code >> 8));
	buf_add_byte(&b, (char)code);
	buf_add_str(&b, reason);
	hook_send(s->hook, HOOK_SOCKET_END, s->id, buf_str(&b));
	hook_leave(s);
	free(s);
}

static struct str protocol_of(const struct json *headers)
{
	json_each(it, headers)
	{
		const struct json *name = it->first, *value = name ? name->next : NULL;
		if (value && name->type == JSON_T_STRING && value->type == JSON_T_STRING &&
			str_eq_nocase(name->text, STR("Sec-WebSocket-Protocol")))
			return value->text;
	}
	return STR_NULL;
}

bool hook_socket_begin(struct hook_stream *s, const struct json *headers)
{
	static const struct ws_ops ops = {.on_message = on_message, .on_writable = on_writable, .on_close = on_close};
	struct ws_options o = {.message_max = HOOK_MESSAGE_MAX, .ping_ms = HOOK_PING, .protocol = protocol_of(headers)};
	struct err e;
	if (ws_accept(s->x, &o, &ops, s, &s->socket, &e) < 0)
		return false;
	s->x = NULL;
	return true;
}

static bool take_message(struct hook_stream *s, struct str rest)
{
	if (!rest.n || s->granted <= 0)
		return false;
	struct str message = str_skip(rest, 1);
	s->granted -= (int64_t)message.n;
	s->owed += message.n;
	s->full |= !ws_send(s->socket, message, rest.p[0] == 1);
	if (!s->full && s->owed >= HOOK_WINDOW / 4)
		hook_grant(s);
	return true;
}

static bool take_end(struct hook_stream *s, struct str rest)
{
	int code = rest.n < 2 ? WS_CLOSE_NONE : (unsigned char)rest.p[0] << 8 | (unsigned char)rest.p[1];
	bool plain = code == WS_CLOSE_NONE || code == WS_CLOSE_ABNORMAL;
	ws_close(s->socket, plain ? WS_CLOSE_NORMAL : code, plain ? STR("") : str_skip(rest, 2));
	return true;
}

bool hook_socket_message(struct hook_stream *s, int kind, struct str rest)
{
	switch (kind) {
	case HOOK_SOCKET:
		return take_message(s, rest);
	case HOOK_SOCKET_END:
		return take_end(s, rest);
	case HOOK_CREDIT:
		if (rest.n != 4)
			return false;
		s->may_send += hook_number(rest.p);
		if (s->may_send > 0)
			ws_resume(s->socket);
		return true;
	case HOOK_FAILED:
		hook_socket_fail(s, "the outbound handler failed");
		return true;
	default:
		return false;
	}
}

void hook_socket_fail(struct hook_stream *s, const char *why)
{
	struct ws *ws = s->socket;
	hook_leave(s);
	ws_resume(ws); /* on_close frees the stream */
	ws_close(ws, WS_CLOSE_INTERNAL, str_of(why));
}
