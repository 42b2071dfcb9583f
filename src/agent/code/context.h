/*
 * context.h - code contexts: one interpreter process each, with a queue of runs.
 *
 *	starting → idle ⇄ running → ended → deleted
 *
 * Each move is checked against a table in context.c. A context that has ended (crashed, killed, out of memory) stays in
 * the list and says how it ended until it is deleted; the next run of a default context replaces it. Runs are done in
 * order, one at a time. Output that a worker prints between two runs is kept (CODE_BETWEEN_MAX) and comes with the next
 * run.
 *
 * Ownership: the list owns contexts, a context owns its runs. on_over is the last callback of a run and comes exactly
 * once, unless context_run_drop was called before. The run is freed after either. Thread: the loop's.
 */
#pragma once

#include "agent/code/worker.h"
#include "agent/limits.h"
#include "base/list.h"

enum context_state {
	CONTEXT_STARTING, /* its worker has not said that it is ready */
	CONTEXT_IDLE,
	CONTEXT_RUNNING, /* the first of its runs */
	CONTEXT_ENDED,	 /* its worker is gone; err `ended` says why */
	CONTEXT_DELETED, /* out of the list; freed when its worker is gone */
	CONTEXT_STATES
};

struct context {
	struct list node;
	char *id, *cwd;
	uint64_t timeout_ms; /* of runs that have none of their own; 0: none */
	enum language language;
	struct env env;
	bool is_default;
	enum context_state state;     /* changed by context_move alone */
	uint64_t created_ms, used_ms; /* wall clock */
	struct worker *worker;	      /* NULL once it is gone */
	struct list runs;	      /* while RUNNING the first of them runs */
	uint64_t count;
	struct loop_timer start_timer, limit;
	struct err ended; /* how */
	enum outcome outcome;
	struct buf between[2];
	uint64_t between_dropped;
	void (*on_started)(void *arg, struct context *c, const struct err *failure); /* NULL: told, or nobody asks */
	void *started_arg;
	void (*on_deleted)(void *arg); /* while DELETED; NULL: nobody asks */
	void *deleted_arg;
};

/* Why a run is over. */
enum code_run_over {
	RUN_DONE,    /* the worker finished it */
	RUN_ENDED,   /* the context ended under it: context->ended, ->outcome */
	RUN_DELETED, /* the context was deleted */
	RUN_REFUSED, /* not begun: the context did not start */
};

/* Why a run was interrupted. */
enum code_run_stop { STOP_NONE, STOP_TIMEOUT, STOP_GONE /* its client went away */ };

struct code_run;

struct code_run_ops {
	void (*on_begin)(struct code_run *r);
	/* These three return false to stop the worker until context_run_resume. */
	bool (*on_output)(struct code_run *r, int stream, struct str bytes);
	bool (*on_event)(struct code_run *r, struct str piece, bool first, bool last);
	bool (*on_error)(struct code_run *r, struct str json);
	/* With RUN_DONE, `json` is the worker's last frame. */
	void (*on_over)(struct code_run *r, enum code_run_over how, struct str json);
};

struct code_run {
	struct list node;
	struct context *c;
	const struct code_run_ops *ops; /* NULL: nobody listens any more */
	void *arg;
	char *code;
	size_t code_n;
	struct env env;
	uint64_t timeout_ms; /* 0: none */
	enum code_run_stop stop;
	bool failed; /* an error event has come */
};

struct context_spec {
	enum language language;
	const char *cwd;
	const struct env *env; /* changes over the sandbox's */
	uint64_t timeout_ms;   /* of runs that have none of their own; 0: none */
	bool is_default;
};

/* Starts a context; on_started comes later. NULL on failure. */
struct context *context_create(const struct context_spec *s,
	void (*on_started)(void *arg, struct context *c, const struct err *failure), void *arg, struct err *e);
struct context *context_find(struct str id);
struct context *context_default(enum language l);
struct list *context_all(void);
const char *context_state_name(enum context_state s);
/* Takes the context out of the list and ends its runs at once. on_deleted (may be NULL) comes when its processes are
 * gone. */
void context_delete(struct context *c, void (*on_deleted)(void *arg), void *arg);

/* Takes the run (from malloc) on success. It begins at once or in its turn. LIMIT_REACHED when too much waits. */
int context_run(struct context *c, struct code_run *r, struct err *e);
/* Nobody wants the run any more: a waiting run is freed, a running one is interrupted. */
void context_run_drop(struct code_run *r);
/* How many runs wait for their turn. */
size_t context_waiting(const struct context *c);
void context_run_resume(struct code_run *r);
