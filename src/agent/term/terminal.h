/*
 * terminal.h - a program on a pseudo-terminal, shared by any number of viewers.
 *
 * Everything the program prints goes into a ring of the last TERMINAL_RING bytes. Each viewer follows it at its own
 * pace, from an offset: a new one starts with what is in the ring, a slow one that is overtaken goes on with the oldest
 * byte that is still there. The program is read from as long as one viewer can take more, or while nobody watches; when
 * every viewer is stalled it is not, so it blocks in its own write, as on a real line. Memory is the ring, whatever the
 * program prints. Input is bounded too: while more than TERMINAL_INPUT_HIGH bytes wait for the program, every viewer
 * is asked to hold back.
 *
 * The terminal outlives its viewers and ends with its program: then each viewer gets the rest of the ring, stalled or
 * not, and on_exit. What the program has left behind on the terminal is hung up. Thread: the loop's.
 */
#pragma once

#include "agent/limits.h"
#include "agent/proc/env.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/str.h"
#include "http/limits.h"
#include "proto/errc.h"

struct terminal;

struct terminal_viewer {
	struct list node;
	uint64_t at; /* offset of the next byte to send */
	bool full;   /* on_output said so; cleared by terminal_more */
	/* Returns false when it can take no more for now. */
	bool (*on_output)(struct terminal_viewer *v, struct str bytes);
	/* Whether input is wanted; it is at first. */
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
	/* The terminal has ended: nobody may call it any more. Comes before the viewers' on_exit. */
	void (*on_over)(void *arg);
	void *arg;
};

int terminal_start(struct loop *l, const struct terminal_spec *s, struct terminal **ret, struct err *e);

/* Sends what is in the ring at once (one on_output when there is anything), then what comes. */
void terminal_attach(struct terminal *t, struct terminal_viewer *v);
void terminal_detach(struct terminal *t, struct terminal_viewer *v);
size_t terminal_viewers(const struct terminal *t);
/* The viewer can take more again. */
void terminal_more(struct terminal *t, struct terminal_viewer *v);

/* From a viewer whose input is wanted: at most WS_MESSAGE_MAX bytes. */
void terminal_input(struct terminal *t, struct str bytes);
void terminal_resize(struct terminal *t, uint16_t cols, uint16_t rows);
/* Hangs up: SIGHUP to the terminal's processes, as when a line drops, SIGKILL to what is there CMD_HANGUP_GRACE later.
 */
void terminal_hangup(struct terminal *t);
