/*
 * Restoring backups: a row `making` → the warden's socket → atoll-backup, which checks everything and sends it → a
 * snapshot in the pool, for the operation that asked.
 */
#include <stdlib.h>
#include <string.h>

#include "daemon/limits.h"
#include "daemon/storage/backup_jobs.h"
#include "daemon/storage/backups.h"
#include "daemon/storage/job_process.h"

struct backup_loading {
	struct daemon *daemon;
	struct backup_job job;
	struct backup *chain[BACKUP_CHAIN_MAX]; /* oldest first; in use */
	size_t n;
	struct backup_load_task task;
	struct snapshot *snapshot;
	struct job_process *work;
	bool yields, overdue; /* `work` was killed for that */
	bool cancelled;
};

static struct backup *newest(const struct backup_loading *l)
{
	return l->chain[l->n - 1];
}

static void loading_end(struct backup_loading *l, const struct err *why)
{
	const struct err *e = why;
	struct err cancelled;
	if (l->cancelled) {
		err_set(&cancelled, ERRC_INVALID_STATE, "the restore was cancelled");
		e = &cancelled;
	}
	for (size_t i = 0; i < l->n; i++)
		l->chain[i]->uses--;
	backups_unneeded(l->daemon);
	backup_job_end(l->daemon, &l->job);
	l->task.on_done(l->task.arg, e ? NULL : l->snapshot, e);
	if (e && l->snapshot)
		snapshot_drop(l->snapshot, NULL, NULL);
	free(l);
}

static void on_load_line(void *arg, const struct json *line)
{
	struct backup_loading *l = arg;
	uint64_t bytes = 0, total = 0;
	bool checking = json_get(line, "checked");
	json_read_u64(line, checking ? "checked" : "stream", 0, UINT64_MAX, &bytes, NULL);
	for (size_t i = 0; i < l->n; i++)
		total += checking ? l->chain[i]->size : l->chain[i]->bytes;
	if (l->task.on_progress && !l->cancelled)
		l->task.on_progress(l->task.arg, checking ? "checking" : "restoring", bytes, total);
}

static void on_load_end(void *arg, const struct err *e)
{
	struct backup_loading *l = arg;
	struct err late;
	l->work = NULL;
	if (e && l->yields && !l->cancelled) {
		l->yields = false;
		snapshot_drop(l->snapshot, NULL, NULL);
		l->snapshot = NULL;
		return backup_job_again(l->daemon, &l->job);
	}
	if (e && l->overdue) {
		err_set(&late, ERRC_BACKUP_RESTORE_FAILED,
			"the files were not restored within %llu s; ATOLL_BACKUP_TIME of the daemon gives it more time",
			(unsigned long long)l->job.max_ms / 1000);
		e = &late;
	}
	loading_end(l, e);
}

static bool loading_stop(struct backup_job *j, enum backup_stop why)
{
	struct backup_loading *l = container_of(j, struct backup_loading, job);
	if (!l->work || l->yields || l->overdue || l->cancelled)
		return false;
	l->yields = why == BACKUP_YIELD;
	l->overdue = why == BACKUP_OVERDUE;
	job_process_kill(l->work);
	return true;
}

static void on_socket(void *arg, const struct warden_answer *a)
{
	struct backup_loading *l = arg;
	const char *args[BACKUP_CHAIN_MAX];
	struct err e;
	if (a->err && a->err->code == ERRC_IMAGE_NOT_FOUND)
		err_set(&e, ERRC_INVALID_STATE,
			"backup '%s' needs the image '%s', which is not here; bring it here with 'atoll image', then "
			"ask again",
			newest(l)->id, newest(l)->digest);
	if (a->err || l->cancelled)
		return loading_end(l, a->err && a->err->code == ERRC_IMAGE_NOT_FOUND ? &e : a->err);
	for (size_t i = 0; i < l->n; i++)
		args[i] = l->chain[i]->id;
	const struct job_task t = {.program = "atoll-backup",
		.verb = "load",
		.background = true,
		.args = args,
		.args_n = l->n,
		.in = -1,
		.also = a->fds_n == 1 ? a->fds[0] : -1,
		.on_line = on_load_line,
		.on_end = on_load_end,
		.arg = l};
	if (a->fds_n == 1)
		a->fds[0] = -1;
	l->work = job_process_start(l->daemon, &t, &e);
	if (!l->work)
		loading_end(l, &e);
}

static void on_reserved(void *arg, struct snapshot *s, const struct err *e)
{
	struct backup_loading *l = arg;
	struct warden_request q = {.op = WARDEN_RECEIVE, .limits = {.disk_bytes = l->task.disk}};
	struct err away;
	l->snapshot = s;
	if (e || l->cancelled)
		return loading_end(l, e);
	if (!warden_client_is_up(l->daemon->warden)) {
		err_set(&away, ERRC_CONTAINER_UNAVAILABLE, "the warden went away");
		return loading_end(l, &away);
	}
	/* Names of images may mean another one here. */
	if (strcmp(backup_digest(l->daemon, &s->spec), newest(l)->digest) != 0)
		memcpy(s->spec.image, newest(l)->digest, sizeof s->spec.image);
	memcpy(q.snapshot, s->id, sizeof q.snapshot);
	memcpy(q.image, newest(l)->digest, sizeof q.image);
	warden_client_call(l->daemon->warden, &q, on_socket, l);
}

static void loading_run(struct backup_job *j)
{
	struct backup_loading *l = container_of(j, struct backup_loading, job);
	const struct backup *b = newest(l);
	snapshot_reserve(l->daemon, b->sandbox, &b->spec, on_reserved, l);
}

/* Its ancestors may be hidden. */
static int find_chain(struct backup *b, struct backup_loading *l, struct err *e)
{
	struct backup *v[BACKUP_CHAIN_MAX];
	while (b && l->n < BACKUP_CHAIN_MAX) {
		v[l->n++] = b;
		if (!*b->parent)
			break;
		b = backup_find_any(b->daemon, b->parent);
	}
	for (size_t i = 0; i < l->n; i++)
		l->chain[i] = v[l->n - 1 - i];
	return !b || *l->chain[0]->parent
		       ? err_set(e, ERRC_BACKUP_RESTORE_FAILED, "backup '%s' needs one that is gone", newest(l)->id)
		       : 0;
}

struct backup_loading *backup_load(struct backup *b, const struct backup_load_task *t, struct err *e)
{
	struct backup_loading *l = xcalloc(1, sizeof *l);
	*l = (struct backup_loading){
		.daemon = b->daemon, .task = *t, .job = {.run = loading_run, .stop = loading_stop}};
	l->job.max_ms = backup_job_time(b->daemon, t->disk);
	int r = find_chain(b, l, e);
	for (size_t i = 0; r == 0 && i < l->n; i++)
		l->chain[i]->uses++;
	if (r == 0 && backup_job_push(l->daemon, &l->job))
		return l;
	for (size_t i = 0; r == 0 && i < l->n; i++)
		l->chain[i]->uses--;
	if (r == 0)
		err_set(e, ERRC_LIMIT_REACHED, "too many backups wait");
	free(l);
	return NULL;
}

/* Without the marker at its end, the receiver throws away what it has got. */
void backup_load_cancel(struct backup_loading *l)
{
	l->cancelled = true;
	if (l->work)
		job_process_kill(l->work);
	else if (!l->job.running)
		loading_end(l, NULL);
}
