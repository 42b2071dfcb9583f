/*
 * image_job_input.h - the body of a request on its way into the stdin of a job, in bounded memory.
 */
#pragma once

#include "base/buf.h"
#include "base/loop.h"

struct job_input {
	int fd; /* -1: not open yet, or closed */
	struct loop *loop;
	struct loop_io io;
	struct buf waiting;
	bool opened, ended;
	void (*on_room)(struct job_input *in);
};

void job_input_init(struct job_input *in, struct loop *l, void (*on_room)(struct job_input *in));
/* Makes the pipe and returns the job's end, or -errno. */
int job_input_open(struct job_input *in);
/* False: no more until on_room. A job that does not read any more takes everything. */
bool job_input_write(struct job_input *in, struct str bytes);
void job_input_end(struct job_input *in);
void job_input_free(struct job_input *in);
