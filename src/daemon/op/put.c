/*
 * Makes a sandbox, or changes one that is there. An image that is not here is pulled first, if ATOLL_PULL says so.
 */
#include <stdio.h>
#include <string.h>

#include "daemon/core/settings.h"
#include "daemon/op/change.h"
#include "daemon/route/images_api.h"
#include "daemon/storage/volumes.h"
#include "proto/image.h"

struct putting {
	struct operation op;
	struct api_change change;
	struct operation *part; /* the change of a sandbox that is there, or the fork, while it is under way */
};

static void putting_free(struct operation *op)
{
	struct putting *p = container_of(op, struct putting, op);
	api_change_free(&p->change);
	free(p);
}

static void on_part(void *arg, const struct op_result *result)
{
	struct putting *p = arg;
	p->part = NULL;
	op_end(&p->op, result);
}

/* The part goes on, and the record tells how it ended. */
static void forget_part(struct operation *op)
{
	struct putting *p = container_of(op, struct putting, op);
	if (p->part)
		p->part->gone = true;
}

static struct op_call part_call(struct putting *p)
{
	return (struct op_call){p->op.daemon, &p->op.caller, p->op.id, on_part, p};
}

static void on_there(struct sandbox_waiter *w, struct sandbox *s, const struct err *e)
{
	struct putting *p = container_of(w, struct putting, op.waiter);
	const struct op_call call = part_call(p);
	if (e)
		return op_fail(&p->op, e);
	if (!w->made && p->change.no_image.code)
		return op_fail(&p->op, &p->change.no_image);
	if (!w->made) {
		p->part = change_begin(&call, NULL, &p->change);
		return;
	}
	op_use(&p->op, s);
	op_succeed(&p->op, true);
}

static void make_sandbox(struct putting *p)
{
	p->op.waiter = (struct sandbox_waiter){.goal = WAIT_RUNNING, .change = &p->change, .on_done = on_there};
	op_wait(&p->op, NULL);
}

/* It is there, and neither on its way to be nor to be gone. */
static bool settled(const struct sandbox *s)
{
	return s && s->state != SB_CREATING && s->state != SB_FAILED && s->op != OP_CREATE && s->op != OP_DESTROY;
}

/* The change is well-formed, and its image is here. */
static void begin(struct putting *p)
{
	const struct op_call call = part_call(p);
	if (p->change.has_from)
		p->part = op_make_from(&call, &p->change);
	else if (settled(sandbox_find(p->op.daemon, p->op.id)))
		p->part = change_begin(&call, NULL, &p->change);
	else
		make_sandbox(p);
}

/* The image cannot be had. A new sandbox stays failed, so that none of another image is made in its place. The name is
 * kept for people; one that was cut has a colon, which no name of the warden's has. */
static void refuse_image(struct putting *p, const struct err *e)
{
	struct api_change *c = &p->change;
	bool fits = strlen(c->image_ref) <= BOX_IMAGE_NAME_MAX;
	if (c->has_from || settled(sandbox_find(p->op.daemon, p->op.id)))
		return op_fail(&p->op, e);
	snprintf(c->spec.image, sizeof c->spec.image, "%.*s%s", fits ? BOX_IMAGE_NAME_MAX : BOX_IMAGE_NAME_MAX - 4,
		c->image_ref, fits ? "" : ":...");
	c->no_image = *e;
	make_sandbox(p);
}

static void on_pulled(void *arg, const struct err *why)
{
	struct putting *p = arg;
	struct err e;
	if (why || images_resolve(p->op.daemon, &p->change, &e) < 0)
		return refuse_image(p, why ? why : &e);
	begin(p);
}

/* ---- whether it may begin ---- */

static int check_limits(const struct putting *p, struct err *e)
{
	const struct warden_host *host = warden_host(p->op.daemon->warden);
	const struct api_change *c = &p->change;
	struct box_limits l = {0};
	if (c->has_memory)
		l.mem_bytes = c->spec.limits.mem_bytes;
	if (c->has_cpu)
		l.cpu_milli = c->spec.limits.cpu_milli;
	if (c->has_pids)
		l.pids = c->spec.limits.pids;
	if (c->has_disk)
		l.disk_bytes = c->spec.limits.disk_bytes;
	if (!host || api_limits_check(&l, host, e) == 0)
		return 0;
	return c->instance ? err_wrap(e, "instance '%s' is too large", c->instance) : -1;
}

/* Boxes of the image service are noted as such, and have volumes of builds; other sandboxes keep those that they have.
 */
static int check_work(struct putting *p, struct err *e)
{
	const struct sandbox *s = sandbox_find(p->op.daemon, p->op.id);
	char **changes = &p->change.settings_changes;
	bool own = caller_is_own(&p->op.caller);
	if (own && str_starts(str_of(p->op.id), STR(IMAGE_BOX)))
		return settings_note(changes, SANDBOX_WORK, STR("true")), 0;
	if (own || !*changes || !volumes_add_builds(s ? s->spec.settings : "{}", *changes))
		return 0;
	return err_field(e, "volumes", "volumes whose names begin with 'atoll.build.' are for builds alone");
}

static int check(struct putting *p, struct err *e)
{
	const char *changes;
	if (op_may_make(p->op.daemon, &p->op.caller, p->op.id, e) < 0 || check_limits(p, e) < 0 || check_work(p, e) < 0)
		return -1;
	changes = p->change.settings_changes;
	return changes ? change_check_settings(p->op.daemon, changes, e) : 0;
}

/* A sandbox that failed for want of its image looks for it again, by the name that was kept. */
static void look_again(struct putting *p)
{
	const struct sandbox *s = sandbox_find(p->op.daemon, p->op.id);
	struct api_change *c = &p->change;
	struct image_ref ref;
	struct err e;
	if (c->has_image || c->has_from || !s || s->state != SB_FAILED)
		return;
	sandbox_failure(s, &e);
	if (e.code != ERRC_IMAGE_NOT_FOUND || image_ref_parse(str_of(s->spec.image), &ref, &e) < 0)
		return;
	c->has_image = true;
	snprintf(c->image_ref, sizeof c->image_ref, "%s", s->spec.image);
}

struct operation *op_put(const struct op_call *call, struct api_change *change)
{
	static const struct op_kind kind = {"PUT", "/v1/sandboxes/{id}", 200, 201};
	struct err e;
	struct putting *p = xcalloc(1, sizeof *p);
	op_begin(&p->op, call, &kind);
	p->op.free = putting_free;
	p->op.on_forget = forget_part;
	p->change = *change;
	*change = (struct api_change){0};
	look_again(p);
	if (check(p, &e) < 0)
		op_fail(&p->op, &e);
	else if (images_resolve(p->op.daemon, &p->change, &e) == 0)
		begin(p);
	else if (e.code != ERRC_IMAGE_NOT_FOUND)
		op_fail(&p->op, &e);
	else if (!p->op.daemon->config.pull_missing)
		refuse_image(p, &e);
	else
		images_pull(p->op.daemon, p->change.image_ref, on_pulled, p);
	return op_begun(&p->op);
}
