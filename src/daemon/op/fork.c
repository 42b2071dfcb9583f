/*
 * Sandboxes made from others: a fork, or a new one whose files come from a snapshot, a sandbox or a backup.
 *
 * A running sandbox is copied once, for a moment; the new sandboxes are made from that copy, all at the same time.
 * Either all are made or none.
 */
#include <stdio.h>
#include <string.h>

#include "daemon/core/settings.h"
#include "daemon/limits.h"
#include "daemon/op/op_impl.h"
#include "daemon/storage/backups.h"
#include "proto/id.h"
#include "proto/image.h"

struct forking {
	struct operation op;
	struct api_change change;
	struct snapshot *source;
	bool own;    /* the source is ours to drop */
	bool single; /* one that runs when it is told */
	size_t n, left;
	char ids[FORKS_MAX][BOX_ID_MAX + 1];
	struct sandbox *made[FORKS_MAX]; /* referenced */
	struct err err;
};

static void forking_free(struct operation *op)
{
	struct forking *f = container_of(op, struct forking, op);
	for (size_t i = 0; i < f->n; i++)
		if (f->made[i])
			sandbox_unref(f->made[i]);
	api_change_free(&f->change);
	free(f);
}

static void on_running(struct sandbox_waiter *w, struct sandbox *s, const struct err *e)
{
	struct operation *op = container_of(w, struct operation, waiter);
	if (e)
		return op_fail(op, e);
	op_use(op, s);
	op_succeed(op, true);
}

static void undo(struct forking *f)
{
	for (size_t i = 0; i < f->n; i++)
		if (f->made[i] && sandbox_exists(f->made[i]) && f->made[i]->op == OP_NONE &&
			warden_client_is_up(f->op.daemon->warden))
			sandbox_destroy(f->made[i]);
}

static void fork_end(struct forking *f)
{
	if (f->own && f->source)
		snapshot_drop(f->source, NULL, NULL);
	if (f->err.code) {
		undo(f);
		return op_fail(&f->op, &f->err);
	}
	/* A client that has gone gets its sandbox stopped, with all its files. */
	if (!f->single || f->op.gone)
		return op_end(&f->op,
			&(struct op_result){.made = true, .sandbox = f->made[0], .forks = f->made, .forks_n = f->n});
	f->op.waiter = (struct sandbox_waiter){.goal = WAIT_RUNNING, .on_done = on_running};
	op_wait(&f->op, f->made[0]);
}

static void on_filled(void *arg, struct sandbox *s, const struct err *e)
{
	struct forking *f = arg;
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

static int check_free(const struct forking *f, struct err *e)
{
	for (size_t i = 0; i < f->n; i++)
		if (sandbox_find(f->op.daemon, f->ids[i]))
			return err_set(e, ERRC_INVALID_STATE, "sandbox '%s' exists already", f->ids[i]);
	return 0;
}

/* The settings of the source, with those that were asked for. */
static int new_spec(const struct forking *f, struct api_spec *ret, struct err *e)
{
	const struct api_change *c = &f->change;
	INVARIANT(f->source);
	if (c->has_image && strcmp(c->spec.image, f->source->spec.image) != 0)
		return err_field(e, "image", "the files are of image '%s'", f->source->spec.image);
	api_spec_copy(ret, &f->source->spec);
	api_change_apply(c, ret);
	return 0;
}

/* A fork of which the image service makes a layer. */
static void note_work(const struct forking *f, const char *id, struct api_spec *spec)
{
	if (caller_is_own(&f->op.caller) && str_starts(str_of(id), STR(IMAGE_BOX)))
		settings_note(&spec->settings, SANDBOX_WORK, STR("true"));
}

static void fill_all(struct forking *f)
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
			if (sandbox_fill(f->op.daemon, &what, &f->err) == 0)
				f->left++;
		}
		api_spec_free(&spec);
	}
	if (--f->left == 0)
		fork_end(f);
}

static void on_source(void *arg, struct snapshot *s, const struct err *e)
{
	struct forking *f = arg;
	f->source = s;
	f->own = s != NULL;
	if (e)
		f->err = *e;
	if (e)
		fork_end(f);
	else
		fill_all(f);
}

/* The files come from a backup. */
static void on_backups_known(void *arg, const struct err *e)
{
	struct forking *f = arg;
	const struct api_change *c = &f->change;
	struct backup *b = e ? NULL : backup_find(f->op.daemon, str_of(c->from.backup));
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

static void begin(struct forking *f)
{
	struct daemon *d = f->op.daemon;
	const struct api_from *from = &f->change.from;
	struct err e = {0};
	struct sandbox *parent = *from->sandbox ? op_find(d, &f->op.caller, from->sandbox, &e) : NULL;
	struct snapshot *s = snapshot_find(d, NULL, str_of(from->snapshot));
	if (*from->snapshot && !s)
		err_set(&e, ERRC_SNAPSHOT_NOT_FOUND, "there is no snapshot '%s'", from->snapshot);
	if (!e.code && op_needs_warden(&f->op, &e) == 0)
		check_free(f, &e);
	if (e.code)
		return op_fail(&f->op, &e);
	if (*from->backup)
		return backups_when_known(d, on_backups_known, f);
	if (parent)
		return snapshot_take(parent, NULL, on_source, f);
	f->source = s;
	fill_all(f);
}

static struct forking *forking_new(const struct op_call *call, const struct op_kind *kind)
{
	struct forking *f = xcalloc(1, sizeof *f);
	op_begin(&f->op, call, kind);
	f->op.free = forking_free;
	return f;
}

struct operation *op_make_from(const struct op_call *call, struct api_change *change)
{
	struct forking *f = forking_new(call, NULL);
	f->change = *change;
	*change = (struct api_change){0};
	f->single = true;
	f->n = 1;
	snprintf(f->ids[0], sizeof f->ids[0], "%s", f->op.id);
	begin(f);
	return op_begun(&f->op);
}

/* {id}-1, {id}-2 …: the first numbers that are free. */
static int count_ids(struct forking *f, size_t count, struct err *e)
{
	char id[BOX_ID_MAX + 16];
	for (unsigned number = 1; f->n < count; number++) {
		snprintf(id, sizeof id, "%s-%u", f->op.id, number);
		if (strlen(id) > BOX_ID_MAX)
			return err_field(e, "count", "the id '%s' would be too long; use 'ids'", id);
		if (op_may_make(f->op.daemon, &f->op.caller, id, e) < 0)
			return err_about(e, "count");
		if (!sandbox_find(f->op.daemon, id))
			snprintf(f->ids[f->n++], BOX_ID_MAX + 1, "%.*s", BOX_ID_MAX, id);
	}
	return 0;
}

static int take_ids(struct forking *f, const struct op_fork_wish *wish, struct err *e)
{
	for (size_t i = 0; i < wish->n; i++) {
		if (box_id_is_given(str_of(wish->ids[i])) && !caller_is_own(&f->op.caller))
			return err_field(e, "ids", "'%s' is an id of the kind that Atoll itself gives", wish->ids[i]);
		memcpy(f->ids[f->n++], wish->ids[i], BOX_ID_MAX + 1);
	}
	return wish->n ? 0 : count_ids(f, wish->count, e);
}

struct operation *op_fork(const struct op_call *call, const struct op_fork_wish *wish)
{
	static const struct op_kind kind = {"POST", "/v1/sandboxes/{id}/fork", 201, 201};
	struct err e;
	struct forking *f = forking_new(call, &kind);
	snprintf(f->change.from.sandbox, sizeof f->change.from.sandbox, "%s", f->op.id);
	if (take_ids(f, wish, &e) < 0)
		op_fail(&f->op, &e);
	else
		begin(f);
	return op_begun(&f->op);
}
