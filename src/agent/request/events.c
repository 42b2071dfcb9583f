#include "agent/request/events.h"

#include "agent/limits.h"
#include "agent/proc/output.h"
#include "base/base64.h"

size_t events_incomplete(struct str s)
{
	for (size_t n = 1; n <= 3 && n <= s.n; n++) {
		unsigned char c = (unsigned char)s.p[s.n - n];
		if (c < 0x80)
			return 0;
		if (c >= 0xc0)
			return str_utf8_len(str_n(s.p + s.n - n, n)) < 0 ? n : 0;
	}
	return 0;
}

struct str events_next(struct events_tail *tail, struct str bytes, bool last, struct buf *mem)
{
	if (tail->n) {
		buf_add(mem, tail->bytes, tail->n);
		buf_add_str(mem, bytes);
		bytes = buf_str(mem);
		tail->n = 0;
	}
	size_t hold = last ? 0 : events_incomplete(bytes);
	if (hold)
		memcpy(tail->bytes, bytes.p + bytes.n - hold, hold);
	tail->n = (uint8_t)hold;
	return str_n(bytes.p, bytes.n - hold);
}

struct buf *events_buffer(void)
{
	static struct buf b;
	if (b.cap > EVENTS_BUFFER_KEPT)
		buf_free(&b);
	buf_truncate(&b, 0); /* keeps its memory, unlike buf_clear */
	return &b;
}

struct json_writer events_output(struct buf *b, int stream, struct str bytes, bool base64)
{
	struct json_writer w = json_writer(b);
	json_object_begin(&w);
	json_member_cstr(&w, "type", stream == CMD_STDOUT ? "stdout" : "stderr");
	if (!base64) {
		json_member_str(&w, "data", bytes);
		return w;
	}
	json_key(&w, "data");
	buf_add_byte(b, '"');
	base64_append(b, bytes);
	buf_add_byte(b, '"');
	w.comma = true;
	return w;
}
