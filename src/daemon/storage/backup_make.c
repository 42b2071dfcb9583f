/*
 * Making backups: snapshot → the warden's stream of it, against the base → atoll-backup, which writes the object and
 * the manifest → the snapshot becomes the base. A kill anywhere leaves the older base and no manifest, or a manifest
 * and the older base: both are right.
 *
 * A stream against the base can be far longer than a whole one: the kernel writes zeros for holes that are new, and
 * leaves those of whole streams out. So one that does not fit the disk, or takes too long, is followed by a whole one.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "daemon/limits.h"
#include "daemon/storage/backup_jobs.h"
#include "daemon/storage/backups.h"
#include "daemon/storage/job_process.h"
#include "daemon/storage/spec_json.h"

struct cancel_waiter {
	backup_on_done on_done;
	void *arg;
};

struct backup_making {
	struct backup *b;
	struct sandbox *sandbox; /* referenced */
	struct backup_job job;
	struct snapshot *snapshot, *base;
	struct job_process *work;
	bool whole;	      /* an attempt against the base was too long */
	bool yields, overdue; /* `work` was killed for that */
	bool cancelled;
	struct cancel_waiter waiter;
	backup_on_done on_done;
	void *arg;
};

/* ---- make ---- */

static void keep_or_drop(struct backup_making *m, const struct err *e)
{
	struct daemon *d = m->b->daemon;
	bool same = sandbox_exists(m->sandbox) && sandbox_find(d, m->sandbox->id) == m->sandbox;
	/* A base that the kernel cannot send against any more is given up; a disk or network that fails is not its
	 * fault. */
	bool stale = m->base && e && e->code == ERRC_BACKUP_CREATE_FAILED;
	if (m->base) {
		m->base->active = false;
		if (stale || !same)
			snapshot_drop(m->base, NULL, NULL);
	}
	if (m->snapshot && !e && same)
		snapshot_keep_base(m->snapshot, m->b->id);
	else if (m->snapshot)
		snapshot_drop(m->snapshot, NULL, NULL);
}

static void making_end(struct backup_making *m, const struct err *why)
{
	struct backup *b = m->b;
	struct daemon *d = b->daemon;
	struct err cancelled, *e = NULL;
	if (why || m->cancelled) {
		err_set(&cancelled, ERRC_INVALID_STATE, "the backup was cancelled");
		b->err = m->cancelled ? cancelled : *why;
		e = &b->err;
	}
	keep_or_drop(m, e);
	b->making = NULL;
	b->state = e ? BACKUP_FAILED : BACKUP_READY;
	b->failed_ms = loop_now(d->loop);
	if (e) {
		backups_unneeded(d);
		backup_clean(d, b->id);
		log_event(LOG_WARN, "backup failed", "id=%s sandbox=%s error=%s", b->id, LOG_Q(b->sandbox),
			LOG_Q(e->msg));
	}
	if (m->on_done)
		m->on_done(m->arg, e ? NULL : b, e);
	backup_job_end(d, &m->job);
	if (m->cancelled)
		backup_forget(b);
	if (m->waiter.on_done)
		m->waiter.on_done(m->waiter.arg, NULL, NULL);
	sandbox_unref(m->sandbox);
	free(m);
}

static void on_store_line(void *arg, const struct json *line)
{
	struct backup *b = ((struct backup_making *)arg)->b;
	json_read_u64(line, "stream", 0, UINT64_MAX, &b->bytes, NULL);
	json_read_u64(line, "bytes", 0, UINT64_MAX, &b->bytes, NULL);
	json_read_u64(line, "size", 0, UINT64_MAX, &b->size, NULL);
}

static void ask_stream(struct backup_making *m);

static void on_rest_gone(void *arg, const struct err *e)
{
	struct backup_making *m = arg;
	struct daemon *d = m->b->daemon;
	if (e || m->cancelled)
		return making_end(m, e);
	if (m->base)
		m->base->active = false;
	m->base = NULL;
	*m->b->parent = 0;
	m->b->chain = m->b->bytes = 0;
	if (m->yields) {
		m->yields = false;
		return backup_job_again(d, &m->job);
	}
	log_event(LOG_INFO, "a backup is made whole: its changes make too long a stream", "id=%s sandbox=%s", m->b->id,
		LOG_Q(m->b->sandbox));
	m->whole = true;
	m->overdue = false;
	m->job.since = loop_now(d->loop);
	ask_stream(m);
}

/* What the attempt has left goes first: the next one has the same id. */
static void begin_again(struct backup_making *m)
{
	const char *const args[] = {m->b->id};
	const struct job_task t = {.program = "atoll-backup",
		.verb = "drop",
		.args = args,
		.args_n = 1,
		.in = -1,
		.also = -1,
		.on_end = on_rest_gone,
		.arg = m};
	struct err e;
	if (!job_process_start(m->b->daemon, &t, &e))
		making_end(m, &e);
}

static void on_store_end(void *arg, const struct err *e)
{
	struct backup_making *m = arg;
	struct err late;
	m->work = NULL;
	bool too_long = e && (m->overdue || e->code == ERRC_PAYLOAD_TOO_LARGE);
	if (e && !m->cancelled && (m->yields || (too_long && m->base)))
		return begin_again(m);
	if (e && m->overdue) {
		err_set(&late, ERRC_BACKUP_CREATE_FAILED,
			"the backup was not made within %llu s; ATOLL_BACKUP_TIME of the daemon gives it more time",
			(unsigned long long)m->job.max_ms / 1000);
		e = &late;
	}
	making_end(m, e);
}

static bool making_stop(struct backup_job *j, enum backup_stop why)
{
	struct backup_making *m = container_of(j, struct backup_making, job);
	if (!m->work || m->yields || m->overdue || m->cancelled)
		return false;
	m->yields = why == BACKUP_YIELD;
	m->overdue = why == BACKUP_OVERDUE;
	job_process_kill(m->work);
	return true;
}

/* Bytes that one more backup may take. */
static uint64_t left_for(struct daemon *d, const char *sandbox)
{
	uint64_t most = d->config.backup_bytes, used = backups_usage(d, sandbox).bytes;
	return !most ? UINT64_MAX : most > used ? most - used : 0;
}

/* Of its disk: the limit, or what is used if the limit has been lowered; never more than the pool has. */
static uint64_t room_of(const struct backup_making *m)
{
	uint64_t limit = m->sandbox->spec.limits.disk_bytes, used = m->snapshot->size;
	return backup_job_room(m->b->daemon, used > limit ? used : limit);
}

/* Bytes of the streams that a restore receives before that of `b`. */
static uint64_t bytes_below(const struct backup *b)
{
	uint64_t bytes = 0;
	for (uint64_t i = 0; b && *b->parent && i < BACKUP_CHAIN_MAX; i++) {
		b = backup_find_any(b->daemon, b->parent);
		bytes += b ? b->bytes : 0;
	}
	return bytes;
}

static void describe(const struct backup *b, struct buf *out)
{
	struct json_writer w = json_writer(out);
	json_object_begin(&w);
	json_member_cstr(&w, "id", b->id);
	json_member_cstr(&w, "sandbox", b->sandbox);
	json_member_cstr(&w, "name", b->name);
	json_member_cstr(&w, "parent", b->parent);
	json_member_cstr(&w, "digest", b->digest);
	json_member_u64(&w, "chain", b->chain);
	json_member_u64(&w, "created", (uint64_t)b->created_ms);
	json_member_u64(&w, "expires", (uint64_t)b->expires_ms);
	json_member_bool(&w, "scheduled", b->scheduled);
	json_key(&w, "spec");
	json_object_begin(&w);
	spec_json_write(&w, &b->spec);
	json_object_end(&w);
	json_object_end(&w);
}

static void on_stream(void *arg, const struct warden_answer *a)
{
	struct backup_making *m = arg;
	char room[40], below[40], most[40];
	const char *const args[] = {room, below, most, m->b->id};
	auto_buf struct buf text = {0};
	struct err e;
	if (a->err || m->cancelled)
		return making_end(m, a->err);
	if (a->fds_n != 1) {
		err_set(&e, ERRC_INTERNAL_ERROR, "the warden's answer has no stream");
		return making_end(m, &e);
	}
	describe(m->b, &text);
	snprintf(room, sizeof room, "--room=%llu", (unsigned long long)room_of(m));
	snprintf(below, sizeof below, "--below=%llu", (unsigned long long)bytes_below(m->b));
	m->b->size = 0;
	snprintf(most, sizeof most, "--most=%llu", (unsigned long long)left_for(m->b->daemon, m->b->sandbox));
	const struct job_task t = {.program = "atoll-backup",
		.verb = "store",
		.background = true,
		.args = args,
		.args_n = ARRAY_LEN(args),
		.in = a->fds[0],
		.also = -1,
		.text = buf_str(&text),
		.on_line = on_store_line,
		.on_end = on_store_end,
		.arg = m};
	a->fds[0] = -1;
	m->work = job_process_start(m->b->daemon, &t, &e);
	if (!m->work)
		making_end(m, &e);
}

/* The base, if its backup is there and its chain is not too long. */
static struct snapshot *find_base(const struct backup *b, struct backup **ret_parent)
{
	struct snapshot *base = snapshot_base(b->daemon, b->sandbox);
	struct backup *parent = base ? backup_find(b->daemon, str_of(base->name)) : NULL;
	bool good = parent && parent->state == BACKUP_READY && parent->chain + 1 < BACKUP_CHAIN_MAX && !parent->uses &&
		    strcmp(parent->digest, b->digest) == 0;
	*ret_parent = good ? parent : NULL;
	return good ? base : NULL;
}

static void ask_stream(struct backup_making *m)
{
	struct backup *b = m->b, *parent = NULL;
	struct warden_request q = {.op = WARDEN_SEND};
	struct err away;
	if (!warden_client_is_up(b->daemon->warden)) {
		err_set(&away, ERRC_CONTAINER_UNAVAILABLE, "the warden went away");
		return making_end(m, &away);
	}
	m->base = m->whole ? NULL : find_base(b, &parent);
	if (m->base) {
		m->base->active = true;
		snprintf(b->parent, sizeof b->parent, "%s", parent->id);
		b->chain = parent->chain + 1;
		memcpy(q.parent, m->base->id, sizeof q.parent);
	}
	memcpy(q.snapshot, m->snapshot->id, sizeof q.snapshot);
	warden_client_call(b->daemon->warden, &q, on_stream, m);
}

static void on_snapshot(void *arg, struct snapshot *s, const struct err *e)
{
	struct backup_making *m = arg;
	m->snapshot = s;
	if (e || m->cancelled)
		return making_end(m, e);
	m->b->created_ms = s->created_ms;
	ask_stream(m);
}

static void making_run(struct backup_job *j)
{
	struct backup_making *m = container_of(j, struct backup_making, job);
	struct err e;
	if (m->cancelled || !sandbox_exists(m->sandbox) || !warden_client_is_up(m->b->daemon->warden)) {
		err_set(&e, ERRC_CONTAINER_UNAVAILABLE, "sandbox '%s' is gone, or the warden is away", m->sandbox->id);
		return making_end(m, &e);
	}
	if (m->snapshot) /* it has yielded */
		return ask_stream(m);
	snapshot_take(m->sandbox, NULL, on_snapshot, m);
}

static struct backup *fresh(struct sandbox *s, const struct backup_wish *wish)
{
	uint64_t r = 0;
	char id[SNAPSHOT_NAME_MAX + 1];
	INVARIANT(getrandom(&r, sizeof r, 0) == sizeof r);
	snprintf(id, sizeof id, "bak-%016llx", (unsigned long long)r);
	struct backup *b = backup_new(s->daemon, id, s->id);
	b->state = BACKUP_MAKING;
	b->scheduled = wish->scheduled;
	b->created_ms = clock_wall_ms();
	b->expires_ms = wish->ttl_ms ? b->created_ms + (int64_t)wish->ttl_ms : 0;
	memcpy(b->name, wish->name, sizeof b->name);
	api_spec_copy(&b->spec, &s->spec);
	snprintf(b->digest, sizeof b->digest, "%s", backup_digest(s->daemon, &s->spec));
	return b;
}

struct backup *backup_make(
	struct sandbox *s, const struct backup_wish *wish, backup_on_done on_done, void *arg, struct err *e)
{
	if (left_for(s->daemon, s->id) == 0) {
		err_set(e, ERRC_LIMIT_REACHED,
			"the backups of sandbox '%s' take the %llu bytes that they may, hidden ones included "
			"(ATOLL_BACKUP_BYTES); delete some",
			s->id, (unsigned long long)s->daemon->config.backup_bytes);
		return NULL;
	}
	struct backup_making *m = xcalloc(1, sizeof *m);
	struct backup *b = fresh(s, wish);
	*m = (struct backup_making){.b = b, .sandbox = s, .on_done = on_done, .arg = arg};
	m->job.run = making_run;
	m->job.stop = making_stop;
	m->job.max_ms = backup_job_time(s->daemon, s->spec.limits.disk_bytes);
	snprintf(m->job.sandbox, sizeof m->job.sandbox, "%s", s->id);
	b->making = m;
	sandbox_ref(s);
	if (backup_job_push(s->daemon, &m->job))
		return b;
	err_set(e, ERRC_LIMIT_REACHED, "too many backups wait");
	sandbox_unref(s);
	free(m);
	backup_forget(b);
	return NULL;
}

void backup_cancel(struct backup *b, backup_on_done on_done, void *arg)
{
	struct backup_making *m = b->making;
	struct err e;
	if (m->cancelled) {
		err_set(&e, ERRC_RESOURCE_BUSY, "backup '%s' is being cancelled", b->id);
		if (on_done)
			on_done(arg, NULL, &e);
		return;
	}
	m->cancelled = true;
	m->waiter = (struct cancel_waiter){on_done, arg};
	if (m->work)
		job_process_kill(m->work);
	else if (!m->job.running)
		making_end(m, NULL);
}
