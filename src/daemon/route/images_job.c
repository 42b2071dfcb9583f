/*
 * /v1/images…: each request is a job of atoll-images (storage/image_jobs.h). This file names the job, gives it the
 * parameters and the body, and makes the answer out of its lines (images/images.h has them):
 *
 *	{"event":{…}}	     an event of a stream, which the first one begins
 *	{"answer":{"status","type","size"}}  the head of another answer; its body are the bytes. No size: chunked
 *
 * An error before the head is an answer, one in a stream is its last event; anything else is cut off, so that it does
 * not look complete.
 */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/json.h"
#include "daemon/listen.h"
#include "daemon/route/handlers.h"
#include "daemon/route/images_api.h"
#include "daemon/storage/image_jobs.h"

enum images_answer { ANSWER_NONE, ANSWER_EVENTS, ANSWER_BYTES };

/* Freed when the exchange closes. */
struct images_call {
	struct daemon_request *r;
	struct image_job *job; /* NULL: it has ended */
	enum images_answer answer;
	int status;
	bool body_waits; /* the exchange is paused until the job takes more */
};

/* ---- which job ---- */

struct images_route {
	const char *path, *verb; /* below /v1/images */
	bool has_body;
	const char *params[7];
};

static const struct images_route posts[] = {
	{"/import", "import", true, {"name"}},
	{"/build", "build", true, {"tag", "dockerfile", "target", "nocache", "buildargs", "secrets"}},
	{"/tag", "tag", true, {NULL}},
	{"/commit", "commit", true, {NULL}},
	{"/prune", "prune", false, {NULL}},
	{"/pull", "pull", true, {NULL}},
	{"/push", "push", true, {NULL}},
};
static const struct images_route list = {"", "list", false, {"usage"}};
static const struct images_route inspect = {"/", "inspect", false, {"packages"}};
static const struct images_route archive = {"/", "export", false, {"export"}};
static const struct images_route drop = {"/", "remove", false, {NULL}};

static const struct images_route *find_post(struct str rest)
{
	for (size_t i = 0; i < ARRAY_LEN(posts); i++)
		if (str_eq_c(rest, posts[i].path))
			return &posts[i];
	return NULL;
}

static const struct images_route *find_route(struct daemon_request *r, struct buf *ret_ref, struct err *e)
{
	static const struct str prefix = {"/v1/images", 10};
	const struct http_request *q = http_request(r->x);
	struct str rest = str_skip(q->path, prefix.n);
	bool get = str_eq_c(q->method_text, "GET");
	const struct images_route *found = NULL;
	auto_buf struct buf format = {0};
	if (!rest.n) {
		found = get ? &list : NULL;
	} else if (str_eq_c(q->method_text, "POST")) {
		found = find_post(rest);
	} else {
		if (http_percent_decode(str_skip(rest, 1), ret_ref, e) < 0 ||
			http_query_get(q->query, STR("export"), &format, e) < 0)
			return NULL;
		if (get)
			found = buf_size(&format) ? &archive : &inspect;
		else if (str_eq_c(q->method_text, "DELETE"))
			found = &drop;
	}
	if (!found)
		err_set(e, ERRC_NOT_FOUND, "no route for this method at %.*s", (int)(q->path.n < 100 ? q->path.n : 100),
			q->path.p);
	return found;
}

/* Who asks, for the caches of builds: a named token, or a user of the host. "": the daemon's own token, root and our
 * user, who can read every cache anyhow. */
static void name_owner(struct daemon_request *r, char ret[TOKEN_NAME_MAX + 8])
{
	struct ucred cred = {0};
	socklen_t n = sizeof cred;
	*ret = 0;
	if (*r->caller.token)
		snprintf(ret, TOKEN_NAME_MAX + 8, "token:%s", r->caller.token);
	else if (http_exchange_tag(r->x) == LISTEN_UNIX &&
		 getsockopt(http_exchange_fd(r->x), SOL_SOCKET, SO_PEERCRED, &cred, &n) == 0 && cred.uid != 0 &&
		 cred.uid != geteuid())
		snprintf(ret, TOKEN_NAME_MAX + 8, "uid:%u", (unsigned)cred.uid);
}

/* Members of the job's description. */
static int describe(
	struct daemon_request *r, const struct images_route *route, struct str ref, struct buf *ret, struct err *e)
{
	const struct http_request *q = http_request(r->x);
	char owner[TOKEN_NAME_MAX + 8];
	name_owner(r, owner);
	buf_add_c(ret, "\"owner\":");
	json_put_cstr(ret, owner);
	buf_add_c(ret, ",\"ref\":");
	json_put_str(ret, ref);
	if (route->has_body && q->content_length > 0)
		buf_printf(ret, ",\"length\":%lld", (long long)q->content_length);
	buf_add_c(ret, ",\"parameters\":{");
	for (size_t i = 0; route->params[i]; i++) {
		auto_buf struct buf value = {0};
		if (http_query_get(q->query, str_of(route->params[i]), &value, e) < 0)
			return -1;
		buf_printf(ret, "%s\"%s\":", i ? "," : "", route->params[i]);
		json_put_str(ret, buf_str(&value));
	}
	buf_add_byte(ret, '}');
	return 0;
}

/* ---- its answer ---- */

static void write_or_pause(struct images_call *c, struct str bytes)
{
	if (!http_respond_write(c->r->x, bytes))
		image_job_pause(c->job);
}

static void begin(struct images_call *c, enum images_answer answer, int status, const char *type, int64_t size)
{
	c->answer = answer;
	c->status = status;
	http_respond_header(c->r->x, STR("Content-Type"), str_of(type));
	http_respond_begin(c->r->x, status, size);
}

static void put_event(struct images_call *c, struct str json)
{
	auto_buf struct buf out = {0};
	buf_printf(&out, "data: %.*s\n\n", STR_ARG(json));
	write_or_pause(c, buf_str(&out));
}

static void on_line(void *arg, const struct json *line)
{
	struct images_call *c = arg;
	const struct json *event = json_get(line, "event"), *answer = json_get(line, "answer");
	const char *type = "application/json";
	uint64_t status = 200, size = 0;
	if (event) {
		auto_buf struct buf text = {0};
		json_put_tree(&text, event);
		if (c->answer == ANSWER_NONE)
			begin(c, ANSWER_EVENTS, 200, "text/event-stream", HTTP_CHUNKED);
		put_event(c, buf_str(&text));
	} else if (answer && c->answer == ANSWER_NONE) {
		json_read_u64(answer, "status", 200, 599, &status, NULL);
		json_read_cstr(answer, "type", &type, NULL);
		json_read_u64(answer, "size", 0, INT64_MAX, &size, NULL);
		begin(c, ANSWER_BYTES, (int)status, type, json_get(answer, "size") ? (int64_t)size : HTTP_CHUNKED);
	}
}

static void on_bytes(void *arg, struct str bytes)
{
	struct images_call *c = arg;
	if (c->answer == ANSWER_BYTES)
		write_or_pause(c, bytes);
}

static void put_error(struct images_call *c, const struct err *e)
{
	auto_buf struct buf text = {0}, out = {0};
	struct json_writer w = json_writer(&text);
	json_object_begin(&w);
	json_member_cstr(&w, "type", "error");
	json_member_cstr(&w, "code", errc_info(e->code)->code);
	json_member_cstr(&w, "message", e->msg);
	json_member_cstr(&w, "suggestion", errc_info(e->code)->suggestion);
	json_object_end(&w);
	buf_printf(&out, "data: %s\n\n", buf_cstr(&text));
	http_respond_write(c->r->x, buf_str(&out));
}

static void on_end(void *arg, const struct err *why, bool cut)
{
	struct images_call *c = arg;
	struct err e;
	c->job = NULL;
	if (c->body_waits)
		http_resume(c->r->x);
	if (cut)
		err_set(&e, ERRC_BAD_GATEWAY, "the image service cannot be reached: %.120s", why->msg);
	else if (why)
		e = *why;
	else if (c->answer == ANSWER_NONE)
		err_set(&e, ERRC_INTERNAL_ERROR, "the image service gave no answer");
	if (c->answer == ANSWER_NONE)
		return daemon_request_error(c->r, &e);
	if (cut || (why && c->answer == ANSWER_BYTES))
		return http_abort(c->r->x);
	if (why)
		put_error(c, &e);
	http_respond_end(c->r->x);
	daemon_request_answered(c->r, c->status);
}

/* ---- the exchange ---- */

static void on_room(void *arg)
{
	struct images_call *c = arg;
	if (!c->body_waits)
		return;
	c->body_waits = false;
	http_resume(c->r->x);
}

static void on_body(struct http_exchange *x, struct str piece)
{
	struct images_call *c = http_exchange_arg(x);
	if (!c->job || image_job_write(c->job, piece))
		return;
	c->body_waits = true;
	http_pause(x);
}

static void on_body_end(struct http_exchange *x)
{
	struct images_call *c = http_exchange_arg(x);
	if (c->job)
		image_job_write_end(c->job);
}

static void on_writable(struct http_exchange *x)
{
	struct images_call *c = http_exchange_arg(x);
	if (c->job)
		image_job_resume(c->job);
}

static void on_close(struct http_exchange *x, bool complete)
{
	struct images_call *c = http_exchange_arg(x);
	struct daemon_request *r = c->r;
	if (c->job)
		image_job_leave(c->job);
	free(c);
	daemon_request_retake(r);
	daemon_request_closed(x, complete);
}

void handle_images(struct daemon_request *r)
{
	static const struct http_exchange_ops ops = {
		.on_body = on_body, .on_body_end = on_body_end, .on_writable = on_writable, .on_close = on_close};
	static const struct http_exchange_ops without_body = {.on_writable = on_writable, .on_close = on_close};
	auto_buf struct buf ref = {0}, members = {0};
	struct err e;
	const struct images_route *route = find_route(r, &ref, &e);
	if (!route || describe(r, route, buf_str(&ref), &members, &e) < 0)
		return daemon_request_error(r, &e);
	struct images_call *c = xcalloc(1, sizeof *c);
	c->r = r;
	http_exchange_set(r->x, route->has_body ? &ops : &without_body, c);
	const struct image_task t = {.verb = route->verb,
		.members = buf_str(&members),
		.caller = r->caller,
		.has_body = route->has_body,
		.on_room = on_room,
		.on_line = on_line,
		.on_bytes = on_bytes,
		.on_end = on_end,
		.arg = c};
	c->job = image_job_start(r->daemon, &t);
	if (route->has_body && http_body_ended(r->x))
		image_job_write_end(c->job);
}
