#include "http/ws/ws_frame.h"

#include "http/ws/ws.h"

void ws_reader_free(struct ws_reader *r)
{
	buf_free(&r->message);
}

bool ws_code_ok(int code)
{
	bool defined = code >= 1000 && code <= 1011 && code != 1004 && code != 1005 && code != 1006;
	return defined || code == 1012 || code == 1013 || code == 1014 || (code >= 3000 && code <= 4999);
}

void ws_mask(char *to, const char *from, size_t n, const unsigned char mask[4], uint64_t at)
{
	unsigned char turned[8];
	for (int i = 0; i < 8; i++)
		turned[i] = mask[(at + (unsigned)i) & 3];
	uint64_t wide, m;
	memcpy(&m, turned, 8);
	size_t i = 0;
	for (; i + 8 <= n; i += 8) {
		memcpy(&wide, from + i, 8);
		wide ^= m;
		memcpy(to + i, &wide, 8);
	}
	for (; i < n; i++)
		to[i] = (char)(from[i] ^ (char)turned[i & 7]);
}

size_t ws_frame_header(char ret[14], enum ws_opcode opcode, bool fin, uint64_t n, const unsigned char *mask)
{
	unsigned char *p = (unsigned char *)ret;
	size_t len = 2;
	p[0] = (unsigned char)((fin ? 0x80 : 0) | (unsigned)opcode);
	if (n < 126) {
		p[1] = (unsigned char)n;
	} else if (n < 65536) {
		p[1] = 126;
		p[2] = (unsigned char)(n >> 8);
		p[3] = (unsigned char)n;
		len = 4;
	} else {
		p[1] = 127;
		for (int i = 0; i < 8; i++)
			p[2 + i] = (unsigned char)(n >> (56 - 8 * i));
		len = 10;
	}
	if (mask) {
		p[1] |= 0x80;
		memcpy(p + len, mask, 4);
		len += 4;
	}
	return len;
}

static struct ws_event bad(struct ws_reader *r, int code, struct str why)
{
	r->bad = true;
	return (struct ws_event){.type = WS_EV_BAD, .code = code, .payload = why};
}

static size_t head_need(const struct ws_reader *r)
{
	if (r->head_len < 2)
		return 2;
	int n = r->head[1] & 0x7f;
	return (n == 127 ? 10u : n == 126 ? 4u : 2u) + (r->head[1] & 0x80 ? 4u : 0u);
}

static uint64_t head_length(const struct ws_reader *r)
{
	int n = r->head[1] & 0x7f;
	if (n < 126)
		return (uint64_t)n;
	uint64_t v = 0;
	for (int i = 0; i < (n == 126 ? 2 : 8); i++)
		v = v << 8 | r->head[2 + i];
	return v;
}

/* Checks that need two bytes only: a frame that will be refused is not read to its end. */
static const char *check_start(const struct ws_reader *r)
{
	bool masked = r->head[1] & 0x80;
	unsigned op = r->head[0] & 15, n = r->head[1] & 0x7f;
	bool fin = r->head[0] & 0x80;
	if (r->head[0] & 0x70)
		return "reserved bits are set";
	if (masked != r->expect_mask)
		return masked ? "a frame is masked" : "a frame is not masked";
	if (op >= WS_CLOSE)
		return op > WS_PONG	 ? "the opcode is not known"
		       : n > 125 || !fin ? "a control frame is too long"
					 : NULL;
	if (op > WS_BINARY)
		return "the opcode is not known";
	if ((op == WS_CONTINUATION) != r->in_message)
		return r->in_message ? "a message begins inside another" : "nothing to continue";
	return NULL;
}

static const char *check_length(const struct ws_reader *r, uint64_t v)
{
	int n = r->head[1] & 0x7f;
	if ((n == 126 && v < 126) || (n == 127 && v < 65536))
		return "the length is not written in the shortest way";
	return v >> 63 ? "the length is out of range" : NULL;
}

/* True when the frame's header is complete or refused (*ev is set then). */
static bool take_head(struct ws_reader *r, struct str *in, struct ws_event *ev)
{
	while (in->n && r->head_len < head_need(r)) {
		r->head[r->head_len++] = (unsigned char)in->p[0];
		*in = str_skip(*in, 1);
		const char *why = r->head_len == 2 ? check_start(r) : NULL;
		if (why) {
			*ev = bad(r, WS_CLOSE_PROTOCOL, str_of(why));
			return true;
		}
	}
	size_t need = head_need(r);
	if (r->head_len < need)
		return false;
	r->length = head_length(r);
	const char *why = check_length(r, r->length);
	r->opcode = r->head[0] & 15;
	r->fin = r->head[0] & 0x80;
	r->done = 0;
	r->head_len = 0;
	r->in_payload = true;
	if (r->expect_mask)
		memcpy(r->mask, r->head + need - 4, 4);
	if (why) {
		*ev = bad(r, WS_CLOSE_PROTOCOL, str_of(why));
	} else if (r->opcode < WS_CLOSE) {
		size_t held = buf_size(&r->message);
		if (r->length > r->message_max - held)
			*ev = bad(r, WS_CLOSE_TOO_BIG, STR("the message is too long"));
		r->text = r->in_message ? r->text : r->opcode == WS_TEXT;
		r->in_message = true;
	}
	return true;
}

static struct ws_event whole_message(struct ws_reader *r, struct str payload)
{
	r->in_message = false;
	r->message_out = true;
	if (r->text && !str_is_utf8(payload))
		return bad(r, WS_CLOSE_BAD_DATA, STR("the text is not UTF-8"));
	return (struct ws_event){.type = WS_EV_MESSAGE, .payload = payload, .text = r->text};
}

static struct ws_event whole_control(struct ws_reader *r)
{
	struct str p = str_n(r->control, (size_t)r->length);
	if (r->opcode == WS_PING || r->opcode == WS_PONG)
		return (struct ws_event){.type = r->opcode == WS_PING ? WS_EV_PING : WS_EV_PONG, .payload = p};
	if (p.n == 0)
		return (struct ws_event){.type = WS_EV_CLOSE, .code = WS_CLOSE_NONE, .payload = STR("")};
	int code = p.n >= 2 ? (unsigned char)p.p[0] << 8 | (unsigned char)p.p[1] : 0;
	if (!ws_code_ok(code))
		return bad(r, WS_CLOSE_PROTOCOL, STR("the close code is not allowed"));
	if (!str_is_utf8(str_skip(p, 2)))
		return bad(r, WS_CLOSE_BAD_DATA, STR("the close reason is not UTF-8"));
	return (struct ws_event){.type = WS_EV_CLOSE, .code = code, .payload = str_skip(p, 2)};
}

/* Copies what has come of the payload to where it is gathered, unmasked. */
static void take_payload(struct ws_reader *r, struct str *in)
{
	uint64_t left = r->length - r->done;
	size_t n = in->n < left ? in->n : (size_t)left;
	char *to = r->opcode >= WS_CLOSE ? r->control + r->done : buf_room(&r->message, n);
	if (n && r->expect_mask)
		ws_mask(to, in->p, n, r->mask, r->done);
	else if (n)
		memcpy(to, in->p, n);
	if (n && r->opcode < WS_CLOSE)
		buf_commit(&r->message, n);
	r->done += n;
	*in = str_skip(*in, n);
}

static bool lies_whole(const struct ws_reader *r, struct str in)
{
	return !r->expect_mask && r->opcode < WS_CLOSE && r->fin && !r->done && !buf_size(&r->message) &&
	       in.n >= r->length;
}

struct ws_event ws_next(struct ws_reader *r, struct str *in)
{
	if (r->message_out) {
		r->message_out = false;
		buf_clear(&r->message);
	}
	r->message.max = r->message_max ? r->message_max : 1;
	while (!r->bad) {
		struct ws_event ev = {.type = WS_EV_MORE};
		if (!r->in_payload && !take_head(r, in, &ev))
			return ev;
		if (ev.type == WS_EV_BAD)
			return ev;
		if (lies_whole(r, *in)) {
			struct str payload = str_n(in->p, (size_t)r->length);
			*in = str_skip(*in, payload.n);
			r->in_payload = false;
			return whole_message(r, payload);
		}
		take_payload(r, in);
		if (r->done < r->length)
			return ev;
		r->in_payload = false;
		if (r->opcode >= WS_CLOSE)
			return whole_control(r);
		if (r->fin)
			return whole_message(r, buf_str(&r->message));
	}
	return bad(r, WS_CLOSE_PROTOCOL, STR("nothing more is read"));
}
