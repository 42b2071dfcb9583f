#include "base/json.h"
#include "gate/gate.h"

void record_send(struct gate *g, const struct gate_log *l)
{
	auto_buf struct buf b = {0};
	struct json_writer w = json_writer(&b);
	char text[IP_TEXT];
	json_object_begin(&w);
	json_member_cstr(&w, "op", "log");
	json_member_cstr(&w, "id", l->id);
	json_member_i64(&w, "time", l->time);
	json_member_cstr(&w, "name", l->name && *l->name ? l->name : NULL);
	json_member_cstr(&w, "address", l->ip ? ip_format(l->ip, text) : NULL);
	json_member_u64(&w, "port", l->port);
	json_member_cstr(&w, "protocol", l->protocol);
	json_member_cstr(&w, "decision", l->decision);
	json_member_cstr(&w, "rule", l->why);
	json_member_u64(&w, "sent", l->sent);
	json_member_u64(&w, "received", l->received);
	json_member_u64(&w, "ms", l->ms);
	json_member_cstr(&w, "end", l->end);
	if (l->times > 1)
		json_member_u64(&w, "times", l->times);
	json_object_end(&w);
	buf_add_byte(&b, '\n');
	control_send(g, buf_str(&b));
}
