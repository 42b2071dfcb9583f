/*
 * ask.c - answers to the socket's clients, and questions to the daemon's own API.
 */
#include <stdarg.h>

#include "base/json.h"
#include "doors/bridge/bridge.h"
#include "doors/docker/docker.h"

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

bool docker_went(int status)
{
	return (status >= 200 && status < 300) || status == 404;
}

void docker_no_content(struct daemon_request *r, int status)
{
	http_respond(r->x, status, NULL, STR(""));
	daemon_request_answered(r, status);
}

struct question {
	struct daemon_request *r;
	docker_on_answer on_answer;
	void *arg;
};

static void on_reply(void *arg, const struct http_reply *reply, const struct http_failure *f)
{
	struct question *q = arg;
	struct daemon_request *r = q->r && q->r->x ? q->r : NULL;
	if (q->on_answer)
		q->on_answer(q->arg, r, reply ? reply->status : 0, reply ? reply->body : str_of(f->err.msg));
	if (q->r)
		daemon_request_release(q->r);
	free(q);
}

void docker_call(struct docker *k, struct daemon_request *r, const struct docker_call *call)
{
	const struct http_header json = {STR("Content-Type"), STR("application/json")};
	struct question *q = xcalloc(1, sizeof *q);
	*q = (struct question){.r = r, .on_answer = call->on_answer, .arg = call->arg};
	if (r)
		daemon_request_hold(r);
	const struct http_question question = {.options = {.method = str_of(call->method),
						       .target = str_of(call->target),
						       .headers = &json,
						       .headers_n = call->body.n > 0,
						       .head_ms = DOCKER_ASK_TIMEOUT},
		.body = call->body,
		.max = DOCKER_ANSWER_MAX,
		.on_reply = on_reply,
		.arg = q};
	http_call_whole(k->daemon->client, &k->api, &question);
}

struct about_box {
	struct container *c;
	docker_on_reply on_reply;
};

static void on_box_answer(void *arg, struct daemon_request *r, int status, struct str body)
{
	struct about_box *a = arg;
	if (a->on_reply)
		a->on_reply(a->c, r, status, body);
	container_release(a->c);
	free(a);
}

void docker_ask(struct container *c, struct daemon_request *r, const char *method, const char *target, struct str body,
	docker_on_reply on_box_reply)
{
	auto_free char *whole = xasprintf("/v1/sandboxes/%s%s", c->box, target);
	struct about_box *a = xcalloc(1, sizeof *a);
	*a = (struct about_box){.c = c, .on_reply = on_box_reply};
	container_hold(c);
	const struct docker_call call = {method, whole, body, on_box_answer, a};
	docker_call(c->docker, r, &call);
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
