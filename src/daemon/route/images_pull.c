/*
 * An image that is not here is pulled at its first use, if ATOLL_PULL says so: the image service does it, and tells its
 * result in the last event of its answer. Requests that need the same image meanwhile wait for the same pull.
 */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/list.h"
#include "daemon/limits.h"
#include "daemon/route/images_api.h"
#include "proto/image.h"

struct pull_waiter {
	images_on_pulled on_done;
	void *arg;
	struct list node;
};

/* Owned by daemon.pulls until its answer is there. */
struct pull {
	struct daemon *d;
	struct list waiters;
	char name[IMAGE_REF_MAX + IMAGE_HEX + 2];
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
	struct err e;
	int got = reply ? read_result(reply, &e)
			: err_set(&e, ERRC_CONTAINER_UNAVAILABLE, "the image service cannot be reached: %.120s",
				  f->err.msg);
	/* A create that fails may ask for the image again: that is another pull. */
	map_del(&p->d->pulls, str_of(p->name));
	while (!list_empty(&p->waiters)) {
		struct pull_waiter *w = list_entry(list_pop(&p->waiters), struct pull_waiter, node);
		w->on_done(w->arg, got < 0 ? &e : NULL);
		free(w);
	}
	free(p);
}

static void wait_for_pull(struct pull *p, images_on_pulled on_done, void *arg)
{
	struct pull_waiter *w = xcalloc(1, sizeof *w);
	*w = (struct pull_waiter){.on_done = on_done, .arg = arg};
	list_push(&p->waiters, &w->node);
}

static struct pull *pull_new(struct daemon *d, const char *name)
{
	struct pull *p = xcalloc(1, sizeof *p);
	p->d = d;
	snprintf(p->name, sizeof p->name, "%s", name);
	list_init(&p->waiters);
	map_put(&d->pulls, str_of(p->name), p);
	return p;
}

void images_pull(struct daemon *d, const char *ref, images_on_pulled on_done, void *arg)
{
	struct http_endpoint ep;
	struct image_ref parsed;
	struct err e;
	char name[sizeof((struct pull *)0)->name];
	auto_buf struct buf body = {0};
	if (image_ref_parse(str_of(ref), &parsed, &e) < 0)
		return on_done(arg, &e);
	snprintf(name, sizeof name, "%s@%s", parsed.name, parsed.key);
	struct pull *p = map_get(&d->pulls, str_of(name));
	if (p)
		return wait_for_pull(p, on_done, arg);
	const struct http_header type = {STR("Content-Type"), STR("application/json")};
	if (images_service(d, &ep, &e) < 0)
		return on_done(arg, &e);
	struct json_writer w = json_writer(&body);
	json_object_begin(&w);
	json_member_cstr(&w, "reference", ref);
	json_object_end(&w);
	p = pull_new(d, name);
	wait_for_pull(p, on_done, arg);
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
	http_call_whole(d->client, &ep, &q);
}
