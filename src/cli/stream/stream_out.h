/*
 * stream_out.h - writes bytes to stdout or stderr of this program without blocking the loop.
 *
 * Other programs share the descriptor, so it must not become non-blocking. A pipe is opened again for that
 * (/proc/self/fd). Files and devices take everything. Terminals and sockets get at most PIPE_BUF bytes after poll says
 * "ready".
 *
 * The owner adds bytes and reads stream_out_size to slow down its source. Callbacks say when there is room again and
 * when the descriptor has failed; after a failure all bytes are dropped. Thread: the loop's.
 */
#pragma once

#include "base/buf.h"
#include "base/loop.h"

struct stream_out {
	int fd;
	int own_fd;   /* the pipe opened again, or -1 */
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
