/*
 * image_jobs.h - requests about images, each a process of atoll-images (docs/design/027-image-jobs.md).
 *
 * At most IMAGE_JOB_PROCESS_MAX run; others wait in order. A job that needs boxes asks this daemon for them, over connections
 * that it makes itself and passes through a socket of its own. Such a connection has a tag from LISTEN_JOB on and acts
 * for the caller of the job, as long as the job runs. What a job leaves that was killed, another one removes.
 *
 * A job is its starter's until its on_end has come or image_job_leave was called.
 */
#pragma once

#include "base/json.h"
#include "daemon/admit/caller.h"
#include "daemon/daemon.h"

struct image_job;

struct image_task {
	const char *verb;     /* images/main.c has the list */
	struct str members;   /* of its description: JSON members, or empty */
	struct caller caller; /* for whom it works */
	bool has_body;	      /* image_job_write follows */
	uint64_t max_ms;      /* as in job_process.h */
	/* None of them comes from inside a function of this header. */
	void (*on_room)(void *arg);			     /* for more of the body */
	void (*on_line)(void *arg, const struct json *line); /* as in job_process.h */
	void (*on_bytes)(void *arg, struct str bytes);
	/* `cut` says that the job ended without a last line. */
	void (*on_end)(void *arg, const struct err *e, bool cut);
	void *arg;
};

struct image_job *image_job_start(struct daemon *d, const struct image_task *t);
/* No callback comes any more; what it does is ended and removed. */
void image_job_leave(struct image_job *j);
/* A piece of the body. False: no more until on_room. */
bool image_job_write(struct image_job *j, struct str bytes);
void image_job_write_end(struct image_job *j);
/* Neither lines nor bytes until image_job_resume. */
void image_job_pause(struct image_job *j);
void image_job_resume(struct image_job *j);

/* For whom a connection with this tag asks; NULL: it is no job's, or its job has ended. */
const struct caller *image_jobs_caller(const struct daemon *d, int tag);

struct image_jobs *image_jobs_new(struct daemon *d);
/* Removes what the jobs of a daemon have left that was killed. */
void image_jobs_sweep(struct daemon *d);
