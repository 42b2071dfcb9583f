/*
 * worker.h - one interpreter process and the protocol with it (docs/design/008-interpreter.md).
 *
 * A worker has a socket (frames both ways) and two output pipes. What comes is delivered in the order that the protocol
 * promises: before a frame, everything that lay in the pipes when the frame was read. Results are passed through in
 * pieces, never held whole.
 *
 * Calling sequence: worker_start → on_ready → (worker_run → on_output, on_event, on_error … on_done)* → on_end.
 * on_end comes exactly once, last, and says how the process ended; the worker frees itself then. worker_abandon ends it
 * without any further callback.
 *
 * Backpressure: worker_pause stops everything that comes, so that the process blocks when it writes; no callback comes
 * while paused, on_end neither. Thread: the loop's.
 */
#pragma once

#include "agent/proc/cmd.h"
#include "agent/proc/env.h"

enum language { LANG_PYTHON, LANG_JAVASCRIPT, LANG_TYPESCRIPT, LANG_N };
const char *language_name(enum language l);
/* "python3", "js" … False: unknown. */
bool language_of(struct str name, enum language *ret);

struct worker;

struct worker_end {
	struct cmd_result result;
	const char *broken; /* the protocol was broken like this, and we killed it; else NULL */
};

struct worker_ops {
	void (*on_ready)(void *arg);
	void (*on_output)(void *arg, int stream, struct str bytes);
	/* A piece of the JSON of an event; borrowed. */
	void (*on_event)(void *arg, struct str piece, bool first, bool last);
	void (*on_error)(void *arg, struct str json);
	void (*on_done)(void *arg, struct str json);
	void (*on_end)(void *arg, const struct worker_end *end);
};

/* What it points to must live until on_ready or on_end. */
struct worker_spec {
	enum language language;
	const char *cwd;
	const char *context; /* its id */
	const struct env *env;
};

/* PYTHON_NOT_AVAILABLE and the like on failure. */
int worker_start(
	const struct worker_spec *s, const struct worker_ops *ops, void *arg, struct worker **ret, struct err *e);
/* Once ready, and not before the last run's on_done. `env` is a change list. */
void worker_run(struct worker *w, uint64_t id, struct str code, const struct env *env);
/* 0 while there is none yet. */
pid_t worker_pid(const struct worker *w);
/* It was forked from the zygote: everything is imported already. */
bool worker_preloaded(const struct worker *w);

void worker_pause(struct worker *w);
void worker_resume(struct worker *w);
/* SIGINT to its process group, and the run's number to a runtime that a signal alone does not stop. */
void worker_interrupt(struct worker *w);
/* SIGKILL to all it has started; on_end follows. */
void worker_kill(struct worker *w);
/* The same, and no callback comes any more. */
void worker_abandon(struct worker *w);

/* ---- between worker.c and worker_text.c: the JSON of an init and of a run frame; `env` of a run is a change list ----
 */

void worker_text_init(struct buf *to, const struct worker_spec *s, bool with_env);
void worker_text_run(struct buf *to, uint64_t id, struct str code, const struct env *env);

/* ---- between worker.c and worker_start.c ---- */

/* What a started process hands back: our ends. */
struct worker_fds {
	int socket, out, err; /* non-blocking */
	int interrupt;	      /* takes the number of the run to break off; -1: SIGINT is enough for this runtime */
};
void worker_fds_close(struct worker_fds *f);
/* The two sides of a worker. */
int worker_pair(struct worker_fds *ours, struct worker_fds *theirs, struct err *e);
/* Whether a worker from the zygote would be the same as one started plainly: Python, the interpreter that the PATH
 * finds is the image's, nothing in the environment changes how it starts. */
bool worker_may_join(const struct worker_spec *s);
/* Starts the runtime's program; 0 and the pid of a process that waits for its first frame. */
int worker_start_plain(const struct worker_spec *s, struct worker_fds *ret, pid_t *ret_pid, struct err *e);
