/*
 * backup_jobs.h - jobs that move the files of backups, in places of their own.
 *
 * At most BACKUPS_AT_ONCE run at a time, and one by one for one sandbox; the others wait in order. Jobs that take long
 * leave one place free: one that has run for BACKUP_SLOW is slow, and if all places have slow jobs while another one
 * waits, the latest of them that has not yielded before gives its place up and begins again later, beside fewer slow
 * ones. So a job yields once at most, and a place comes free within BACKUP_SLOW, however long the others take. A job
 * that has run for its `max_ms` is told to end.
 */
#pragma once

#include "base/list.h"
#include "daemon/daemon.h"

enum backup_stop { BACKUP_YIELD, BACKUP_OVERDUE };

struct backup_job {
	struct list node;
	char sandbox[BOX_ID_MAX + 1]; /* one at a time for one sandbox; "": any number */
	bool running;
	bool slow, yielded, leaving; /* has run for long; has yielded once; is about to yield */
	uint64_t since, max_ms;	     /* running: since when (loop_now), and how long it may */
	void (*run)(struct backup_job *j);
	/* YIELD: backup_job_again or backup_job_end follows, not from inside. OVERDUE: backup_job_end follows, or the
	 * job begins another attempt and sets `since`. False: it can not stop just now. */
	bool (*stop)(struct backup_job *j, enum backup_stop why);
};

struct backup_jobs *backup_jobs_new(struct daemon *d);
/* Bytes that files with such a limit can really have: a limit may be larger than the pool. */
uint64_t backup_job_room(const struct daemon *d, uint64_t disk);
/* How long a job may take that moves the files of such a disk, in ms. */
uint64_t backup_job_time(const struct daemon *d, uint64_t disk);
/* False: too many wait. */
bool backup_job_push(struct daemon *d, struct backup_job *j);
/* The job is the caller's to free. */
void backup_job_end(struct daemon *d, struct backup_job *j);
/* It has yielded: run() comes again when there is a place. */
void backup_job_again(struct daemon *d, struct backup_job *j);
