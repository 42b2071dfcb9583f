/*
 * An image that is not here is pulled at its first use, if ATOLL_PULL says so, by a job of atoll-images.
 * Requests that need the same image meanwhile wait for the same pull.
 */
#include <stdio.h>

#include "base/json.h"
#include "base/list.h"
#include "daemon/limits.h"
#include "daemon/route/images_api.h"
#include "daemon/storage/image_jobs.h"
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

/* The job ends: its waiters learn how. */
static void on_end(void *arg, const struct err *why, bool cut)
{
	struct pull *p = arg;
	struct err e;
	if (cut)
		err_set(&e, ERRC_CONTAINER_UNAVAILABLE, "the image service cannot be reached: %.120s", why->msg);
	else if (why)
		e = *why;
	/* A create that fails may ask for the image again: that is another pull. */
	map_del(&p->d->pulls, str_of(p->name));
	while (!list_empty(&p->waiters)) {
		struct pull_waiter *w = list_entry(list_pop(&p->waiters), struct pull_waiter, node);
		w->on_done(w->arg, why ? &e : NULL);
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
	struct json_writer w = json_writer(&body);
	json_object_begin(&w);
	json_member_cstr(&w, "reference", ref);
	json_object_end(&w);
	p = pull_new(d, name);
	wait_for_pull(p, on_done, arg);
	/* Requests of other callers may wait for it too: it acts for none of them. */
	const struct image_task t = {.verb = "pull",
		.caller = caller_daemon,
		.has_body = true,
		.max_ms = IMAGE_PULL_TIMEOUT,
		.on_end = on_end,
		.arg = p};
	struct image_job *job = image_job_start(d, &t);
	image_job_write(job, buf_str(&body));
	image_job_write_end(job);
}
