/*
 * ask.c - answers to the socket's clients, and questions to the daemon's own API.
 */
#include <stdarg.h>

#include "base/json.h"
#include "daemon/bridge/bridge.h"
#include "daemon/docker/docker.h"

void docker_error(struct daemon_request *r, int status, const char *fmt, ...)
{
	auto_buf struct buf text = {0}, out = {0};
	va_list ap;
	va_start(ap, fmt);
	buf_vprintf(&text, fmt, ap);
	va_end(ap);
	struct json_writer w = json_writer(&out);
	json_object_begin(&w);
	json_member_str(&w, "message", buf_str(&text));
	json_object_end(&w);
	daemon_request_json(r, status, buf_str(&out));
}

void docker_no_content(struct daemon_request *r, int status)
{
	http_respond(r->x, status, NULL, STR(""));
	daemon_request_answered(r, status);
}

struct question {
	struct container *c;
	struct daemon_request *r;
	docker_on_reply on_reply;
};

static void on_answer(void *arg, const struct http_reply *reply, const struct http_failure *f)
{
	struct question *q = arg;
	struct daemon_request *r = q->r && q->r->x ? q->r : NULL;
	if (q->on_reply)
		q->on_reply(q->c, r, reply ? reply->status : 0, reply ? reply->body : str_of(f->err.msg));
	if (q->r)
		daemon_request_release(q->r);
	container_release(q->c);
	free(q);
}

void docker_ask(struct container *c, struct daemon_request *r, const char *method, const char *target, struct str body,
	docker_on_reply on_reply)
{
	auto_buf struct buf whole = {0};
	const struct http_header json = {STR("Content-Type"), STR("application/json")};
	struct question *q = xcalloc(1, sizeof *q);
	*q = (struct question){.c = c, .r = r, .on_reply = on_reply};
	container_hold(c);
	if (r)
		daemon_request_hold(r);
	buf_printf(&whole, "/v1/sandboxes/%s%s", c->box, target);
	const struct http_question question = {.options = {.method = str_of(method),
						       .target = buf_str(&whole),
						       .headers = &json,
						       .headers_n = body.n > 0,
						       .head_ms = DOCKER_ASK_TIMEOUT},
		.body = body,
		.max = DOCKER_ANSWER_MAX,
		.on_reply = on_answer,
		.arg = q};
	http_call_whole(c->docker->daemon->client, &c->docker->api, &question);
}

void docker_answer_failed(struct daemon_request *r, int status, struct str body)
{
	auto_buf struct buf why = {0};
	bridge_message(body, &why);
	docker_error(r, status == 404 ? 404 : 500, "%s", buf_cstr(&why));
}

void docker_query(struct daemon_request *r, const char *key, struct buf *ret)
{
	struct err e;
	if (http_query_get(http_request(r->x)->query, str_of(key), ret, &e) != 1)
		buf_clear(ret);
}
