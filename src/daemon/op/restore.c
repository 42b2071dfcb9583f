/*
 * Other files for a sandbox: those of a snapshot, of a backup, or of another sandbox. Its processes end, its settings
 * stay. A client that leaves while a backup is read has changed nothing; after that the exchange goes on without it.
 */
#include <stdio.h>
#include <string.h>

#include "daemon/op/op_impl.h"
#include "daemon/storage/backups.h"

struct restoring {
	struct operation op;
	struct op_files files;
	struct api_from from;
	struct snapshot *source;
	bool own;		      /* the source is ours to drop */
	struct backup_loading *load;  /* while it runs */
	struct sandbox_waiter waiter; /* not the operation's: a client that leaves does not stop it half-way */
};

static void restoring_free(struct operation *op)
{
	free(container_of(op, struct restoring, op));
}

static void restore_end(struct restoring *f, const struct err *e)
{
	if (f->own)
		snapshot_drop(f->source, NULL, NULL);
	if (e)
		return op_fail(&f->op, e);
	snapshot_drop_base(f->op.daemon, f->op.id);
	op_succeed(&f->op, false);
}

static void on_replaced(void *arg, struct sandbox *s, const struct err *e)
{
	(void)s;
	restore_end(arg, e);
}

static void on_settled(struct sandbox_waiter *w, struct sandbox *s, const struct err *e)
{
	struct restoring *f = container_of(w, struct restoring, waiter);
	if (e)
		return restore_end(f, e);
	op_use(&f->op, s);
	sandbox_replace(s, f->source->id, on_replaced, f);
}

static void swap_files(struct restoring *f)
{
	struct err e;
	struct sandbox *s = op_find(f->op.daemon, &f->op.caller, f->op.id, &e);
	INVARIANT(f->source);
	bool same = s && strcmp(s->spec.image, f->source->spec.image) == 0;
	if (s && !same)
		err_set(&e, ERRC_INVALID_STATE, "the files are of image '%s', sandbox '%s' has image '%s'",
			f->source->spec.image, s->id, s->spec.image);
	f->waiter = (struct sandbox_waiter){.goal = WAIT_SETTLED, .on_done = on_settled};
	if (!same || sandbox_wait(s, &f->waiter, &e) < 0)
		restore_end(f, &e);
}

static void on_source(void *arg, struct snapshot *s, const struct err *e)
{
	struct restoring *f = arg;
	f->load = NULL;
	f->source = s;
	f->own = s != NULL;
	if (e)
		restore_end(f, e);
	else
		swap_files(f);
}

/* ---- from a backup ---- */

static void tell_progress(void *arg, const char *phase, uint64_t bytes, uint64_t total)
{
	struct restoring *f = arg;
	if (!f->op.gone && f->files.follow)
		f->files.follow->on_progress(f->op.arg, phase, bytes, total);
}

static void on_backups_known(void *arg, const struct err *e)
{
	struct restoring *f = arg;
	struct err none;
	const struct sandbox *s = NULL;
	struct backup *b = e ? NULL : backup_find(f->op.daemon, str_of(f->from.backup));
	if (e)
		none = *e;
	else if (!b)
		err_set(&none, ERRC_BACKUP_NOT_FOUND, "there is no backup '%s'", f->from.backup);
	else if (b->state != BACKUP_READY)
		err_set(&none, ERRC_INVALID_STATE, "backup '%s' is not complete", f->from.backup);
	else
		s = op_find(f->op.daemon, &f->op.caller, f->op.id, &none);
	if (!s)
		return restore_end(f, &none);
	if (!f->op.gone && f->files.follow)
		f->files.follow->on_load(f->op.arg);
	const struct backup_load_task t = {
		.disk = s->spec.limits.disk_bytes, .on_progress = tell_progress, .on_done = on_source, .arg = f};
	f->load = backup_load(b, &t, &none);
	if (!f->load)
		restore_end(f, &none);
}

static void forget(struct operation *op)
{
	struct restoring *f = container_of(op, struct restoring, op);
	if (f->load && f->files.follow)
		backup_load_cancel(f->load);
}

/* ---- how it begins ---- */

static struct snapshot *snapshot_of(const struct restoring *f, struct err *e)
{
	const char *of = f->files.of_its_own ? f->op.id : NULL;
	struct snapshot *s = snapshot_find(f->op.daemon, of, str_of(f->from.snapshot));
	if (!s && of)
		err_set(e, ERRC_SNAPSHOT_NOT_FOUND, "sandbox '%s' has no snapshot '%.80s'", of, f->from.snapshot);
	else if (!s)
		err_set(e, ERRC_SNAPSHOT_NOT_FOUND, "there is no snapshot '%s'", f->from.snapshot);
	return s;
}

static int find_source(struct restoring *f, struct sandbox **ret_winner, struct err *e)
{
	*ret_winner = NULL;
	if (*f->from.sandbox && strcmp(f->from.sandbox, f->op.id) == 0)
		return err_field(e, "from", "sandbox '%s' cannot replace itself", f->from.sandbox);
	if (*f->from.sandbox)
		return (*ret_winner = op_find(f->op.daemon, &f->op.caller, f->from.sandbox, e)) ? 0 : -1;
	if (*f->from.snapshot)
		return (f->source = snapshot_of(f, e)) ? 0 : -1;
	return 0;
}

static struct operation *begin(const struct op_call *call, const struct op_kind *kind, const struct op_files *files)
{
	struct err e;
	struct sandbox *winner;
	struct restoring *f = xcalloc(1, sizeof *f);
	op_begin(&f->op, call, kind);
	f->op.free = restoring_free;
	f->op.on_forget = forget;
	f->files = *files;
	f->from = *files->from;
	if (!op_find(f->op.daemon, &f->op.caller, f->op.id, &e) || op_needs_warden(&f->op, &e) < 0 ||
		find_source(f, &winner, &e) < 0)
		op_fail(&f->op, &e);
	else if (winner)
		snapshot_take(winner, NULL, on_source, f);
	else if (f->source)
		swap_files(f);
	else
		backups_when_known(f->op.daemon, on_backups_known, f);
	return op_begun(&f->op);
}

struct operation *op_restore(const struct op_call *call, const struct op_files *files)
{
	static const struct op_kind kind = {"POST", "/v1/sandboxes/{id}/restore", 200, 200};
	return begin(call, &kind, files);
}

struct operation *op_replace(const struct op_call *call, const struct op_files *files)
{
	static const struct op_kind kind = {"POST", "/v1/sandboxes/{id}/replace", 200, 200};
	return begin(call, &kind, files);
}
