/*
 * output.h - the two output pipes of a command: read, paused, ended.
 *
 * Bytes come through on_bytes in order within a stream. The owner calls output_finish when the command is over: exactly
 * the bytes that lie in the pipes at that moment are still delivered (everything that the command itself wrote is
 * there), then on_done comes once. So a background child that holds a pipe open or keeps writing cannot delay the
 * command's end; drain.h gets its pipe. on_done is never called while paused. It may come from inside output_finish or
 * output_resume.
 *
 * A struct output is embedded in its owner. After on_done or output_drop nothing of it is in the loop.
 */
#pragma once

#include "base/loop.h"
#include "base/str.h"

enum { CMD_STDOUT = 1, CMD_STDERR = 2 };

struct output;

struct output_pipe {
	struct loop_io io;
	int fd; /* -1: ended */
	size_t left;
	struct output *owner;
};

struct output {
	struct loop *loop;
	struct output_pipe pipe[2];
	bool paused, finishing, done;
	bool seen;							  /* bytes, or the end of a stream */
	void (*on_bytes)(struct output *o, int stream, struct str bytes); /* borrowed for the call */
	void (*on_done)(struct output *o);
	void (*on_held)(struct output *o, int stream, int fd); /* NULL, or takes a pipe that children still hold */
};

/* Owns both descriptors (non-blocking read ends). The callbacks are set before. */
void output_open(struct output *o, struct loop *l, int out_fd, int err_fd);
void output_pause(struct output *o);
void output_resume(struct output *o);
void output_finish(struct output *o);
/* Delivers the bytes that lie in the pipes now. */
void output_read(struct output *o);
/* Whether any process ever had one of the pipes open for writing. */
bool output_touched(struct output *o);
/* Drops the rest of the output: no callback follows, the pipes go to drain.h. */
void output_drop(struct output *o);
