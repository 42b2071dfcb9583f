/*
 * An image that is not here is pulled at its first use, if ATOLL_PULL says so: the image service does it, and tells its
 * result in the last event of its answer.
 */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "daemon/limits.h"
#include "daemon/route/images_api.h"
#include "proto/image.h"

struct pull {
	struct daemon_request *r; /* held */
	images_on_pulled on_done;
};

/* "data: {…}" of the last event. */
static struct str last_event(struct str body)
{
	struct str found = STR_NULL;
	while (body.n) {
		struct str line = str_split(body, '\n', &body);
		if (str_starts(line, STR("data: ")))
			found = str_skip(line, 6);
	}
	return found;
}

static int read_result(const struct http_reply *reply, struct err *e)
{
	struct str code = STR_NULL, message = STR_NULL, type = STR_NULL;
	struct str text = reply->status == 200 ? last_event(reply->body) : reply->body;
	auto_json struct json_doc *doc = json_parse(text, e);
	if (!doc || json_read_str(json_root(doc), "type", &type, e) < 0 ||
		json_read_str(json_root(doc), "code", &code, e) < 0 ||
		json_read_str(json_root(doc), "message", &message, e) < 0)
		return -1;
	if (str_eq_c(type, "done"))
		return 0;
	if (!message.n)
		return err_set(e, ERRC_BAD_GATEWAY, "the pull ended without a result");
	return err_set(e, errc_from_name(code), "%.*s", (int)(message.n < 200 ? message.n : 200), message.p);
}

static void on_reply(void *arg, const struct http_reply *reply, const struct http_failure *f)
{
	struct pull *p = arg;
	struct daemon_request *r = p->r;
	struct err e;
	int got = reply ? read_result(reply, &e)
			: err_set(&e, ERRC_CONTAINER_UNAVAILABLE, "the image service cannot be reached: %.120s",
				  f->err.msg);
	if (r->x)
		p->on_done(r, got < 0 ? &e : NULL);
	daemon_request_release(r);
	free(p);
}

void images_pull(struct daemon_request *r, const char *ref, images_on_pulled on_done)
{
	struct http_endpoint ep;
	struct err e;
	auto_buf struct buf body = {0};
	const struct http_header type = {STR("Content-Type"), STR("application/json")};
	if (images_service(r->daemon, &ep, &e) < 0)
		return on_done(r, &e);
	struct json_writer w = json_writer(&body);
	json_object_begin(&w);
	json_member_cstr(&w, "reference", ref);
	json_object_end(&w);
	struct pull *p = xmalloc(sizeof *p);
	*p = (struct pull){r, on_done};
	daemon_request_hold(r);
	const struct http_question q = {.options = {.method = STR("POST"),
						.target = STR("/v1/images/pull"),
						.headers = &type,
						.headers_n = 1,
						.head_ms = IMAGE_PULL_TIMEOUT,
						.stall_ms = IMAGE_PULL_TIMEOUT},
		.body = buf_str(&body),
		.max = IMAGE_PULL_ANSWER_MAX,
		.on_reply = on_reply,
		.arg = p};
	http_call_whole(r->daemon->client, &ep, &q);
}
