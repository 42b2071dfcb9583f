/*
 * terminal.h - a program on a pseudo-terminal, shared by any number of viewers.
 *
 * The output of the program goes into a ring of the last TERMINAL_RING bytes. Each viewer follows the ring at its own
 * pace, from an offset. A new viewer starts with the content of the ring. A slow viewer that is overtaken goes on with
 * the oldest byte that is still there. The agent reads from the program while at least one viewer can take more, or
 * while there is no viewer. When every viewer is stalled it stops reading, so that the program blocks in its own write,
 * as on a real line. Memory is bounded by the ring. Input is bounded too: while more than TERMINAL_INPUT_HIGH bytes
 * wait for the program, every viewer is asked to hold back.
 *
 * The terminal outlives its viewers and ends with its program: then each viewer, stalled or not, gets the rest of the
 * ring and on_exit. Processes that the program has left on the terminal are hung up. Thread: the loop's.
 */
#pragma once

#include "agent/env.h"
#include "agent/limits.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/str.h"
#include "http/limits.h"
#include "proto/errc.h"

struct terminal;

struct terminal_viewer {
	struct list node;
	uint64_t at; /* offset of the next byte to send */
	bool full;   /* on_output returned false; cleared by terminal_more */
	/* Returns false when the viewer can take no more for now. */
	bool (*on_output)(struct terminal_viewer *v, struct str bytes);
	/* Says whether input is wanted. At first it is. */
	void (*on_input_wanted)(struct terminal_viewer *v, bool wanted);
	/* The program has ended; the viewer is no longer attached. `signal` is 0 when it exited. */
	void (*on_exit)(struct terminal_viewer *v, int code, int signal);
};

struct terminal_spec {
	const char *path; /* the shell */
	const char *const *argv;
	const struct env *env;
	const char *cwd;
	uint16_t cols, rows;
	/* The terminal has ended and must not be used any more. Comes before the viewers' on_exit. */
	void (*on_over)(void *arg);
	void *arg;
};

int terminal_start(struct loop *l, const struct terminal_spec *s, struct terminal **ret, struct err *e);

/* Sends the content of the ring at once (one on_output, unless it is empty), then new output. */
void terminal_attach(struct terminal *t, struct terminal_viewer *v);
void terminal_detach(struct terminal *t, struct terminal_viewer *v);
size_t terminal_viewers(const struct terminal *t);
/* Of its program. */
int terminal_pid(const struct terminal *t);
/* The viewer can take more again. */
void terminal_more(struct terminal *t, struct terminal_viewer *v);

/* Input from a viewer, at most WS_MESSAGE_MAX bytes; only while input is wanted. */
void terminal_input(struct terminal *t, struct str bytes);
void terminal_resize(struct terminal *t, uint16_t cols, uint16_t rows);
/* Hangs up, as when a line drops: SIGHUP to the terminal's processes, then SIGKILL to those that are left after
 * CMD_HANGUP_GRACE. */
void terminal_hangup(struct terminal *t);
/* The agent stops, and has sent SIGTERM: an interactive shell takes notice of SIGHUP alone. */
void terminals_stop(void);
