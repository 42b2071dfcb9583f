#include "daemon/storage/backup_jobs.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/limits.h"

struct backup_jobs {
	struct daemon *daemon;
	struct list all; /* struct backup_job, those that begin first in front */
	size_t n, running;
	struct loop_timer timer;
};

static void look(struct loop_timer *t);

static struct backup_job *job_of(struct list *node)
{
	return list_entry(node, struct backup_job, node);
}

static bool may_run(struct backup_jobs *k, const struct backup_job *j)
{
	list_each(it, &k->all)
	{
		const struct backup_job *other = job_of(it);
		if (other->running && *j->sandbox && strcmp(other->sandbox, j->sandbox) == 0)
			return false;
	}
	return !j->running;
}

static size_t slow_running(struct backup_jobs *k)
{
	size_t n = 0;
	list_each(it, &k->all)
	{
		n += job_of(it)->running && job_of(it)->slow;
	}
	return n;
}

static void go_on(struct backup_jobs *k)
{
	list_each(it, &k->all)
	{
		struct backup_job *j = job_of(it);
		if (k->running >= BACKUPS_AT_ONCE)
			return;
		if (!may_run(k, j) || (j->slow && slow_running(k) >= BACKUPS_AT_ONCE - 1))
			continue;
		j->running = true;
		j->since = loop_now(k->daemon->loop);
		k->running++;
		j->run(j);
		return go_on(k); /* the list may be another one now */
	}
}

/* ---- the clock ---- */

/* Whether one waits that would run if there was a place. */
static bool one_waits(struct backup_jobs *k)
{
	list_each(it, &k->all)
	{
		if (!job_of(it)->slow && may_run(k, job_of(it)))
			return true;
	}
	return false;
}

static void make_room(struct backup_jobs *k)
{
	struct backup_job *latest = NULL;
	list_each(it, &k->all)
	{
		struct backup_job *j = job_of(it);
		if (j->leaving)
			return;
		if (j->running && !j->yielded && (!latest || j->since >= latest->since))
			latest = j;
	}
	if (latest)
		latest->yielded = latest->leaving = latest->stop(latest, BACKUP_YIELD);
}

/* Stopping one may end it, and change the list. */
static bool stop_overdue(struct backup_jobs *k, uint64_t now)
{
	list_each(it, &k->all)
	{
		struct backup_job *j = job_of(it);
		if (j->running && now - j->since > j->max_ms && j->stop(j, BACKUP_OVERDUE))
			return true;
	}
	return false;
}

static void look(struct loop_timer *t)
{
	struct backup_jobs *k = container_of(t, struct backup_jobs, timer);
	uint64_t now = loop_now(k->daemon->loop);
	list_each(it, &k->all)
	{
		struct backup_job *j = job_of(it);
		j->slow |= j->running && now - j->since >= BACKUP_SLOW;
	}
	if (!stop_overdue(k, now) && slow_running(k) >= BACKUPS_AT_ONCE && one_waits(k))
		make_room(k);
	if (k->n)
		loop_timer_set(k->daemon->loop, t, BACKUP_LOOK, look);
}

/* ---- jobs ---- */

bool backup_job_push(struct daemon *d, struct backup_job *j)
{
	struct backup_jobs *k = d->backup_jobs;
	if (k->n >= BACKUPS_AT_ONCE + BACKUPS_QUEUED_MAX)
		return false;
	k->n++;
	list_push(&k->all, &j->node);
	if (!k->timer.pos)
		loop_timer_set(d->loop, &k->timer, BACKUP_LOOK, look);
	go_on(k);
	return true;
}

void backup_job_end(struct daemon *d, struct backup_job *j)
{
	struct backup_jobs *k = d->backup_jobs;
	list_del(&j->node);
	k->n--;
	k->running -= j->running;
	go_on(k);
}

void backup_job_again(struct daemon *d, struct backup_job *j)
{
	struct backup_jobs *k = d->backup_jobs;
	list_del(&j->node);
	list_push(&k->all, &j->node);
	j->running = j->leaving = false;
	k->running--;
	go_on(k);
}

uint64_t backup_job_room(const struct daemon *d, uint64_t disk)
{
	const struct warden_host *host = warden_host(d->warden);
	return host && host->pool_size && host->pool_size < disk ? host->pool_size : disk;
}

uint64_t backup_job_time(const struct daemon *d, uint64_t disk)
{
	uint64_t time = d->config.backup_time_ms;
	return time ? time + backup_job_room(d, disk) / BACKUP_PACE * 1000 : UINT64_MAX;
}

struct backup_jobs *backup_jobs_new(struct daemon *d)
{
	struct backup_jobs *k = xcalloc(1, sizeof *k);
	k->daemon = d;
	list_init(&k->all);
	return k;
}
