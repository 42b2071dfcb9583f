#include "agent/rpc/rpc.h"

#include <stdio.h>
#include <time.h>

/* Answers that have another shape than over HTTP. */

static struct str text_of(const struct json *answer, const char *key)
{
	struct str text = STR_NULL;
	(void)json_read_str(answer, key, &text, NULL);
	return text;
}

void shape_ping(struct buf *out, const struct json *answer)
{
	json_put_str(out, text_of(answer, "message"));
}

void shape_version(struct buf *out, const struct json *answer)
{
	json_put_str(out, text_of(answer, "version"));
}

void shape_nothing(struct buf *out, const struct json *answer)
{
	(void)answer;
	buf_add_str(out, CAPNWEB_UNDEFINED);
}

static void put_wire(struct buf *out, const struct json *plain)
{
	auto_buf struct buf text = {0};
	json_put_tree(&text, plain);
	capnweb_put_json(out, buf_str(&text));
}

void shape_sessions(struct buf *out, const struct json *answer)
{
	const struct json *ids = json_get(answer, "data");
	buf_add_c(out, "{\"sessions\":");
	if (ids)
		put_wire(out, ids);
	else
		buf_add_c(out, "[[]]");
	buf_add_byte(out, '}');
}

void shape_session(struct buf *out, const struct json *answer)
{
	const struct json *data = json_get(answer, "data"), *placement = json_get(answer, "containerPlacementId");
	struct json_writer w = json_writer(out);
	json_object_begin(&w);
	json_member_bool(&w, "success", true);
	json_member_str(&w, "id", text_of(data, "id"));
	json_member_cstr(&w, "message", "Session created");
	json_member_str(&w, "timestamp", text_of(answer, "timestamp"));
	json_key(&w, "containerPlacementId");
	if (json_is_null(placement))
		json_null(&w);
	else
		json_str(&w, placement->text);
	json_object_end(&w);
}

/* Of a timestamp that the agent wrote; 0 when it is none. */
static int64_t wall_ms(struct str iso)
{
	char text[32];
	struct tm t = {0};
	int ms = 0;
	snprintf(text, sizeof text, "%.*s", (int)(iso.n < sizeof text ? iso.n : 0), iso.p ? iso.p : "");
	if (sscanf(text, "%d-%d-%dT%d:%d:%d.%dZ", &t.tm_year, &t.tm_mon, &t.tm_mday, &t.tm_hour, &t.tm_min, &t.tm_sec,
		    &ms) != 7)
		return 0;
	t.tm_year -= 1900;
	t.tm_mon--;
	return (int64_t)timegm(&t) * 1000 + ms;
}

static void put_context(struct buf *out, const struct json *c, const char *id, struct str created, struct str used)
{
	struct json_writer w = json_writer(out);
	json_object_begin(&w);
	json_member_str(&w, "id", text_of(c, id));
	json_member_str(&w, "language", text_of(c, "language"));
	json_member_str(&w, "cwd", text_of(c, "cwd"));
	json_key(&w, "createdAt");
	capnweb_put_date(out, wall_ms(created));
	w.comma = true;
	json_key(&w, "lastUsed");
	capnweb_put_date(out, wall_ms(used));
	json_object_end(&w);
}

void shape_context(struct buf *out, const struct json *answer)
{
	struct str now = text_of(answer, "timestamp");
	put_context(out, answer, "contextId", now, now);
}

void shape_contexts(struct buf *out, const struct json *answer)
{
	const struct json *contexts = json_get(answer, "contexts");
	buf_add_c(out, "[[");
	json_each(it, contexts)
	{
		if (it != contexts->first)
			buf_add_byte(out, ',');
		put_context(out, it, "id", text_of(it, "createdAt"), text_of(it, "lastUsed"));
	}
	buf_add_c(out, "]]");
}
