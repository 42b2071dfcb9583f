/*
 * stream_result.c - prints the result of a command, for people and as JSON.
 */
#include <stdio.h>
#include <string.h>

#include "base/base64.h"
#include "cli/stream/stream.h"

void stream_explain(struct cli *c, const struct stream_request *rq, const struct stream_result *r)
{
	if (strcmp(r->outcome, "timeout") == 0)
		fprintf(stderr, "atoll %s: stopped: the command ran longer than %.3g s\n", c->verb->name,
			(double)rq->timeout_ms / 1000);
	else if (strcmp(r->outcome, "oom") == 0)
		fprintf(stderr, "atoll %s: killed: the box ran out of memory\n", c->verb->name);
	else if (strcmp(r->outcome, "lost") == 0)
		fprintf(stderr, "atoll %s: lost: the box ended while the command ran\n", c->verb->name);
}

static void member_bytes(struct json_writer *w, const char *key, struct str s, bool text)
{
	if (text) {
		json_member_str(w, key, s);
		return;
	}
	auto_buf struct buf b = {0};
	base64_append(&b, s);
	json_member_str(w, key, buf_str(&b));
}

void stream_write_json(struct buf *to, const char *id, const struct stream_result *r, struct buf *out, struct buf *err)
{
	bool text = str_is_utf8(buf_str(out)) && str_is_utf8(buf_str(err));
	struct json_writer w = json_writer(to);
	json_object_begin(&w);
	json_member_cstr(&w, "sandbox", id);
	json_member_i64(&w, "exitCode", r->exit_code);
	json_member_cstr(&w, "signal", *r->signal ? r->signal : NULL);
	json_member_cstr(&w, "outcome", r->outcome);
	json_member_u64(&w, "milliseconds", r->milliseconds);
	json_member_cstr(&w, "encoding", text ? "utf-8" : "base64");
	member_bytes(&w, "stdout", buf_str(out), text);
	member_bytes(&w, "stderr", buf_str(err), text);
	json_object_end(&w);
}
