/*
 * stream_out.h - bytes on their way to stdout or stderr of this program, without ever blocking the loop.
 *
 * The descriptor is shared with whoever started us, so it is not made non-blocking. A pipe is opened anew for that
 * (/proc/self/fd); files and devices take everything; to the rest (terminals, sockets) at most PIPE_BUF bytes are
 * written after poll said "ready".
 *
 * The owner adds bytes, looks at stream_out_size to slow down its source, and is told when there is room again and when
 * the descriptor has failed; after that everything is dropped. Thread: the loop's.
 */
#pragma once

#include "base/buf.h"
#include "base/loop.h"

struct stream_out {
	int fd;
	int own_fd;   /* the pipe opened anew, or -1 */
	size_t chunk; /* most bytes in one write */
	struct loop *loop;
	struct buf pending;
	struct loop_io io;
	bool broken;
	void (*on_progress)(struct stream_out *o); /* some were written */
	void (*on_broken)(struct stream_out *o, int os);
};

void stream_out_open(struct stream_out *o, struct loop *l, int fd);
void stream_out_close(struct stream_out *o);
void stream_out_add(struct stream_out *o, struct str bytes);

static inline size_t stream_out_size(const struct stream_out *o)
{
	return buf_size(&o->pending);
}
