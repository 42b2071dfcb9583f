/*
 * worker.h - one interpreter process and the protocol with it (docs/design/008-interpreter.md).
 *
 * A worker has a socket (frames both ways) and two output pipes. The protocol promises an order: before a frame is
 * delivered, all output that lay in the pipes when the frame was read is delivered. Results are passed through in
 * pieces, never held whole.
 *
 * Calling sequence: worker_start → on_ready → (worker_run → on_output, on_event, on_error … on_done)* → on_end.
 * on_end is called exactly once, last, and says how the process ended; then the worker frees itself.
 *
 * Backpressure: worker_pause stops reading, so that the process blocks when it writes. No callback comes while paused,
 * not even on_end. Thread: the loop's.
 */
#pragma once

#include "agent/env.h"
#include "agent/proc/cmd.h"

enum language { LANG_PYTHON, LANG_JAVASCRIPT, LANG_TYPESCRIPT, LANG_N };
const char *language_name(enum language l);
/* Takes "python3", "js" … as well. False: unknown. */
bool language_of(struct str name, enum language *ret);

struct worker;

struct worker_ops {
	void (*on_ready)(void *arg);
	void (*on_output)(void *arg, int stream, struct str bytes);
	/* A piece of the JSON of an event; borrowed. */
	void (*on_event)(void *arg, struct str piece, bool first, bool last);
	void (*on_error)(void *arg, struct str json);
	void (*on_done)(void *arg, struct str json);
	/* OUTCOME_LOST: the process broke the protocol, r->error says how, and the agent killed it. */
	void (*on_end)(void *arg, const struct cmd_result *r);
};

/* All that it points to must live until on_ready or on_end. */
struct worker_spec {
	enum language language;
	const char *cwd;
	const char *context; /* its id */
	const struct env *env;
	bool ahead; /* it outlives the process that starts it (warm.h) */
};

/* PYTHON_NOT_AVAILABLE and the like on failure. */
int worker_start(
	const struct worker_spec *s, const struct worker_ops *ops, void *arg, struct worker **ret, struct err *e);
/* Only after on_ready, and after on_done of the last run. `env` is a change list. */
void worker_run(struct worker *w, uint64_t id, struct str code, const struct env *env);
/* 0 while there is no process yet. */
pid_t worker_pid(const struct worker *w);
/* The process is a fork of the zygote: everything is imported already. */
bool worker_preloaded(const struct worker *w);

void worker_pause(struct worker *w);
void worker_resume(struct worker *w);
/* Sends SIGINT to the process group, and the run's number to a runtime that a signal alone does not stop. */
void worker_interrupt(struct worker *w);
/* Sends SIGKILL to all processes of the worker; on_end follows. */
void worker_kill(struct worker *w);
