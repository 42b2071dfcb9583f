/*
 * Sandboxes made from others: POST /v1/sandboxes/{id}/fork, and PUT /v1/sandboxes/{id} with "from".
 *
 * A running sandbox is copied once, for a moment; the new sandboxes are made from that copy, all at the same time.
 * Either all are made or none.
 */
#include <stdio.h>

#include "base/json.h"
#include "daemon/core/settings.h"
#include "daemon/limits.h"
#include "daemon/route/handlers.h"
#include "daemon/route/request.h"
#include "daemon/route/view.h"
#include "daemon/storage/backups.h"
#include "proto/id.h"
#include "proto/image.h"

struct fork {
	struct daemon_request *r;
	struct snapshot *source;
	bool own;    /* the source is ours to drop */
	bool single; /* a PUT: answered when the sandbox runs */
	size_t n, left;
	char ids[FORKS_MAX][BOX_ID_MAX + 1];
	struct sandbox *made[FORKS_MAX]; /* referenced */
	struct err err;
};

static void fork_free(struct fork *f)
{
	for (size_t i = 0; i < f->n; i++)
		if (f->made[i])
			sandbox_unref(f->made[i]);
	free(f);
}

static void answer_all(struct fork *f)
{
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	json_list_begin(&w, "sandboxes");
	for (size_t i = 0; i < f->n; i++)
		view_sandbox(&w, f->made[i], NULL);
	json_list_end(&w);
	daemon_request_json(f->r, 201, buf_str(&out));
}

static void on_running(struct sandbox_waiter *w, struct sandbox *s, const struct err *e)
{
	struct daemon_request *r = container_of(w, struct daemon_request, waiter);
	if (e)
		return daemon_request_error(r, e);
	sandbox_ref(s);
	r->sandbox = s;
	daemon_request_view(r, 201, NULL);
}

static void start_single(struct fork *f)
{
	struct daemon_request *r = f->r;
	struct err e;
	r->waiter = (struct sandbox_waiter){.goal = WAIT_RUNNING, .on_done = on_running};
	if (sandbox_wait(f->made[0], &r->waiter, &e) < 0)
		daemon_request_error(r, &e);
}

static void undo(struct fork *f)
{
	for (size_t i = 0; i < f->n; i++)
		if (f->made[i] && sandbox_exists(f->made[i]) && f->made[i]->op == OP_NONE &&
			warden_client_is_up(f->r->daemon->warden))
			sandbox_destroy(f->made[i]);
}

static void fork_end(struct fork *f)
{
	struct daemon_request *r = f->r;
	if (f->own && f->source)
		snapshot_drop(f->source, NULL, NULL);
	if (f->err.code)
		undo(f);
	if (r->x && f->err.code)
		daemon_request_error(r, &f->err);
	else if (r->x && f->single)
		start_single(f);
	else if (r->x)
		answer_all(f);
	fork_free(f);
	daemon_request_release(r);
}

static void on_filled(void *arg, struct sandbox *s, const struct err *e)
{
	struct fork *f = arg;
	if (e && !f->err.code)
		f->err = *e;
	for (size_t i = 0; !e && i < f->n; i++)
		if (strcmp(f->ids[i], s->id) == 0) {
			sandbox_ref(s);
			f->made[i] = s;
		}
	if (--f->left == 0)
		fork_end(f);
}

static int check_free(struct fork *f, struct err *e)
{
	for (size_t i = 0; i < f->n; i++)
		if (sandbox_find(f->r->daemon, f->ids[i]))
			return err_set(e, ERRC_INVALID_STATE, "sandbox '%s' exists already", f->ids[i]);
	return 0;
}

/* The settings of the source, with those that a PUT asks for. */
static int new_spec(const struct fork *f, struct api_spec *ret, struct err *e)
{
	const struct api_change *c = &f->r->change;
	INVARIANT(f->source);
	if (c->has_image && strcmp(c->spec.image, f->source->spec.image) != 0)
		return err_field(e, "image", "the files are of image '%s'", f->source->spec.image);
	api_spec_copy(ret, &f->source->spec);
	api_change_apply(c, ret);
	return 0;
}

/* A fork of which the image service makes a layer. */
static void note_work(const struct fork *f, const char *id, struct api_spec *spec)
{
	if (caller_is_own(&f->r->caller) && str_starts(str_of(id), STR(IMAGE_BOX)))
		settings_note(&spec->settings, SANDBOX_WORK, STR("true"));
}

static void fill_all(struct fork *f)
{
	struct api_spec spec = {0};
	f->left = 1;
	if (check_free(f, &f->err) == 0 && new_spec(f, &spec, &f->err) == 0) {
		for (size_t i = 0; i < f->n && !f->err.code; i++) {
			note_work(f, f->ids[i], &spec);
			const struct sandbox_filling what = {.id = f->ids[i],
				.snapshot = f->source->id,
				.spec = &spec,
				.on_done = on_filled,
				.arg = f};
			if (sandbox_fill(f->r->daemon, &what, &f->err) == 0)
				f->left++;
		}
		api_spec_free(&spec);
	}
	if (--f->left == 0)
		fork_end(f);
}

static void on_source(void *arg, struct snapshot *s, const struct err *e)
{
	struct fork *f = arg;
	f->source = s;
	f->own = s != NULL;
	if (e)
		f->err = *e;
	if (e)
		fork_end(f);
	else
		fill_all(f);
}

/* The files come from a backup; `f` is held. */
static void on_backups_known(void *arg, const struct err *e)
{
	struct fork *f = arg;
	const struct api_change *c = &f->r->change;
	struct backup *b = e ? NULL : backup_find(f->r->daemon, str_of(c->from.backup));
	uint64_t disk = c->has_disk || !b ? c->spec.limits.disk_bytes : b->spec.limits.disk_bytes;
	bool loads = false;
	if (e)
		f->err = *e;
	else if (!b)
		err_set(&f->err, ERRC_BACKUP_NOT_FOUND, "there is no backup '%s'", c->from.backup);
	else if (b->state != BACKUP_READY)
		err_set(&f->err, ERRC_INVALID_STATE, "backup '%s' is not complete", b->id);
	else
		loads = backup_load(
			b, &(struct backup_load_task){.disk = disk, .on_done = on_source, .arg = f}, &f->err);
	if (!loads)
		fork_end(f);
}

/* Takes `f`. */
static void begin(struct fork *f, const struct api_from *from)
{
	struct daemon_request *r = f->r;
	struct err e = {0};
	struct sandbox *parent = sandbox_find(r->daemon, from->sandbox);
	struct snapshot *s = snapshot_find(r->daemon, NULL, str_of(from->snapshot));
	if (!warden_client_is_up(r->daemon->warden))
		err_set(&e, ERRC_CONTAINER_UNAVAILABLE, "the warden is not running ('atoll up' starts it again)");
	else if (*from->sandbox && (!parent || (parent->work && !caller_is_own(&r->caller))))
		err_set(&e, ERRC_SANDBOX_NOT_FOUND, "there is no sandbox '%s'", from->sandbox);
	else if (*from->snapshot && !s)
		err_set(&e, ERRC_SNAPSHOT_NOT_FOUND, "there is no snapshot '%s'", from->snapshot);
	else
		check_free(f, &e);
	if (e.code) {
		fork_free(f);
		return daemon_request_error(r, &e);
	}
	daemon_request_hold(r);
	if (*from->backup)
		return backups_when_known(r->daemon, on_backups_known, f);
	if (parent)
		return snapshot_take(parent, NULL, on_source, f);
	f->source = s;
	fill_all(f);
}

void daemon_request_make_from(struct daemon_request *r)
{
	struct fork *f = xcalloc(1, sizeof *f);
	f->r = r;
	f->n = 1;
	f->single = true;
	snprintf(f->ids[0], sizeof f->ids[0], "%s", r->match.id);
	begin(f, &r->change.from);
}

/* ---- POST …/fork ---- */

static int read_ids(const struct json *ids, struct fork *f, struct err *e)
{
	if (ids->type != JSON_T_ARRAY || ids->count < 1 || ids->count > FORKS_MAX)
		return err_field(e, "ids", "field 'ids' must be an array of 1 to %d ids", FORKS_MAX);
	json_each(it, ids)
	{
		if (it->type != JSON_T_STRING)
			return err_field(e, "ids", "field 'ids' must be an array of texts");
		if (box_id_check(it->text, e) < 0)
			return err_about(e, "ids");
		if (box_id_is_given(it->text) && !caller_is_own(&f->r->caller))
			return err_field(
				e, "ids", "'%.*s' is an id of the kind that Atoll itself gives", STR_ARG(it->text));
		for (size_t i = 0; i < f->n; i++)
			if (str_eq_c(it->text, f->ids[i]))
				return err_field(e, "ids", "'%s' stands twice in field 'ids'", f->ids[i]);
		snprintf(f->ids[f->n++], BOX_ID_MAX + 1, "%.*s", STR_ARG(it->text));
	}
	return 0;
}

/* {id}-1, {id}-2 …: the first numbers that are free. */
static int count_ids(struct fork *f, uint64_t count, struct err *e)
{
	char id[BOX_ID_MAX + 16];
	for (unsigned number = 1; f->n < count; number++) {
		snprintf(id, sizeof id, "%s-%u", f->r->match.id, number);
		if (strlen(id) > BOX_ID_MAX)
			return err_field(e, "count", "the id '%s' would be too long; use 'ids'", id);
		if (!sandbox_find(f->r->daemon, id))
			snprintf(f->ids[f->n++], BOX_ID_MAX + 1, "%.*s", BOX_ID_MAX, id);
	}
	return 0;
}

static int read_fork(const struct json *root, struct fork *f, struct err *e)
{
	const struct json *ids = json_get(root, "ids");
	uint64_t count = 0;
	if (root->type != JSON_T_OBJECT || root->count != 1 || (!ids && !json_get(root, "count")))
		return err_set(e, ERRC_VALIDATION_FAILED, "the body must be an object with 'ids' or 'count'");
	if (ids)
		return read_ids(ids, f, e);
	if (json_read_u64(root, "count", 1, FORKS_MAX, &count, e) < 0)
		return -1;
	return count ? count_ids(f, count, e) : err_field(e, "count", "field 'count' must be 1 to %d", FORKS_MAX);
}

void handle_fork(struct daemon_request *r)
{
	struct api_from from = {0};
	struct err e;
	if (!daemon_request_find(r))
		return;
	auto_json struct json_doc *doc = json_parse(r->body, &e);
	struct fork *f = xcalloc(1, sizeof *f);
	f->r = r;
	if (!doc || read_fork(json_root(doc), f, &e) < 0) {
		fork_free(f);
		return daemon_request_error(r, &e);
	}
	memcpy(from.sandbox, r->match.id, sizeof from.sandbox);
	begin(f, &from);
}
