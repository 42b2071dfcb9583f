/*
 * ask.c - answers to the socket's clients; operations on the sandbox of a container, and questions to its agent. They are
 * asked as the user at the other end of the socket, who owns the container.
 */
#include <stdarg.h>
#include <stdio.h>

#include "base/json.h"
#include "daemon/network/network.h"
#include "daemon/pass/ask.h"
#include "doors/docker/docker.h"
#include "proto/error_json.h"

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

/* ---- of a container's sandbox ---- */

struct about_box {
	struct container *c;	  /* held */
	struct daemon_request *r; /* held, or NULL */
	docker_on_reply on_reply;
	int status;
	char text[sizeof((struct err *)0)->msg];
	struct loop_timer later; /* answers never come from inside the question */
};

static struct about_box *about_box(struct container *c, struct daemon_request *r, docker_on_reply then)
{
	struct about_box *a = xcalloc(1, sizeof *a);
	*a = (struct about_box){.c = c, .r = r, .on_reply = then};
	container_hold(c);
	if (r)
		daemon_request_hold(r);
	return a;
}

static void answer(struct about_box *a, int status, struct str body)
{
	if (a->on_reply)
		a->on_reply(a->c, a->r && a->r->x ? a->r : NULL, status, body);
	container_release(a->c);
	if (a->r)
		daemon_request_release(a->r);
	free(a);
}

static void on_later(struct loop_timer *t)
{
	struct about_box *a = container_of(t, struct about_box, later);
	answer(a, a->status, str_of(a->text));
}

static void on_done(void *arg, const struct op_result *result)
{
	struct about_box *a = arg;
	a->status = result->err ? errc_info((int)result->err->code)->status : result->made ? 201 : 200;
	snprintf(a->text, sizeof a->text, "%s", result->err ? result->err->msg : "");
	loop_timer_set(a->c->docker->daemon->loop, &a->later, 0, on_later);
}

/* The owner of the container. */
static struct caller owner_of(const struct container *c)
{
	return (struct caller){.by = BY_SOCKET, .door = DOOR_DOCKER, .uid = c->uid};
}

static struct op_call call_of(const struct about_box *a, const struct caller *owner)
{
	return (struct op_call){a->c->docker->daemon, owner, a->c->box, on_done, (void *)a};
}

void docker_put(struct container *c, struct daemon_request *r, struct str spec, docker_on_reply then)
{
	struct err e;
	auto_change struct api_change change = {0};
	struct about_box *a = about_box(c, r, then);
	const struct caller owner = owner_of(c);
	const struct op_call call = call_of(a, &owner);
	if (api_change_parse(spec, &change, &e) < 0)
		return on_done(a, &(struct op_result){.err = &e});
	op_put(&call, &change);
}

void docker_destroy(struct container *c, struct daemon_request *r, docker_on_reply then)
{
	struct about_box *a = about_box(c, r, then);
	const struct caller owner = owner_of(c);
	const struct op_call call = call_of(a, &owner);
	op_destroy(&call);
}

void docker_stop(struct container *c, struct daemon_request *r, docker_on_reply then)
{
	struct about_box *a = about_box(c, r, then);
	const struct caller owner = owner_of(c);
	const struct op_call call = call_of(a, &owner);
	op_stop(&call);
}

void docker_policy(struct container *c, struct str policy, docker_on_reply then)
{
	struct err e;
	auto_change struct api_change change = {0};
	struct about_box *a = about_box(c, NULL, then);
	const struct caller owner = owner_of(c);
	const struct op_call call = call_of(a, &owner);
	const struct sandbox *s = op_find(call.daemon, &owner, call.id, &e);
	auto_json struct json_doc *doc = s ? json_parse(policy, &e) : NULL;
	if (!doc || network_change(s->spec.network, json_root(doc), &change.spec.network, &e) < 0)
		return on_done(a, &(struct op_result){.err = &e});
	op_policy(&call, &change);
}

static void on_pass_reply(void *arg, const struct pass_reply *reply)
{
	answer(arg, reply->status, reply->err.code ? str_of(reply->err.msg) : reply->body);
}

void docker_execute(struct container *c, struct daemon_request *r, struct str body, docker_on_reply then)
{
	const struct caller owner = owner_of(c);
	const struct pass_what what = {.daemon = c->docker->daemon,
		.caller = &owner,
		.id = c->box,
		.method = "POST",
		.target = STR("/api/execute"),
		.body = body,
		.head_ms = DOCKER_ASK_TIMEOUT,
		.arg = about_box(c, r, then)};
	pass_ask_whole(&what, DOCKER_ANSWER_MAX, on_pass_reply);
}

void docker_answer_failed(struct daemon_request *r, int status, struct str body)
{
	auto_buf struct buf why = {0};
	error_json_message(body, &why);
	docker_error(r, status == 404 ? 404 : 500, "%s", buf_cstr(&why));
}

void docker_query(struct daemon_request *r, const char *key, struct buf *ret)
{
	struct err e;
	if (http_query_get(http_request(r->x)->query, str_of(key), ret, &e) != 1)
		buf_clear(ret);
}
