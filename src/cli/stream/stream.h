/*
 * stream.h - runs one command in a box with its three streams, byte by byte, over the WebSocket /ws/exec.
 *
 * Both directions are bounded: stdin is read only while the socket takes more, and the socket is read only while
 * stdout and stderr take more (stream_out.h), so a slow reader here slows the command there.
 *
 * The command is never repeated: when the connection breaks before its end is known, the outcome is "lost".
 */
#pragma once

#include "cli/args.h"
#include "cli/client.h"

struct stream_request {
	const char *id;
	char **argv; /* NULL-terminated, at least one word */
	const char *cwd;
	struct arg_list env; /* K=V */
	uint64_t timeout_ms; /* 0: none */
};

/* The ends of the streams. A buffer replaces the descriptor; if the output exceeds its maximum, the command is aborted.
 * on_out replaces stdout too; it may block, and -1 with *e aborts the command. on_in is told how many bytes were sent.
 */
struct stream_io {
	int in; /* -1: no input */
	struct buf *out, *err;
	int (*on_out)(void *arg, struct str bytes, struct err *e);
	void (*on_in)(void *arg, size_t n);
	void *arg;
};

struct stream_result {
	int exit_code;	  /* exit code for this program: the command's own, 128+n after a signal … */
	char signal[16];  /* "SIGKILL", or "" */
	char outcome[16]; /* exited, killed, timeout, oom, lost */
	uint64_t milliseconds;
};

/* Runs the command to its end. -1: the command did not start, or its outcome is not known; exit_code is 126 or 127 when
 * the program could not be run or found. Signals that arrive here (client_catch_signals) are sent to the command. */
int stream_run(struct client *cl, const struct stream_request *rq, const struct stream_io *io,
	struct stream_result *ret, struct err *e);

/* Reports on stderr an end that the exit code does not show: out of memory, out of time. Silent after a plain exit. */
void stream_explain(struct cli *c, const struct stream_request *rq, const struct stream_result *r);

/* The result with its gathered streams as JSON; base64 when one is not UTF-8. */
void stream_write_json(struct buf *to, const char *id, const struct stream_result *r, struct buf *out, struct buf *err);
