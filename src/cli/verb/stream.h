/*
 * stream.h - one command in a box with its three streams, byte by byte, over the WebSocket /ws/exec.
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

/* Where the streams go. A buffer takes the place of the descriptor; past its maximum the command is given up. So does
 * on_out, which may block; -1 with *e gives the command up. on_in is told what was sent. */
struct stream_io {
	int in; /* -1: no input */
	struct buf *out, *err;
	int (*on_out)(void *arg, struct str bytes, struct err *e);
	void (*on_in)(void *arg, size_t n);
	void *arg;
};

struct stream_result {
	int exit_code;	  /* what this program should exit with: the command's own, 128+n after a signal … */
	char signal[16];  /* "SIGKILL", or "" */
	char outcome[16]; /* exited, killed, timeout, oom, lost */
	uint64_t milliseconds;
};

/* Runs it to its end. -1: the command did not start (exit_code is then 126 or 127 when its program could not be run or
 * found), or what became of it is not known. Signals that arrive here
 * (client_catch_signals) are sent on to the command. */
int stream_run(struct client *cl, const struct stream_request *rq, const struct stream_io *io,
	struct stream_result *ret, struct err *e);

/* Says on stderr what an exit code alone does not: out of memory, out of time. Nothing after a plain exit. */
void stream_explain(struct cli *c, const struct stream_request *rq, const struct stream_result *r);

/* The result with its gathered streams as JSON; base64 when one is not UTF-8. */
void stream_write_json(struct buf *to, const char *id, const struct stream_result *r, struct buf *out, struct buf *err);
